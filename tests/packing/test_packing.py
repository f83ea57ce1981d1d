"""Packings compared with every placement of a few items."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random

import pytest

from iallocator.packing import Bins, Item, Packing

Problem = tuple[list[Item], Bins]


def problem(seed: int, kind: str) -> Problem:
    """Return up to five items and four bins; `kind` says which dimensions limit them."""
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
    """Return whether no bin holds more than it can, and each item is in a bin that it may go to."""
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
    """Return what the items cost that are left out."""
    left = [item for item, place in zip(items, places) if place is None]
    return sum(item.memory if by_memory else item.price for item in left)


@pytest.mark.parametrize("by_memory", [False, True], ids=["price", "memory"])
@pytest.mark.parametrize("kind", ["", "access", "disk", "price", "access disk price others"])
def test_packing_costs_as_little_as_the_best_of_all_placements(kind: str, by_memory: bool) -> None:
    """The search is complete for a few items, so its cost and its bound are the optimum."""
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
def test_packing_without_a_search_has_a_bound_that_no_packing_breaks(
    kind: str, first_fit: bool
) -> None:
    """With limit 0 the placement is one that fits, and the bound is not above the optimum."""
    for seed in range(200, 300):
        items, bins = problem(seed, kind)
        packed = Packing(items, bins, limit=0, first_fit=first_fit).solve()
        optimum = Packing(items, bins).solve().cost
        assert fits(items, bins, packed.places), seed
        assert packed.least <= optimum <= packed.cost, seed


def test_first_fit_fills_bins_in_their_order() -> None:
    """Best fit takes the fullest bin, first fit the first one in the order."""
    items = [Item(2, 0, frozenset((0, 1, 2)))] * 3
    bins = Bins([5, 3, 9], [0, 0, 0], order=[2, 0, 1])
    assert Packing(items, bins).solve().places == [1, 0, 0]
    assert Packing(items, bins, first_fit=True).solve().places == [2, 2, 2]
