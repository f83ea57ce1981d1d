"""Ganeti's terms: opcodes, jobs with their dependencies, and ``gnt-*`` commands."""
