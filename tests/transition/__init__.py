"""Test transitions: the dependencies, and the safety of every allowed order."""
