"""Nodes to power down, or to power on."""
