"""Room for a request that finds none: a few moves of others, after which it can be satisfied."""
