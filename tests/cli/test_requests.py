"""Test every type of request with a file, the installed command, and one line on stdout."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iallocator.cli import main
from iallocator.deadline import SIGNALLED, Stopped
from tests.builders import Json, allocate, as_bytes, cluster, group, instance
from tests.command import COMMAND
from tests.paths import ROOT
from tests.patience import PATIENCE

MOVED = "Request successful: 0 instances failed to move and 1 were moved successfully"

REPLACE_DISKS = {"OP_ID", "instance_name", "early_release", "ignore_ipolicy", "mode", "disks",
                 "remote_node"}  # fmt: skip
MIGRATE = {"OP_ID", "instance_name", "allow_runtime_changes", "ignore_ipolicy", "cleanup",
           "allow_failover", "ignore_hvversions"}  # fmt: skip


def document(**request: Any) -> Json:
    """Return a request about a cluster of two groups with an instance of each kind.

    drbd1 is on node1/node2, plain1 on node1 and shared1 on node3, all in the group default. The
    nodes 5 and 6 of the group rack2 have no instances; node6 needs two cpus itself.
    """
    instances = {
        "drbd1": instance("node1", "node2", memory=2048),
        "plain1": instance("node1"),
        "shared1": instance("node3", disk_template="sharedfile"),
    }
    changes = {"node6": {"reserved_cpus": 2}}
    return {
        **cluster({"default": 4, "rack2": 2}, instances=instances, changes=changes),
        "request": request,
    }


def description(name: str, **members: Any) -> Json:
    """Return the description of one new instance in a batch."""
    request: Json = allocate({}, name, **members)["request"]
    return request


def respond(request: Json, folder: Path, *options: str) -> Json:
    """Return the response; assert that it is one line of compact JSON with sorted keys."""
    path = folder / "ganeti-request"
    path.write_bytes(as_bytes(request))
    done = subprocess.run(
        [*COMMAND, str(path), *options],
        env={"PYTHONPATH": str(ROOT)},
        cwd="/",
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    assert text.removesuffix("\n").count("\n") == 0
    response: Json = json.loads(text)
    compact = json.dumps(response, separators=(",", ":"), ensure_ascii=False)
    assert text.removesuffix("\n") == compact
    moves = ["transition"] if "transition" in response else []
    assert list(response) == ["success", "info", "result", "solutions", *moves]
    moving = len(response["result"]) == 3
    assert bool(moves) == (moving and bool(response["result"][0]))
    assert "\n" not in response["info"]
    return response


def test_allocate_with_capacity_names_group_score_and_nodes(tmp_path: Path) -> None:
    """The `info` of allocate names group, score and nodes in hail's form.

    Scripts of administrators read it.
    """
    response = respond(allocate(document(), "web"), tmp_path)
    assert response["success"]
    assert response["result"] == ["node5", "node6"]
    assert response["info"].startswith(
        "Request successful: Selected group: rack2, Group default (preferred): score: "
    )
    assert response["info"].endswith("failures 0 () for node(s) node5/node6")
    assert [entry["group"] for entry in response["solutions"]] == ["rack2", "default"]
    assert list(response["solutions"][0]) == [
        "group", "group_uuid", "alloc_policy", "nodes", "score", "successes", "failures",
    ]  # fmt: skip


def test_allocate_without_capacity_reports_reasons(tmp_path: Path) -> None:
    """An impossible allocation has an empty result and the reasons of each group."""
    response = respond(allocate(document(), "giant", memory=9000), tmp_path)
    assert not response["success"]
    assert response["result"] == []
    assert response["info"].startswith(
        "Request failed: "
        "Group default (preferred): No valid allocation solutions, failure reasons: FailMem: 12, "
        "Group rack2 (preferred): No valid allocation solutions, failure reasons: FailMem: 2; "
        "closest in group default: "
    )


def test_allocate_without_network_names_group_and_instance(tmp_path: Path) -> None:
    """If no group has the network of the instance, `info` has hail's message."""
    request = allocate(document(), "web", nics=[{"network": "net-blue"}])
    request["nodegroups"]["uuid-rack2"] = group("rack2", networks=["net-blue"])
    response = respond(request, tmp_path)
    assert response["result"] == ["node5", "node6"]
    assert (
        "group default is not connected to a network required by instance web" in response["info"]
    )


def test_multi_allocate_with_a_giant_counts_and_names_it(tmp_path: Path) -> None:
    """If one instance of a batch fits nowhere, the result names it and `info` counts it."""
    batch = [description("web"), description("giant", memory=9000)]
    response = respond(document(type="multi-allocate", instances=batch), tmp_path)
    assert response["result"] == [[["web", ["node5", "node6"]]], ["giant"]]
    assert response["info"].startswith(
        "Request successful: "
        "1 instances failed to allocate and 1 were allocated successfully; giant: Group default"
    )
    assert [entry["instance"] for entry in response["solutions"]] == ["web", "giant"]


