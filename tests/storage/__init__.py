"""Test storage pools: access of nodes, placement of instances, and failures."""
