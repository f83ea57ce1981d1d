"""Test that hbal and this program compute equal scores for the same files.

``IALLOCATOR_PEER_DATA`` can name a folder with more text files (``*.data``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from iallocator.model.state import State
from iallocator.sources.text import read_text
from iallocator.sources.writer import write_text
from tests.conformance.documents import KINDS

from .clusters import LIKE_HAIL, generated, hbal_score, n1_differs_at_start, score

pytestmark = pytest.mark.skipif(not shutil.which("hbal"), reason="hbal is not installed")

SEEDS = 25
"""Number of generated clusters of each kind."""

FOLDER = os.environ.get("IALLOCATOR_PEER_DATA")
FILES = sorted(Path(FOLDER).glob("*.data")) if FOLDER else []


def _compared(path: Path) -> Iterator[tuple[float, float]]:
    """Yield hbal's and the program's score of every group in the file with an online node.

    If all nodes are offline, hbal reports no figures.
    """
    cluster = read_text(path.read_bytes(), str(path), LIKE_HAIL).cluster
    state = State(cluster)
    if n1_differs_at_start(state):
        return
    for group in cluster.groups:
        if any(cluster.nodes[index].online for index in group.nodes):
            theirs = hbal_score(path, group.uuid)
            if theirs is not None:
                yield theirs, score(state, group.nodes)


@pytest.mark.parametrize("kind", KINDS)
def test_written_clusters_have_the_same_score_with_hbal(kind: str, tmp_path: Path) -> None:
    """A generated cluster, written as text, has its score in hbal, to 8 decimals."""
    compared = 0
    for seed in range(SEEDS):
        cluster = generated(seed, kind, LIKE_HAIL)
        state = State(cluster)
        path = tmp_path / f"{seed}.data"
        path.write_text(write_text(cluster, state))
        for theirs, ours in _compared(path):
            assert ours == pytest.approx(theirs, abs=1.01e-8, rel=0), (kind, seed)
            compared += 1
    assert compared >= SEEDS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_of_other_programs_have_the_same_score_with_hbal(path: Path, tmp_path: Path) -> None:
    """A text file of another program, read and written again, has its score in hbal."""
    found = read_text(path.read_bytes(), path.name, LIKE_HAIL)
    copy = tmp_path / "copy.data"
    text = write_text(
        found.cluster, State(found.cluster), policy=found.policy, masters=found.masters
    )
    copy.write_text(text)
    for file in (path, copy):
        for theirs, ours in _compared(file):
            assert ours == pytest.approx(theirs, abs=1.01e-8, rel=0)
