"""Convert raw documents to clusters: groups, policies, nodes and instances.

Defaults for fields that older documents lack:

=====================  =========================================================
no ``nodegroups``      one group ``default``, preferred, that holds every node
no ``ipolicy``         the policy of `iallocator.model.policy.Policy`
``min``/``max``        directly in the policy: one interval
no ``admin_state``     from ``should_run``: up or down; neither: up
no ``spindle_use``     1
no size in the policy  that of the default policy; policies of groups must have all sizes
of the cluster
no capacities          0, for nodes that could not be asked
=====================  =========================================================
"""

from __future__ import annotations

from iallocator.constraints.table import read_access
from iallocator.errors import RequestError
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
from iallocator.model.instance import RUNNING_STATUS, Backend, Disks, Instance, Status
from iallocator.model.policy import (
    DEFAULT_MAX,
    DEFAULT_MIN,
    DEFAULT_SPINDLE_RATIO,
    DEFAULT_STD,
    DEFAULT_VCPU_RATIO,
    Interval,
    Policy,
    Spec,
)
from iallocator.model.templates import TEMPLATES
from iallocator.tolerances import LARGEST_NUMBER
from iallocator.wire.facts import mentions_pools, read_facts
from iallocator.wire.fields import (
    absent,
    boolean,
    child,
    describe,
    factor,
    integer,
    members,
    name_of,
    names,
    number,
    objects,
    one_of,
    strings,
    text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from iallocator.model.keys import PlacementKey
    from iallocator.wire.fields import Raw
    from iallocator.wire.reading import Reading

__all__ = [
    "DEFAULT_GROUP",
    "PROTOCOL_VERSION",
    "cluster_policy",
    "doubtful_facts",
    "new_instance",
    "read_cluster",
    "read_instance",
    "read_keys",
    "read_policy",
]

SOURCELESS = frozenset({"size", "mode", "spindles", "dev_type"})
"""Members of a disk that do not identify its storage."""

ADMIN_STATES = ("up", "down", "offline")


def new_instance(raw: Raw, reading: Reading, cluster: Cluster) -> Instance:
    """Return the new instance of a request, with its position in the order of `cluster`.

    It has no nodes yet. It counts as running, whatever state `raw` contains.
    """
    instance = read_instance(name_of(raw, "name"), raw, reading, new=True)
    reading.place(instance, cluster)
    instance.asked = raw
    if reading.behaviour.reads_pools and (cluster.storage or mentions_pools(raw)):
        from iallocator.wire.pools import resolve_pools

        resolve_pools(instance, raw, cluster)
    if reading.behaviour.knows_affinity:
        read_access(cluster, (instance,), reading.tag_prefix)
    return instance


def read_instance(name: str, raw: Raw, reading: Reading, new: bool = False) -> Instance:
    """Return the instance `name` in `raw`, without its nodes; `new`: whether a request adds it."""
    sizes: list[int] = []
    spindles: int | None = 0  # of all disks; None if a disk names none
    for position, disk in enumerate(objects(raw, "disks", [])):
        try:
            sizes.append(integer(disk, "size"))
            own = None if disk.get("spindles") is None else integer(disk, "spindles")
            if not disk.keys() <= SOURCELESS:
                for key in ("vg", "metavg", "provider", "pool"):
                    if key in disk:
                        text(disk, key, None)
        except RequestError as error:
            raise error.below(f"disks/{position}") from None
        spindles = None if spindles is None or own is None else spindles + own
    networks: list[str] = []
    if new:
        status = RUNNING_STATUS
    else:
        if "admin_state" in raw:
            state = one_of(raw, "admin_state", ADMIN_STATES)
        else:
            state = "up" if boolean(raw, "should_run", True) else "down"
        status = Status(state, boolean(raw, "forthcoming", False))
    instance = Instance(
        name,
        Backend(
            integer(raw, "memory"),
            integer(raw, "vcpus"),
            boolean(raw, "auto_balance", True) or not reading.reads_auto_balance,
            integer(raw, "spindle_use", 1),
        ),
        Disks(
            one_of(raw, "disk_template", TEMPLATES),
            integer(raw, "disk_space_total", sum(sizes)),
            sizes,
            spindles,
            reading.behaviour.counts_spindles_anywhere,
        ),
        status=status,
        tags=strings(raw, "tags", []),
        networks=networks,
        load=reading.load,
    )
    for position, nic in enumerate(objects(raw, "nics", [])):
        if nic.get("network") is not None:
            try:
                networks.append(text(nic, "network"))
            except RequestError as error:
                raise error.below(f"nics/{position}") from None
    if "placement_keys" in raw:
        instance.placement_keys = read_keys(raw)
    return instance


def read_keys(raw: Raw, level: str = "server") -> tuple[PlacementKey, ...]:
    """Return the ``placement_keys`` of a cluster, an instance or a request, in their order.

    `level`: the level of keys that have no member ``level``.

    Raises
    ------
    RequestError
        At an unknown level, class or special name, or a value or weight that is not a number.
    """
    from iallocator.model.keys import CLASSES, LEVELS, SPECIAL_NAMES, PlacementKey

    keys: list[PlacementKey] = []
    for position, item in enumerate(objects(raw, "placement_keys", [])):
        try:
            own_level = LEVELS.index(one_of(item, "level", LEVELS, level))
            kind = one_of(item, "class", CLASSES)
            if kind == "special":
                name = SPECIAL_NAMES[one_of(item, "name", tuple(SPECIAL_NAMES))]
            else:
                name = name_of(item, "name")
            value, weight = _signed(item, "value"), _signed(item, "weight")
        except RequestError as error:
            raise error.below(f"placement_keys/{position}") from None
        keys.append(PlacementKey(name, value, weight, kind != "customer", own_level))
    return tuple(keys)


def _signed(raw: Raw, key: str) -> float:
    """Return the number `raw[key]`, which may be negative."""
    value = raw.get(key, absent)
    if (type(value) is int or type(value) is float) and -LARGEST_NUMBER <= value <= LARGEST_NUMBER:
        return value
    got = "but it is missing" if value is absent else f"got {describe(value)}"
    raise RequestError(key, f"expected a number from {-LARGEST_NUMBER} to {LARGEST_NUMBER}, {got}")


def cluster_policy(document: Raw) -> Policy:
    """Return the instance policy of the whole cluster in `document`."""
    return read_policy(document, "ipolicy", Policy(), partial=True)


def read_policy(raw: Raw, key: str, default: Policy, partial: bool = False) -> Policy:
    """Return the policy in the member `key`; a `partial` policy is completed from `default`."""
    if raw.get(key) is None:
        return default
    policy = child(raw, key)
    try:
        if "minmax" in policy:
            intervals = []
            for position, pair in enumerate(objects(policy, "minmax")):
                try:
                    low, high = (DEFAULT_MIN, DEFAULT_MAX) if partial else (absent, absent)
                    low = _spec(pair, "min", low, partial)
                    intervals.append(Interval(low, _spec(pair, "max", high, partial)))
                except RequestError as error:
                    raise error.below(f"minmax/{position}") from None
            if not intervals:
                raise RequestError("minmax", "expected at least one interval, got none")
        else:
            low = _spec(policy, "min", DEFAULT_MIN, partial)
            intervals = [Interval(low, _spec(policy, "max", DEFAULT_MAX, partial))]
        return Policy(
            intervals,
            _spec(policy, "std", DEFAULT_STD, partial),
            strings(policy, "disk-templates", list(TEMPLATES)),
            factor(policy, "vcpu-ratio", DEFAULT_VCPU_RATIO),
            factor(policy, "spindle-ratio", DEFAULT_SPINDLE_RATIO),
        )
    except RequestError as error:
        raise error.below(key) from None


def _spec(raw: Raw, key: str, default: Any, partial: bool = False) -> Spec:
    if key not in raw and default is not absent:
        return default  # type: ignore[no-any-return]
    spec = child(raw, key)
    base = DEFAULT_STD if default is absent else default
    try:
        return Spec(
            integer(spec, "memory-size", base.memory if partial else absent),
            integer(spec, "cpu-count", base.cpus if partial else absent),
            integer(spec, "disk-size", base.disk if partial else absent),
            integer(spec, "disk-count", base.disks if partial else absent),
            integer(spec, "nic-count", base.nics),
            integer(spec, "spindle-use", base.spindles),
        )
    except RequestError as error:
        raise error.below(key) from None


DEFAULT_GROUP = "00000000-0000-0000-0000-000000000000"
"""UUID of the default group of documents without groups."""

PROTOCOL_VERSION = 2
"""Version of the protocol between Ganeti and its allocators."""

ALLOC_POLICIES = ("preferred", "last_resort", "unallocable")


def read_cluster(document: Raw, reading: Reading) -> Cluster:
    """Return the cluster in `document`.

    Raises
    ------
    RequestError
        At the first field that is missing, has a wrong type or range, or names an object that is
        not in the document.
    """
    if reading.behaviour.rejects_inconsistent_documents:
        for error in doubtful_facts(document):
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
            places = names(raw, "nodes")
            for position, node in enumerate(places):
                if node not in index:
                    raise RequestError(
                        f"nodes/{position}",
                        f"expected a node of the document, got {describe(node)}",
                    )
                if node in places[:position]:
                    raise RequestError(
                        f"nodes/{position}",
                        f"expected different nodes, got {describe(node)} again",
                    )
            if len(places) not in (1, 2) or len(places) > instance.required_nodes:
                expected = "one or two nodes" if instance.required_nodes == 2 else "one node"
                raise RequestError("nodes", f"expected {expected}, got {len(places) or 'none'}")
            instance.nodes = tuple([index[node] for node in places])
        except RequestError as error:
            raise error.below(f"instances/{name}") from None
        instance.order = len(instances)
        instances.append(instance)
    cluster = Cluster(
        text(document, "cluster_name", ""), tags, list(groups.values()), nodes, instances
    )
    if "placement_keys" in document:
        cluster.placement_keys = read_keys(document, "cluster")
    read_facts(document, cluster, reading)
    return cluster


def doubtful_facts(document: Raw) -> Iterator[RequestError]:
    """Yield doubtful facts in `document`: an unknown version, group names that occur twice.

    Other parts of `document` may be invalid.
    """
    version = document.get("version")
    if version is not None and version != PROTOCOL_VERSION:
        yield RequestError("version", f"expected {PROTOCOL_VERSION}, got {describe(version)}")
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
    # A node that cannot be asked reports no amounts
    dark = 0 if offline or not vm_capable else absent
    if dark == 0 and not reading.behaviour.reads_dead_nodes:
        raw = {key: value for key, value in raw.items() if key not in REPORTED}
    reserved_memory = integer(raw, "reserved_memory", dark)
    try:
        exclusive = boolean(parameters, "exclusive_storage", False)
        spindle_count = integer(parameters, "spindle_count", 1)
        speed = factor(parameters, "cpu_speed", 1.0)
        oob_program = text(parameters, "oob_program", None)
    except RequestError as error:
        raise error.below("ndparams") from None
    node = Node(
        name,
        groups[uuid],
        status=NodeStatus(offline, boolean(raw, "drained", False), vm_capable),
        memory=NodeMemory(
            integer(raw, "total_memory", dark),
            node_memory or reserved_memory,
            integer(raw, "free_memory", dark),
        ),
        disk=NodeDisk(integer(raw, "total_disk", dark), integer(raw, "free_disk", dark)),
        cpus=NodeCpus(
            integer(raw, "total_cpus", dark),
            integer(raw, "reserved_cpus", 0),
            speed if reading.reads_cpu_speed else 1.0,
        ),
        spindles=NodeSpindles(
            spindle_count,
            integer(raw, "total_spindles", 0),
            integer(raw, "free_spindles", 0),
            exclusive,
        ),
        tags=strings(raw, "tags", []),
    )
    node.oob_program = oob_program
    node.master_candidate = raw.get("master_candidate") is True  # hail ignores every value
    node.load = number(raw, "load", 0)
    return node


REPORTED = frozenset({
    "total_memory", "reserved_memory", "free_memory", "total_disk", "free_disk",
    "total_cpus", "reserved_cpus", "total_spindles", "free_spindles",
})  # fmt: skip
"""Fields of a node that are known only if the node answers Ganeti."""
