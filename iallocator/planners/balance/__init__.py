"""Balancing: single moves, swaps, chains and rearrangements, for each group."""
