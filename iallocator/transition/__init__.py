"""Find the steps, in order, that lead from the present placements to the requested placements."""
