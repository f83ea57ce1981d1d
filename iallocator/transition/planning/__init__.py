"""From places to a safe order of steps: routes, cycles, dependencies."""
