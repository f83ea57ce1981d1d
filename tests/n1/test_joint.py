"""What several failures at once lose, beside every way there is to place who must move."""

from __future__ import annotations

from itertools import combinations, product
from random import Random
from typing import Any

import pytest

from iallocator.model.state import State
from iallocator.n1.loss.joint import JointFailures
from iallocator.n1.rules import Rules
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import cluster, instance

Json = dict[str, Any]


def world(seed: int, template: str) -> Json:
    """Return four tight nodes with instances of few sizes."""
    rng = Random(seed)
    names = ["node1", "node2", "node3", "node4"]
    instances = {}
    for number in range(rng.randint(4, 7)):
        homes = rng.sample(names, 2 if template == "drbd" else 1)
        instances[f"i{number}"] = instance(
            *homes, memory=rng.choice([100, 200, 300, 500]), disk_template=template
        )
    document = cluster(4, memory=2000, instances=instances)
    for name in names:
        free = rng.choice([150, 301, 450, 700])
        home = document["nodes"][name]
        home["total_memory"] += free - home["free_memory"]
        home["free_memory"] = free
    return document


def fewest(document: Json, failed: tuple[str, ...]) -> int:
    """Return how many instances are lost at least, trying everything."""
    free = {n: d["free_memory"] for n, d in document["nodes"].items() if n not in failed}
    moving = [i for i in document["instances"].values() if i["nodes"][0] in failed]
    choices = [[None, *(n for n in (i["nodes"][1:] or free) if n in free)] for i in moving]
    best = len(moving)
    for places in product(*choices):
        left = dict(free)
        for one, place in zip(moving, places):
            if place is not None:
                left[place] -= one["memory"]
        if all(left[n] > 0 or n not in places for n in free):
            best = min(best, places.count(None))
    return best


@pytest.mark.parametrize("template", ["drbd", "rbd", "plain"])
def test_joint_failures_lose_no_fewer_than_must_be(template: str) -> None:
    """Of one, two and three nodes; exactly so many where memory alone matters."""
    losing = 0
    for seed in range(25):
        document = world(seed, template)
        state = State(read_cluster(document, Reading()))
        joint = JointFailures(state, Rules("no-new"))
        names = [one.name for one in state.cluster.nodes]
        for size in (1, 2, 3):
            for nodes in combinations(range(4), size):
                lost = len(joint.lost(nodes))
                least = fewest(document, tuple(names[i] for i in nodes))
                assert lost >= least if template == "plain" else lost == least, (seed, nodes)
                losing += lost > 0
        assert state.version == State(read_cluster(document, Reading())).version
    assert losing > 20
