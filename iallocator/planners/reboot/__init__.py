"""Groups of nodes that can be rebooted at the same time, and where their instances go meanwhile."""
