"""Test exact search: the problem, the solver, the refinement."""
