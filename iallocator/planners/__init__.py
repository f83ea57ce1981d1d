"""Plan changes of a whole cluster: the moves, their order, and the amount of data to copy."""
