"""What the failure of nodes loses at least, by exact search: of one node, of several at once."""
