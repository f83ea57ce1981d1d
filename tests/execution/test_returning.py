"""Test nodes that return only after some time: after power-on, and after a reboot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json
from tests.live.cluster_answers import instance, node
from tests.live.fakes import fake_rapi
from tests.schemas import conforms

from .running import Running, running, shared_cluster
from .test_rapi import RapiResources

CONNECTIONS = ("luxi", "rapi")


@pytest.fixture(autouse=True)
def _no_pauses(quick_returns: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the pauses between two queries of a job, in addition to those of executions."""
    monkeypatch.setattr("iallocator.execution.queue_access.pause", lambda seconds: None)


@contextmanager
def at(connection: str, folder: Path, answers: Json) -> Iterator[tuple[Running, list[str]]]:
    """Yield a simulated cluster, and the arguments to reach it by LUXI or RAPI."""
    if connection == "luxi":
        with running(folder, answers) as scenario:
            yield scenario, [f"-L{scenario.path}"]
        return
    scenario = Running(answers)
    with fake_rapi(folder, RapiResources(scenario).reply) as server:
        yield scenario, [f"-m{server.address}", f"--cacert={server.cacert}"]


def standby_cluster(oob: str = "") -> tuple[Json, Json]:
    """Return a nearly full cluster in which node3 is off, and the amounts of node3 if it is on."""
    answers = shared_cluster()
    answers["instances"].append({**answers["instances"][0], "name": "i4"})
    answers["nodes"][0]["mfree"] -= 2048
    standby = answers["nodes"][2]
    figures = {key: standby[key] for key in ("mtotal", "mfree", "dtotal", "dfree", "ctotal")}
    standby |= {"offline": True, "tags": ["htools:standby:auto"], **dict.fromkeys(figures)}
    standby["ndparams"]["oob_program"] = oob
    return answers, figures


def report_when_online(scenario: Running, figures: Json) -> None:
    """Let node3 report the amounts `figures` when it is online."""
    scenario.interfere = lambda method: scenario.found("node3").update(
        {} if scenario.found("node3")["offline"] else figures
    )


SQUEEZE = ("squeeze", "-X", "--minimal-resources=10", "--target-resources=1")


def test_node_that_boots_slowly_is_waited_for_before_it_is_set_online(
    tmp_path: Path, capsys: Capture
) -> None:
    """An execution sets a node online after its boot, then moves instances to the node."""
    answers, figures = standby_cluster("/sbin/oob")
    with at("luxi", tmp_path, answers) as (scenario, connection):
        report_when_online(scenario, figures)
        scenario.booting["node3"] = 4
        assert main([*SQUEEZE, *connection, "--json", f"--journal={tmp_path / 'journal'}"]) == 0
        out, err = capsys.readouterr()
        assert not scenario.found("node3")["offline"]
        assert ["node3"] in scenario.places().values()
        assert "waiting: node3 does not answer, at most 600 s" in err
        found = json.loads(out)
        assert found["execution"]["complete"]
        conforms(found, "plan")


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_node_that_was_powered_on_by_hand_is_waited_for(connection: str, tmp_path: Path) -> None:
    """An execution waits for the boot of a node that a person has powered on and confirmed."""
    answers, figures = standby_cluster()
    with at(connection, tmp_path, answers) as (scenario, words):
        journal = tmp_path / "journal"
        assert main([*SQUEEZE, *words, f"--journal={journal}"]) == 0
        report_when_online(scenario, figures)
        scenario.booting["node3"] = 3
        assert main([*SQUEEZE, *words, f"--resume={journal}", "--done-by-hand"]) == 0
        assert not scenario.found("node3")["offline"]
        assert ["node3"] in scenario.places().values()


def test_node_that_does_not_boot_in_time_is_named_and_the_journal_goes_on(
    tmp_path: Path, capsys: Capture
) -> None:
    """If a node does not boot in time, the execution names the cause; --resume continues it."""
    answers, figures = standby_cluster("/sbin/oob")
    with at("luxi", tmp_path, answers) as (scenario, connection):
        journal = tmp_path / "journal"
        scenario.booting["node3"] = 1_000_000
        assert main([*SQUEEZE, *connection, "--boot-timeout=1", f"--journal={journal}"]) == 1
        out, err = capsys.readouterr()
        assert "iallocator: node3 does not answer, 1 s after" in err
        assert f"--resume {journal} goes on" in err
        assert "online node3: node3 does not answer" in out
        scenario.booting["node3"] = 2
        report_when_online(scenario, figures)
        assert main([*SQUEEZE, *connection, f"--resume={journal}"]) == 0
        assert ["node3"] in scenario.places().values()
        powered = [c for job in scenario.jobs.values() for c in job["ops"] if "command" in c]
        assert len(powered) == 1


def test_out_of_band_program_that_fails_fails_its_job(tmp_path: Path, capsys: Capture) -> None:
    """If the out-of-band program fails, its job counts as failed, and the node stays offline.

    Ganeti reports such a job as a success.
    """
    answers, _ = standby_cluster("/sbin/oob")
    with at("luxi", tmp_path, answers) as (scenario, connection):
        scenario.broken_power = {"node3"}
        assert main([*SQUEEZE, *connection, f"--journal={tmp_path / 'journal'}"]) == 1
        assert "power-on node3: the out-of-band program of node3 failed" in capsys.readouterr().out
        assert scenario.found("node3")["offline"]


