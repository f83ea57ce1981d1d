"""Evaluate all moves of a balancing step at once, with array operations."""
