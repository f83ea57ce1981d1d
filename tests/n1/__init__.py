"""Test global N+1: bounds, simulation and the check of a placement give equal results."""
