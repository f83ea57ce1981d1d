"""Test properties that hold for every document, generated or drawn."""
