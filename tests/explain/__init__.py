"""Test explanations as data, and their tables."""
