"""Read htools' text format, which ``hscan`` and ``hbal -S`` write.

A file has five sections with a blank line between them. Older files lack the fields in brackets.
The default of such a field follows its colon:

=========  ==========================================================================
groups     name, uuid, alloc policy, tags, [networks]
nodes      name, memory: total, its own, free; disk: total, free; cpus, offline (Y, N,
           or M for the master), group's uuid, [spindles: 1, tags, exclusive storage: N,
           free spindles: 0, its own cpus: 1, cpu speed: 1]
instances  name, memory, disk, vcpus, status, auto-balanced, primary, secondary,
           template, tags, [spindle use: 1, spindles of its disks or ``-``: ``-``,
           forthcoming: N]
tags       the tags of the cluster, one per line
policies   policies, in the form of `iallocator.sources.lines`
=========  ==========================================================================

A node that has ``?`` instead of a number is offline. Unlike a document, the file has the memory
that a node itself uses, and whether an instance is auto-balanced.
"""

from __future__ import annotations

from iallocator.model.cluster import (
    Cluster,
    Group,
    Node,
    NodeCpus,
    NodeDisk,
    NodeMemory,
    NodeSpindles,
    NodeStatus,
)
from iallocator.model.instance import Backend, Disks, Instance, Status
from iallocator.model.templates import TEMPLATES
from iallocator.sources.lines import default_policy, read_policies, sections
from iallocator.wire.facts import read_facts
from iallocator.wire.fields import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.policy import Policy
    from iallocator.sources.lines import Line
    from iallocator.wire.fields import Raw
    from iallocator.wire.reading import Reading

__all__ = ["POLICY_OF_WORD", "SECTIONS", "STATE_OF_STATUS", "TextCluster", "read_text"]

SECTIONS = (("group", 4), ("node", 9), ("instance", 10), ("tag", 1), ("policy", 6))
"""Section, in order -> the object that each line describes, and the minimum of its fields."""

POLICY_OF_WORD = {
    "preferred": "preferred", "last_resort": "last_resort", "unallocable": "unallocable",
    "p": "preferred", "a": "last_resort", "u": "unallocable",
}  # fmt: skip
"""Alloc policy in the file, in full or as one letter -> alloc policy of Ganeti."""

STATE_OF_STATUS = {
    "running": "up",
    "ADMIN_down": "down",
    "ADMIN_offline": "offline",
    "USER_down": "down",
    "ERROR_up": "up",
    "ERROR_down": "down",
    "ERROR_wrongnode": "up",
    "ERROR_nodedown": "up",
    "ERROR_nodeoffline": "up",
}
"""Status of an instance in the file -> its administrative state, which decides its resource use."""


class TextCluster:
    """The cluster in a text file, with its policy and the names of its master nodes.

    A file that combines several clusters can have several master nodes.
    """

    __slots__ = ("cluster", "masters", "policy")

    def __init__(self, cluster: Cluster, policy: Policy, masters: tuple[str, ...] = ()) -> None:
        self.cluster = cluster
        self.policy = policy
        self.masters = masters


def read_text(raw: bytes, path: str, reading: Reading) -> TextCluster:
    """Return the cluster in the text `raw` of the file at `path`.

    Raises
    ------
    RequestError
        At the first invalid line; the error names the file and the line.
    """
    blank = reading.behaviour.accepts_blank_text
    group_lines, node_lines, instance_lines, tag_lines, policy_lines = sections(
        path, raw, SECTIONS, blank
    )
    policies = read_policies(policy_lines)
    groups = _groups(group_lines, {name: policy for name, (policy, _) in policies.items()}, reading)
    names = {group.name for group in groups.values()}
    for name, (_, line) in policies.items():
        if name and name not in names:
            line.fail("policy", f"expected a group of the file, got {describe(name)}")
    nodes = [_node(line, groups, reading) for line in _ordered(node_lines, "node", reading)]
    index = {node.name: position for position, node in enumerate(nodes)}
    instances: list[Instance] = []
    alike: dict[Sequence[str], Instance] = {}
    for line in _ordered(instance_lines, "instance", reading):
        instance = _instance(line, index, reading, alike)
        instance.order = len(instances)
        instances.append(instance)
    tags = ["|".join(line.fields) for line in tag_lines]
    cluster = Cluster("", tags, list(groups.values()), nodes, instances)
    document: Raw = {  # the tags and disk templates, as a document has them
        "nodegroups": {group.uuid: {"tags": group.tags} for group in cluster.groups},
        "nodes": {node.name: {"tags": node.tags} for node in nodes},
        "instances": {
            one.name: {"disk_template": one.template, "tags": one.tags} for one in instances
        },
    }
    read_facts(document, cluster, reading)
    policy = policies[""][0] if "" in policies else default_policy()
    # A node with unknown amounts is offline
    masters = (
        line.text(0) for line in node_lines if line.text(7) == "M" and "?" not in line.fields[1:7]
    )
    return TextCluster(cluster, policy, tuple(masters))


