"""Test that an answer depends on the input, not on the speed of the machine.

All times are read by `iallocator.deadline`; here they are simulated.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from iallocator import deadline
from iallocator.cli import main
from tests.aliases import Capture
from tests.conformance.documents import KINDS, document
from tests.seeds import seeds
from tests.solver.test_effort import simulated_batch

QUIET_MACHINE, BUSY_MACHINE = 0.0, 0.005
"""Simulated seconds between two reads of the clock, on a fast and on a slow machine."""

PLANS = (
    "balance --json", "squeeze --json --all", "compress --json", "redistribute --json",
    "balance-groups --json", "check --json", "place --json --strategy=balanced", "reboot --json",
    "capacity --json -l3", "explain --json", "make-room --json", "repair --json",
    "check --json --failures=2", "place --json --strategy=pacemaker-utilization",
    "reboot --json --force", "maintain --json --force --after=balance --time-limit=9000",
)  # fmt: skip
"""Commands with searches; requests are answered without a search."""


def inputs() -> Iterator[tuple[str, list[str]]]:
    """Yield the text of a document, and arguments of the program, for each case."""
    for number, kind in zip(seeds(20, 200, 40), itertools.cycle(KINDS)):
        yield json.dumps(document(number, kind)), []
    for number, words in zip(seeds(20, 200, 700), itertools.cycle(PLANS)):
        yield json.dumps(document(number, KINDS[number % len(KINDS)])), words.split()
    for number, words in zip(
        seeds(20, 100), itertools.cycle(("--n1=no-new", "--optimal", "--n1=strict"))
    ):
        yield json.dumps(simulated_batch(number)), words.split()


def output_of(path: Path, words: list[str], step: float, capsys: Capture) -> tuple[int, str, str]:
    """Return status, stdout and stderr of a run with `step` seconds between reads of the clock."""
    clock = itertools.count(1000.0, step) if step else itertools.repeat(1000.0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deadline, "monotonic", lambda: next(clock))
        status = main([*words, str(path)])
    out, err = capsys.readouterr()
    return status, out, err


def test_answers_on_a_busy_machine_are_those_on_a_quiet_one(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Output is byte-equal on a fast and on a slow machine, also after searches with budgets."""
    for kind in (deadline.ITERATIONS, deadline.TRIALS, deadline.PLACEMENTS):
        monkeypatch.setitem(deadline.PER_SECOND, kind, deadline.PER_SECOND[kind] // 50)
    path, spent, differing = tmp_path / "doc", 0, []
    for number, (text, words) in enumerate(inputs()):
        path.write_text(text)
        quiet = output_of(path, words, QUIET_MACHINE, capsys)
        spent += "budget of work" in quiet[1]
        if output_of(path, words, BUSY_MACHINE, capsys) != quiet:
            differing.append((number, words))
    assert differing == []
    assert spent > 2
