"""The program as people and Ganeti start it."""
