"""Test the cluster score, its incremental computation, and its bounds."""
