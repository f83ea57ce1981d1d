"""Test journals: each is written completely or not at all, and checked when it is read."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.builders import Json
from tests.paths import ROOT

from .running import running, shared_cluster
from .test_signals import SCRIPT

WRONG: tuple[Any, ...] = (None, 7, -1.5, "x", True, [], ["x"], [[1]], {}, {"x": 1})


pytestmark = pytest.mark.usefixtures("own_locks")


def _limit_files() -> None:
    """Limit files of this process to a few bytes, to simulate a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (300, 300))


def test_journal_on_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    """If the disk is full, -X submits no job and leaves no journal behind."""
    with running(tmp_path) as scenario:
        words = ["balance", f"-L{scenario.path}", "-X", "--journal", str(tmp_path / "journal")]
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(str(tmp_path / "run")), *words],
            cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=_limit_files,
        )  # fmt: skip
        assert done.returncode == 1
        assert "File too large: the execution stops without a journal" in done.stderr
        assert not scenario.submitted
        assert not (tmp_path / "journal").exists()
        assert main(words) == 0


def test_journal_of_version_0_1_is_resumed(tmp_path: Path, capsys: Capture) -> None:
    """A journal of version 0.1 is resumed, and its report has the new JSON keys.

    With --json=1, the report has the old keys.
    """
    stored = (Path(__file__).parent / "journal-of-0.1").read_bytes()
    journal = tmp_path / "journal"
    journal.write_bytes(stored)
    with running(tmp_path) as scenario:
        words = ["balance", f"-L{scenario.path}", f"--resume={journal}"]
        assert main([*words, "--json"]) == 1
        begun = json.loads(capsys.readouterr().out)
        assert {job["state"] for job in begun["execution"]["jobs"]} == {"not begun"}
        assert main([*words, "-X", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["command"], found["version"], found["source"]) == ("balance", 2, str(journal))
        assert found["cluster"] == found["execution"]["cluster"] == "cluster.example.com"
        assert {one["state"] for one in found["execution"]["instances"]} == {"as planned"}
        moves = {one["instance"]: one["to"] for one in found["execution"]["instances"]}
        for name, nodes in moves.items():
            one = scenario.found(name)
            assert [one["pnode"], *one["snodes"]] == nodes
        assert main([*words, "--json=1"]) == 0
        old = json.loads(capsys.readouterr().out)
        assert list(old) == ["execution"]
        assert all("what" in job for job in old["execution"]["jobs"])


@pytest.mark.parametrize("left", [b"", b'{"event":"beg', b'{"event":"begin","format":1,"run'])
def test_journal_that_a_killed_process_began_is_replaced(
    left: bytes, tmp_path: Path, capsys: Capture
) -> None:
    """A journal that a killed process left empty is replaced; --resume rejects it."""
    journal = tmp_path / "journal"
    journal.write_bytes(left)
    with running(tmp_path) as scenario:
        assert main(["balance", f"-L{scenario.path}", "-X", f"--resume={journal}"]) == 2
        assert "the journal is empty: nothing was begun" in capsys.readouterr().err
        assert main(["balance", f"-L{scenario.path}", "-X", f"--journal={journal}"]) == 0


def test_other_file_is_not_replaced_by_a_journal(tmp_path: Path, capsys: Capture) -> None:
    """A file that is no journal is not replaced by a journal."""
    journal = tmp_path / "journal"
    with running(tmp_path) as scenario:
        for text in ("notes", '{"event":"begin","format":1}\n'):
            journal.write_text(text)
            assert main(["balance", f"-L{scenario.path}", "-X", f"--journal={journal}"]) == 2
            assert "exists; --resume continues it" in capsys.readouterr().err
            assert journal.read_text() == text


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a document."""
    if path:
        yield path
    if isinstance(value, (dict, list)):
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in members:
            yield from _places(item, (*path, key))


def _damaged(line: Json, place: tuple[Any, ...], rng: Random) -> Json:
    """Return a line in which the value at `place` is missing or replaced."""
    found = deepcopy(line)
    holder = found
    for key in place[:-1]:
        holder = holder[key]
    if rng.random() < 0.3:
        del holder[place[-1]]
    else:
        holder[place[-1]] = rng.choice(WRONG)
    return found


@pytest.mark.parametrize("line", range(5))
def test_damaged_line_of_a_journal_is_one_clear_message(
    line: int, tmp_path: Path, capsys: Capture
) -> None:
    """A journal with a wrong or missing value causes no traceback; an error has one line."""
    rng = Random(line)
    with running(tmp_path, shared_cluster()) as scenario:
        journal = tmp_path / "journal"
        scenario.fails = {"i0"}
        main(["squeeze", f"-L{scenario.path}", "-X", f"--journal={journal}"])
        lines = [json.loads(text) for text in journal.read_text().splitlines()]
        places = list(_places(lines[line]))
        rejected = 0
        for place in rng.sample(places, min(len(places), 150)):
            made = [*lines[:line], _damaged(lines[line], place, rng), *lines[line + 1 :]]
            journal.write_text("".join(f"{json.dumps(one)}\n" for one in made))
            capsys.readouterr()
            live = [f"-L{scenario.path}", "-X", "--dry-run"] if rng.random() < 0.2 else []
            status = main(["squeeze", f"--resume={journal}", *live])
            assert status in (0, 1, 2)
            rejected += status == 2
            if status == 2:
                assert capsys.readouterr().err.count("\n") == 1
        assert rejected > 0


@pytest.mark.parametrize(
    ("event", "output"),
    [
        ({"event": "submit"}, "line 2: jobs: expected a list of integers, got null"),
        ({"event": "submit", "jobs": [99]}, "no job 99 in the plan of the journal"),
        ({"event": "boom"}, 'line 2: event: expected one of "submit"'),
        ({"event": "accepted", "ids": [[1, "7"]]}, "line 2: ids: expected a list of pairs"),
    ],
)
def test_wrong_event_of_a_journal_is_named(
    event: Json, output: str, tmp_path: Path, capsys: Capture
) -> None:
    """For a wrong event in a journal, the message names line, member and expected value."""
    with running(tmp_path) as scenario:
        journal = tmp_path / "journal"
        main(["balance", f"-L{scenario.path}", "-X", f"--journal={journal}"])
        lines = journal.read_text().splitlines()
        journal.write_text("\n".join([lines[0], json.dumps(event), *lines[1:], ""]))
        capsys.readouterr()
        assert main(["balance", f"-L{scenario.path}", "-X", f"--resume={journal}"]) == 2
        assert output in capsys.readouterr().err


def test_step_of_a_journal_without_an_end_is_named(tmp_path: Path, capsys: Capture) -> None:
    """For a step without a target node in a journal, the message names line and member."""
    with running(tmp_path) as scenario:
        journal = tmp_path / "journal"
        main(["balance", f"-L{scenario.path}", "-X", "--first-job-group", f"--journal={journal}"])
        head, *rest = journal.read_text().splitlines()
        damaged = json.loads(head)
        damaged["transition"]["steps"][-1]["to"] = []
        journal.write_text("\n".join([json.dumps(damaged), *rest, ""]))
        capsys.readouterr()
        assert main(["balance", f"-L{scenario.path}", "-X", f"--resume={journal}"]) == 2
        last = len(damaged["transition"]["steps"]) - 1
        output = (
            f"line 1: transition/steps/{last}/to: expected at least one node, got an empty array"
        )
        assert output in capsys.readouterr().err
