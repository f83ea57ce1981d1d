"""Why nodes and groups refuse."""
