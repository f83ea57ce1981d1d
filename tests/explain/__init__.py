"""Explanations as data, and the tables they are shown in."""
