"""Run a Ganeti cluster of several nodes on one machine, isolated from the rest of it."""
