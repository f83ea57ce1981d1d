"""Run every command on damaged and unusual input of every kind: `make fuzz`."""
