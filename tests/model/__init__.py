"""Test the cluster model: policies, instances, tags, moves."""
