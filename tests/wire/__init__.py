"""Documents: schemas, agreement of schema and parser, bad input."""
