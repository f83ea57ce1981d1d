"""Commands that say what to do to a cluster."""
