"""Test documents: schemas, agreement of schema and parser, invalid input."""
