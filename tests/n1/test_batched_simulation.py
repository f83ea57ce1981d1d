"""Test that values kept between checks and simulations equal newly computed values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from benchmarks.clusters import Shape, as_text, document
from iallocator.model.columns import COLUMNS, MEMORY
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.model.state import State
from iallocator.n1 import Failure, Rules
from iallocator.n1.batched_simulation import BatchedSimulation
from iallocator.n1.counting import GroupCounting
from iallocator.n1.slots import NOTHING, Leaving, Queue, Sizes, slots_of_node, slots_of_nodes
from iallocator.scoring import Kernels
from iallocator.scoring.incremental_batch import SharedBatchCache
from iallocator.scoring.metrics import STATISTICS
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import cluster
from tests.command import run

from .tight import SIZES, alone, newcomer

EVERYWHERE = Sizes(range(6), lambda instance: None)
"""The sizes of instances that may restart on all of six nodes."""


@pytest.mark.parametrize("template", ["plain", "rbd"])
def test_simulation_equals_one_without_kept_values(
    template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulation of failures with kept values gives the result of one without kept values."""
    seen: Counter[str] = Counter()
    plain = BatchedSimulation.lost

    def checked(
        self: BatchedSimulation, failing: Sequence[Failure], leaving: Sequence[Leaving], coming: Any
    ) -> list[bool]:
        seen["head"] += sum(
            failure in self._heads and self._heads[failure].vectors is one.head
            for failure, one in zip(failing, leaving)
        )
        seen["form"] += len(self._basis._shared._known)
        found = plain(self, failing, leaving, coming)
        fresh = copy(self)
        fresh._heads, fresh._basis = {}, copy(self._basis)
        fresh._basis._read = {}
        per_amount, counted = self._basis._shared._per_amount, self._basis._shared._counted
        fresh._basis._shared = SharedBatchCache(per_amount, counted)
        assert plain(fresh, failing, leaving, coming) == found
        seen.update(map(str, found))
        for failure, one in zip(failing, leaving):
            assert self._head_of(failure, one).amounts.tolist() == [list(row) for row in one.head]
        return found

    monkeypatch.setattr(BatchedSimulation, "lost", checked)
    path = tmp_path / "cluster.data"
    path.write_text(as_text(document(Shape(5, template, per_node=3, fullness=0.4, crowding=0.3))))
    words = [f"--disk-template={template}", "--standard-alloc=1g,2g,1", "--tiered-alloc=9g,12g,2"]
    run("capacity", "-t", str(path), *words)
    assert min(seen[kind] for kind in ("head", "form", "True", "False")) > 0, seen


@pytest.mark.parametrize("seed", range(4))
def test_kept_types_of_instances_equal_new_ones_while_values_change(seed: int) -> None:
    """Kept types of instances give the deviations of newly computed types.

    While statistics of instances are proportional, one statistic represents several.
    """
    rng, nodes = np.random.default_rng(seed), 5
    per_amount = np.zeros((len(COLUMNS), len(STATISTICS), nodes))
    per_amount[0] = rng.choice((0.5, 1.0), size=(len(STATISTICS), 1))
    counted, kinds = np.ones(per_amount.shape[1:]), [(1.0,) + (0.0,) * (len(COLUMNS) - 1)]
    kept, seen = SharedBatchCache(per_amount, counted), set()
    for version in range(8):
        apart = rng.normal(size=counted.shape) if version % 3 == 2 else 0.0
        values = per_amount[0] * rng.normal(size=nodes) + apart
        fresh = SharedBatchCache(per_amount, counted).of(kinds, values, version)
        found = kept.of(kinds, values, version)
        mine, other = (one.weights @ values[one.kept].std(axis=1) for one in (found, fresh))
        assert mine == pytest.approx(other)
        seen.add(len(found.kept))
    assert len(seen) > 1


