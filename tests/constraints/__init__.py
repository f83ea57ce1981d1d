"""Constraints between instances, and how they are listed."""
