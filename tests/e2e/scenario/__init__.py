"""Run scenarios on the cluster, and check the result of each step."""
