"""Test the execution of plans, on a simulated job queue with faults and on recorded answers."""
