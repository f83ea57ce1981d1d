"""Find the steps, in order, that lead from present placements to requested ones."""
