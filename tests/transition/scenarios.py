"""Generate clusters with an initial and a target placement, both within the limits."""

from __future__ import annotations

from random import Random

from iallocator.aliases import Nodes
from iallocator.model.cluster import Cluster, Group, Node, NodeCpus, NodeDisk, NodeMemory
from iallocator.model.instance import Instance
from iallocator.model.state import State
from iallocator.transition.resources import Place, footprint, room
from tests.model.make import instance, policy

__all__ = ["Scenario", "machine", "make_cluster", "scenario"]


class Scenario:
    """A cluster, its state, and the target of every instance."""

    def __init__(self, cluster: Cluster, wanted: dict[str, Nodes | None]) -> None:
        self.cluster = cluster
        self.state = State(cluster)
        self.wanted = wanted


def make_cluster(
    nodes: int, instances: list[Instance], memory: int = 10, disk: int = 1000
) -> Cluster:
    """Return a cluster of equal nodes with `memory` + 1 and `disk` + 1 MiB, and `instances`."""
    group = Group(0, "uuid-default", "default", policy())
    made = [
        Node(
            f"node{k + 1}",
            group,
            memory=NodeMemory(
                memory + 1,
                free=memory + 1 - sum(
                    i.memory for i in instances if i.nodes[:1] == (k,) and i.uses_memory
                ),
            ),
            disk=NodeDisk(
                disk + 1, disk + 1 - sum(i.disk for i in instances if k in i.nodes and i.local)
            ),
            cpus=NodeCpus(64),
        )
        for k in range(nodes)
    ]  # fmt: skip
    return Cluster("cluster.example.com", (), [group], made, instances)


def machine(
    name: str, nodes: Nodes, memory: int, disk: int = 0, *, running: bool = True
) -> Instance:
    """Return an instance on shared storage, or drbd if it has two nodes."""
    template = "drbd" if len(nodes) > 1 else "rbd"
    return instance(
        template, name=name, nodes=nodes, memory=memory, disk=disk, vcpus=1,
        admin_state="up" if running else "down",
    )  # fmt: skip


def scenario(seed: int, *, drbd: float = 0.0, tight: float = 0.8, large: bool = False) -> Scenario:
    """Return the random case `seed`; `drbd` is the share of such instances.

    `tight` is the fullness of nodes, from 0 to 1.
    """
    rng = Random(f"{seed}/{drbd}/{tight}/{large}")
    count = rng.randint(3, 5) if not large else rng.randint(6, 12)
    memory, disk = 10, rng.choice([12, 30])
    instances: list[Instance] = []
    wanted: dict[str, Nodes | None] = {}
    free = room(State(make_cluster(count, [], memory, disk)))
    then = dict(free)
    for number in range(count * 4):
        two = rng.random() < drbd
        one = machine(
            f"vm{number:02}", (0, 1) if two else (0,), rng.randint(1, 6), rng.randint(1, 6),
            running=rng.random() < 0.85,
        )  # fmt: skip
        present = _fit(rng, one, free, count, two)
        after = _fit(rng, one, then, count, two)
        if present is None or after is None:
            continue
        one.nodes = present
        instances.append(one)
        wanted[one.name] = after
        for left, nodes in ((free, present), (then, after)):
            for key, amount in footprint(one, Place(nodes, one.running)).items():
                if key in left:
                    left[key] -= amount
        if sum(i.memory for i in instances if i.running) >= tight * memory * count:
            break
    return Scenario(make_cluster(count, instances, memory, disk), wanted)


def _fit(
    rng: Random, one: Instance, left: dict[tuple[int, str], float], count: int, two: bool
) -> Nodes | None:
    """Return random nodes with capacity for `one`; None if there are none."""
    for _ in range(20):
        nodes = tuple(rng.sample(range(count), 2 if two else 1))
        held = footprint(one, Place(nodes, one.running))
        if all(left.get(key, amount) >= amount for key, amount in held.items()):
            return nodes
    return None
