"""One placement: what speaks against it, and every limit of a node for it."""
