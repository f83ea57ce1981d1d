"""Simulate clusters over a long time."""