def mirrored_cluster() -> Json:
    """Return three nodes with drbd instances between them; a fourth node is the master."""
    answers = shared_cluster()
    answers["instances"] = [
        {**instance("i1", "node1", "node2"), "nic.networks": []},
        {**instance("i2", "node2", "node3"), "nic.networks": []},
    ]
    answers["nodes"][:3] = [node(f"node{n}") for n in (1, 2, 3)]
    for one in answers["nodes"]:
        held = [i for i in answers["instances"] if i["pnode"] == one["name"]]
        one["mfree"] -= 2048 * len(held)
    answers["nodes"][1]["tags"] = ["now"]
    answers["info"]["master"] = "node4"
    return answers


REBOOT = ("reboot", "-X", "--node-tags=now")


@pytest.mark.parametrize("connection", CONNECTIONS)
def test_instances_go_back_when_nodes_answer_and_disks_are_in_sync(
    connection: str, tmp_path: Path, capsys: Capture
) -> None:
    """An execution moves instances back to a rebooted node when their disks are in sync.

    An inactive disk is activated; the end of a sync is awaited for any time.
    """
    degraded = ["/dev/drbd0", 147, 0, None, None, True, 0]
    half = ["/dev/drbd0", 147, 0, 50.0, 0, True, 1]
    with at(connection, tmp_path, mirrored_cluster()) as (scenario, words):
        journal = tmp_path / "journal"
        home = scenario.places()
        assert main([*REBOOT, *words, f"--journal={journal}"]) == 0
        assert scenario.places()["i2"] == ["node3", "node2"]
        out, err = capsys.readouterr()
        assert "by hand: reboot node2" in out
        assert f"now by hand: reboot node2; then go on with --resume {journal}" in err
        scenario.booting["node2"] = 3
        scenario.syncing = {"i1": [None, degraded, half, half], "i2": [half]}
        assert main([*REBOOT, *words, f"--resume={journal}", "--done-by-hand", "--json"]) == 0
        assert scenario.places() == home
        assert not scenario.read_while_booting
        out, err = capsys.readouterr()
        found = json.loads(out)["execution"]
        assert found["rebooted"] == ["node2"]
        assert "waiting: node2 does not answer, at most 600 s" in err
        assert "i1: activating its disks" in err
        codes = [code["OP_ID"] for job in scenario.jobs.values() for code in job["ops"]]
        assert codes.count("OP_INSTANCE_ACTIVATE_DISKS") == 1
        last = max(k for k, code in enumerate(codes) if code == "OP_INSTANCE_QUERY_DATA")
        assert "OP_INSTANCE_MIGRATE" in codes[last:]
        assert "OP_INSTANCE_MIGRATE" not in codes[codes.index("OP_INSTANCE_QUERY_DATA") : last]


def test_disks_that_stay_degraded_are_named_and_the_journal_goes_on(
    tmp_path: Path, capsys: Capture
) -> None:
    """If disks stay degraded, the execution names them and moves no instance back.

    --resume does not ask again for a reboot that is confirmed.
    """
    with at("luxi", tmp_path, mirrored_cluster()) as (scenario, connection):
        journal = tmp_path / "journal"
        assert main([*REBOOT, *connection, f"--journal={journal}"]) == 0
        scenario.syncing = {"i1": [None] * 10_000}
        capsys.readouterr()
        again = [*REBOOT, *connection, f"--resume={journal}"]
        assert main([*again, "--done-by-hand", "--boot-timeout=1"]) == 1
        out, err = capsys.readouterr()
        assert "disk 0 of i1 on node2 is not active, 1 s after" in err
        assert "coming back: reboot node2" in out
        assert scenario.places()["i2"] == ["node3", "node2"]
        scenario.syncing = {}
        assert main(again) == 0
        assert scenario.places()["i2"] == ["node2", "node3"]


def test_by_hand_lists_only_the_nodes_whose_turn_it_is(tmp_path: Path, capsys: Capture) -> None:
    """The report of manual steps has only nodes that can be rebooted now.

    The nodes of later groups still have instances; a planned stop is not a failure.
    """
    answers = mirrored_cluster()
    for one in answers["nodes"][:3]:
        one["tags"] = ["now"]
    with at("luxi", tmp_path, answers) as (scenario, connection):
        journal = tmp_path / "journal"
        seen: list[str] = []
        words = [*REBOOT, *connection, "--json"]
        assert main([*words, f"--journal={journal}"]) == 0
        while True:
            found = json.loads(capsys.readouterr().out)
            if "moves" in found:
                conforms(found, "plan")
            jobs = found["execution"]["jobs"]
            due = [job["description"].split()[-1] for job in jobs if job["state"] == "by hand"]
            if not due:
                break
            running_on = {nodes[0] for nodes in scenario.places().values()}
            assert not running_on & set(due)
            seen += due
            assert sorted(found["execution"].get("rebooted", [])) == sorted(seen[: -len(due)])
            assert main([*words, f"--resume={journal}", "--done-by-hand"]) == 0
        assert sorted(seen) == ["node1", "node2", "node3"]
        assert found["execution"]["complete"]
        assert main(["reboot", f"--resume={journal}"]) == 0
        assert "Rebooted: " in capsys.readouterr().out
