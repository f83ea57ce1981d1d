"""Compute how many more instances fit, and the limiting resource."""
