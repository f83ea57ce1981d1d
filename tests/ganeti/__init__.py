"""Test answers with Ganeti's own code."""
