"""Test the log and the captured calls of Ganeti's requests."""
