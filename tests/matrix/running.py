"""Simulate the scenarios of the matrix as running clusters, and execute plans on them."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from tests.builders import Json
from tests.command import run
from tests.execution.running import running
from tests.live import cluster_answers as live

from .scenarios import Scenario

__all__ = ["answers_of", "ask_executed", "read_executed"]

STATES = {"up": "running", "down": "ADMIN_down", "offline": "ADMIN_offline"}


def answers_of(document: Json) -> Json:
    """Return the RAPI answers for the cluster in `document`, by resource."""
    groups = document["nodegroups"]
    networks = sorted({name for group in groups.values() for name in group["networks"]})
    return {
        "info": {
            "name": document["cluster_name"], "master": next(iter(document["nodes"])),
            "tags": document["cluster_tags"], "ipolicy": document["ipolicy"], "diskparams": {},
            "default_hypervisor": "fake", "enabled_hypervisors": ["fake"],
        },
        "groups": [
            {key: group[key] for key in ("name", "alloc_policy", "ipolicy", "tags")}
            | {"uuid": uuid, "diskparams": {}}
            for uuid, group in groups.items()
        ],
        "nodes": [_node(name, raw) for name, raw in document["nodes"].items()],
        "instances": [_instance(name, raw) for name, raw in document["instances"].items()],
        "networks": [
            {"uuid": name, "name": name, "group_list": [
                [group["name"], "bridged", "br0", ""]
                for group in groups.values() if name in group["networks"]
            ]}
            for name in networks
        ],
    }  # fmt: skip


def _node(name: str, raw: Json) -> Json:
    amounts = {
        "mtotal": "total_memory", "mnode": "reserved_memory", "mfree": "free_memory",
        "dtotal": "total_disk", "dfree": "free_disk", "ctotal": "total_cpus",
        "cnos": "reserved_cpus", "sptotal": "total_spindles", "spfree": "free_spindles",
    }  # fmt: skip
    same = ("offline", "drained", "vm_capable", "tags")
    fields = {field: raw.get(key) for field, key in amounts.items()}
    fields |= {key: raw[key] for key in same} | raw["ndparams"]
    return live.node(name, **fields, **{"group.uuid": raw["group"]})


def _instance(name: str, raw: Json) -> Json:
    raw = {"auto_balance": True, "nics": [], **raw}
    same = ("disk_template", "tags", "admin_state", "auto_balance", "vcpus", "spindle_use")
    nics = {
        f"nic.{key}s": [nic.get(key) for nic in raw["nics"]] for key in ("network", "mac", "ip")
    }
    return live.instance(
        name, *raw["nodes"], memory=raw["memory"], **{key: raw[key] for key in same}, **nics,
        **{"disk_usage": raw["disk_space_total"], "status": STATES[raw["admin_state"]],
           "disk.sizes": [disk["size"] for disk in raw["disks"]],
           "disk.spindles": [disk.get("spindles") for disk in raw["disks"]],
           "nic.modes": ["bridged"] * len(raw["nics"]), "nic.links": ["br0"] * len(raw["nics"])},
    )  # fmt: skip


@contextlib.contextmanager
def _at_once(folder: str) -> Iterator[None]:
    """Skip all pauses, and keep locks in `folder`, for the time of a block."""
    with (
        mock.patch("iallocator.execution.lock.run_directory", return_value=folder),
        mock.patch("iallocator.execution.session.wait", return_value=None),
        mock.patch("iallocator.execution.session.PAUSES", (0, 0)),
    ):
        yield


def ask_executed(scenario: Scenario) -> Json:
    """Return the plan of `balance` after its execution; ``places`` has the final placement."""
    with tempfile.TemporaryDirectory() as folder, _at_once(folder):
        answers = answers_of(scenario.finished())
        with running(Path(folder), answers) as cluster:
            words = ("--json", "-X", f"-L{cluster.path}", "--journal", f"{folder}/journal")
            done = run("balance", *words, *scenario.options)
            assert done.returncode == 0, done.stderr.decode()
            plan: Json = json.loads(done.stdout)
            return plan | {"places": cluster.places()}


def read_executed(scenario: Scenario, plan: Json) -> list[str]:
    """Return the nodes on which the tested instance runs now."""
    found: list[str] = plan["places"]["subject"]
    return found
