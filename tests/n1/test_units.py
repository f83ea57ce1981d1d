"""Test that the members of a colocation group restart on one node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any

import pytest

from iallocator.n1 import PROVED_LOST, PROVED_SAFE, UNPROVED, simulation
from tests.builders import Json, allocate_rbd, cluster, rbd
from tests.seeds import seeds

from .test_margin import result_by_bounds
from .test_tolerance import compare
from .tight import Case, alone, context_of, document, tolerates

MODES = ("strict", "no-new")


def tagged(seed: int, mode: str) -> Case:
    """Return a tight cluster in which each node has a colocation group."""
    rng = Random(f"units/{seed}")
    found = document(rng)
    homes: dict[str, list[Json]] = {}
    for one in found["instances"].values():
        homes.setdefault(one["nodes"][0], []).append(one)
    for number, residents in enumerate(homes.values()):
        for one in residents:
            if rng.random() < 0.6:
                one["tags"] = [f"iallocator:colocate:must:u{number}{rng.choice('ab')}"]
    if rng.random() < 0.5:
        found["request"]["tags"] = [f"iallocator:colocate:must:u{rng.randrange(3)}a"]
    return context_of(found, mode)


def spread(sizes: Sequence[int], labels: Sequence[str], free: int) -> Case:
    """Return node1 with instances of `sizes` in groups `labels`, and two nodes with `free` MiB."""
    residents: dict[str, Any] = {
        f"i{k}": rbd("node1", memory=size,
                          tags=[f"iallocator:colocate:must:{label}"] if label else [])
        for k, (size, label) in enumerate(zip(sizes, labels))
    }  # fmt: skip
    for k in (2, 3):
        residents[f"full{k}"] = rbd(f"node{k}", memory=1000 - free)
    found = cluster(nodes=3, memory=1000, instances=residents)
    return context_of(allocate_rbd(found, memory=1), "no-new")


def test_failure_of_a_node_with_a_unit_needs_one_node_for_the_unit() -> None:
    """A failure is tolerated only if one node has memory for a whole colocation group.

    Two nodes with 150 MiB each cannot restart two instances of 100 MiB together.
    """
    assert tolerates(spread([100, 100], ["", ""], 150), 0)
    case = spread([100, 100], ["a", "a"], 150)
    assert not tolerates(case, 0)
    stranded = case.simulation.fail((0,))
    assert stranded is not None
    assert stranded.why == "no node has the memory for it together with i1"
    assert tolerates(spread([100, 100], ["a", "a"], 201), 0)


@pytest.mark.parametrize("mode", MODES)
def test_bounds_result_with_units_is_that_of_the_simulation(mode: str) -> None:
    """With colocation groups, a failure that bounds call safe is tolerated in the simulation."""
    counts: Counter[int] = Counter()
    for seed in seeds(150, 400):
        case = tagged(seed, mode)
        for node in range(len(case.cluster.nodes)):
            kind = result_by_bounds(case, node)
            counts[kind] += 1
            if kind != UNPROVED:
                assert tolerates(case, node) is (kind == PROVED_SAFE), f"{mode} {seed}, node {node}"
    assert min(counts[PROVED_SAFE], counts[PROVED_LOST]) > 30
    assert counts[UNPROVED] < counts.total() / 3


@pytest.mark.parametrize("mode", MODES)
def test_check_with_units_equals_the_definition(mode: str) -> None:
    """With colocation groups, N+1 accepts placements as the definition does."""
    reported = [compare(case, case.new, f"{mode} {seed}", 8) for seed in seeds(50, 150)
            if (case := tagged(seed, mode))]  # fmt: skip
    assert sum(yes for yes, _ in reported) > 20
    assert sum(no for _, no in reported) > 20


@pytest.mark.parametrize("mode", MODES)
def test_simulation_of_units_in_arrays_finds_the_same_failures(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With colocation groups, arrays find the failures that simulations one by one find."""
    lost = 0
    for seed in seeds(50, 150):
        case = tagged(seed, mode)
        for group in case.cluster.groups:
            nodes = list(group.nodes)
            slow = [node for node in nodes if not tolerates(case, node)]
            monkeypatch.setattr(simulation, "WORTH_ARRAYS", 0)
            assert sorted(case.simulation.lost(alone(nodes))) == alone(slow), f"{mode} {seed}"
            monkeypatch.undo()
            lost += len(slow)
    assert lost > 30


def test_tolerated_failure_has_a_place_for_every_unit() -> None:
    """With colocation groups, brute force confirms every failure that N+1 tolerates."""
    tolerated = lost = 0
    for seed in seeds(100, 300):
        rng = Random(seed)
        sizes = [rng.choice((40, 60, 100)) for _ in range(rng.randint(2, 4))]
        labels = [rng.choice(["", "a", "b"]) for _ in sizes]
        free = rng.choice((110, 160, 210))
        case = spread(sizes, labels, free)
        if tolerates(case, 0):
            assert possible(sizes, labels, free), (sizes, labels, free)
            tolerated += 1
        else:
            lost += 1
    assert min(tolerated, lost) > 30


def possible(sizes: list[int], labels: list[str], free: int) -> bool:
    """Return whether instances of all `sizes` (MiB) fit on two nodes with `free` MiB each.

    Instances with equal labels must be on one node.
    """
    names = {*labels} - {""}
    for homes in product((0, 1), repeat=len(sizes)):
        sides = {(label, home) for label, home in zip(labels, homes) if label}
        used = [sum(size for size, home in zip(sizes, homes) if home == k) for k in (0, 1)]
        if len(sides) == len(names) and max(used) < free:
            return True
    return False