def _ordered(lines: Sequence[Line], what: str, reading: Reading) -> list[Line]:
    """Return the lines in the order in which ties are broken: by name, or as hail reads them."""
    seen: set[str] = set()
    for line in lines:
        name = line.name(0, what)
        if name in seen:
            line.fail(what, f"expected each name once, got {describe(name)} again")
        seen.add(name)
    if not reading.behaviour.orders_by_name:
        return list(lines)[:: -1 if reading.behaviour.reverses_order else 1]
    return sorted(lines, key=lambda line: line.text(0))


def _groups(
    lines: Sequence[Line], policies: dict[str, Policy], reading: Reading
) -> dict[str, Group]:
    by_uuid: dict[str, Line] = {}
    names: set[str] = set()
    for line in lines:
        name, uuid = line.name(0, "group"), line.name(1, "uuid")
        if name in names or uuid in by_uuid:
            line.fail("group", f"expected each group once, got {describe(name)} again")
        names.add(name)
        by_uuid[uuid] = line
    order = list(by_uuid)
    if reading.behaviour.orders_by_name:
        order.sort(key=lambda uuid: (by_uuid[uuid].text(0), uuid))
    groups: dict[str, Group] = {}
    for index, uuid in enumerate(order):
        line = by_uuid[uuid]
        name = line.text(0)
        policy = policies.get(name) or default_policy()
        alloc = POLICY_OF_WORD[line.one_of(2, "alloc policy", POLICY_OF_WORD, "preferred")]
        groups[uuid] = Group(index, uuid, name, policy, alloc, line.names(4), line.names(3))
    return groups


def _node(line: Line, groups: dict[str, Group], reading: Reading) -> Node:
    uuid = line.text(8)
    if uuid not in groups:
        line.fail("group", f"expected the uuid of a group of the file, got {describe(uuid)}")
    name, group, tags = line.text(0), groups[uuid], line.names(10)
    if "?" in line.fields[1:7]:
        off, none = NodeStatus(offline=True), NodeSpindles(0)
        kept = tags if reading.behaviour.reads_dead_nodes else ()
        return Node(name, group, spindles=none, status=off, tags=kept)
    exclusive = line.flag(11, "exclusive storage", False)
    spindles = line.integer(9, "spindles", 1)
    return Node(
        name,
        group,
        status=NodeStatus(offline=line.text(7) == "Y"),
        memory=NodeMemory(
            line.integer(1, "total memory"),
            line.integer(2, "memory of the node itself"),
            line.integer(3, "free memory", negative=True),
        ),
        disk=NodeDisk(line.integer(4, "total disk"), line.integer(5, "free disk", negative=True)),
        cpus=NodeCpus(
            line.integer(6, "cpus"),
            line.integer(13, "cpus of the node itself", 1),
            line.factor_of(14, "cpu speed", 1.0),
        ),
        spindles=NodeSpindles(
            spindles,
            spindles if exclusive else 0,
            line.integer(12, "free spindles", 0, negative=True),
            exclusive,
        ),
        tags=tags,
    )


def _instance(
    line: Line, index: dict[str, int], reading: Reading, alike: dict[Sequence[str], Instance]
) -> Instance:
    """Return the instance in `line`.

    `index`: name of a node -> its index. `alike`: fields other than the names -> an instance with
    these fields; a copy of it takes a fraction of the time.
    """
    name, primary, secondary = line.text(0), line.text(6), line.text(7)
    key = (*line.fields[1:6], *line.fields[8:])
    known = alike.get(key)
    if known is None:
        instance = alike[key] = _new_instance(line, reading)
    else:
        instance = known.twin(name, 0)
    names = [primary, secondary] if secondary else [primary]
    for node, what in zip(names, ("primary", "secondary")):
        if node not in index:
            line.fail(what, f"expected a node of the file, got {describe(node)}")
    if len(names) > instance.required_nodes:
        line.fail("secondary", f"expected none for {instance.template}, got {describe(secondary)}")
    if primary == secondary:
        line.fail("secondary", f"expected different nodes, got {describe(secondary)} again")
    instance.nodes = tuple([index[node] for node in names])
    return instance


def _new_instance(line: Line, reading: Reading) -> Instance:
    """Return the instance in `line`, without nodes."""
    template = line.one_of(8, "disk template", TEMPLATES, "")
    disk = line.integer(2, "disk")
    diskless = not TEMPLATES[template].has_disks
    return Instance(
        line.text(0),
        Backend(
            line.integer(1, "memory"),
            line.integer(3, "vcpus"),
            line.flag(5, "auto-balanced", True),
            line.integer(10, "spindle use", 1),
        ),
        Disks(
            template,
            disk,
            [] if diskless else [disk],
            None if line.text(11, "-") == "-" else line.integer(11, "spindles"),
            reading.behaviour.counts_spindles_anywhere,
        ),
        status=Status(
            STATE_OF_STATUS[word := line.one_of(4, "status", STATE_OF_STATUS, "")],
            line.flag(12, "forthcoming", False),
            word,
        ),
        tags=line.names(9),
        load=reading.load,
    )
