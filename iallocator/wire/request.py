"""Convert the ``request`` member of a document, with its options, to a request.

A key of the request with the name of an option sets this option.
"""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.options.settings import REQUEST_SETTINGS
from iallocator.requests import Allocate, MultiAllocate
from iallocator.wire.document import new_instance, read_keys
from iallocator.wire.fields import boolean, child, describe, integer, names, objects, one_of, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.requests.existing import (
        AllocateSecondary,
        ChangeGroup,
        MultiEvacuate,
        NodeEvacuate,
        Relocate,
        Request,
    )
    from iallocator.wire.fields import Raw
    from iallocator.wire.reading import Reading

__all__ = ["read_request", "read_settings"]


def read_request(document: Raw, cluster: Cluster, reading: Reading) -> Request:
    """Return the request in `document`, which concerns `cluster`.

    Raises
    ------
    RequestError
        If the request is invalid, or names an object that `cluster` does not have.
    """
    raw = child(document, "request")
    try:
        kind = one_of(raw, "type", tuple(READERS))
        request = READERS[kind](raw, cluster, reading)
        if reading.behaviour.reads_settings and any(key in raw for key in REQUEST_SETTINGS):
            request.asked = read_settings(raw)
        if "placement_keys" in raw and kind != "allocate":
            # Give the keys of a request to every instance that it is about
            keys = read_keys(raw)
            for instance in request.concerned(cluster):
                instance.asked_keys = keys
        return request
    except RequestError as error:
        raise error.below("request") from None


def _allocate(raw: Raw, cluster: Cluster, reading: Reading) -> Allocate:
    instance = new_instance(raw, reading, cluster)
    required = integer(raw, "required_nodes", instance.required_nodes)
    if required != instance.required_nodes:
        raise RequestError(
            "required_nodes",
            f"expected {instance.required_nodes} for {instance.template}, got {required}",
        )
    restrict_to = None
    if raw.get("restrict-to-nodes") is not None:
        restrict_to = names(raw, "restrict-to-nodes")
        _nodes(restrict_to, cluster, "restrict-to-nodes")
    return Allocate(
        instance,
        text(raw, "group_name", None),
        restrict_to,
        cluster.instance_named(instance.name),
    )


def _multi_allocate(raw: Raw, cluster: Cluster, reading: Reading) -> MultiAllocate:
    wanted: list[Allocate] = []
    seen: set[str] = set()
    for position, item in enumerate(objects(raw, "instances")):
        try:
            one = _allocate(item, cluster, reading)
            name = one.instance.name
            if name in seen or one.recreated is not None:
                raise RequestError("name", f"expected a new name, got {describe(name)}")
        except RequestError as error:
            raise error.below(f"instances/{position}") from None
        seen.add(name)
        if not reading.behaviour.orders_by_name:
            one.instance.order = -1 - position
        if not reading.behaviour.reads_groups_of_batch:
            one.group_name = one.restrict_to = None
        wanted.append(one)
    return MultiAllocate(wanted)


def _allocate_secondary(raw: Raw, cluster: Cluster, reading: Reading) -> AllocateSecondary:
    from iallocator.requests.existing import AllocateSecondary

    instance = _instance(raw, "name", cluster)
    if len(instance.nodes) != 1:
        raise RequestError(
            "name", f"expected an instance without a secondary, got {describe(instance.name)}"
        )
    return AllocateSecondary(instance)


def _relocate(raw: Raw, cluster: Cluster, reading: Reading) -> Relocate:
    from iallocator.requests.existing import Relocate

    instance = _instance(raw, "name", cluster)
    required = integer(raw, "required_nodes", 1)
    if required != 1:
        raise RequestError("required_nodes", f"expected 1, got {required}")
    sources = names(raw, "relocate_from")
    if len(sources) != 1:
        raise RequestError("relocate_from", f"expected one node, got {len(sources)}")
    source = _nodes(sources, cluster, "relocate_from")[0]
    if instance.kind.relocatable and source != instance.nodes[-1]:
        role = "secondary" if instance.needs_secondary else "primary"
        present = cluster.nodes[instance.nodes[-1]].name
        raise RequestError(
            "relocate_from/0",
            f"expected the instance's {role} {describe(present)}, got {describe(sources[0])}",
        )
    return Relocate(instance, source)


