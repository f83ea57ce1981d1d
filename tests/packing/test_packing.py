"""Test packings against every placement of a few items."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from itertools import product
from random import Random

import pytest

from iallocator.deadline import Deadline
from iallocator.packing import Bins, Item, Packing, fill_exactly
from iallocator.packing.dual_feasible_functions import measures_of
from iallocator.solver.highs import available

Problem = tuple[list[Item], Bins]


def problem(seed: int, kind: str) -> Problem:
    """Return up to five items and four bins; `kind` names the dimensions that limit them."""
    rng = Random(f"{kind}/{seed}")
    count = rng.randint(1, 4)
    every = frozenset(range(count))
    items = []
    for _ in range(rng.randint(1, 5)):
        bins = frozenset(rng.sample(range(count), rng.randint(1, count)))
        items.append(
            Item(
                rng.choice((0, 1, 2, 3, 5)),
                rng.choice((0, 1, 3)) if "disk" in kind else 0,
                bins if "access" in kind else every,
                rng.choice((1, 1, 2)) if "price" in kind else 1,
                (rng.choice((0, 1)),) if "others" in kind else (),
            )
        )
    memory = [rng.randint(-1, 6) for _ in every]
    disk = [rng.randint(0, 4) for _ in every]
    others = [(rng.randint(0, 2),) for _ in every] if "others" in kind else ()
    return items, Bins(memory, disk, others, sorted(every, key=lambda b: -memory[b]))


def fits(items: Sequence[Item], bins: Bins, places: Sequence[int | None]) -> bool:
    """Return whether no bin is overfull, and each item is in one of its bins."""
    for b, memory in enumerate(bins.memory):
        inside = [item for item, place in zip(items, places) if place == b]
        if inside and sum(item.memory for item in inside) > memory:
            return False
        if sum(item.disk for item in inside) > bins.disk[b]:
            return False
        if bins.others and sum(item.others[0] for item in inside) > bins.others[b][0]:
            return False
    return all(place is None or place in item.bins for item, place in zip(items, places))


def cost(items: Sequence[Item], places: Sequence[int | None], by_memory: bool) -> float:
    """Return the cost of the items that are in no bin."""
    left = [item for item, place in zip(items, places) if place is None]
    return sum(item.memory if by_memory else item.price for item in left)


@pytest.mark.parametrize("by_memory", [False, True], ids=["price", "memory"])
@pytest.mark.parametrize("kind", ["", "access", "disk", "price", "access disk price others"])
def test_packing_has_the_lowest_cost_of_all_placements(kind: str, by_memory: bool) -> None:
    """A packing of a few items has the lowest cost of all placements, which is proved."""
    left_out = 0
    for seed in range(120):
        items, bins = problem(seed, kind)
        packed = Packing(items, bins, by_memory).solve()
        choices = [(None, *item.bins) for item in items]
        best = min(
            cost(items, places, by_memory)
            for places in product(*choices)
            if fits(items, bins, places)
        )
        assert fits(items, bins, packed.places), seed
        assert cost(items, packed.places, by_memory) == packed.cost == packed.least == best, seed
        left_out += best > 0
    assert left_out > 20


@pytest.mark.parametrize("first_fit", [False, True])
@pytest.mark.parametrize("kind", ["", "access disk price others"])
def test_packing_without_a_search_has_a_true_bound(kind: str, first_fit: bool) -> None:
    """A packing without a search is valid, and its bound is at most the optimum."""
    for seed in range(200, 300):
        items, bins = problem(seed, kind)
        packed = Packing(items, bins, limit=0, first_fit=first_fit).solve()
        optimum = Packing(items, bins).solve().cost
        assert fits(items, bins, packed.places), seed
        assert packed.least <= optimum <= packed.cost, seed


def test_first_fit_fills_bins_in_their_order() -> None:
    """First fit fills bins in their order, best fit chooses the fullest bin."""
    items = [Item(2, 0, frozenset((0, 1, 2)))] * 3
    bins = Bins([5, 3, 9], [0, 0, 0], order=[2, 0, 1])
    assert Packing(items, bins).solve().places == [1, 0, 0]
    assert Packing(items, bins, first_fit=True).solve().places == [2, 2, 2]


# Dual feasible functions never refute a packing that exists.


def test_packed_amounts_are_within_the_capacities_of_the_bins() -> None:
    """No dual feasible function refutes a packing that exists."""
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


def test_bound_of_a_subset_sum_is_the_best_sum() -> None:
    """The bound of a subset sum is the largest sum of items within the capacity.

    Items of 300 and 500 fill 900 of a bin of 999, all of 1000, and nothing of 299.
    """
    filled = measures_of([300, 500], 1000)[-1]
    assert [filled(size) for size in (299, 300, 799, 999, 1000, -5)] == [0, 300, 600, 900, 1000, 0]


# Items that fill bins exactly, compared with trying all ways.


needs_solver = pytest.mark.skipif(not available(), reason="no solver is installed")


@cache
def _fit(sizes: tuple[int, ...], rooms: tuple[int, ...]) -> bool:
    """Return whether all items fit, by brute force."""
    if not sizes:
        return True
    return any(
        _fit(sizes[1:], tuple(sorted((*rooms[:k], room - sizes[0], *rooms[k + 1 :]))))
        for k, room in enumerate(rooms)
        if room >= sizes[0]
    )


@needs_solver
def test_fill_exactly_finds_bins_if_and_only_if_all_items_fit() -> None:
    """`fill_exactly` returns a packing if and only if all items fit."""
    rng = Random(3)
    found = 0
    for _ in range(60):
        rooms = {k: rng.randrange(4, 20) * 64 for k in range(rng.randint(2, 5))}
        sizes = [rng.choice((3, 5, 7, 8)) * 64 for _ in range(rng.randint(2, 8))]
        places = fill_exactly(sizes, rooms, Deadline.of_search(5.0))
        assert (places is not None) == _fit(
            tuple(sorted(sizes, reverse=True)), tuple(sorted(rooms.values()))
        )
        if places is None:
            continue
        found += 1
        assert all(len(places[size]) >= sizes.count(size) for size in sizes)
        for room, capacity in rooms.items():
            assert sum(size * list(own).count(room) for size, own in places.items()) <= capacity
    assert 15 < found < 45


@needs_solver
def test_fill_exactly_with_too_many_patterns_returns_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fill_exactly` returns None if there are too many patterns of items."""
    assert fill_exactly([64, 128], {0: 640}, Deadline.of_search(5.0)) is not None
    monkeypatch.setattr("iallocator.packing.MOST_PATTERNS", 3)
    assert fill_exactly([64, 128], {0: 640}, Deadline.of_search(5.0)) is None
