"""Test `make-room`, and compare its plans with a search of all plans."""
