"""Test the cases stored in ``fixtures``: every answer, and its ranking of placements."""
