"""Repairs by tags, as harep makes them."""