def test_undecided_failures_checked_at_once_equal_those_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Undecided failures that are checked at once have the results of single checks."""
    seen: Counter[str] = Counter()
    plain = GroupCounting.not_tolerated_with

    def checked(
        self: GroupCounting, one: Instance | None, node: int, others: Sequence[tuple[Failure, int]]
    ) -> tuple[dict[Failure, bool | None], list[bool | None]]:
        pairs = [*others, *((failing, other) for failing in self.queues for other in range(5))]
        found, reported = plain(self, one, node, pairs)
        if one is not None:
            assert reported == [
                self.tolerates_failure(failing, one, other) for failing, other in pairs
            ]
            every = {failing: self.tolerates_failure(failing, one, node) for failing in self.queues}
            assert found == {failing: kept for failing, kept in every.items() if not kept}
            seen.update(map(str, reported))
        return found, reported[: len(others)]

    monkeypatch.setattr(GroupCounting, "not_tolerated_with", checked)
    path = tmp_path / "cluster.data"
    path.write_text(as_text(document(Shape(5, "plain", per_node=3, fullness=0.4, crowding=0.3))))
    words = ["--disk-template=plain", "--standard-alloc=1g,2g,1", "--tiered-alloc=9g,12g,2"]
    run("capacity", "-t", str(path), *words)
    assert min(seen[kind] for kind in ("True", "False", "None")) > 0, seen


@pytest.mark.parametrize("grown", [0, 1])
@pytest.mark.parametrize("restricted", [False, True])
def test_failures_simulated_together_equal_one_by_one(grown: int, restricted: bool) -> None:
    """Failures simulated together have the results of single simulations.

    The failures have queues of different lengths; nodes are equal, or one is larger. If instances
    are `restricted`, each may restart on some of the nodes only.
    """
    sizes = Sizes(range(6), lambda one: frozenset(Random(one.name).sample(range(6), 3)))
    text = cluster(6, memory=3000, disk=9000)
    list(text["nodes"].values())[2]["total_memory"] += grown * 1000
    state = State(read_cluster(text, Reading(static_kvm_memory=0)))
    chance = Random(grown)
    ends: Counter[bool] = Counter()
    for number in range(100):
        one = newcomer(chance, number)
        one.restricted = restricted and number % 3 > 0
        state.place(one, (chance.randrange(6),))
        if number % 10:
            continue
        rows: list[tuple[Failure, Leaving, Any]] = []
        for node in [*range(6), *range(6)]:
            queue = Queue(Rules("strict", None), sizes)
            queue.start(state.primaries[node].values())
            came = newcomer(chance, 99), [other for other in range(6) if other != node][::2]
            rows.append(((node,), queue.leaving(), chance.choice((None, came))))
        matrix = Kernels(state, [(6, 0)], 0.0).matrix()
        simulation = BatchedSimulation(state, matrix, range(6), sizes.sets)
        together = simulation.lost(*zip(*rows))
        assert together == [simulation.lost([one], [two], [three])[0] for one, two, three in rows]
        ends.update(together)
    assert min(ends[True], ends[False]) > 10, ends


def test_failures_without_capacity_on_any_node_are_not_tolerated() -> None:
    """If no node has free capacity, failures are not tolerated, and no node is scored."""
    state = State(read_cluster(cluster(3, memory=3000), Reading(static_kvm_memory=0)))
    leaving = []
    for node in range(3):
        room = int(state.columns[MEMORY][node])
        for number, memory in enumerate((room // 2, room - room // 2 - 100)):
            one = Instance(f"i{node}-{number}", Backend(memory), Disks("rbd", 1, [1]))
            state.place(one, (node,))
        queue = Queue(Rules("strict", None), EVERYWHERE)
        queue.start(state.primaries[node].values())
        leaving.append(queue.leaving())
    simulation = BatchedSimulation(
        state, Kernels(state, [(3, 0)], 0.0).matrix(), range(3), [range(3)]
    )
    assert simulation.lost(alone(range(3)), leaving, [None] * 3) == [True] * 3


def test_extended_queue_requires_the_amounts_of_a_new_one() -> None:
    """A queue extended by a new instance requires the amounts of a queue computed anew."""
    for seed in range(100):
        chance = Random(seed)
        rules = Rules("strict", None)
        held = [newcomer(chance, number) for number in range(chance.randrange(7))]
        queue = Queue(rules, EVERYWHERE)
        queue.start(held)
        for number in range(10, 16):
            one = newcomer(chance, number)
            assert queue.required_with(one) == queue.with_one(one).required, seed
            queue.leaving()
            queue.add(one)
            held.append(one)
            again = Queue(rules, EVERYWHERE)
            again.start(held)
            assert queue.leaving() == again.leaving(), seed
            assert queue.required == again.required, seed
            assert queue.taken((256, 512, 0)) == again.taken((256, 512, 0)), seed


def test_slots_of_nodes_are_the_sum_of_those_of_each_node() -> None:
    """While nodes fill up, the slots counted by arrays equal the sum of each node's slots."""
    chance = Random(0)
    state = State(read_cluster(cluster(5, memory=3000, disk=9000), Reading(static_kvm_memory=0)))
    for number in range(72):
        state.place(newcomer(chance, number), (chance.randrange(5),))
        for memory, disk in SIZES:
            size = memory, disk, 0
            each = [slots_of_node(state, size, node, NOTHING) for node in range(5)]
            assert slots_of_nodes(state, size, range(5)) == tuple(map(sum, zip(*each))), number
