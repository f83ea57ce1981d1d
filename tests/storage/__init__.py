"""Tests of storage pools: access of nodes, placement of instances, and failures."""
