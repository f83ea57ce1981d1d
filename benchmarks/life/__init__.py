"""Simulate the long life of a cluster: which requests are rejected, and what node failures lose."""
