"""Explanations as text for a person."""
