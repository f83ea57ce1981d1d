"""Convert transitions to Ganeti's terms: opcodes, jobs with dependencies, ``gnt-*`` commands."""
