"""The engine: where an instance may go, which placement is best, and why others are rejected."""
