"""Compare the answers of this program to generated documents with those of `hail`."""
