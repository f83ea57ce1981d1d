"""The arithmetic of placement keys: how close two values are, and how good is good enough."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["DECIMALS", "affinity", "round_of", "thresholds"]

DECIMALS = 10
"""Affinities are rounded to this many decimals before they are compared."""


def affinity(
    wanted: Mapping[str, tuple[float, float]], found: Mapping[str, Mapping[float, int]]
) -> float:
    """How well what is `found` on a node suits what an instance has `wanted`.

    `wanted`: name -> value and weight; `found`: name -> value -> how often.  Each
    counts for its weight times max(0, 1 - |difference of the values|).
    """
    total = 0.0
    for name, (value, weight) in wanted.items():
        here = found.get(name)
        if here is not None:
            for other, count in here.items():
                near = 1.0 - abs(value - other)
                if near > 0:
                    total += weight * near * count
    return round(total, DECIMALS)


def thresholds(initial: float, final: float, steps: int) -> Sequence[float]:
    """The threshold of each round, evenly from `initial` to `final`; of a single one: `final`."""
    if steps < 2:
        return (final,)
    step = (final - initial) / (steps - 1)
    return [round(initial + number * step, DECIMALS) for number in range(steps)]


def round_of(score: float, steps: Sequence[float]) -> int | None:
    """The first round whose threshold `score` is above; None if there is none."""
    for number, threshold in enumerate(steps):
        if score > threshold:
            return number
    return None
