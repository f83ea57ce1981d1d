"""All moves of a balancing step at once, in array passes."""
