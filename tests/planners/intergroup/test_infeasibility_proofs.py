"""Test that no proof by sums says "impossible" where a plan is possible."""

from __future__ import annotations

import random
from itertools import permutations
from typing import Any

import pytest

from iallocator.options.settings import Settings
from iallocator.planners.intergroup.compress import compress
from iallocator.planners.intergroup.context import IntergroupContext, Peers
from iallocator.planners.intergroup.infeasibility_proofs import ArrivalBound, Proofs
from iallocator.planners.intergroup.moving import Mover
from tests.builders import cluster, instance
from tests.model.make import model_of
from tests.seeds import seeds

from .scenarios import on_shared

MODES = ("no-new", "strict", "no-worse", "off")


def _document(seed: int) -> dict[str, Any]:
    """Return three instances in group east, two nearly full groups, and instances in these groups.

    In some clusters, an instance has nodes in two groups, is down, or has large disks.
    """
    rng = random.Random(seed)
    groups = {"east": 2, "north": rng.choice([1, 2]), "west": rng.choice([2, 3])}
    homes = {"east": [1, 2], "north": [3, 4][: groups["north"]]}
    homes["west"] = [k + 3 + groups["north"] for k in range(groups["west"])]
    template = rng.choice(["drbd", "rbd", "mixed"])
    instances = {}
    free = {k: rng.choice([3000, 6000, 9000]) for nodes in homes.values() for k in nodes}
    for number in range(rng.randint(6, 12)):
        name = "east" if number < 3 else rng.choice(["north", "west", "west"])
        nodes = list(homes[name])
        home = rng.choice(nodes)
        memory = rng.choice([500, 1000, 1500, 2500])
        if free[home] <= memory:
            continue
        changes: dict[str, Any] = {"memory": memory, "vcpus": rng.choice([1, 1, 6])}
        others = [k for k in nodes if k != home] or [k for k in free if k != home]
        if rng.random() < 0.1:
            others = [k for k in free if k != home]
        if template == "drbd" or (template == "mixed" and rng.random() < 0.5):
            changes["disk"] = rng.choice([1024, 1024, 20000, 60000])
            made = instance(f"node{home}", f"node{rng.choice(others)}", **changes)
        else:
            made = on_shared(f"node{home}", **changes)
        if rng.random() < 0.1:
            made["admin_state"] = "down"
        else:
            free[home] -= memory
        instances[f"i{number}"] = made
    document = cluster(groups, memory=10000, disk=10**6, instances=instances)
    for k, left in free.items():
        space = rng.choice([30000, 90000])
        document["nodes"][f"node{k}"] |= {"free_memory": left, "free_disk": space}
    return document


def _there_is_a_way(mover: Mover, leaving: list[Any], targets: Any) -> bool:
    """Return whether all instances can leave their nodes in some order, with each step allowed."""
    if not leaving:
        return True
    state = mover.context.state
    for one in leaving:
        for group in targets(one):
            for nodes in permutations(group.nodes, one.required_nodes):
                found = mover.only(one, nodes).best
                if found is None:
                    continue
                with state.trial():
                    found.apply(state)
                    rest = [i for i in leaving if i is not one]
                    if _there_is_a_way(mover, rest, targets):
                        return True
    return False


@pytest.mark.parametrize("mode", MODES)
def test_proof_that_instances_cannot_leave_is_never_wrong(mode: str) -> None:
    """If sums prove that instances cannot leave their group, no order of moves succeeds."""
    proved = asked = 0
    for seed in seeds(60, 600):
        settings = Settings()
        settings.n1 = mode
        settings.ignore_soft_errors = seed % 5 == 0
        mover = Mover(IntergroupContext(model_of(_document(seed)), settings))
        cluster_, peers = mover.context.cluster, Peers(mover.context.cluster)
        east = cluster_.groups[0]
        held = {i.name: i for k in east.nodes for i in mover.context.state.instances_on(k)}
        leaving = list(held.values())

        def targets(one: Any, peers: Peers = peers, east: Any = east) -> Any:
            return peers.of(one, east)

        asked += 1
        if len(leaving) < 5 and Proofs(mover).against(leaving, targets):
            proved += 1
            assert not _there_is_a_way(mover, leaving, targets), (seed, mode)
    assert 0 < proved < asked


def test_groups_are_queried_until_one_has_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """`compress` checks only a few of 30 groups for free capacity for each group to be emptied."""
    asked = 0
    most = ArrivalBound.most

    def counted(room: ArrivalBound, *args: Any) -> float:
        nonlocal asked
        asked += 1
        return most(room, *args)

    monkeypatch.setattr(ArrivalBound, "most", counted)
    groups = {f"g{k}": 2 for k in range(30)}
    instances = {f"i{k}": instance(f"node{2 * k + 1}", f"node{2 * k + 2}") for k in range(30)}
    document = cluster(groups, memory=10000, disk=10**6, instances=instances)
    context = IntergroupContext(model_of(document), Settings())
    compress(context)
    assert 30 <= asked <= 30 * 20
