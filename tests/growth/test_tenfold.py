"""Test that a time limit of ten times the time of a run changes no answer.

Time is counted in reads of the clock, each of which takes the same time. A run without a limit is
measured, and repeated with ten times its time as the limit.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from benchmarks.growth import DIMENSIONS, PATHS, REASONS, REPAIR, grown
from iallocator import deadline
from iallocator.cli import main
from tests.aliases import Capture
from tests.conformance.documents import KINDS, document
from tests.property.test_clock import PLANS
from tests.seeds import seeds
from tests.solver.test_effort import simulated_batch

STEPS = (0.002, 0.05)
"""Seconds of one read of the clock, for short and long runs."""


class Clock:
    """A clock that advances one step at each read; none of its deadlines passes."""

    def __init__(self, step: float) -> None:
        self._step = step
        self.looks = 0

    def __call__(self) -> float:
        """Return the simulated time in seconds."""
        self.looks += 1
        return 1000.0 + self.looks * self._step

    @property
    def seconds(self) -> float:
        """Return the seconds that all reads of the clock took together."""
        return self.looks * self._step


def inputs() -> Iterator[tuple[str, list[str]]]:
    """Yield documents, each with the arguments of a run."""
    for number, kind in zip(seeds(8, 100, 90), itertools.cycle(KINDS)):
        yield json.dumps(document(number, kind)), []
    for number, words in zip(seeds(len(PLANS), 200, 500), itertools.cycle(PLANS)):
        yield json.dumps(document(number, KINDS[number % len(KINDS)])), words.split()
    for number, words in zip(seeds(4, 30), itertools.cycle(("--n1=no-new", "--optimal"))):
        yield json.dumps(simulated_batch(number)), words.split()


def output_of(path: Path, words: list[str], step: float, capsys: Capture) -> tuple[Any, float]:
    """Return the status, both streams and the simulated seconds of a run."""
    clock = Clock(step)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(deadline, "monotonic", clock)
        status = main([*words, str(path)])
    return (status, *capsys.readouterr()), clock.seconds


@pytest.mark.parametrize("step", STEPS)
def test_tenfold_time_limit_gives_the_same_answer(
    step: float, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a tenfold time limit, each request and command has byte-equal output.

    Searches may do a fiftieth of their usual work in this test, so that some end by their budget.
    """
    for kind in (deadline.ITERATIONS, deadline.TRIALS, deadline.PLACEMENTS):
        monkeypatch.setitem(deadline.PER_SECOND, kind, deadline.PER_SECOND[kind] // 50)
    path, spent, differing = tmp_path / "doc", 0, []
    for number, (text, words) in enumerate(inputs()):
        path.write_text(text)
        first, seconds = output_of(path, words, step, capsys)
        spent += "budget of work" in first[1]
        limit = f"--time-limit={max(10 * seconds, 100 * step):.3f}"
        if output_of(path, [*words, limit], step, capsys)[0] != first:
            differing.append((number, words, limit))
    assert differing == []
    assert spent


# Time and memory grow about as the input does: a small part of ``benchmarks.growth``.


TIMES = 3
"""Number of attempts for a measurement, as a busy machine can spoil one."""

KNOWN = (
    ("groups of 2 nodes (drbd)", "check", 0.8, 1.5),
    ("groups of 2 nodes (drbd)", "report", 0.8, 1.5),
    ("groups of 2 nodes (drbd)", "explain", 0.5, 1.5),
    ("groups of 2 nodes (rbd)", "check --failures 2", 0.5, 1.5),
    ("nodes (plain)", "check --failures 2", 1.0, 1.4),
    ("nodes (plain)", "balance -l 3", 1.0, 1.6),
    ("migration tags", "show", 1.0, 1.5),
    ("nodes (drbd)", "explain", 1.0, 1.8),
    ("nodes (drbd)", "explain node-evacuate", 1.0, 1.8),
)
"""Dimension, path, part of 4N, and the largest permitted exponent of the time.

The time or the memory of each of them once grew with the square, or with the cube.
"""

MEMORY = 1.3
"""Largest permitted exponent of the growth of memory."""


@pytest.mark.parametrize(("title", "path", "scale", "most"), KNOWN)
def test_growth_of_time_and_memory_is_bounded(
    title: str, path: str, scale: float, most: float, tmp_path: Path
) -> None:
    """Time and memory of commands grow no faster than the listed exponents.

    Processor time and peak memory of the real command are measured for clusters of N and of 4N
    nodes. Start-up is excluded. A small process starts the runs: the peak memory of a run includes
    that of its parent.
    """
    for _ in range(TIMES):
        with ProcessPoolExecutor(1, get_context("spawn")) as small:
            found = small.submit(grown, title, path, tmp_path, scale).result()
        assert not any(found.rejected)
        bounded = (found.time or 0) < most and (found.memory or 0) < MEMORY
        if not found.ended and bounded:
            return
    pytest.fail(f"time grows with exponent {found.time}, memory with {found.memory}")


def test_reasons_are_about_rows_of_the_table() -> None:
    """Each stated reason for a growth of time is about an existing row of the measurements."""
    assert all(title in DIMENSIONS and path in PATHS | REPAIR for title, path in REASONS)
