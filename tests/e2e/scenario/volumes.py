"""Read the volume groups of nodes and disks, and place instances by them."""

from __future__ import annotations

import json
import shlex
from typing import Any

from vcluster.layout import (
    FAST_GROUP,
    FIRST_GROUP,
    NODE_STATE,
    VOLUME_GROUP,
    VOLUME_GROUPS,
    instance,
)

from scenario.carrying_out import THROUGH_RAPI, USER
from scenario.creation import add
from scenario.execution import allow_rapi
from scenario.expectations import Expect
from scenario.reading import program
from scenario.runner import Runner

_SIZE = 4096
"""MiB of the second volume group."""

_FAST = ("--disk", f"0:size=1G,vg={FAST_GROUP}")


def volumes(run: Runner) -> None:
    """Compare volume groups with ``gnt-node list-storage``, and place instances by them.

    Parameters
    ----------
    run : Runner
        Gives access to the cluster.
    """
    run.section("volume groups")
    run.clear()
    allow_rapi(run)
    one, two, three = run.nodes_of(FIRST_GROUP)[:3]
    for node in (one, two):
        _add_group(run, node)
    mirrored = add("vg1", "drbd", "--no-wait-for-sync", f"--node={one}:{two}", *_FAST)
    run.step("create drbd in the second volume group", *mirrored, expect=Expect())
    plain = add("vg2", "plain", f"--node={three}")
    run.step("create plain in the volume group of the cluster", *plain, expect=Expect())

    found = {connection: _snapshot(run, *words) for connection, words in
             (("LUXI", ("-L",)), ("RAPI", THROUGH_RAPI))}  # fmt: skip
    for connection, document in found.items():
        listed = {
            (node, group["name"], group["total"], group["free"])
            for node, raw in document["nodes"].items()
            for group in raw["volume_groups"]
        }
        run.record(f"{connection}: the volume groups are those of list-storage", _unequal(
            listed, _storage(run)))  # fmt: skip
        disks = {
            name.partition(".")[0]: [(disk["vg"], disk.get("metavg")) for disk in raw["disks"]]
            for name, raw in document["instances"].items()
        }
        expected = {"vg1": [("fastvg", "lvm")], "vg2": [("lvm", None)]}
        run.record(f"{connection}: the disks name their volume groups", _unequal(disks, expected))

    asked = (program(), "ask", "evacuate", two, "--mode", "secondary-only", "-L")
    run.record("without volume groups, any node would do", _lacks(run, asked, "Answer: "))
    asked = (*asked, "--volume-groups")
    reason = f"no other node of group {FIRST_GROUP} has access to storage pools internal/fastvg"
    run.record("no other node has the second volume group", _lacks(run, asked, reason))
    _add_group(run, three)
    answer = f"new secondary {three.partition('.')[0]}"  # reports omit the common domain
    run.record("the third node has it now", _lacks(run, asked, answer))
    replace = ("gnt-instance", "replace-disks", f"--new-secondary={three}", instance("vg1"))
    run.step("Ganeti carries the answer out", *replace, expect=Expect())
    volumes_there = run.cluster.nodes[three].run("lvs", "--noheadings", "-o", "vg_name").output
    missing = [] if FAST_GROUP in volumes_there else [volumes_there]
    run.record("the new disk is in the second volume group", missing)
    run.drop("vg1", "vg2")


def _add_group(run: Runner, node: str) -> None:
    file = f"{NODE_STATE}/{VOLUME_GROUPS}"
    groups = json.loads(run.cluster.nodes[node].run("cat", file).output)
    text = json.dumps({**groups, FAST_GROUP: _SIZE})
    run.cluster.nodes[node].run("sh", "-c", f"echo {shlex.quote(text)} > {file}")


def _snapshot(run: Runner, *connection: str) -> dict[str, Any]:
    login = (f"{key}={value}" for key, value in USER.items())
    words = ("env", *login, program(), "snapshot", "--form=json", "--volume-groups", *connection)
    document: dict[str, Any] = json.loads(run.cluster.ask(*words))
    return document


def _storage(run: Runner) -> set[tuple[str, str, int, int]]:
    """Return node, name, total and free MiB of each volume group, from Ganeti's command."""
    words = ("gnt-node", "list-storage", "--no-headers", "--units=m", "--separator=|",
             "--storage-type=lvm-vg", "-o", "node,name,size,free")  # fmt: skip
    rows = [line.split("|") for line in run.cluster.ask(*words).splitlines()]
    names = {VOLUME_GROUP: "lvm"}
    return {(node, names.get(vg, vg), int(size), int(free)) for node, vg, size, free in rows}


def _lacks(run: Runner, words: tuple[str, ...], text: str) -> list[str]:
    """Run a command; return its output as a problem if it lacks `text`, else []."""
    output = run.cluster.master.run(*words).output
    return [] if text in " ".join(output.split()) else [output]


def _unequal(found: object, expected: object) -> list[str]:
    return [] if found == expected else [f"expected {expected}, got {found}"]
