"""Balancing: greedy steps, lookahead, groups."""
