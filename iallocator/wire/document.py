"""Raw documents to clusters: groups, policies, nodes and instances.

Defaults stand where older documents lack a field:

=====================  =========================================================
no ``nodegroups``      one group ``default``, preferred, that holds every node
no ``ipolicy``         the policy of `iallocator.model.policy.Policy`
``min``/``max``        directly in the policy: one interval
no ``admin_state``     from ``should_run``: up or down; neither: up
no ``spindle_use``     1
a policy of the whole  what its sizes leave out is that of the default policy; groups
cluster                have whole ones
no capacities          0, for nodes that could not be asked
=====================  =========================================================
"""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.model.cluster import Cluster, Group, Node
from iallocator.model.instance import Instance
from iallocator.model.tags import interpret_tags
from iallocator.wire.fields import (
    absent,
    boolean,
    child,
    describe,
    factor,
    integer,
    members,
    names,
    number,
    one_of,
    strings,
    text,
)
from iallocator.wire.instance import keys_of, read_instance
from iallocator.wire.policy import cluster_policy, read_policy
from iallocator.wire.pools_present import speaks_of_pools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.model.policy import Policy
    from iallocator.wire.fields import Raw
    from iallocator.wire.reading import Reading

__all__ = ["DEFAULT_GROUP", "doubts", "read_cluster"]

DEFAULT_GROUP = "00000000-0000-0000-0000-000000000000"
"""UUID of the group that documents without groups are given."""

VERSION = 2
"""Of the protocol."""

ALLOC_POLICIES = ("preferred", "last_resort", "unallocable")


def read_cluster(document: Raw, reading: Reading) -> Cluster:
    """The cluster in `document`.

    Raises
    ------
    RequestError
        At the first field that is missing, mistyped, out of range, or that names
        something the document does not have.
    """
    if reading.behaviour.doubts_documents:
        for error in doubts(document):
            raise error
    tags = strings(document, "cluster_tags", [])
    policy = cluster_policy(document)
    groups = _groups(document, policy, reading)
    hypervisors = strings(document, "enabled_hypervisors", [])
    node_memory = reading.static_kvm_memory if hypervisors and hypervisors[0] == "kvm" else 0
    nodes: list[Node] = []
    for name, raw in reading.ordered(members(document, "nodes")):
        try:
            nodes.append(_node(name, raw, groups, node_memory, reading))
        except RequestError as error:
            raise error.below(f"nodes/{name}") from None
    index = {node.name: position for position, node in enumerate(nodes)}
    instances: list[Instance] = []
    for name, raw in reading.ordered(members(document, "instances")):
        try:
            instance = read_instance(name, raw, reading)
            instance.nodes = _places(raw, index, instance)
        except RequestError as error:
            raise error.below(f"instances/{name}") from None
        instance.order = len(instances)
        instances.append(instance)
    cluster = Cluster(
        text(document, "cluster_name", ""), tags, list(groups.values()), nodes, instances
    )
    if "placement_keys" in document:
        cluster.placement_keys = keys_of(document, "cluster")
    interpret_tags(cluster, reading.exclusion)
    if reading.behaviour.reads_pools:
        _read_pools(document, cluster)
    return cluster


def doubts(document: Raw) -> Iterator[RequestError]:
    """An unknown version, names that two groups have; `document` may be damaged otherwise."""
    version = document.get("version")
    if version is not None and version != VERSION:
        yield RequestError("version", f"expected {VERSION}, got {describe(version)}")
    groups = document.get("nodegroups")
    seen: dict[str, str] = {}
    for uuid, raw in groups.items() if type(groups) is dict and len(groups) > 1 else ():
        name = raw.get("name") if type(raw) is dict else None
        if type(name) is str and seen.setdefault(name, uuid) != uuid:
            other = describe(seen[name])
            yield RequestError(
                f"nodegroups/{uuid}/name",
                f"expected different names, got {describe(name)} again, as of group {other}",
            )


def _read_pools(document: Raw, cluster: Cluster) -> None:
    """Read about storage pools, if there is anything; what does it loads late."""
    if speaks_of_pools(document):
        from iallocator.wire.pools import read_pools

        read_pools(document, cluster)


