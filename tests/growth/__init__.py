"""Test how time and memory grow with the cluster."""
