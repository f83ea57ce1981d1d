"""Dual feasible functions never refute a packing that exists."""

from __future__ import annotations

import random

from iallocator.packing.dual_feasible_functions import measures_of


def test_measures_of_what_is_packed_keep_to_those_of_the_bins() -> None:
    """However items share bins, the sum of their measures is at most that of the bins."""
    rng = random.Random(5)
    for _ in range(60):
        sizes = [rng.choice([64, 192, 320, 700]) for _ in range(rng.randint(1, 8))]
        bins = [rng.randint(0, 2000) for _ in range(4)]
        left = list(bins)
        packed = []
        for size in sizes:
            bin_ = rng.randrange(4)
            if left[bin_] >= size:
                left[bin_] -= size
                packed.append(size)
        for measure in measures_of(sizes, max(bins)):
            assert sum(map(measure, packed)) <= sum(map(measure, bins))


def test_measure_of_what_can_be_filled_is_the_best_sum() -> None:
    """Items of 300 and 500 fill 900 of a bin of 999, all of 1000, and nothing of 299."""
    filled = measures_of([300, 500], 1000)[-1]
    assert [filled(size) for size in (299, 300, 799, 999, 1000, -5)] == [0, 300, 600, 900, 1000, 0]
