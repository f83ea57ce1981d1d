"""Convert the answers of a running cluster into a document as Ganeti writes it for allocators.

Unknown amounts are 0: those of nodes that cannot be asked, and disk amounts of nodes without a
volume group. A node that does not answer counts as offline, even if it is not marked offline.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from iallocator.errors import RequestError
from iallocator.live.stream import LiveError
from iallocator.model.templates import TEMPLATES
from iallocator.sources.text import STATE_OF_STATUS
from iallocator.wire.document import PROTOCOL_VERSION
from iallocator.wire.fields import describe

__all__ = [
    "OWN_VOLUME_GROUP", "Answers", "Record", "VolumeGroups", "captured", "check_kinds", "master_of",
    "silent_nodes",
]  # fmt: skip

Record = dict[str, Any]
"""An object in an answer: field, named as in LUXI -> value; None if there is no value."""


OWN_VOLUME_GROUP = "lvm"
"""The name in documents of the cluster's own volume group, to which free disk refers."""


class VolumeGroups(NamedTuple):
    """The volume groups of nodes and disks; the cluster's own group is called `OWN_VOLUME_GROUP`.

    Attributes
    ----------
    of_nodes:
        Node -> its volume groups as in documents: name, total and free MiB. Nodes that do not
        answer are missing.
    of_disks:
        Instance -> for each disk, its members ``vg`` and ``metavg``. An instance may be missing if
        all of its disks are in `OWN_VOLUME_GROUP`.
    """

    of_nodes: dict[str, list[Record]]
    of_disks: dict[str, list[Record]]


class Answers(NamedTuple):
    """The answers of a running cluster to all queries, which were sent one after the other.

    Attributes
    ----------
    where:
        The socket, address or folder of the answers.
    info:
        The fields of the cluster.
    groups, nodes, instances, networks:
        The fields of each object, in the order of the answers.
    volume_groups:
        The volume groups of nodes and disks; None if they are not requested.
    """

    where: str
    info: Record
    groups: list[Record]
    nodes: list[Record]
    instances: list[Record]
    networks: list[Record]
    volume_groups: VolumeGroups | None = None


TEXT_FIELDS = {
    "info": ("master", "default_hypervisor"),
    "groups": ("uuid", "name"),
    "nodes": ("name", "group.uuid"),
    "instances": ("name", "pnode", "status"),
    "networks": ("uuid", "name"),
}
"""Answer -> optional fields that are text."""

LIST_FIELDS = {
    "info": ("enabled_hypervisors",),
    "groups": (),
    "nodes": (),
    "instances": (
        "snodes", "disk.sizes", "disk.spindles", "nic.networks", "nic.macs", "nic.ips", "nic.modes",
        "nic.links",
    ),
    "networks": ("group_list",),
}  # fmt: skip
"""Answer -> optional fields that are lists."""


def check_kinds(answers: Answers) -> None:
    """Check that names are text and lists are lists; the reader of documents checks the rest.

    Raises
    ------
    LiveError
        At the first field of another type.
    """
    for what, texts in TEXT_FIELDS.items():
        said = getattr(answers, what)
        for raw in [said] if what == "info" else said:
            for field in texts:
                _check(answers.where, what, field, raw.get(field), str)
            for field in LIST_FIELDS[what]:
                _check(answers.where, what, field, raw.get(field), list)
            for name in raw.get("snodes") or ():
                _check(answers.where, what, "snodes", name, str)