def _groups(document: Raw, policy: Policy, reading: Reading) -> dict[str, Group]:
    raw_groups = members(document, "nodegroups", {})
    if not raw_groups:
        return {DEFAULT_GROUP: Group(0, DEFAULT_GROUP, "default", policy)}
    groups: dict[str, Group] = {}
    for uuid, raw in reading.groups(raw_groups):
        try:
            groups[uuid] = Group(
                len(groups),
                uuid,
                text(raw, "name"),
                read_policy(raw, "ipolicy", policy),
                one_of(raw, "alloc_policy", ALLOC_POLICIES, "preferred"),
                strings(raw, "networks", []),
                strings(raw, "tags", []),
            )
        except RequestError as error:
            raise error.below(f"nodegroups/{uuid}") from None
    return groups


def _node(
    name: str, raw: Raw, groups: dict[str, Group], node_memory: int, reading: Reading
) -> Node:
    uuid = text(raw, "group", DEFAULT_GROUP if DEFAULT_GROUP in groups else absent)
    if uuid not in groups:
        raise RequestError(
            "group", f"expected the uuid of a group in nodegroups, got {describe(uuid)}"
        )
    parameters = child(raw, "ndparams", {})
    offline = boolean(raw, "offline", False)
    vm_capable = boolean(raw, "vm_capable", True)
    # who cannot be asked reports nothing
    dark = 0 if offline or not vm_capable else absent
    if dark == 0 and not reading.behaviour.reads_dead_nodes:
        raw = {key: value for key, value in raw.items() if key not in REPORTED}
    reserved_memory = integer(raw, "reserved_memory", dark)
    exclusive, spindle_count, speed, oob_program = _known(parameters)
    return Node(
        name,
        groups[uuid],
        offline=offline,
        drained=boolean(raw, "drained", False),
        vm_capable=vm_capable,
        total_memory=integer(raw, "total_memory", dark),
        reserved_memory=node_memory or reserved_memory,
        reported_memory=integer(raw, "free_memory", dark),
        total_disk=integer(raw, "total_disk", dark),
        reported_disk=integer(raw, "free_disk", dark),
        total_cpus=integer(raw, "total_cpus", dark),
        reserved_cpus=integer(raw, "reserved_cpus", 0),
        total_spindles=integer(raw, "total_spindles", 0),
        free_spindles=integer(raw, "free_spindles", 0),
        spindle_count=spindle_count,
        exclusive_storage=exclusive,
        cpu_speed=speed if reading.reads_cpu_speed else 1.0,
        tags=strings(raw, "tags", []),
        oob_program=oob_program,
        load=number(raw, "load", 0),
    )


REPORTED = frozenset({
    "total_memory", "reserved_memory", "free_memory", "total_disk", "free_disk",
    "total_cpus", "reserved_cpus", "total_spindles", "free_spindles",
})  # fmt: skip
"""What only a node that can be asked tells."""


def _known(parameters: Raw) -> tuple[bool, int, float, str | None]:
    """Exclusive storage, spindles, speed of cpus and the program that switches a node's power."""
    try:
        return (
            boolean(parameters, "exclusive_storage", False),
            integer(parameters, "spindle_count", 1),
            factor(parameters, "cpu_speed", 1.0),
            text(parameters, "oob_program", None),
        )
    except RequestError as error:
        raise error.below("ndparams") from None


def _places(raw: Raw, index: dict[str, int], instance: Instance) -> tuple[int, ...]:
    """Indices of the nodes an instance lives on."""
    places = names(raw, "nodes")
    for position, name in enumerate(places):
        if name not in index:
            raise RequestError(
                f"nodes/{position}", f"expected a node of the document, got {describe(name)}"
            )
    if len(set(places)) != len(places):
        position = next(p for p, name in enumerate(places) if name in places[:p])
        raise RequestError(
            f"nodes/{position}",
            f"expected different nodes, got {describe(places[position])} again",
        )
    if len(places) not in (1, 2) or len(places) > instance.required_nodes:
        expected = "one or two nodes" if instance.required_nodes == 2 else "one node"
        raise RequestError("nodes", f"expected {expected}, got {len(places) or 'none'}")
    return tuple([index[name] for name in places])
