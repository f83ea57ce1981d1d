"""Test repairs by tags, as the program harep makes them."""
