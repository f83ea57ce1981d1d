"""Time and memory grow about as the input does: a small part of ``benchmarks.growth``."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from benchmarks.growth import DIMENSIONS, PATHS, REASONS, REPAIR, grown

TIMES = 3
"""A busy machine may spoil a measurement: how often one that fails is repeated."""

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
"""Dimension, path, part of 4N, and the exponent below which the growth of time must be.

The time or the memory of each of them once grew with the square, or with the cube.
"""

MEMORY = 1.3
"""The exponent below which the growth of memory must be."""


@pytest.mark.parametrize(("title", "path", "scale", "most"), KNOWN)
def test_growth_of_time_and_memory_is_bounded(
    title: str, path: str, scale: float, most: float, tmp_path: Path
) -> None:
    """Processor time and peak memory of the real command at N and 4N, start-up excluded.

    A small process starts the runs: the memory of the one that starts a run counts for it.
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
    """A reason for a row that has been renamed or removed is removed, too."""
    assert all(title in DIMENSIONS and path in PATHS | REPAIR for title, path in REASONS)
