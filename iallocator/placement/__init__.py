"""Choose the placement of instances: which are possible, which is best, and why others fail."""
