"""Measure the times of this program and of comparable programs, in alternating processes."""
