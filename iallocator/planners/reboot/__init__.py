"""Rolling reboots: groups of nodes to reboot together, and temporary nodes for their instances."""
