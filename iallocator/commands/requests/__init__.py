"""Commands about requests: what would be answered, why, and what was."""
