"""Global N+1: the cheap test, the simulation and the judge against each other."""
