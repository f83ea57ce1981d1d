"""Report the first problem of a request of Ganeti in the words of hail.

`message_problem` reads the members of the request in hail's order, up to the first problem.
"""

from __future__ import annotations

from iallocator.compat.htools.members import (
    ALLOC_POLICY,
    HYPERVISOR,
    IPOLICY,
    TEMPLATE,
    Members,
    Problem,
    array,
    choice,
    flag,
    items,
    list_of,
    objects,
    parsed,
    real,
    string,
    whole,
)
from iallocator.names import meant

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

__all__ = ["message_problem"]

ONLINE_AMOUNTS = {
    "free_spindles": whole, "total_memory": real, "reserved_memory": whole, "free_memory": whole,
    "total_disk": real, "free_disk": whole, "total_cpus": real, "reserved_cpus": whole,
}  # fmt: skip
"""Members that an online node must have -> their readers."""

STRINGS = list_of(string)
KNOWN_NIC_MODES = ("bridged", "routed", "openvswitch")
EVAC_MODE = choice("EvacMode", frozenset(("primary-only", "secondary-only", "all")))


def message_problem(raw: bytes) -> str:
    """Return the problem of the request `raw` in hail's words; "" if hail accepts it."""
    try:
        _read(parsed(raw.decode("utf-8", "replace"), "Parsing input IAllocator message"))
    except Problem as problem:
        return str(problem)
    return ""


def _read(message: Any) -> None:
    if not isinstance(message, dict):
        raise Problem("Parsing input IAllocator message: Unable to read JSObject")
    whole_message = Members(message, "invalid iallocator message")
    request = whole_message.need("request", items)
    groups = whole_message.need("nodegroups", items)
    for uuid, raw in zip(groups, objects(groups)):
        group = Members(raw, f"invalid data for group '{uuid}'")
        group.need("name", string)
        group.need("alloc_policy", ALLOC_POLICY)
        group.need("networks", STRINGS)
        group.need("ipolicy", IPOLICY)
        group.need("tags", STRINGS)
    nodes = whole_message.need("nodes", items)
    for name, raw in zip(nodes, objects(nodes)):
        _node(name, raw, groups)
    instances = whole_message.need("instances", items)
    for name, raw in zip(instances, objects(instances)):
        _instance(name, raw)
        held = Members(raw, "").need("nodes", list_of(lambda value: value), named=False)
        if not held:
            raise Problem(f"empty node list for instance {name}")
        for node in held[:2]:
            if not isinstance(node, str):
                raise Problem("Wrong JSON type")
            if node not in nodes:
                raise Problem(f"Unknown node '{node}' for instance {name}")
    whole_message.need("cluster_tags", STRINGS)
    whole_message.need("enabled_hypervisors", list_of(HYPERVISOR))
    _request(request, groups, nodes, instances)


def _node(name: str, raw: dict[str, Any], groups: Collection[str]) -> None:
    node = Members(raw, f"invalid data for node '{name}'")
    offline = node.need("offline", flag)
    node.need("drained", flag)
    capable = None if raw.get("vm_capable") is None else node.may("vm_capable", flag)
    uuid = node.need("group", string)
    if uuid not in groups:
        raise Problem(f"Unknown group '{uuid}' for node {name}")
    parameters = node.need("ndparams", lambda value: value)
    own = Members(objects([parameters])[0], f"invalid data for node '{name}'")
    live = not offline and capable is not False
    if own.need("exclusive_storage", flag):
        if live:
            node.need("total_spindles", whole)
    else:
        own.need("spindle_count", whole)
    if live:
        for key, read in ONLINE_AMOUNTS.items():
            node.need(key, read)
    if raw.get("tags") is not None:
        node.may("tags", STRINGS, named=False)


def _instance(name: str, raw: dict[str, Any]) -> None:
    """Read the members that new and existing instances share; raise `Problem` if one is invalid."""
    owner = f"invalid data for instance '{name}'"
    one = Members(raw, owner)
    one.need("disk_space_total", whole)
    for disk in objects(array(one.need("disks", lambda value: value))):
        own = Members(disk, owner)
        own.need("size", whole)
        if disk.get("spindles") is not None:
            own.may("spindles", whole)
    for key in ("memory", "vcpus"):
        one.need(key, whole)
    one.need("tags", STRINGS)
    one.need("disk_template", TEMPLATE)
    one.need("spindle_use", whole)
    for nic in objects(array(one.need("nics", lambda value: value))):
        own = Members({key: value for key, value in nic.items() if value is not None}, "")
        for key in ("mac", "ip", "mode", "link", "bridge", "network"):
            own.may(key, string, named=False)
        if own.raw.get("mode", KNOWN_NIC_MODES[0]) not in KNOWN_NIC_MODES:
            raise Problem(f"invalid NIC mode in instance {name}")


def _request(
    raw: dict[str, Any],
    groups: dict[str, Any],
    nodes: Collection[str],
    instances: Collection[str],
) -> None:
    request = Members(raw, "invalid request dict")
    kind = request.need("type", string)
    if kind == "allocate":
        _new(raw, raw)
        if raw.get("restrict-to-nodes") is not None:
            request.may("restrict-to-nodes", STRINGS, named=False)
    elif kind == "multi-allocate":
        for one in request.need("instances", list_of(items)):
            _new(one, raw)
    elif kind in ("relocate", "allocate-secondary"):
        name = request.need("name", string)
        if len(meant(name, instances)) != 1:
            raise Problem(f"Unknown instance '{name}'")
        if kind == "relocate":
            request.need("required_nodes", whole)
            _look_up(request.need("relocate_from", STRINGS), nodes)
    elif kind == "node-evacuate":
        _look_up(request.need("instances", STRINGS), instances)
        request.need("evac_mode", EVAC_MODE)
    elif kind == "change-group":
        _look_up(request.need("instances", STRINGS), instances)
        _look_up(request.need("target_groups", STRINGS), groups)
    else:
        raise Problem(f"Invalid request type '{kind}'")


def _new(raw: dict[str, Any], request: dict[str, Any]) -> None:
    """Read the new instance `raw` of `request`; raise `Problem` if it is invalid."""
    one = Members(raw, "invalid request dict")
    name = one.need("name", string)
    one.need("required_nodes", whole)
    _instance(name, raw)
    if request.get("group_name") is not None:
        Members(request, "").may("group_name", string, named=False)


def _look_up(words: list[str], names: Collection[str]) -> None:
    for word in words:
        if word not in names and len(meant(word, names)) != 1:
            raise Problem(f"Wrong number of elems found with name {word}")
