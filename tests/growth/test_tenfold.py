"""A time limit of ten times the time of a run changes no answer.

Time is counted in reads of the clock, each of which takes the same time. A run without a limit is
measured, and repeated with ten times its time as the limit.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iallocator import deadline
from iallocator.cli import main
from tests.conformance.documents import KINDS, document
from tests.property.test_clock import PLANS
from tests.seeds import seeds
from tests.solver.test_effort import crowded_batch

STEPS = (0.002, 0.05)
"""Seconds of one read: limits below and above the seconds that a search may use."""

Capture = pytest.CaptureFixture[str]


class Clock:
    """A clock that advances one step at each read; none of its deadlines passes."""

    def __init__(self, step: float) -> None:
        self._step = step
        self.looks = 0

    def __call__(self) -> float:
        """Return the time, in seconds."""
        self.looks += 1
        return 1000.0 + self.looks * self._step

    @property
    def seconds(self) -> float:
        """Return the time of all reads together."""
        return self.looks * self._step


def inputs() -> Iterator[tuple[str, list[str]]]:
    """Yield documents, each with its arguments."""
    for number, kind in zip(seeds(12, 100, 90), itertools.cycle(KINDS)):
        yield json.dumps(document(number, kind)), []
    for number, words in zip(seeds(len(PLANS) * 2, 200, 500), itertools.cycle(PLANS)):
        yield json.dumps(document(number, KINDS[number % len(KINDS)])), words.split()
    for number, words in zip(seeds(6, 30), itertools.cycle(("--n1=no-new", "--optimal"))):
        yield json.dumps(crowded_batch(number)), words.split()


def said(path: Path, words: list[str], step: float, capsys: Capture) -> tuple[Any, float]:
    """Return status and both streams of a run, and its seconds."""
    clock = Clock(step)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deadline, "monotonic", clock)
        status = main([*words, str(path)])
    return (status, *capsys.readouterr()), clock.seconds


@pytest.mark.parametrize("step", STEPS)
def test_limit_of_ten_times_the_time_gives_the_same_answer(
    step: float, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests of all types and every command that searches: bytes and status are equal.

    Searches may do a fiftieth of their work here, so that some end by their budget.
    """
    for kind in (deadline.ITERATIONS, deadline.TRIALS, deadline.PLACEMENTS):
        monkeypatch.setitem(deadline.PER_SECOND, kind, deadline.PER_SECOND[kind] // 50)
    path, spent, differing = tmp_path / "doc", 0, []
    for number, (text, words) in enumerate(inputs()):
        path.write_text(text)
        first, seconds = said(path, words, step, capsys)
        spent += "budget of work" in first[1]
        limit = f"--time-limit={max(10 * seconds, 100 * step):.3f}"
        if said(path, [*words, limit], step, capsys)[0] != first:
            differing.append((number, words, limit))
    assert differing == []
    assert spent
