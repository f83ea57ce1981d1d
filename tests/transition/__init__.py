"""Test transitions: the dependencies, and the safety of every permitted order."""
