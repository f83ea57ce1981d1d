"""What is done with the cluster, and what is expected of it."""
