"""Add the hypothetical nodes of a purchase to a cluster.

A purchase is ``COUNT:DISK,MEMORY,CPUS`` and further members, such as ``group=west`` and
``cost=5000``. Several kinds of nodes are joined by ``+``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median_low

from iallocator.errors import MOST_NAMES, UsageError, cut
from iallocator.light import copy
from iallocator.model.cluster import (
    Cluster,
    Node,
    NodeCpus,
    NodeDisk,
    NodeMemory,
    NodeSpindles,
)
from iallocator.sources.lines import whole
from iallocator.sources.simulate import parse_size
from iallocator.tolerances import LARGEST_NUMBER
from iallocator.wire.facts import read_facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Group
    from iallocator.wire.fields import Raw
    from iallocator.wire.reading import Reading

__all__ = ["NodeKind", "Purchase", "placed_in", "purchase", "with_nodes"]

FORM = "COUNT:DISK,MEMORY,CPUS[,group=GROUP,cost=COST,...] like 2:800g,64g,32,cost=5000"

PURCHASE_MEMBERS = ("group", "cost", "spindles", "node-memory", "tag")
"""The names that may follow the cpus, as NAME=VALUE; only ``tag`` may be repeated."""

MOST_PURCHASED_NODES = 1000
"""Most nodes of one kind."""


@dataclass(slots=True)
class NodeKind:
    """Equal nodes of a purchase.

    Attributes
    ----------
    count:
        The number of nodes.
    disk, memory:
        MiB of each node.
    cpus:
        Cpus of each node.
    group:
        Name or uuid of the group that the nodes join; "" until `placed_in` has found it.
    cost:
        The cost of one node, in any unit; None: not given.
    spindles, node_memory:
        Spindles of each node, and MiB that the node itself uses. None: the value of the nodes of
        its group.
    tags:
        The tags of each node.
    """

    count: int
    disk: int
    memory: int
    cpus: int
    group: str = ""
    cost: float | None = None
    spindles: int | None = None
    node_memory: int | None = None
    tags: Sequence[str] = ()


@dataclass(slots=True)
class Purchase:
    """Nodes that are bought together; `text` is the purchase as the user wrote it."""

    text: str
    kinds: Sequence[NodeKind]

    @property
    def cost(self) -> float:
        """Return the cost of all nodes; a node without a cost counts 1."""
        return sum(kind.count * (1.0 if kind.cost is None else kind.cost) for kind in self.kinds)


def purchase(text: str) -> Purchase:
    """Parse nodes to buy, like ``2:800g,64g,32,group=west,cost=5000``; ``+`` joins several kinds.

    Raises
    ------
    ValueError
        If `text` is invalid; the message has the expected form.
    """
    return Purchase(text, [_kind(part) for part in re.split(r"\+(?=[0-9]+:)", text)])


def _kind(text: str) -> NodeKind:
    number, colon, spec = text.partition(":")
    fields = spec.split(",")
    count = whole(number)
    if not colon or len(fields) < 3 or not count:
        raise ValueError(FORM)
    if count > MOST_PURCHASED_NODES:
        raise ValueError(f"at most {MOST_PURCHASED_NODES} nodes of one kind")
    disk, memory, cpus = parse_size(fields[0]), parse_size(fields[1]), whole(fields[2])
    if disk is None or not memory or not cpus or max(disk, memory, cpus) > LARGEST_NUMBER:
        raise ValueError(FORM)
    kind = NodeKind(count, disk, memory, cpus)
    tags: list[str] = []
    seen: set[str] = set()
    for field in fields[3:]:
        name, _, value = field.partition("=")
        if name not in PURCHASE_MEMBERS or not value or (name in seen and name != "tag"):
            raise ValueError(f"{FORM}; each of {', '.join(PURCHASE_MEMBERS)} as NAME=VALUE")
        seen.add(name)
        if name == "group":
            kind.group = value
        elif name == "tag":
            tags.append(value)
        elif name == "cost":
            try:
                kind.cost = float(value) if set(value) <= set("0123456789.") else 0.0
            except ValueError:
                kind.cost = 0.0
            if not 0 < kind.cost <= LARGEST_NUMBER:
                raise ValueError(f"a cost above 0, up to {LARGEST_NUMBER}")
        elif name == "spindles":
            kind.spindles = _bounded(name, whole(value))
        else:
            kind.node_memory = _bounded(name, parse_size(value))
            if kind.node_memory > memory:
                raise ValueError("node-memory up to the memory of the node")
    kind.tags = tags
    return kind


def _bounded(name: str, value: int | None) -> int:
    if value is None or value > LARGEST_NUMBER:
        raise ValueError(f"{name} as a number or a size")
    return value


def placed_in(cluster: Cluster, purchases: Sequence[Purchase], only: str) -> None:
    """Set the name of the group that the nodes of each purchase join.

    `only`: the only permitted group, by name or uuid; "": all. A purchase that names no group
    joins the group `only`, or the single group of the cluster.

    Raises
    ------
    UsageError
        If the group is unknown or missing, accepts no instances, or is not `only`.
    """
    names = [group.name for group in cluster.groups]
    for one in purchases:
        for kind in one.kinds:
            wanted = kind.group or only or (names[0] if len(names) == 1 else "")
            group = next((g for g in cluster.groups if wanted in (g.name, g.uuid)), None)
            if group is None:
                known = ", ".join(cut(name) for name in names[:MOST_NAMES])
                got = f"got {cut(wanted)}" if wanted else "but none is given"
                raise _error(one, f"group=GROUP with a group of the cluster ({known}), {got}")
            if only and only not in (group.name, group.uuid):
                raise _error(one, f"the group of --group, got {cut(group.name)}")
            if group.alloc_policy == "unallocable":
                raise _error(one, f"a group that accepts instances: {group.name} is unallocable")
            kind.group = group.name


def _error(one: Purchase, expected: str) -> UsageError:
    return UsageError(f"--add-nodes {cut(one.text)}: expected {expected}")


def with_nodes(
    cluster: Cluster, bought: Purchase, document: Raw | None, reading: Reading
) -> Cluster:
    """Return a copy of `cluster` with the nodes of a purchase; the new nodes are empty and online.

    The memory and cpus that a new node itself uses are the lower median of the online nodes of the
    group, unless the purchase has other values. The new nodes follow those of the cluster.

    Parameters
    ----------
    cluster:
        The present cluster. Its nodes must not change after the call, because facts of them are
        copied.
    bought:
        The purchase; `placed_in` has set its groups.
    document:
        The document that the cluster was read from; None: another source, without storage pools.
    reading:
        The options with which the cluster was read.
    """
    groups = [copy(group) for group in cluster.groups]
    for group in groups:
        group.nodes = []
    nodes = [copy(node) for node in cluster.nodes]
    for node in nodes:
        node.group = groups[node.group.index]
    used_names = {node.name for node in nodes}
    number = 0
    for kind in bought.kinds:
        old = next(group for group in cluster.groups if group.name == kind.group)
        for _ in range(kind.count):
            number += 1
            name = f"new-node-{number}"
            while name in used_names:
                name += "-"
            present = [cluster.nodes[index] for index in old.nodes]
            peers = [node for node in present if node.online] or present
            nodes.append(_node(name, kind, groups[old.index], peers))
    instances = [copy(instance) for instance in cluster.instances]
    for instance in instances:
        instance.requires = ()
        instance.restricted = False
    grown = Cluster(cluster.name, cluster.tags, groups, nodes, instances)
    grown.placement_keys = cluster.placement_keys
    grown.assumed_offline = cluster.assumed_offline
    new = {node.name: {"tags": node.tags} for node in nodes[len(cluster.nodes) :]}
    if document is None:
        document = {
            "nodegroups": {group.uuid: {"tags": group.tags} for group in groups},
            "nodes": {node.name: {"tags": node.tags} for node in nodes},
            "instances": {
                one.name: {"disk_template": one.template, "tags": one.tags} for one in instances
            },
        }
    read_facts({**document, "nodes": {**document["nodes"], **new}}, grown, reading)
    return grown


def _node(name: str, kind: NodeKind, group: Group, peers: Sequence[Node]) -> Node:
    """Return a new node of `group`; facts that `kind` leaves out are those of its `peers`."""
    own_memory, own_cpus, spindles = 0, 1, 1
    exclusive = bool(peers) and all(node.exclusive_storage for node in peers)
    if peers:
        own_memory = median_low(node.reserved_memory for node in peers)
        own_cpus = median_low(node.reserved_cpus for node in peers)
        spindles = median_low(
            node.total_spindles if exclusive else node.spindle_count for node in peers
        )
    if kind.spindles is not None:
        spindles = kind.spindles
    if kind.node_memory is not None:
        own_memory = kind.node_memory
    own_memory = min(own_memory, kind.memory)
    held = NodeSpindles(1 if exclusive else spindles)
    if exclusive:
        held = NodeSpindles(1, total=spindles, free=spindles, exclusive=True)
    return Node(
        name,
        group,
        memory=NodeMemory(kind.memory, own_memory, kind.memory - own_memory),
        disk=NodeDisk(kind.disk, free=kind.disk),
        cpus=NodeCpus(kind.cpus, min(own_cpus, kind.cpus)),
        spindles=held,
        tags=kind.tags,
    )
