"""Plan a few moves of other instances after which a request can be satisfied."""
