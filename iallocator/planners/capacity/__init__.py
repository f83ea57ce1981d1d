"""How many more instances fit, and why not more."""
