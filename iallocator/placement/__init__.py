"""The one way to candidates and verdicts: where an instance may go, and which place is best."""
