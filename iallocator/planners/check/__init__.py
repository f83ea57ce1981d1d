"""The health of a cluster: what is wrong, and whether balancing would help."""
