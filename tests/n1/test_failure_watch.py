"""What is kept of failures, renewed where nodes change, is what a fresh look finds."""

from __future__ import annotations

import random

import pytest

from benchmarks.clusters import Shape, document
from iallocator.model.state import State
from iallocator.n1.failure_watch import FailureWatch
from iallocator.n1.rules import Rules
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading


def _seen(watch: FailureWatch, nodes: int) -> object:
    return watch.movers, [list(watch.onto(index)) for index in range(nodes)], watch.failing


@pytest.mark.parametrize("mode", ["no-new", "no-worse", "strict"])
@pytest.mark.parametrize("alone", [0, 3])
def test_failure_watch_after_moves_says_what_a_new_one_says(mode: str, alone: int) -> None:
    """Mirrored instances come and go on a crowded cluster; some are on shared storage, or none."""
    whole = document(Shape(7, "drbd", per_node=5, fullness=0.5, crowding=0.2))
    for name in list(whole["instances"])[:alone]:
        entry = whole["instances"][name]
        entry.update(disk_template="rbd", nodes=entry["nodes"][:1])
    cluster = read_cluster(whole, Reading())
    state, rules, rng = State(cluster), Rules(mode), random.Random(alone)
    failing = [node.index for node in cluster.nodes if node.name != "node00-0002.example.com"]
    kept = FailureWatch(state, rules, failing, {})
    renewed = 0
    demands: dict[int, tuple[int, object]] = {}
    for step in range(60):
        instance = rng.choice(cluster.instances)
        if instance.name in state.where:
            state.remove(instance, state.where[instance.name])
        if step % 3:
            state.place(instance, tuple(rng.sample(range(7), instance.required_nodes)))
        if kept.catch_up(state, rules, failing, demands):  # type: ignore[arg-type]
            renewed += 1
            assert _seen(kept, 7) == _seen(FailureWatch(state, rules, failing, {}), 7)
        else:
            kept = FailureWatch(state, rules, failing, {})
    assert (renewed > 40) == (not alone and mode != "strict")
