"""A Ganeti cluster of several nodes inside one machine, out of reach of everything else on it."""
