"""Our answers before Ganeti's own code."""
