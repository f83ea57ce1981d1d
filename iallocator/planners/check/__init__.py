"""Check the health of a cluster: its problems, and the effect of balancing on them."""
