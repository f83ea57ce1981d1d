"""Test repairs by tags, as harep makes them."""
