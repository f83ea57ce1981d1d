"""Test that `capacity` places the largest possible number of equal instances in small clusters."""

from __future__ import annotations

import pytest

from benchmarks.gap import Home, as_text
from benchmarks.planners_gap import TEMPLATES, Steps, capacity_case, most, size_of, valid
from iallocator.planners.capacity.capacity import (
    CapacityOptions,
    CapacityReport,
    FillingExtent,
    FillingRules,
    compute_capacity,
)
from iallocator.solver.highs import available
from iallocator.sources.text import read_text
from iallocator.wire.reading import Reading
from tests.seeds import seeds

pytestmark = pytest.mark.skipif(not available(), reason="the solver is not installed")


def filled(seed: int, kind: str, n1: str, searches: bool = True) -> CapacityReport:
    """Return the capacity report of a generated cluster, with or without the exact search."""
    machines, homes, wanted = capacity_case(seed, kind)
    text = as_text(machines, homes)
    cluster = read_text(text.encode(), "cluster", Reading(static_kvm_memory=0)).cluster
    size = size_of(wanted)
    options = CapacityOptions(
        size, [size], rules=FillingRules(n1=n1), extent=FillingExtent(searches=searches)
    )
    return compute_capacity(cluster, options, lambda *_: None)


def placed(report: CapacityReport, kind: str) -> list[Home]:
    """Return the placed instances of the standard size, in the form of the brute force."""
    assert report.standard is not None
    return [
        Home(one.instance.name, one.size.memory, one.size.disk, 1, TEMPLATES[kind][1], one.nodes)
        for one in report.standard.filling.placed
    ]


@pytest.mark.parametrize("n1", ["", "strict", "no-worse", "no-new", "off"])
@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("seed", seeds(3, 60))
def test_capacity_places_as_many_instances_as_possible(seed: int, kind: str, n1: str) -> None:
    """`capacity` places the largest number of instances that brute force finds."""
    machines, homes, wanted = capacity_case(seed, kind)
    pairs = wanted.template == "drbd"
    if pairs and n1 not in ("", "off"):
        pytest.skip("the other code knows only the reserved memory of pairs")
    possible = most(machines, homes, wanted, checks_restarts=n1 != "off" and not pairs)
    if possible is None or possible < 0:
        pytest.skip("too many placements, or not N+1 compliant")
    new = placed(filled(seed, kind, n1), kind)
    assert valid(machines, [*homes, *new], n1 != "off" and not pairs, Steps())
    assert len(new) == possible


@pytest.mark.parametrize("kind", TEMPLATES)
@pytest.mark.parametrize("seed", seeds(4, 60))
def test_search_never_places_fewer_instances(seed: int, kind: str) -> None:
    """With the exact search, `capacity` never places fewer instances or less memory."""
    without, found = (filled(seed, kind, "", searches) for searches in (False, True))
    for run, before in ((found.standard, without.standard), (found.tiered, without.tiered)):
        assert run is not None
        assert before is not None
        now, then = ([one.size.memory for one in each.filling.placed] for each in (run, before))
        assert len(now) >= len(then)
        assert sum(now) >= sum(then)


def test_search_finds_an_instance_that_the_simulation_misses() -> None:
    """Without the exact search, `capacity` misses an instance in at least one of a few clusters."""
    counts = [
        [len(placed(filled(seed, "shared", "", searches), "shared")) for seed in range(1, 13)]
        for searches in (False, True)
    ]
    assert sum(counts[0]) < sum(counts[1])
