"""Generate small full clusters on which each failure is nearly tolerated, or nearly not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any
from unittest.mock import patch

from iallocator.engine import read
from iallocator.model.instance import Backend, Disks, Instance
from iallocator.n1 import Failure, Rules
from iallocator.n1.simulation import Simulation
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.scoring import Kernels
from tests.builders import Json, allocate, as_bytes, cluster, instance, policy, spec

__all__ = ["SIZES", "Case", "alone", "context_of", "newcomer", "tight", "tolerates"]

SIZES = [(128, 0), (128, 512), (256, 512), (512, 2048), (0, 512), (0, 0)]
"""MiB of memory and of disk that a new instance can have."""

LABELS = ("ssd", "rack1", "big")
"""The labels that nodes can have."""

TEMPLATES = ("rbd", "rbd", "plain", "drbd", "drbd", "file", "diskless", "blockdev")


class Case:
    """A cluster with a new instance, an N+1 mode, and the simulation of failures."""

    def __init__(self, context: Context, new: Instance) -> None:
        self.context = context
        self.new = new
        self.cluster = context.cluster
        self.state = context.state
        self.rules = context.rules(context.settings.n1)
        self.simulation = self.simulation_of(self.rules)

    def simulation_of(self, rules: Rules) -> Simulation:
        """Return the simulation of failures of this case by `rules`."""
        return Simulation(self.state, self.context.kernels, rules, self.context.all_nodes())


def context_of(document: Json, mode: str, compat: str = "") -> Case:
    """Return the case of `document`, a request to allocate, in the N+1 mode `mode`.

    `compat`: as the option ``--compat``.
    """
    settings = Settings()
    settings.n1, settings.compat = mode, compat
    found, request = read(as_bytes(document), settings)
    new: Instance = request.instance  # type: ignore[union-attr]
    return Case(Context(found, settings), new)


def tight(seed: int, mode: str, labelled: bool = False, exclusive: bool = False) -> Case:
    """Return the random case of `seed` with the N+1 mode `mode`.

    `labelled`: some instances may only be on nodes with a label. `exclusive`: most nodes have
    exclusive storage with few spindles, and every other case has ``--compat hail``: disks on
    shared storage take spindles there, too.
    """
    found = document(Random(f"tight/{seed}"))
    if labelled:
        _add_labels(Random(f"labels/{seed}"), found)
    if exclusive:
        _add_spindles(Random(f"spindles/{seed}"), found)
    return context_of(found, mode, "hail" if exclusive and seed % 2 else "")


def _add_labels(rng: Random, found: Json) -> None:
    """Add labels to some nodes, and tags that require them, or their absence, to instances."""
    nodes = found["nodes"]
    for node in nodes.values():
        node["tags"] = [*node.get("tags", ()), *(one for one in LABELS if rng.random() < 0.6)]
    for one in (found["request"], *found["instances"].values()):
        tag = rng.choice(LABELS)
        has = [tag in nodes[name]["tags"] for name in one.get("nodes", ())]
        kind = rng.choice(("must", "never"))
        if rng.random() < 0.5 and all(here is (kind == "must") for here in has):
            one["tags"] = [*one.get("tags", ()), f"iallocator:nodes:{kind}:{tag}"]


def _add_spindles(rng: Random, found: Json) -> None:
    """Make the storage of most nodes exclusive, with few free spindles; disks need some."""
    for node in found["nodes"].values():
        node["ndparams"] = {"exclusive_storage": rng.random() < 0.8, "spindle_count": 1}
        node["total_spindles"] = 20
        node["free_spindles"] = rng.choice((0, 1, 2, 3, 5, 9))
    unstated = rng.choice((0, 0, 0, 0.2))  # the share of disks that do not state their spindles
    for one in found["instances"].values():
        for disk in one["disks"]:
            disk["spindles"] = rng.randint(1, 3) if rng.random() >= unstated else None
    for disk in found["request"]["disks"]:
        disk["spindles"] = rng.choice((1, 2, 3, None))


def document(rng: Random) -> Json:
    """Return one or two groups of nodes with tens of MiB of memory, and their instances."""
    groups = rng.choice(({"a": 3}, {"a": 4}, {"a": 5}, {"a": 2, "b": 3}, {"a": 3, "b": 2}))
    memory, disk = rng.choice((16, 30, 60)), rng.choice((40, 100, 1000))
    palette = rng.sample(TEMPLATES, rng.choice((1, 2, 2, 3)))
    homes = {f"node{k}": g for k, g in enumerate(_spread(groups), start=1)}
    result = cluster(
        groups,
        memory=memory,
        disk=disk,
        cpus=64,
        instances=dict(_residents(rng, homes, palette, memory, disk)),
        tags=("htools:migration:cpu",) if rng.random() < 0.15 else (),
    )
    for node in result["nodes"].values():
        _trouble(rng, node)
    if rng.random() < 0.2:
        low, high = spec(1, 1, 1, 0, 1), spec(memory // 3, 64, 16777216, 16, 64)
        result["nodegroups"]["uuid-a"]["ipolicy"] = policy(low, high)
    template = rng.choice(palette)
    size = rng.choice((1, 2, memory // 8, memory // 4, memory // 2))
    return allocate(result, memory=size, disk=disk // 8, disk_template=template)


def _spread(groups: dict[str, int]) -> list[str]:
    return [name for name, count in groups.items() for _ in range(count)]


def _residents(
    rng: Random, homes: dict[str, str], palette: list[str], memory: int, disk: int
) -> Iterator[tuple[str, Json]]:
    """Yield the instances that fill a random share of each node."""
    fill = rng.choice((0.3, 0.5, 0.6, 0.7))
    pieces = rng.choice(((1, 2, 3), (memory // 4, memory // 3), (1, memory // 5, memory // 3)))
    count = 0
    for home, group in homes.items():
        budget = memory * fill * rng.uniform(0.5, 1.3)
        while (size := max(1, rng.choice(pieces))) <= budget and count < 24:
            budget -= size
            count += 1
            peers = [n for n, g in homes.items() if g == group and n != home]
            yield f"instance{count}", _resident(rng, rng.choice(palette), home, peers, size, disk)


def _resident(
    rng: Random, template: str, home: str, peers: list[str], size: int, disk: int
) -> Json:
    nodes = [home]
    if template == "drbd" and rng.random() < 0.98:
        nodes.append(rng.choice(peers))
    members: dict[str, Any] = {"disk": max(1, disk // rng.choice((4, 8, 16, 100)))}
    if rng.random() < 0.1:
        members["admin_state"] = rng.choice(("down", "offline"))
    if rng.random() < 0.05:
        members["forthcoming"] = True
    return instance(*nodes, memory=size, disk_template=template, **members)


def _trouble(rng: Random, node: Json) -> None:
    """Change a node at random: free amounts, state, migration tag, or exclusive storage."""
    for key in ("memory", "disk"):
        drift = rng.choice((0, 0, 0, 1, -1, -5))
        node[f"free_{key}"] = max(0, node[f"free_{key}"] + drift)
    if rng.random() < 0.08:
        node[rng.choice(("offline", "drained"))] = True
    if rng.random() < 0.5:
        node["tags"] = [rng.choice(("cpu:old", "cpu:old", "cpu:new"))]
    if rng.random() < 0.01:
        node["ndparams"] = {"exclusive_storage": True, "spindle_count": 1}


def alone(nodes: Iterable[int]) -> list[Failure]:
    """Return the failures of single `nodes`."""
    return [(node,) for node in nodes]


def tolerates(case: Case, node: int) -> bool:
    """Return whether the failure of `node` is tolerated in the present state, by simulation.

    Each failover is checked by itself. Nothing is kept from earlier ones: tests change amounts
    without the counters of changes.
    """
    nodes = case.context.all_nodes()
    kernels = Kernels(case.state, [(len(nodes), 0)])
    with (
        patch("iallocator.n1.simulation.failovers_succeed", return_value=False),
        patch("iallocator.n1.simulation.RestartOrder.proves", return_value=False),
    ):
        return Simulation(case.state, kernels, case.rules, nodes).fail((node,)) is None


def newcomer(chance: Random, number: int) -> Instance:
    """Return an instance of random size, template and order of restarts."""
    memory, disk = chance.choice(SIZES)
    template = "plain" if disk else "rbd"
    one = Instance(f"i{number}", Backend(memory), Disks(template, disk or 1, [disk or 1]))
    one.order = chance.choice((number, -number, chance.randrange(100)))
    return one
