"""Build objects of the model directly, with defaults for all that a test does not need."""

from __future__ import annotations

from typing import Any

from iallocator.model.cluster import Cluster, Group, Node, NodeMemory
from iallocator.model.instance import Backend, Disks, Instance, Status
from iallocator.model.policy import Interval, Policy, Spec
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from tests.builders import Json

__all__ = ["cluster", "instance", "model_of", "policy", "spec"]


def model_of(document: Json) -> Cluster:
    """Return the cluster in `document`, read without options."""
    return read_cluster(document, Reading())


def instance(template: str = "drbd", sizes: tuple[int, ...] = (1024,), **members: Any) -> Instance:
    """Return an instance of 1000 MiB, 2 cpus and one disk; drbd adds 128 MiB for each disk."""
    own = 128 if template == "drbd" else 0
    asked = {"disk": sum(sizes) + own * len(sizes), "spindles": 3, **members}
    kinds: dict[str, Any] = {"memory": 1000, "vcpus": 2}
    status: dict[str, Any] = {}
    for name in ("memory", "vcpus", "auto_balance", "spindle_use"):
        if name in asked:
            kinds[name] = asked.pop(name)
    for name in ("admin_state", "forthcoming"):
        if name in asked:
            status[name] = asked.pop(name)
    disks = Disks(
        template,
        asked.pop("disk"),
        sizes,
        asked.pop("spindles"),
        asked.pop("spindles_anywhere", False),
    )
    return Instance(
        asked.pop("name", "web"), Backend(**kinds), disks, status=Status(**status), **asked
    )


def spec(**members: int) -> Spec:
    """Return a size for a policy."""
    usual = {"memory": 1, "cpus": 1, "disk": 1, "disks": 0, "nics": 0, "spindles": 1}
    return Spec(**{**usual, **members})


def policy(*intervals: tuple[Spec, Spec], templates: tuple[str, ...] | None = None) -> Policy:
    """Return a policy with `intervals` of sizes; without any, it accepts all usual sizes."""
    usual = (spec(), spec(memory=9999, cpus=99, disk=99999, disks=16, spindles=99))
    found = [Interval(low, high) for low, high in intervals or (usual,)]
    return Policy(found) if templates is None else Policy(found, templates=templates)


def cluster(
    nodes: int = 2, tags: tuple[str, ...] = (), node_tags: tuple[tuple[str, ...], ...] = (),
    instances: tuple[Instance, ...] = (),
) -> Cluster:  # fmt: skip
    """Return nodes of one group, called node1, node2, ...; `node_tags` has the tags of each."""
    group = Group(0, "uuid-default", "default", policy())
    made = [
        Node(f"node{k + 1}", group, memory=NodeMemory(8192, free=8192),
             tags=node_tags[k] if k < len(node_tags) else ())
        for k in range(nodes)
    ]  # fmt: skip
    return Cluster("cluster.example.com", tags, [group], made, list(instances))
