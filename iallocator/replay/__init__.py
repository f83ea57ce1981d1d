"""Stored requests: finding them, running them again, comparing with what is stored beside them."""