def _node_evacuate(raw: Raw, cluster: Cluster, reading: Reading) -> NodeEvacuate:
    from iallocator.requests.existing import EVAC_MODES, NodeEvacuate

    mode = one_of(raw, "evac_mode", EVAC_MODES)
    return NodeEvacuate(_instances(raw, cluster), mode)


def _change_group(raw: Raw, cluster: Cluster, reading: Reading) -> ChangeGroup:
    from iallocator.requests.existing import ChangeGroup

    instances = _instances(raw, cluster)
    by_uuid = {group.uuid: group for group in cluster.groups}
    targets = names(raw, "target_groups", [])
    for position, uuid in enumerate(targets):
        if uuid not in by_uuid:
            raise RequestError(
                f"target_groups/{position}",
                f"expected the uuid of a group in nodegroups, got {describe(uuid)}",
            )
    return ChangeGroup(instances, [by_uuid[uuid] for uuid in dict.fromkeys(targets)] or None)


def _multi_evacuate(raw: Raw, cluster: Cluster, reading: Reading) -> MultiEvacuate:
    from iallocator.requests.existing import MultiEvacuate

    return MultiEvacuate(_nodes(names(raw, "evac_nodes"), cluster, "evac_nodes"))


def _instance(raw: Raw, key: str, cluster: Cluster) -> Instance:
    name = text(raw, key)
    instance = cluster.instance_named(name)
    if instance is None:
        raise RequestError(key, f"expected an instance of the document, got {describe(name)}")
    return instance


def _instances(raw: Raw, cluster: Cluster) -> list[Instance]:
    by_name = {instance.name: instance for instance in cluster.instances}
    instances: list[Instance] = []
    for position, name in enumerate(names(raw, "instances")):
        where = f"instances/{position}"
        if name not in by_name:
            raise RequestError(where, f"expected an instance of the document, got {describe(name)}")
        if by_name[name] in instances:
            raise RequestError(where, f"expected each instance once, got {describe(name)} again")
        instances.append(by_name[name])
    return instances


def _nodes(names: list[str], cluster: Cluster, key: str) -> list[int]:
    index = {node.name: node.index for node in cluster.nodes}
    for position, name in enumerate(names):
        if name not in index:
            raise RequestError(
                f"{key}/{position}", f"expected a node of the document, got {describe(name)}"
            )
    return [index[name] for name in names]


READERS: dict[str, Callable[[Raw, Cluster, Reading], Request]] = {
    "allocate": _allocate,
    "multi-allocate": _multi_allocate,
    "allocate-secondary": _allocate_secondary,
    "relocate": _relocate,
    "node-evacuate": _node_evacuate,
    "change-group": _change_group,
    "multi-evacuate": _multi_evacuate,
}
"""Request type -> the function that reads such a request."""


def read_settings(raw: Raw) -> dict[str, Any]:
    """Return attribute of `Settings` -> value, for the keys of the request that set options.

    The table of options has the kind of value of each option. Numbers may have any size:
    `iallocator.settings` compares them with the bounds of their options.

    Raises
    ------
    RequestError
        If a value is not of the kind that its option requires.
    """
    from iallocator.options.table import request_options
    from iallocator.options.values import Choice, Numbers, score

    values: dict[str, Any] = {}
    for key, option in request_options().items():
        if key not in raw:
            continue
        value, read = raw[key], option.read
        if read is None:  # a flag
            value = boolean(raw, key)
        elif isinstance(read, Choice):
            value = read(one_of(raw, key, read.words))
        elif isinstance(read, Numbers) and not read.whole:
            if type(value) is not int and type(value) is not float:
                raise RequestError(key, f"expected a number, got {describe(value)}")
        elif isinstance(read, Numbers) or read is score:
            if type(value) is not int and not (type(value) is float and value.is_integer()):
                raise RequestError(key, f"expected an integer, got {describe(value)}")
            value = int(value)
        else:
            try:
                value = read(text(raw, key))
            except ValueError as error:
                raise RequestError(key, f"expected {error}, got {describe(value)}") from None
        values[option.target] = value
    return values
