"""Transitions for people: as a table, as graphs in DOT and SVG."""
