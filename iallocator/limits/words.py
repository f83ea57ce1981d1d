"""Amounts as people write them."""

from __future__ import annotations

__all__ = ["quantity"]


def quantity(amount: float, unit: str) -> str:
    """``3 virtual cpus``, ``1 virtual cpu``, ``0.5 virtual cpus``."""
    if amount == 1:
        for plural in ("cpus", "spindles", "disks", "places"):
            unit = unit.replace(plural, plural[:-1])
    return f"{amount:.2f}".rstrip("0").rstrip(".") + f" {unit}"
