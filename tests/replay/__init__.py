"""The replay cases in ``fixtures``: every answer, and the ranking behind it."""
