"""The engine asked directly."""
