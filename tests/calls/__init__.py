"""The trace of what Ganeti asked."""
