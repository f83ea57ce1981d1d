"""Moves of a few other instances after which a request can be satisfied."""
