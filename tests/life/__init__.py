"""Test the simulation of clusters over a long time."""
