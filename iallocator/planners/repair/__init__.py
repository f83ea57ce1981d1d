"""What instances need whose nodes are offline, and where they go."""
