"""Test exact search: the problem, the solver, and improvements of answers."""
