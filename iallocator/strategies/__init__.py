"""Which of the acceptable placements is best."""
