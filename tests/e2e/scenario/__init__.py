"""Run scenarios on the cluster, with the expected result of each step."""
