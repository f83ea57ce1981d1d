"""Test the command line as administrators and Ganeti start it."""
