"""Test the placement engine directly."""
