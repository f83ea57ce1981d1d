"""Test the strategies that rank nodes, affinity constraints, and plans by Pacemaker's rules."""
