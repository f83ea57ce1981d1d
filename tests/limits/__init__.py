"""Why nodes and groups reject."""
