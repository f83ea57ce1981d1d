"""Simulate clusters over a long time: which requests are rejected, and what failures lose."""
