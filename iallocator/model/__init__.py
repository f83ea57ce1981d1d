"""The cluster as data, and the exact arithmetic of its changes. This package makes no decisions."""
