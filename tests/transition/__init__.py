"""Transitions: what waits for what, and whether any order that this allows is safe."""
