"""Define the longest time that a test waits for another process or thread."""

from __future__ import annotations

__all__ = ["PATIENCE"]

PATIENCE = 900
"""Seconds after which a test gives up, because the other process must be stuck."""
