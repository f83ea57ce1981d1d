"""Explain answers, as data that is recorded while a request is decided."""
