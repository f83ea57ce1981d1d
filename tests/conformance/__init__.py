"""Compare with `hail`: the same generated documents, answer by answer."""
