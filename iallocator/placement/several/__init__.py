"""Place or move several instances: one after the other, jointly by exact search, or optimally."""
