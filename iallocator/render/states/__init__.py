"""The state of a cluster as htools list it."""
