"""Build clusters of several groups, fixed or random, and run commands on them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster, instance
from tests.command import run
from tests.schemas import conforms

__all__ = [
    "Capture", "Json", "by_group", "drbd_super_cluster", "on_shared", "plan_of",
    "random_super_cluster",
]  # fmt: skip


def on_shared(node: str, pool: str = "", **members: Any) -> Json:
    """Return an instance on shared storage on `node`, in the named storage pool if there is one."""
    if pool:
        members |= {"storage_type": "external", "storage_pool": pool}
    return instance(node, disk_template="ext" if pool else "rbd", **members)


def plan_of(command: str, document: Json, *options: str, status: int = 0) -> Json:
    """Return the plan of a command.

    The plan is verified and fits the schema, and stderr is empty.
    """
    done = run(command, "--json", "--verify-plan", *options, stdin=as_bytes(document))
    assert (done.returncode, done.stderr) == (status, b"")
    plan: Json = json.loads(done.stdout)
    conforms(plan, "plan")
    assert plan["command"] == command
    return plan


def by_group(plan: Json) -> dict[str, Json]:
    """Return the entry of each group in a plan, by name."""
    return {one["group"]: one for one in plan["groups"]}


def drbd_super_cluster(seed: int) -> Json:
    """Return three groups of drbd instances with failures that are not tolerated.

    The first group is less full. In some clusters a node is offline, nodes have a migration tag, or
    instances are stopped.
    """
    rng = Random(seed)
    groups = {f"g{k}": rng.randint(3, 5) for k in range(3)}
    free: dict[str, int] = {}
    instances: dict[str, Json] = {}
    first = 1
    for number, count in enumerate(groups.values()):
        nodes = [f"node{first + k}" for k in range(count)]
        first += count
        free |= dict.fromkeys(nodes, 9000)
        for k in range(rng.randint(1, 3) if not number else count * rng.randint(1, 3)):
            primary, secondary = rng.sample(nodes, 2)
            memory = rng.choice([512, 1024, 2048, 3072])
            if free[primary] > memory:
                made = instance(primary, secondary, memory=memory, disk=1024)
                made["admin_state"] = rng.choice(["up", "up", "up", "down"])
                free[primary] -= memory * (made["admin_state"] == "up")
                instances[f"i{number}-{k}"] = made
    document = cluster(groups, memory=10000, disk=10**6, instances=instances)
    for name, left in free.items():
        tags = ["iallocator:hv:new"] * (rng.random() < 0.1)
        document["nodes"][name] |= {"free_memory": left, "tags": tags}
    document["cluster_tags"] = ["htools:migration:iallocator:hv"]
    if rng.random() < 0.3:
        document["nodes"][rng.choice(sorted(free))]["offline"] = True
    return document


def random_super_cluster(seed: int) -> Json:
    """Return a cluster of several groups in which each group has access to some of the storage
    pools.

    The pools are internal disks, and two or three NAS. Some nodes are offline, some have little
    memory, and groups differ in size.
    """
    rng = Random(seed)
    groups = {f"g{k}": rng.randint(2, 5) for k in range(rng.randint(2, 5))}
    pools = {name: rng.sample(["nas1", "nas2", "nas3"], rng.randint(0, 2)) for name in groups}
    internal = {name: rng.random() < 0.7 or not pools[name] for name in groups}
    homes: dict[str, list[str]] = {}
    for name, count in groups.items():
        taken = sum(map(len, homes.values()))
        homes[name] = [f"node{taken + k + 1}" for k in range(count)]
    instances: dict[str, Json] = {}
    free = {
        node: memory
        for nodes in homes.values()
        for memory in [rng.choice([5000, 8000, 16384])]
        for node in nodes
    }
    for number in range(rng.randint(3, 6 * sum(groups.values()))):
        name = rng.choice(sorted(groups))
        nodes = rng.sample(homes[name], min(2, len(homes[name])))
        memory = rng.choice([512, 1024, 2048, 3072])
        kinds = [*pools[name], *(["drbd"] if internal[name] else [])]
        kind = "plain" if internal[name] and rng.random() < 0.05 else rng.choice(kinds)
        if free[nodes[0]] <= memory or (kind == "drbd" and len(nodes) < 2):
            continue
        free[nodes[0]] -= memory
        sizes = {"memory": memory, "vcpus": rng.randint(1, 2), "disk": 1024 * rng.randint(1, 8)}
        if kind == "drbd":
            one = instance(*nodes, **sizes)
        elif kind == "plain":
            one = instance(nodes[0], **sizes)
        else:
            one = on_shared(nodes[0], kind, **sizes)
        instances[f"i{number}"] = one
    document = cluster(groups, memory=16384, instances=instances)
    for name, nodes in homes.items():
        reached = [{"type": "external", "name": pool} for pool in pools[name]]
        if internal[name]:
            reached.append({"type": "internal", "name": "lvm"})
        for node in nodes:
            document["nodes"][node]["storage_pools"] = reached
            if rng.random() < 0.08:
                document["nodes"][node]["offline"] = True
    return document
