"""Test affinity and other constraints of instances, and the command that lists them."""
