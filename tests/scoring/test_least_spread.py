"""Test the least deviation of units on nodes against all allocations."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from iallocator.scoring.least_spread import common_unit, least_deviation
from tests.seeds import seeds


def test_least_deviation_is_that_of_the_best_allocation() -> None:
    """The bound of the deviation never exceeds the least deviation, and is close to it."""
    compared = 0
    for seed in seeds(300, 3000, 3200):
        rng = Random(seed)
        count, unit = rng.randint(2, 4), rng.choice([1.0, 2.0, 512.0])
        base = np.array([rng.choice([0.0, rng.random()]) for _ in range(count)])
        steps = [0.1] if rng.random() < 0.3 else [0.1, 0.2, 0.25, 0.13]
        slopes = np.array([rng.choice(steps) for _ in range(count)]) / unit
        most = np.array([float(rng.randint(0, 7)) for _ in range(count)])
        units = rng.randint(0, int(most.sum()))
        best = min(
            np.std(base + slopes * unit * np.array(chosen))
            for chosen in product(*(range(int(one) + 1) for one in most))
            if sum(chosen) == units
        )
        found = least_deviation(base, slopes, most * unit, units * unit, unit)
        assert best - 0.001 <= found <= best * (1 + 1e-9) + 1e-9, seed
        compared += best > 0.01
    assert compared > 100


def test_least_deviation_of_any_amounts_is_0_if_nodes_can_be_equal() -> None:
    """The least deviation of divisible amounts is 0 if all nodes can be filled equally."""
    slopes, most = np.array([1.0, 0.5, 1.0]), np.full(3, 100.0)
    assert least_deviation(np.zeros(3), slopes, most, 8.0, 0.0) == pytest.approx(0, abs=1e-6)
    high = least_deviation(np.array([9.0, 0.0, 0.0]), np.ones(3), most, 4.0, 0.0)
    assert high == pytest.approx(np.std([9, 2, 2]), rel=1e-9)


def test_common_unit_is_0_unless_all_amounts_are_whole() -> None:
    """The common unit is the greatest common divisor, or 0 if an amount is not whole."""
    assert common_unit([512.0, 768.0]) == 256
    assert common_unit([0.5, 1.0]) == 0
