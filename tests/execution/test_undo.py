"""Test `--undo JOURNAL -X`: it moves the instances of a journal back, and no others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json, as_bytes, cluster
from tests.live.cluster_answers import rapi_answers
from tests.schemas import conforms

from .running import Running, running, shared_cluster

pytestmark = pytest.mark.usefixtures("own_locks")


def _planned(scenario: Running, command: str, capsys: Capture, *words: str) -> tuple[int, Json]:
    """Return the exit status and the plan of a planner on the simulated cluster."""
    capsys.readouterr()
    status = main([command, f"-L{scenario.path}", "--json", *words])
    return status, json.loads(capsys.readouterr().out)


PLANNERS = {
    "balance": (rapi_answers, ()),
    "compress": (shared_cluster, ("--restrict-allocation-to=node4,node5",)),
    "squeeze": (shared_cluster, ()),
    "place": (shared_cluster, ("--strategy=pacemaker-balanced",)),
    "balance-groups": (shared_cluster, ()),
}


@pytest.mark.parametrize("command", PLANNERS)
def test_undone_plan_leaves_everything_where_it_was(
    command: str, tmp_path: Path, capsys: Capture
) -> None:
    """After `--undo` is executed, every instance is where it was before the plan.

    The way back copies at most as much as the plan, as only nodes without the disks receive them.
    """
    answers, words = PLANNERS[command]
    journal = str(tmp_path / "journal")
    with running(tmp_path, answers()) as scenario:
        free = {node["name"]: node["mfree"] for node in scenario.answers["nodes"]}
        home = scenario.places()
        _, there = _planned(scenario, command, capsys, "-X", "--journal", journal, *words)
        assert scenario.places() != home
        for node in scenario.answers["nodes"]:  # this cluster does not count its memory
            node["mfree"] = free[node["name"]]
            for one in scenario.answers["instances"]:
                came = (one["pnode"] == node["name"]) - (home[one["name"]][0] == node["name"])
                node["mfree"] -= came * 2048
        status, back = _planned(
            scenario, command, capsys, "-X", "--undo", journal, "--journal", f"{journal}-2"
        )
        conforms(back, "plan")
        assert back["command"] == "undo"
        assert scenario.places() == home
        assert status == 0
        copied = [sum(move["copied_mib"] for move in plan["moves"]) for plan in (back, there)]
        assert copied[0] <= copied[1]
        status, nothing = _planned(scenario, command, capsys, "--undo", journal)
        assert (status, nothing["moves"]) == (0, [])
        assert "no instance that is not back" in nothing["reason"]


def test_undo_moves_only_what_the_journal_has_moved(tmp_path: Path, capsys: Capture) -> None:
    """`--undo` moves back only the instances that the execution in the journal has moved.

    An instance with a failed job stays where another user has moved it.
    """
    journal = str(tmp_path / "journal")
    with running(tmp_path, shared_cluster()) as scenario:
        scenario.fails = {"i0"}
        main(["balance", f"-L{scenario.path}", "-X", f"--journal={journal}"])
        moved = {name for name, nodes in scenario.places().items() if nodes != ["node1"]}
        assert moved
        scenario.found("i0")["pnode"] = "node5"
        status, plan = _planned(scenario, "balance", capsys, "--undo", journal)
        assert status == 0
        assert {move["instance"] for move in plan["moves"]} == moved
        assert all(move["to"] == ["node1"] for move in plan["moves"])


def test_instance_that_may_not_return_stays_with_its_reason(
    tmp_path: Path, capsys: Capture
) -> None:
    """`--undo` reports an instance that cannot return, with the reason and status 1."""
    journal = str(tmp_path / "journal")
    with running(tmp_path, rapi_answers()) as scenario:
        main(["balance", f"-L{scenario.path}", "-X", f"--journal={journal}"])
        scenario.found("node1.example.com")["drained"] = True
        page = tmp_path / "page.html"
        status, plan = _planned(scenario, "balance", capsys, "--undo", journal, f"--html={page}")
        assert status == 1
        reasons = {one["name"]: one["reason"] for one in plan["transition"]["left"]}
        assert reasons["inst1.example.com"] == "node1.example.com is drained"
        assert "node1.example.com is drained" in page.read_text()
        assert main(["balance", f"-L{scenario.path}", "--undo", journal]) == 1
        out, err = capsys.readouterr()
        assert "not done: inst1" in out
        assert "instances stay where they are: inst1.example.com: " in err


def test_undo_omits_only_moves_that_violate_a_limit(tmp_path: Path, capsys: Capture) -> None:
    """If some instances lack memory on their old nodes, `--undo` moves the others back."""
    journal = str(tmp_path / "journal")
    with running(tmp_path, shared_cluster()) as scenario:
        words = ["compress", "--restrict-allocation-to=node4,node5"]
        main([*words, f"-L{scenario.path}", "-X", f"--journal={journal}"])
        scenario.found("node1")["mfree"] = 2 * 2048 + 1024
        status, plan = _planned(scenario, "compress", capsys, "--undo", journal)
        assert status == 1
        assert len(plan["moves"]) == 2
        reasons = [one["reason"] for one in plan["transition"]["left"]]
        assert len(reasons) == 2
        assert all("needs 2048 MiB memory" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("--max-length=3",), "--undo only moves back instances: --max-length has no effect"),
        (("--cost=3",), "--cost has no effect"),
        (("--resume=x",), "--resume continues the plan in the journal: --undo needs a new plan"),
    ],
)
def test_option_without_effect_with_undo_is_rejected(
    words: tuple[str, ...], output: str, tmp_path: Path, capsys: Capture
) -> None:
    """`--undo` makes no search, and rejects the options of searches."""
    path = tmp_path / "document"
    path.write_bytes(as_bytes(cluster(2)))
    assert main(["balance", "--undo=nowhere", *words, str(path)]) == 2
    assert output in capsys.readouterr().err


def test_undo_of_another_file_is_reported_in_one_line(tmp_path: Path, capsys: Capture) -> None:
    """`--undo` reports a file that is no journal in one line, with exit status 2."""
    path = tmp_path / "document"
    path.write_bytes(as_bytes(cluster(2)))
    assert main(["balance", f"--undo={path}", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
