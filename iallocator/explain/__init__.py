"""Explain answers: what was recorded while a request was decided, as data."""
