"""Bound the standard deviation of values to which nodes add whole units of an amount.

Each node has a value ``base + slope · units``. The units of all nodes together are given. For one
mean, the least sum of squares is a convex resource allocation problem, and its Lagrange dual is
exact (Ibaraki and Katoh, 1988). If slopes differ, the mean depends on the allocation. Then an
interval of means is halved until the bounds of its parts are close; see ``docs/design/bounds.md``.
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import fsum, gcd, sqrt

import numpy as np

from iallocator.deadline import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats

__all__ = ["common_unit", "least_deviation"]

HALVING_STEPS = 60
"""Steps of the search for a multiplier; the interval of the search shrinks by a factor of 2**60."""

MEAN_INTERVALS = 48
"""The most intervals of means that are halved."""

CLOSE_BOUND = 1e-4
"""The distance to the least variance, as a share of it, at which a bound is good enough."""

WHOLE_UNIT_TOLERANCE = 1e-9
"""The distance to a whole number of units below which an amount counts as whole."""

NARROWEST_INTERVAL = 1e-12
"""The width of an interval of means, in the unit of the values, that is not halved any more."""

ROUNDED_SHARE = 1e-13
"""The share of the largest square below which a variance may be rounded to zero in a score."""


def common_unit(amounts: Sequence[float]) -> float:
    """Return the greatest common divisor of whole `amounts`; 0 if one of them is not whole."""
    if not all(float(amount).is_integer() for amount in amounts):
        return 0.0
    return float(gcd(*(int(amount) for amount in amounts)))


def least_deviation(base: Floats, slopes: Floats, most: Floats, total: float, unit: float) -> float:
    """Return a lower bound of the standard deviation of ``base + slopes · amounts``.

    Cost: about `MEAN_INTERVALS` · `HALVING_STEPS` passes over the nodes; `HALVING_STEPS` passes if
    all slopes are equal.

    Parameters
    ----------
    base, slopes:
        For each node, its value without any amount, and the increase of the value by the amount 1,
        which is above 0.
    most:
        For each node, the largest amount that it can have.
    total:
        The sum of all amounts, not above the sum of `most`.
    unit:
        The unit of which all amounts are multiples; 0: amounts can be any numbers.
    """
    count = len(base)
    if count < 2:
        return 0.0
    middle = (base.sum() + slopes.mean() * total) / count
    allocation = _Allocation(base - middle, slopes, most, total, unit)
    variance = allocation.least_variance()
    largest = float(np.max(np.abs(base - middle) + slopes * np.minimum(most, total)))
    if variance <= ROUNDED_SHARE * largest * largest:
        return 0.0
    return sqrt(variance)


class _Allocation:
    """An allocation of a total amount to nodes, with values as close to a mean as possible."""

    def __init__(
        self, base: Floats, slopes: Floats, most: Floats, total: float, unit: float
    ) -> None:
        self._base = base
        self._step = slopes * unit if unit else slopes
        self._whole = unit > 0
        self._most = np.floor(most / unit + WHOLE_UNIT_TOLERANCE) if unit else most
        self._total = round(total / unit) if unit else total
        self._count = len(base)

    def least_variance(self) -> float:
        """Return a lower bound of the variance of the values."""
        count, base, step = self._count, self._base, self._step
        if np.all(step == step[0]):
            mean = (fsum(base.tolist()) + float(step[0]) * self._total) / count
            return self._around(mean) / count
        full = np.minimum(self._most, self._total)
        low = float(base.sum()) / count
        high = low + min(float((step * full).sum()), float(step.max()) * self._total) / count
        count = self._count
        known: dict[float, float] = {}

        def concave(mean: float) -> float:
            if mean not in known:
                check()
                known[mean] = self._around(mean) - count * mean * mean
            return known[mean]

        def bound(one: float, other: float) -> float:
            width = other - one
            first, second = concave(one), concave(other)
            slope = (second - first) / width if width > 0 else 0.0
            best = min(max(-slope / (2 * count), one), other)
            return first + slope * (best - one) + count * best * best

        parts = [(bound(low, high), low, high)]
        for _ in range(MEAN_INTERVALS):
            least, one, other = parts[0]
            nearest = min(value + count * mean * mean for mean, value in known.items())
            if nearest - least <= CLOSE_BOUND * nearest or other - one <= NARROWEST_INTERVAL:
                break
            heappop(parts)
            between = (one + other) / 2
            for start, end in ((one, between), (between, other)):
                heappush(parts, (bound(start, end), start, end))
        return max(0.0, parts[0][0]) / count

    def _around(self, mean: float) -> float:
        """Return a lower bound of the sum of the squared distances of the values to `mean`.

        The bound is the Lagrange dual at the best multiplier that is found; any multiplier gives a
        bound.
        """
        base, step, most, total = self._base - mean, self._step, self._most, self._total

        def amounts(multiplier: float) -> Floats:
            best = (multiplier / (2 * step) - base) / step
            return np.clip(np.rint(best) if self._whole else best, 0, most)

        def dual(multiplier: float) -> float:
            chosen = amounts(multiplier)
            values = base + step * chosen
            return float((values * values).sum() + multiplier * (total - chosen.sum()))

        low = float((2 * step * base).min()) - float((step * step).max())
        high = float((2 * step * (base + step * np.minimum(most, total))).max())
        high += float((step * step).max())
        for _ in range(HALVING_STEPS):
            middle = (low + high) / 2
            if amounts(middle).sum() < total:
                low = middle
            else:
                high = middle
        return max(dual(low), dual(high), 0.0)
