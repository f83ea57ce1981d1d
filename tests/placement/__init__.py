"""Test the placement of instances directly, without requests."""
