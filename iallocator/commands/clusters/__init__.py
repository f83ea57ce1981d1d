"""Commands that say how a cluster is."""
