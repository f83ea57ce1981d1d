"""Test the structure of the package: imports, start-up, caches, and the pages about it."""
