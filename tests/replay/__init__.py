"""Test the stored cases in ``fixtures``: every answer, and its ranking."""
