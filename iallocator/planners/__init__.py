"""Plans for a whole cluster: what to move where, in which order, and what that costs."""
