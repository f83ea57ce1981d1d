"""Test that results of failures, updated for changed nodes, equal new results."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from benchmarks.clusters import Shape, document
from iallocator.model.instance import Instance
from iallocator.model.state import State
from iallocator.n1 import Rules
from iallocator.n1.failure_watch import FailureWatch
from tests.model.make import model_of

if TYPE_CHECKING:
    from iallocator.n1.bounds import Demands


def _seen(watch: FailureWatch, rules: Rules) -> object:
    movers = [watch.with_less_spare(taken, rules) for taken in (0, 2048, 16384, 1e9)]
    return movers, [list(watch.failovers_to(index)) for index in range(7)], watch.failing


def _move(state: State, instance: Instance, rng: random.Random, comes: bool) -> None:
    """Remove `instance` from its nodes; if `comes`, place it on random other nodes."""
    if instance.name in state.where:
        state.remove(instance, state.where[instance.name])
    if comes:
        state.place(instance, tuple(rng.sample(range(7), instance.required_nodes)))


LABELS = ("ssd", "big")

KINDS = {
    "mirrored": ("drbd",),
    "shared": ("rbd",),
    "mixed": ("drbd", "rbd"),
    "everything": ("drbd", "rbd", "plain"),
    "labels": ("drbd", "rbd", "rbd"),
}


@pytest.mark.parametrize("mode", ["no-new", "no-worse", "strict"])
@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("fullness", [0.4, 0.95])
def test_kept_tolerance_after_moves_equals_a_new_one(
    mode: str, kinds: str, fullness: float
) -> None:
    """After placements and removals, the kept N+1 results equal those of a new check.

    The cluster has free capacity, or is full. Every second change is tried and undone before.
    """
    whole = document(Shape(7, "drbd", per_node=5, fullness=fullness, crowding=0.2))
    rng = random.Random(f"{mode} {kinds} {fullness}")
    for entry in whole["instances"].values():
        template = rng.choice(KINDS[kinds])
        if template != "drbd":
            entry.update(disk_template=template, nodes=entry["nodes"][:1])
        if kinds == "labels" and rng.random() < 0.6:
            entry["tags"] = [f"iallocator:nodes:must:{rng.choice(LABELS)}"]
    for node in whole["nodes"].values() if kinds == "labels" else ():
        node["tags"] = [label for label in LABELS if rng.random() < 0.7]
    cluster = model_of(whole)
    state, rules = State(cluster), Rules(mode)
    failing = [(node.index,) for node in cluster.nodes if node.name != "node00-0002.example.com"]
    kept = FailureWatch(state, rules, failing, {})
    demands: Demands = {}
    for step in range(60):
        instance = rng.choice(cluster.instances)
        if step % 2 and mode != "strict":
            with state.trial():
                _move(state, instance, rng, step % 3 > 0)
                assert kept.catch_up(state, rules, failing, demands)
                assert _seen(kept, rules) == _seen(FailureWatch(state, rules, failing, {}), rules)
        _move(state, instance, rng, step % 3 > 0)
        renewed = kept.catch_up(state, rules, failing, demands)
        assert renewed == (mode != "strict")
        fresh = FailureWatch(state, rules, failing, {})
        if renewed:
            assert _seen(kept, rules) == _seen(fresh, rules)
        kept = kept if renewed else fresh