def test_allocate_secondary_with_capacity_is_one_name(tmp_path: Path) -> None:
    """The result of allocate-secondary is a string, not a list."""
    response = respond(document(type="allocate-secondary", name="plain1"), tmp_path)
    assert response["result"] == "node4"
    assert response["info"].startswith("Request successful: score: ")
    assert response["info"].endswith("successes 3, failures 0 () for node(s) node1/node4")


@pytest.mark.parametrize(("name", "source"), [("drbd1", "node2"), ("shared1", "node3")])
def test_relocate_with_capacity_is_one_node(name: str, source: str, tmp_path: Path) -> None:
    """The result of relocate is the emptiest node of the group."""
    request = document(
        type="relocate", name=name, required_nodes=1, relocate_from=[source],
        disk_space_total=1152,
    )  # fmt: skip
    response = respond(request, tmp_path)
    assert response["result"] == ["node4"]
    assert response["info"] == "Request successful: success"


def test_relocate_of_plain_is_rejected_with_reason(tmp_path: Path) -> None:
    """Relocation of an instance with plain disks is rejected with the reason."""
    request = document(type="relocate", name="plain1", relocate_from=["node1"])
    response = respond(request, tmp_path)
    assert (response["success"], response["result"]) == (False, [])
    assert response["info"].startswith("Request failed: Can't relocate non-mirrored instances")


def test_node_evacuate_of_secondary_has_one_job(tmp_path: Path) -> None:
    """The evacuation of a secondary has one job with Ganeti's fields."""
    request = document(type="node-evacuate", instances=["drbd1"], evac_mode="secondary-only")
    response = respond(request, tmp_path)
    moved, failed, jobs = response["result"]
    assert moved == [["drbd1", "default", ["node1", "node4"]]]
    assert failed == []
    assert [[opcode["OP_ID"] for opcode in job] for job in jobs] == [["OP_INSTANCE_REPLACE_DISKS"]]
    assert set(jobs[0][0]) == REPLACE_DISKS
    assert response["info"] == MOVED


def test_node_evacuate_with_plain_counts_and_names_it(tmp_path: Path) -> None:
    """An evacuation lists a plain instance as failed and moves the others."""
    request = document(
        type="node-evacuate", instances=["plain1", "drbd1"], evac_mode="primary-only"
    )
    response = respond(request, tmp_path, "--ignore-soft-errors")
    reason = "Instances of type plain cannot be relocated"
    assert response["result"][0] == [["drbd1", "default", ["node2", "node1"]]]
    assert response["result"][1] == [["plain1", reason]]
    assert set(response["result"][2][0][0]) == MIGRATE
    assert response["info"] == (
        "Request successful: 1 instances failed to move and 1 were moved successfully; "
        f"plain1: {reason}"
    )


def test_change_group_of_drbd_has_three_opcodes(tmp_path: Path) -> None:
    """The change of group of a drbd instance has a job with three opcodes.

    They create a secondary in the other group, migrate, and create the second secondary.
    """
    request = document(type="change-group", instances=["drbd1"], target_groups=["uuid-rack2"])
    response = respond(request, tmp_path)
    moved, failed, jobs = response["result"]
    assert moved == [["drbd1", "rack2", ["node5", "node6"]]]
    assert failed == []
    assert [opcode["OP_ID"] for opcode in jobs[0]] == [
        "OP_INSTANCE_REPLACE_DISKS", "OP_INSTANCE_MIGRATE", "OP_INSTANCE_REPLACE_DISKS",
    ]  # fmt: skip
    assert [opcode.get("remote_node") for opcode in jobs[0]] == ["node5", None, "node6"]
    assert response["info"] == MOVED


def test_multi_evacuate_of_a_secondary_names_its_new_node(tmp_path: Path) -> None:
    """The result of multi-evacuate has pairs of instance and new secondary, as in Ganeti 2.4."""
    response = respond(document(type="multi-evacuate", evac_nodes=["node2"]), tmp_path)
    assert response["result"] == [["drbd1", ["node4"]]]
    assert response["info"] == MOVED


def test_interrupt_while_reading_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while a request is read ends the program with status 130 and no output."""

    def interrupted(path: str, limit: int) -> bytes:
        raise Stopped(SIGNALLED)

    monkeypatch.setattr("iallocator.sources.read_file", interrupted)
    monkeypatch.setattr("iallocator.cli.read_file", interrupted)
    assert main(["balance", "request.json"]) == 130
    assert main(["request.json"]) == 130
    assert capsys.readouterr() == ("", "")
