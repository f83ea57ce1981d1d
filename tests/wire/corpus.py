"""Provide valid documents with every field, and damage them systematically."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from random import Random
from typing import Any
from zlib import crc32

from tests.builders import Json, allocate, cluster, group, instance, policy, rbd, spec
from tests.seeds import THOROUGH

Path = tuple[str | int, ...]
Damage = Callable[[Json], None]

__all__ = [
    "BASES", "DAMAGES", "KINDS", "REQUESTS", "Damage", "Json", "Path", "as_raw", "base", "combined",
    "damaged", "paths", "replacements",
]  # fmt: skip

HUGE = "@1e999@"
"""Text that stands for a number that no float can hold."""

_NEW: Json = allocate({}, tags=["service:a"], restrict=["node1", "node2"])["request"]
_NEW["nics"] = [{"mac": "aa:00:00:11:22:33", "network": "net-blue"}, {}]
_NEW["auto_balance"] = True

REQUESTS: dict[str, Json] = {
    "allocate": {
        **_NEW,
        "placement_keys": [{"class": "special", "name": "#RAM", "value": 0, "weight": -2.5}],
    },
    "multi-allocate": {"instances": [_NEW, {**_NEW, "name": "another"}]},
    "allocate-secondary": {"name": "plain"},
    "relocate": {
        "name": "web", "required_nodes": 1, "relocate_from": ["node2"], "disk_space_total": 1152,
        "placement_keys": [{"class": "customer", "name": "a", "value": 1, "weight": 1}],
    },
    "node-evacuate": {"instances": ["web", "shared"], "evac_mode": "primary-only"},
    "change-group": {"instances": ["web"], "target_groups": ["uuid-annex"]},
    "multi-evacuate": {"evac_nodes": ["node2"]},
}  # fmt: skip
"""Request type -> a request about the documents of `BASES`."""

KINDS = tuple(REQUESTS)


def _modern() -> Json:
    """Return a document of Ganeti 3 with every optional field."""
    document = cluster(
        {"default": 3, "annex": 2},
        instances={
            "web": instance(
                "node1", "node2",
                tags=["service:a"], nics=[{"mac": "aa:00:00:44:55:66", "network": None}],
                auto_balance=False, forthcoming=False,
            ),
            "plain": instance(
                "node1", disk_template="plain", admin_state="down",
                disks=[{"size": 7, "spindles": 1, "vg": "fast", "metavg": None}],
            ),
            "shared": rbd(
                "node4", storage_type="external", storage_pool="nas",
                disks=[{"size": 5, "spindles": None, "pool": "vms", "provider": None}],
            ),
        },
        tags=("htools:iextags:service",),
    )  # fmt: skip
    first, dark = document["nodes"]["node1"], document["nodes"]["node3"]
    first["ndparams"] |= {"cpu_speed": 1.5, "oob_program": None, "ssh_port": 22}
    first["storage_pools"] = [
        {
            "type": "internal",
            "name": "fast",
            "total": first["total_disk"],
            "free": first["free_disk"],
        },
        {"type": "external", "name": "nas", "total": None},
    ]
    for key in [key for key in dark if key.startswith(("total_", "free_", "reserved_"))]:
        del dark[key]
    dark["offline"] = True
    first["load"] = 0.5
    document["placement_keys"] = [
        {"level": "vdc", "class": "system", "name": "rack", "value": 1, "weight": 10},
    ]
    annex = group("annex", alloc_policy="last_resort", networks=["net-blue"], tags=["x"])
    parameters: Json = {"rbd": {"pool": "vms"}, "gluster": {"volume": None}, "drbd": {}}
    document["diskparams"] = parameters
    document["nodegroups"]["uuid-annex"] = {**annex, "ipolicy": None, "diskparams": parameters}
    document["nodegroups"]["uuid-default"]["networks"] = ["net-blue", "net-red"]
    return document


def _old() -> Json:
    """Return a document of an old Ganeti: no groups, no intervals, no admin_state."""
    document = cluster(2, instances={"web": instance("node1", "node2")})
    document |= {"instances": document["instances"] | {"plain": instance("node1")}}
    document["instances"]["shared"] = instance("node2", disk_template="sharedfile", disks=[])
    for one in document["instances"].values():
        del one["admin_state"], one["spindle_use"], one["nics"], one["tags"]
        one["should_run"] = False
    for node in document["nodes"].values():
        for key in ("group", "ndparams", "total_spindles", "free_spindles", "vm_capable"):
            del node[key]
    old_policy = policy(std=spec(1, 1, 1, 1, 1))
    del old_policy["minmax"], old_policy["disk-templates"]
    sizes = {"min": spec(1, 1, 1, 0, 1), "max": spec(9999, 8, 999999, 9, 9)}
    document["ipolicy"] = old_policy | sizes
    del document["nodegroups"]
    return document


BASES: dict[str, Callable[[], Json]] = {"modern": _modern, "old": _old}
"""Age of a document -> function that builds it."""


@cache
def _base_text(age: str, kind: str) -> str:
    request = {**REQUESTS[kind], "type": kind}
    if age == "old" and kind == "change-group":
        request["target_groups"] = []
    return json.dumps({**BASES[age](), "request": request})


def base(age: str, kind: str) -> Json:
    """Return a new valid document with a request of type `kind`."""
    result: Json = json.loads(_base_text(age, kind))
    return result


def paths(value: Any, above: Path = ()) -> Iterator[Path]:
    """Yield the path of every member and item below `value`."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*above, key)
            yield from paths(item, (*above, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield (*above, position)
            yield from paths(item, (*above, position))


def replacements() -> list[Any]:
    """Return values of every type, and values at both ends of each range."""
    return [
        None, True, False, 0, 1, -1, 3, 2.0, -0.0, 2.5, -2.0, 2**53, float(2**53), 2**53 + 1,
        2**64, 1e300, HUGE, float("nan"), "", "12G", "up", "nowhere", "drbd", "plain", "preferred",
        [], [None], [""], ["nowhere"], ["node1", "node1"], ["node1", "node2", "node4"], [1, "x"],
        [[]], [{}], [{"size": 1}, {"size": "x"}], {}, {"x": 1}, {"size": -1},
    ]  # fmt: skip


def parent(document: Json, path: Path) -> Any:
    """Return the container of the value at `path`."""
    value: Any = document
    for key in path[:-1]:
        value = value[key]
    return value


def damaged(document: Json, path: Path) -> Iterator[bytes]:
    """Yield `document` with the value at `path` replaced by others, and removed.

    Thorough runs use every replacement, other runs every eighth in turn.
    """
    holder, key = parent(document, path), path[-1]
    original = holder[key]
    step = 1 if THOROUGH else 8
    for value in replacements()[crc32(repr(path).encode()) % step :: step]:
        holder[key] = value
        yield as_raw(document)
    if isinstance(holder, dict):
        del holder[key]
        yield as_raw(document)
    holder[key] = original


def as_raw(document: Json) -> bytes:
    """Return the bytes of a document."""
    return json.dumps(document).replace(f'"{HUGE}"', HUGE.strip("@")).encode()


def _rename(table: str, old: str, new: str) -> Damage:
    def rename(document: Json) -> None:
        document[table][new] = document[table].pop(old)

    return rename


def _put(*path: str | int, value: Any) -> Damage:
    def put(document: Json) -> None:
        parent(document, path)[path[-1]] = value

    return put


DAMAGES: dict[str, Damage] = {
    "node-renamed": _rename("nodes", "node1", "other"),
    "group-renamed": _rename("nodegroups", "uuid-annex", "other"),
    "group-default-uuid": _rename(
        "nodegroups", "uuid-default", "00000000-0000-0000-0000-000000000000"
    ),
    "instance-renamed": _rename("instances", "web", "other"),
    "same-node-twice": _put("instances", "web", "nodes", value=["node2", "node2"]),
    "unknown-node-twice": _put("instances", "web", "nodes", value=["x", "x", "node1", "node1"]),
    "three-nodes": _put("instances", "web", "nodes", value=["node1", "node2", "node4"]),
    "plain-on-two": _put("instances", "plain", "nodes", value=["node1", "node2"]),
    "nowhere": _put("instances", "plain", "nodes", value=[]),
    "drbd-on-one": _put("instances", "web", "nodes", value=["node1"]),
    "drbd-nowhere": _put("instances", "web", "nodes", value=[]),
    "node-name-with-newline": _put("instances", "web", "nodes", value=["a\nb", "\x00\u2028é"]),
    "node-with-slash": _put("nodes", "a/b", value={"group": "uuid-default"}),
    "two-groups-one-name": _put("nodegroups", "uuid-annex", "name", value="default"),
    "kvm-without-reserved": _put("enabled_hypervisors", value=["kvm"]),
    "no-nodes": _put("nodes", value={}),
    "no-groups": _put("nodegroups", value={}),
    "unknown-type": _put("request", "type", value="re\nlocate"),
    "no-interval": _put("ipolicy", "minmax", value=[]),
    "no-interval-in-group": _put("nodegroups", "uuid-default", "ipolicy", "minmax", value=[]),
    "old-sizes-beside-minmax": _put("ipolicy", "min", value="not looked at"),
    "should-run-beside-admin-state": _put("instances", "web", "should_run", value="not looked at"),
}
"""Name -> damage to several values of the modern document."""


def combined(seed: int, kind: str) -> bytes:
    """Return a modern document with several random damages."""
    rng = Random(seed)
    document = base("modern", kind)
    for _ in range(rng.randint(2, 5)):
        path = rng.choice(list(paths(document)))
        holder = parent(document, path)
        if isinstance(holder, dict) and rng.random() < 0.3:
            del holder[path[-1]]
        else:
            holder[path[-1]] = deepcopy(rng.choice(replacements()[:-1]))
    return as_raw(document)
