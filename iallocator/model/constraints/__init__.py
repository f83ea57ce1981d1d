"""What is asked of places, as facts: primitive constraints, rules between many, units, findings."""
