"""The simulation of clusters' lives."""
