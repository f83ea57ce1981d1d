"""Check answers with Ganeti's own code."""
