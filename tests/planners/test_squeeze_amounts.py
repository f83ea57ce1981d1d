"""Test the proofs by sums that nodes cannot be freed against all placements."""

from __future__ import annotations

import itertools
import random

import pytest

from iallocator.model.cluster import Cluster
from iallocator.model.policy import Spec
from iallocator.model.state import State
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.planners.power_state import Switched
from iallocator.planners.squeeze.feasibility import CapacityBounds
from iallocator.planners.squeeze.headroom import Headroom
from tests import builders
from tests.model.make import model_of

MEMORY = 8192


def _cluster(rng: random.Random) -> Cluster:
    """Return four nodes with a few instances on shared storage, some of them stopped."""
    instances = {
        f"i{n}": builders.rbd(
            f"node{n % 4 + 1}",
            memory=rng.choice((1024, 2048, 3072, 3584)),
            admin_state=rng.choice(("up", "up", "up", "down")),
        )
        for n in range(rng.randint(4, 7))
    }
    return model_of(builders.cluster(nodes=4, memory=MEMORY, instances=instances))


def _possible(cluster: Cluster, reserve: Headroom, tolerance: FailureTolerance) -> bool:
    """Return whether some placement on the online nodes keeps the reserve and N+1."""
    online = [node.index for node in cluster.nodes if node.online]
    state = State(cluster)
    for instance in cluster.instances:
        state.remove(instance, instance.nodes)
    for choice in itertools.product(online, repeat=len(cluster.instances)):
        with state.trial():
            for instance, index in zip(cluster.instances, choice):
                state.place(instance, (index,))
            if not reserve.missing(state, online) and not tolerance.on(state).comparison.broken():
                return True
    return False


@pytest.mark.parametrize("mode", ["strict", "no-new", "off"])
def test_sums_reject_only_sets_that_cannot_be_freed(mode: str) -> None:
    """Sums reject only sets of nodes that no placement frees."""
    output: set[str] = set()
    for seed in range(30):
        rng = random.Random(seed)
        cluster = _cluster(rng)
        group = cluster.groups[0]
        tolerance = FailureTolerance(State(cluster), plan_rules(mode), group=group)
        tolerance.measure()
        reserve = Headroom(Spec(256, 1, 1024, 1, 1, 1), rng.choice((1.0, 2.0, 4.0)))
        off = rng.sample(group.nodes, rng.choice((2, 2, 3)))
        amounts = CapacityBounds(State(cluster), group.nodes, reserve, tolerance)
        with Switched(cluster, off):
            reason = amounts.infeasibility(off)
            if reason:
                output.add("failure" if "failure" in reason else "in all")
                assert not _possible(cluster, reserve, tolerance), (seed, reason)
    assert output == ({"in all"} if mode == "off" else {"in all", "failure"})
