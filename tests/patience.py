"""How long a test waits for somebody."""

from __future__ import annotations

__all__ = ["PATIENCE"]

PATIENCE = 900
"""Seconds after which a test gives up: whoever is waited for is stuck then, on any machine."""
