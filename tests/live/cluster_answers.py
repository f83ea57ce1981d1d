"""Build a small cluster in the form of RAPI's and LUXI's answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.builders import Json

__all__ = ["Json", "luxi_answer", "rapi_answers", "write_answers"]

POLICY = {
    "minmax": [
        {
            "min": {"memory-size": 1, "cpu-count": 1, "disk-size": 0, "disk-count": 0,
                    "nic-count": 0, "spindle-use": 0},
            "max": {"memory-size": 32768, "cpu-count": 16, "disk-size": 1048576,
                    "disk-count": 16, "nic-count": 8, "spindle-use": 12},
        }
    ],
    "std": {"memory-size": 1024, "cpu-count": 1, "disk-size": 10240, "disk-count": 1,
            "nic-count": 1, "spindle-use": 1},
    "vcpu-ratio": 4, "spindle-ratio": 32,
    "disk-templates": ["drbd", "plain", "sharedfile", "diskless"],
}  # fmt: skip


def node(name: str, **fields: Any) -> Json:
    """Return a node with 16 GiB of memory, before its instances are subtracted."""
    parameters = {"spindle_count": 1, "exclusive_storage": False, "cpu_speed": 1.0,
                  "oob_program": ""}  # fmt: skip
    parameters |= {key: fields.pop(key) for key in list(fields) if key in parameters}
    return {
        "name": name, "mtotal": 16384, "mnode": 1024, "mfree": 15360, "dtotal": 409600,
        "dfree": 409600, "ctotal": 8, "cnos": 1, "offline": False, "drained": False,
        "vm_capable": True, "group.uuid": "uuid-one", "tags": [], "sptotal": 0, "spfree": 0,
        "pip": "192.0.2.1", "sip": "192.0.2.1", "master_candidate": True, "master_capable": True,
        "ndparams": parameters,
    } | fields  # fmt: skip


def instance(name: str, *nodes: str, memory: int = 2048, **fields: Any) -> Json:
    """Return a running instance; its template is drbd if it has two nodes."""
    parameters = {"maxmem": memory, "minmem": memory, "vcpus": 1, "auto_balance": True,
                  "spindle_use": 1}  # fmt: skip
    parameters |= {key: fields.pop(key) for key in list(fields) if key in parameters}
    drbd = len(nodes) == 2
    return {
        "name": name, "disk_usage": 10240 + 128 * drbd, "status": "running",
        "admin_state": "up", "pnode": nodes[0], "snodes": list(nodes[1:]), "tags": [],
        "disk_template": "drbd" if drbd else "plain", "disk.sizes": [10240],
        "disk.spindles": [None], "oper_ram": memory, "beparams": parameters,
        "nic.networks": [None], "nic.macs": ["aa:00:00:00:00:01"], "nic.ips": [None],
        "nic.modes": ["bridged"], "nic.links": ["br0"], "hypervisor": "fake", "os": "noop",
    } | fields  # fmt: skip


def rapi_answers() -> Json:
    """Return RAPI answers by resource, for two groups of five nodes with one full node."""
    nodes = [node(f"node{n}.example.com") for n in (1, 2, 3)]
    nodes += [node(f"node{n}.example.com", **{"group.uuid": "uuid-two"}) for n in (4, 5)]
    one, two, three = (each["name"] for each in nodes[:3])
    instances = [instance(f"inst{n}.example.com", one, two) for n in (1, 2, 3, 4)]
    instances += [
        instance("inst5.example.com", three, two, memory=1024, **{"nic.networks": ["net-1"]}),
        instance("inst6.example.com", "node4.example.com"),
    ]
    for each in nodes:
        held = [i for i in instances if i["pnode"] == each["name"]]
        each["mfree"] -= sum(i["beparams"]["maxmem"] for i in held)
        disks = [i for i in instances if each["name"] in (i["pnode"], *i["snodes"])]
        each["dfree"] -= sum(i["disk_usage"] for i in disks)
    groups: list[Json] = [
        {"uuid": f"uuid-{name}", "name": name, "alloc_policy": "preferred", "ipolicy": POLICY,
         "tags": [], "diskparams": {}}
        for name in ("one", "two")
    ]  # fmt: skip
    info = {"name": "cluster.example.com", "master": one, "tags": ["htools:iextags:srv"],
            "ipolicy": POLICY, "default_hypervisor": "fake", "enabled_hypervisors": ["fake"],
            "diskparams": {}}  # fmt: skip
    networks = [{"uuid": "net-1", "name": "net1", "group_list": [["one", "bridged", "br0", ""]]}]
    return {"info": info, "groups": groups, "nodes": nodes, "instances": instances,
            "networks": networks}  # fmt: skip


def write_answers(folder: Path, answers: Json) -> str:
    """Store `answers` in `folder`; return the address for the option ``-m``."""
    folder.mkdir(exist_ok=True)
    for name, answer in answers.items():
        (folder / f"{name}.json").write_text(json.dumps(answer))
    return f"file://{folder}"


def luxi_answer(answers: Json, method: str, arguments: list[Any]) -> Any:
    """Return LUXI's answer for the cluster of the RAPI answers `answers`."""
    if method == "QueryClusterInfo":
        return answers["info"]
    if method == "QueryConfigValues":
        return [answers.get(key, False) for key in arguments[0]]
    what, fields, _ = arguments
    rows = [[_value(raw, field) for field in fields] for raw in answers[f"{what}s"]]
    return {"fields": [], "data": rows}


def _value(raw: Json, field: str) -> list[Any]:
    """Return the status and the value of a field; the status is 1 (unknown) if it is missing."""
    prefix, _, key = field.partition("/")
    parameters = {"be": "beparams", "ndp": "ndparams"}.get(prefix)
    known = raw[parameters] if parameters and key else raw
    if field == "be/memory":
        return [0, known["maxmem"]]
    name = key if parameters and key else field
    if name not in known:
        return [1, None]
    return [0, known[name]] if known[name] is not None else [2, None]
