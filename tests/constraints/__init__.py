"""Test constraints between instances, and their list."""
