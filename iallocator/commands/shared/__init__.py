"""What several commands have in common: sources, forms of plans, interruptions, wishes."""
