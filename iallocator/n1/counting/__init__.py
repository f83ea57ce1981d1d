"""N+1 of many equal instances: by counting, and what that leaves in doubt played through."""
