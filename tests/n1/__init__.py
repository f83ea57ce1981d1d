"""Global N+1: bounds, simulation and the check of a placement against each other."""
