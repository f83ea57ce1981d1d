"""Test that `balance` prints its plan so far after Ctrl-C, or at its time limit."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import clusters
from iallocator.cli import main
from iallocator.deadline import SIGNALLED, Stopped
from iallocator.model.moves import Move
from iallocator.n1.comparison import Comparison
from iallocator.planners.balance import compound_moves
from iallocator.planners.balance.plan_builder import PlanBuilder
from iallocator.planners.balance.scan.scan import MoveScan
from tests.builders import as_bytes
from tests.command import json_of
from tests.paths import ROOT
from tests.patience import PATIENCE

COMMAND = [sys.executable, "-m", "iallocator", "balance", "--json"]


def unbalanced(folder: Path, nodes: int = 30, instances: int = 400) -> str:
    """Write a cluster with all instances on two nodes, and return the path of its file.

    With the default numbers of nodes and instances, balancing takes seconds.
    """
    memory = 64 * instances
    head = "default|uuid-default|preferred||\n"
    rows = [
        f"node{k:02}|{2 * memory + 9000}|512|{(memory if k < 2 else 2 * memory) + 8000}"
        f"|9999999|{9999999 - (k < 2) * 1024 * instances}|999|N|uuid-default|9||N|0|1|1.0"
        for k in range(nodes)
    ]
    names = [
        f"i{k:03}|128|1024|1|running|Y|node0{k % 2}|node0{1 - k % 2}|drbd||1|1|N"
        for k in range(instances)
    ]
    policy = "|128,1,1024,1,1,1|128,1,1024,1,1,1;8192,8,1048576,16,8,999|drbd,rbd|64.0|512.0\n"
    path = folder / "unbalanced.data"
    path.write_text("\n".join([head, "\n".join(rows) + "\n", "\n".join(names) + "\n", "", policy]))
    return str(path)


def on_terminal(arguments: list[str], stop_at: str) -> tuple[int, str, str]:
    """Run the program on a terminal, and interrupt it when stderr has `stop_at`.

    Return the exit status, stdout and stderr.
    """
    ours, theirs = pty.openpty()
    running = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.PIPE, stderr=theirs, stdin=subprocess.DEVNULL,
        cwd=ROOT, text=True,
    )  # fmt: skip
    os.close(theirs)
    output = ""
    while stop_at not in output:
        output += os.read(ours, 100).decode(errors="replace")
    running.send_signal(signal.SIGINT)
    drain = threading.Thread(target=_read_all, args=(ours,))
    drain.start()
    out, _ = running.communicate(timeout=PATIENCE)
    drain.join()
    os.close(ours)
    return running.returncode, out, output


def _read_all(terminal: int) -> None:
    """Read from a terminal until its other end is closed, which Linux reports as an error."""
    with contextlib.suppress(OSError):
        while os.read(terminal, 1000):
            pass


def test_balance_interrupted_on_a_terminal_prints_the_plan_so_far(tmp_path: Path) -> None:
    """After Ctrl-C on a terminal, `balance` prints the moves so far and ends with status 130."""
    long = unbalanced(
        tmp_path, 40, 1500
    )  # minutes of work, so that it is not over when the signal arrives
    status, out, output = on_terminal(["-t", long], " moves, score ")
    assert status == 130
    plan = json.loads(out)
    reported = re.findall(r"(\d+) moves, score ", output)
    assert 1 <= int(reported[0]) <= len(plan["moves"]) < 1500
    assert plan["groups"][0]["reason"] == "interrupted"
    assert plan["scores"]["after"] == plan["moves"][-1]["score"] < plan["scores"]["before"]


def test_balance_without_a_terminal_shows_no_progress(tmp_path: Path) -> None:
    """If stderr is a file or a pipe, `balance` prints no progress; --time-limit ends the run."""
    done = subprocess.run(
        [*COMMAND, "--time-limit=0.5", "-t", unbalanced(tmp_path, 40, 1500)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=PATIENCE,
    )  # fmt: skip
    reported = "iallocator: the time limit of 0.5 s was reached (--time-limit)"
    reading = r"(: reading the cluster alone took [0-9.]+ s)?"  # on a busy machine
    assert done.returncode == 3
    assert re.fullmatch(re.escape(reported) + reading + "\n", done.stderr)
    plan = json.loads(done.stdout)
    assert plan["groups"][0]["reason"] == "time is up"
    assert plan["scores"]["after"] <= plan["scores"]["before"]


@pytest.mark.parametrize("options", [[], ["--all-groups"], ["--cost=5"]])
def test_balance_interrupted_in_the_first_scan_prints_an_empty_plan(
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If Ctrl-C ends the first scan, `balance` prints a plan without moves; the status is 130."""

    def interrupted(scan: MoveScan, *arguments: object) -> None:
        raise Stopped(SIGNALLED)

    monkeypatch.setattr(MoveScan, "__init__", interrupted)
    plan = json_of("balance", *options, "-t", unbalanced(tmp_path, 4, 8), status=130)
    assert (plan["moves"], plan["job_sets"]) == ([], [])
    assert plan["groups"][0]["reason"] == "interrupted"
    assert plan["scores"]["after"] == plan["scores"]["before"] > 0


def test_balance_interrupted_while_checked_keeps_its_moves(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C during the N+1 check of the finished plan ends `balance` with all its moves."""
    path = unbalanced(tmp_path, 5, 14)
    main(["balance", "--json", "-t", path])
    plain = json.loads(capsys.readouterr().out)
    calls = []

    def counted(question: Callable[..., Any]) -> Callable[..., Any]:
        def ask(failures: Comparison, *arguments: Any, **named: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise Stopped(SIGNALLED)
            return question(failures, *arguments, **named)

        return ask

    for question in ("broken", "first_broken"):
        monkeypatch.setattr(Comparison, question, counted(getattr(Comparison, question)))
    plan = json_of("balance", "-t", path, status=130)
    assert plan["moves"] == plain["moves"] != []
    assert plan["groups"][0]["reason"] == "interrupted"


def test_balance_interrupted_in_a_swap_keeps_whole_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Ctrl-C within a swap, the plan of balance ends before this swap."""
    path = str(tmp_path / "cluster.json")
    shape = clusters.Shape(6, "rbd", per_node=5, fullness=0.7, crowding=0.6)
    Path(path).write_bytes(as_bytes(clusters.document(shape)))
    make, calls = compound_moves._make, []

    def counted(builder: PlanBuilder, move: Move) -> bool:
        calls.append(1)
        if len(calls) > 3:  # in the second swap, after one of its moves
            raise Stopped(SIGNALLED)
        return make(builder, move)

    monkeypatch.setattr(compound_moves, "_make", counted)
    plan = json_of("balance", path, status=130)
    scores = [move["score"] for move in plan["moves"]]
    assert len(calls) > 3
    assert plan["scores"]["after"] == scores[-1] == min(scores)
