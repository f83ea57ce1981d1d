"""Find the nodes that can be powered down, or that must be powered on."""