def _check(where: str, what: str, field: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        expected = "a string" if kind is str else "a list"
        raise LiveError(where, f"{what}: {field}: expected {expected}, got {describe(value)}")


NEEDED_AMOUNTS = {
    "total_memory": "mtotal",
    "reserved_memory": "mnode",
    "free_memory": "mfree",
    "total_cpus": "ctotal",
    "reserved_cpus": "cnos",
}
"""Amount that an online node itself must report -> its field in the answer."""

KNOWN_AMOUNTS = {"total_disk": "dtotal", "free_disk": "dfree", "free_spindles": "spfree"}
"""Amount that is 0 without a volume group, or without spindles -> its field in the answer."""


def captured(answers: Answers) -> Record:
    """Return the document of the cluster, without a request.

    Raises
    ------
    RequestError
        If a field of the cluster is missing. The reader of documents checks types, and the fields
        of other objects.
    """
    info = answers.info
    default = info.get("default_hypervisor")
    others = [other for other in info.get("enabled_hypervisors") or () if other != default]
    pools = _pool_names(info.get("diskparams"))
    differ = any(_pool_names(raw.get("diskparams")) != pools for raw in answers.groups)

    # UUID of each group -> the UUIDs of the networks that it is connected to
    networks: dict[str, list[str]] = {}
    uuids = {raw.get("name"): raw.get("uuid") for raw in answers.groups}
    for network in answers.networks:
        for entry in network.get("group_list") or ():
            # `[name, mode, link, vlan]`, or text
            first = entry[0] if isinstance(entry, list) and entry else entry
            name = first.partition(" (")[0] if isinstance(first, str) else first
            group = uuids.get(name) if isinstance(name, str) else None
            if not isinstance(group, str):
                expected = f"expected a group of the cluster, got {describe(name)}"
                raise RequestError("networks", expected)
            networks.setdefault(group, []).append(_name(network, "networks", "uuid"))

    of_nodes, of_disks = answers.volume_groups or ({}, {})
    groups: Record = {}
    for raw in answers.groups:
        uuid = _name(raw, "nodegroups", "uuid")
        groups[uuid] = {
            "name": raw.get("name"),
            "alloc_policy": raw.get("alloc_policy"),
            "networks": networks.get(uuid, []),
            "ipolicy": raw.get("ipolicy"),
            "tags": raw.get("tags") or [],
        } | ({"diskparams": _pool_names(raw.get("diskparams"))} if differ else {})
    return {
        "version": PROTOCOL_VERSION,
        "cluster_name": info.get("name") or "",
        "cluster_tags": info.get("tags") or [],
        "enabled_hypervisors": [default, *others] if default else others,
        "ipolicy": info.get("ipolicy"),
        "nodegroups": groups,
        "nodes": {
            (name := _name(raw, "nodes")): _node(raw)
            | ({"volume_groups": of_nodes[name]} if name in of_nodes else {})
            for raw in answers.nodes
        },
        "instances": {
            (name := _name(raw, "instances")): _instance(raw, of_disks.get(name))
            for raw in answers.instances
        },
    } | ({"diskparams": pools} if differ else {})


def silent_nodes(answers: Answers) -> list[str]:
    """Return the names of the nodes that do not answer and are not marked offline."""
    return [_name(raw, "nodes") for raw in answers.nodes if _is_silent(raw)]


def _is_silent(raw: Record) -> bool:
    """Return whether a node lacks an amount that only the node itself can report."""
    expected = not raw.get("offline") and raw.get("vm_capable") is not False
    return expected and any(raw.get(field) is None for field in NEEDED_AMOUNTS.values())


def master_of(answers: Answers) -> str:
    """Return the name of the master node."""
    master = answers.info.get("master")
    if not isinstance(master, str):
        raise RequestError("master", f"expected the name of a node, got {describe(master)}")
    return master


def _name(raw: Record, what: str, key: str = "name") -> str:
    name = raw.get(key)
    if not isinstance(name, str) or not name:
        raise RequestError(what, f"expected a {key} for each, got {describe(name)}")
    return name


def _pool_names(parameters: Any) -> Record:
    """Return disk template -> its disk `parameters` that name storage pools."""
    known = parameters if isinstance(parameters, dict) else {}
    return {
        name: {key: known[name][key]}
        for name, template in TEMPLATES.items()
        if (key := template.parameter_key)
        and isinstance(known.get(name), dict)
        and key in known[name]
    }


def _node(raw: Record) -> Record:
    vm_capable = raw.get("vm_capable")
    silent = _is_silent(raw)
    answers = not raw.get("offline") and vm_capable is not False and not silent
    exclusive = raw.get("ndp/exclusive_storage")
    amounts = {key: raw.get(field) or 0 for key, field in KNOWN_AMOUNTS.items()}
    for key, field in NEEDED_AMOUNTS.items():
        amounts[key] = raw.get(field) if answers else 0
    if not answers:
        amounts |= dict.fromkeys(KNOWN_AMOUNTS, 0)
    parameters = {
        "exclusive_storage": exclusive,
        "spindle_count": raw.get("ndp/spindle_count"),
        "cpu_speed": raw.get("ndp/cpu_speed"),
        "oob_program": raw.get("ndp/oob_program"),
    }
    return {
        **amounts,
        "total_spindles": (raw.get("sptotal") or 0) if exclusive and answers else 0,
        "tags": raw.get("tags") or [],
        "primary_ip": raw.get("pip"),
        "secondary_ip": raw.get("sip"),
        "offline": True if silent else raw.get("offline"),
        "drained": raw.get("drained"),
        "master_candidate": raw.get("master_candidate"),
        "master_capable": raw.get("master_capable"),
        "vm_capable": True if vm_capable is None else vm_capable,
        "group": raw.get("group.uuid"),
        "ndparams": {key: value for key, value in parameters.items() if value is not None},
    }


def _instance(raw: Record, volume_groups: list[Record] | None = None) -> Record:
    """Return the instance `raw` in the form of a document.

    `volume_groups`: for each disk, its members about volume groups; None if they are not requested.
    """
    status = raw.get("status")
    if status not in STATE_OF_STATUS:
        expected = f"expected one of {', '.join(STATE_OF_STATUS)}, got {describe(status)}"
        raise RequestError(f"instances/{raw['name']}/status", expected)
    memory = raw.get("be/memory")
    sizes = raw.get("disk.sizes") or []
    spindles = raw.get("disk.spindles") or [None] * len(sizes)
    fields = {"network": "nic.networks", "mac": "nic.macs", "ip": "nic.ips",
              "mode": "nic.modes", "link": "nic.links"}  # fmt: skip
    columns = {key: raw[field] for key, field in fields.items() if raw.get(field)}
    return {
        "memory": raw.get("be/maxmem") if memory is None else memory,
        "vcpus": raw.get("be/vcpus"),
        "spindle_use": raw.get("be/spindle_use"),
        "auto_balance": raw.get("be/auto_balance"),
        "admin_state": STATE_OF_STATUS[status],
        "status": status,
        "nodes": [raw.get("pnode"), *(raw.get("snodes") or ())[:1]],
        "disk_template": raw.get("disk_template"),
        "disk_space_total": raw.get("disk_usage") or 0,
        "disks": [
            {"size": size, "spindles": own, **groups}
            for size, own, groups in zip(sizes, spindles, volume_groups or [{}] * len(sizes))
        ],
        "nics": [dict(zip(columns, values)) for values in zip(*columns.values())],
        "tags": raw.get("tags") or [],
        "forthcoming": bool(raw.get("forthcoming")),
        "hypervisor": raw.get("hypervisor"),
        "os": raw.get("os"),
    }
