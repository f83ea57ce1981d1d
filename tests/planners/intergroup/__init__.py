"""Test the planners that move instances between node groups."""
