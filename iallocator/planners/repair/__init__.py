"""Repairs of instances with offline nodes: what each instance needs, and where it goes."""
