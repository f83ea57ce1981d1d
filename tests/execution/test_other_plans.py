"""Test the execution of make-room and reboot, and plans with a silent node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json
from tests.command import Done, run
from tests.live.cluster_answers import instance
from tests.live.test_sources import with_dead_node

from .running import Running, running, shared_cluster

HOMES = {"a": ("node1", 6144), "b": ("node2", 6144), "c": ("node3", 9216), "d": ("node4", 12288)}

QUESTIONS = (
    "allocate --memory 12G --disk 1G --template rbd --group one",
    "evacuate node3",
    "change-group d --to one",
)


pytestmark = pytest.mark.usefixtures("own_locks")


def full_group_answers() -> Json:
    """Return the answers of a cluster without free capacity in its first group."""
    answers = shared_cluster()
    answers["nodes"][0]["offline"] = answers["nodes"][3]["offline"] = False
    answers["instances"] = [
        {**instance(name, home, memory=memory, disk_template="rbd"), "nic.networks": []}
        for name, (home, memory) in HOMES.items()
    ]
    return answers


def count_memory(scenario: Running) -> None:
    """Let each node of the simulated cluster report the memory that instances leave."""
    for node in scenario.answers["nodes"]:
        taken = [
            size for name, (_, size) in HOMES.items() if scenario.places()[name] == [node["name"]]
        ]
        node["mfree"] = node["mtotal"] - node["mnode"] - sum(taken)


def fits(scenario: Running, question: str, capsys: Capture) -> bool:
    """Return whether the running cluster can now satisfy the request `question`."""
    count_memory(scenario)
    main(["ask", *question.split(), f"-L{scenario.path}", "--n1=off", "--json"])
    response = json.loads(capsys.readouterr().out)["response"]
    left_out = [] if question.startswith("allocate") else response["result"][1]
    return bool(response["success"]) and not left_out


@pytest.mark.parametrize("question", QUESTIONS)
def test_room_is_reported_drawn_and_made_so_that_the_request_fits(
    question: str, tmp_path: Path, capsys: Capture
) -> None:
    """After make-room is executed, the request fits on the running cluster.

    One migration frees the capacity; printing the plan changes nothing.
    """
    with running(tmp_path, full_group_answers()) as scenario:
        assert not fits(scenario, question, capsys)
        words = ["make-room", f"-L{scenario.path}", "--n1=off", f"--request={question}"]
        assert main([*words, f"--graph={tmp_path / 'steps.svg'}"]) == 0
        assert "would fit after 1 migration: " in capsys.readouterr().out
        assert "<svg" in (tmp_path / "steps.svg").read_text()
        assert scenario.places() == {name: [home] for name, (home, _) in HOMES.items()}
        assert main([*words, "-X", "--json", "--journal", str(tmp_path / "journal")]) == 0
        found = json.loads(capsys.readouterr().out)
        (move,) = found["moves"]
        assert scenario.places()[move["instance"]] == move["to"]
        assert fits(scenario, question, capsys)


def test_group_is_emptied_waits_for_its_reboot_and_is_filled_again(tmp_path: Path) -> None:
    """The execution of reboot empties nodes, waits for their reboot, and moves instances back."""
    answers = shared_cluster()
    answers["nodes"][0]["tags"] = ["now"]
    answers["info"]["master"] = "node4"
    with running(tmp_path, answers) as scenario:
        home = scenario.places()
        journal = str(tmp_path / "journal")
        live = f"-L{scenario.path}"
        words = ["reboot", live, "-X", "--one-step-only", "--node-tags=now", "--journal", journal]
        assert main(words) == 0
        assert scenario.found("node1")["drained"]
        assert all(nodes != ["node1"] for nodes in scenario.places().values())
        scenario.found("node1")["mfree"] += 4 * 2048
        assert main(["reboot", live, "-X", "--resume", journal, "--done-by-hand"]) == 0
        assert scenario.places() == home
        assert not scenario.found("node1")["drained"]


def test_done_nodes_are_in_no_group_of_a_new_plan(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nodes given by --done are in no group of reboot, but accept instances.

    An unknown name is rejected.
    """
    with running(tmp_path, shared_cluster()) as scenario:
        live = f"-L{scenario.path}"
        assert main(["reboot", live, "--json", "--done=node1,node4"]) == 0
        found = json.loads(capsys.readouterr().out)
        nodes = {node for group in found["reboots"] for node in group["nodes"]}
        assert nodes == {"node2", "node3", "node5"}
        assert main(["reboot", live, "--done=node9"]) == 2
        assert "--done" in capsys.readouterr().err


def executed(cluster: Running, folder: Path, *words: str) -> Done:
    """Run the command with -X and a journal in `folder`; return its status and output."""
    return run(*words, f"-L{cluster.path}", "-X", f"--journal={folder / 'journal'}")


def dead_among(answers: Json) -> Json:
    """Return `answers` with one more node, which does not answer."""
    return with_dead_node(answers, len(answers["nodes"]) - 1)


@pytest.mark.parametrize("words", [["balance"], ["repair"]])
def test_plan_is_not_executed_with_a_dead_node(words: Sequence[str], tmp_path: Path) -> None:
    """A plan is not executed if a node does not answer, and the message has the remedy.

    No job is submitted, and no journal is left.
    """
    answers = shared_cluster()
    answers["instances"][0]["tags"] = ["ganeti:watcher:autorepair:failover"]
    with running(tmp_path, dead_among(answers)) as cluster:
        done = executed(cluster, tmp_path, *words)
        error = done.stderr.decode()
        assert done.returncode == 2
        assert "run gnt-node modify --offline=yes node5, or give --assume-offline" in error
        assert not cluster.submitted
        assert not (tmp_path / "journal").exists()


def test_plan_is_executed_with_assume_offline(tmp_path: Path) -> None:
    """With --assume-offline, the steps that do not use the silent node are executed."""
    with running(tmp_path, dead_among(shared_cluster())) as cluster:
        done = executed(cluster, tmp_path, "balance", "-G", "one", "--assume-offline")
        assert done.returncode == 0, done.stderr.decode()
        assert cluster.submitted
        assert "node5" not in json.dumps(cluster.submitted)


def test_execution_stops_when_a_node_stops_answering(tmp_path: Path) -> None:
    """If a node stops answering, the execution stops; --resume continues with later steps."""
    with running(tmp_path, shared_cluster()) as cluster:

        def die(method: str) -> None:
            if method == "WaitForJobChange":
                with_dead_node(cluster.answers, 4)

        cluster.interfere = die
        words = ["balance", "-G", "one", "--ahead=1", "--first-job-group"]
        done = executed(cluster, tmp_path, *words)
        assert done.returncode in (0, 1)
        journal = tmp_path / "journal"
        on = ["balance", f"-L{cluster.path}", "-X", f"--resume={journal}"]
        stopped = run(*on)
        again = run(*on, "--assume-offline")
    assert stopped.returncode in (0, 1)
    output = (done.stderr + stopped.stderr).decode()
    assert "gnt-node modify --offline=yes node5" in output, output
    assert again.returncode == 0, again.stderr.decode()
