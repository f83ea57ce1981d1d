"""Exact search: the problem, the solver, the refinement."""
