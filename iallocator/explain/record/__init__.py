"""What a trace notes of a request that is decided, and the decisions made of it."""
