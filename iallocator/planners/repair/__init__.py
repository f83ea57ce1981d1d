"""Repairs of instances with offline nodes: the repair of each instance, and its new nodes."""
