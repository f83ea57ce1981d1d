"""What a cheap test of N+1 can say, and how it weighs a cost against a budget."""

from __future__ import annotations

__all__ = ["INFINITE", "LOST", "SAFE", "UNKNOWN", "share_of"]

SAFE, UNKNOWN, LOST = 0, 1, 2
INFINITE = float("inf")


def share_of(cost: float, budget: float) -> float:
    """Which part of `budget` something costs; infinite if there is none."""
    if cost <= 0:
        return 0.0
    return cost / budget if budget else INFINITE
