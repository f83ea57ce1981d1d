"""Rolling reboots: groups of nodes to reboot together, and where their instances run meanwhile."""
