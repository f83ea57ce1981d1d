"""Planners for a whole cluster: the moves, their order, and their cost."""
