"""The simulator of long lives: the same seed is the same life, and it judges by itself."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from benchmarks.life import trace
from benchmarks.life.life import Outcome, live
from benchmarks.life.policies import POLICIES
from benchmarks.life.report import drawn, interval, table
from benchmarks.life.safety import all_failures_survived, packs
from benchmarks.life.trace import ARRIVAL, trace_of
from benchmarks.life.world import SCENARIOS, World

FEW = 8
"""Requests of a life in the tests."""


def test_trace_of_a_seed_is_always_the_same_and_in_order() -> None:
    """Whoever decides sees the same events; another seed has others."""
    events = trace_of(SCENARIOS["shared"], 3, 50)
    assert events == trace_of(SCENARIOS["shared"], 3, 50) == sorted(events)
    assert events != trace_of(SCENARIOS["shared"], 4, 50)
    assert sum(event.kind == ARRIVAL for event in events) == 50


@pytest.mark.parametrize("scenario", ["drbd", "groups"])
def test_life_repeated_has_the_same_outcome(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is a function of scenario, policy and seed."""
    monkeypatch.setattr(trace, "BALANCES", 2)
    monkeypatch.setattr(trace, "FAILURES", 2)
    first, second = (live(SCENARIOS[scenario], POLICIES["no-worse"], 1, FEW) for _ in range(2))
    assert first == second
    assert first.asked == FEW
    assert 0 <= first.kept <= 1


def test_life_in_which_nothing_fits_rejects_everything_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Instances larger than every node are rejected, whoever decides, and nobody is lost."""
    small = SCENARIOS["shared"]._replace(memory=(1700,) * 3, load=5.0)
    monkeypatch.setattr(trace, "BALANCES", 2)
    outcome = live(small, POLICIES["off"], 2, FEW)
    large = sum(e.memory >= 768 for e in trace_of(small, 2, FEW) if e.kind == ARRIVAL)
    assert outcome.rejected == large == FEW
    assert outcome.lost == 0


@pytest.mark.parametrize("seed", range(20))
def test_packs_says_what_trying_everything_says(seed: int) -> None:
    """The judge of safety is right on small problems."""
    rng = Random(f"packs/{seed}")
    sizes = [rng.randrange(1, 9) for _ in range(5)]
    room = [rng.randrange(2, 14) for _ in range(3)]
    possible = any(
        all(sum(s for s, place in zip(sizes, places) if place == k) <= room[k] for k in range(3))
        for places in product(range(3), repeat=5)
    )
    assert packs(sizes, room) is possible


def test_failures_are_judged_by_where_instances_may_go() -> None:
    """A mirrored one has its secondary alone; what is shared has all nodes of its group."""
    for name, nodes in (("drbd", ["node00", "node01"]), ("groups", ["node00"])):
        world = World(SCENARIOS[name])
        world.add("large", 60000, nodes)
        assert all_failures_survived(world)
        for other in ("node01", "node04", "node07", "node10")[: 1 if name == "drbd" else 4]:
            world.add(f"on {other}", 10000, [other, "node02"] if name == "drbd" else [other])
        kept = name == "groups"  # node03, node06 and node09 are in the same group
        assert all_failures_survived(world) is kept
        if kept:
            for other in ("node03", "node06", "node09"):
                world.add(f"on {other}", 10000, [other])
            assert not all_failures_survived(world)


def test_table_and_picture_name_every_policy() -> None:
    """Differences are to the first policy, in pairs."""
    lives = {
        "hail": [Outcome(10, 4, 1, 1024, 0.9, 5.0), Outcome(10, 6, 1, 1024, 0.9, 5.0)],
        "ours": [Outcome(10, 1, 0, 0, 1.0, 4.0), Outcome(10, 3, 0, 0, 1.0, 4.0)],
    }
    told = table({"drbd": lives})
    assert "| drbd | ours | 10 | 2.0 | -3.0 ± 0.0 | 0.0 | -1.0 ± 0.0 |" in told
    assert drawn({"drbd": lives}).count("<circle") == 4
    middle, half = interval([1, 2, 3], [0, 0, 0])
    assert (middle, round(half, 2)) == (2, 2.48)
