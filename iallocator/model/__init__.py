"""The cluster as data, and the exact arithmetic of its changes.  No choice is made here."""
