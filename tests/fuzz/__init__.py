"""Damaged and odd input of every kind, against every command: `make fuzz`."""
