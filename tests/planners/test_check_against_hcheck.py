"""Test that `check --machine-readable` prints hcheck's keys and values, line by line."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.builders import allocate, cluster, instance
from tests.command import run
from tests.conformance.documents import document
from tests.paths import peer_data
from tests.patience import PATIENCE
from tests.seeds import seeds

from .hbal import as_text
from .hbal import installed as peers_installed
from .test_balance_against_hbal import comparable

pytestmark = pytest.mark.skipif(
    not peers_installed() or shutil.which("hcheck") is None, reason="hcheck is not installed"
)

OPTIONS = (
    (),
    ("--no-simulation",),
    ("--no-capacity-checks",),
    ("--evac-mode",),
    ("--no-disk-moves", "--max-length=2"),
    ("--no-instance-moves", "--ignore-soft-errors"),
    ("--max-cpu=1.5", "--min-disk=0.6"),
    ("--min-gain=0.5", "--min-gain-limit=1000", "--min-score=1"),
)


def hcheck(path: Path, *options: str) -> tuple[int, list[str]]:
    """Return the exit status and the lines of hcheck for the cluster in a text file."""
    done = subprocess.run(
        ["hcheck", "--machine-readable", "-t", str(path), *options],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines()


def ours(path: Path, *options: str) -> tuple[int, list[str]]:
    """Return the exit status and the lines of `check --machine-readable`."""
    done = run("check", "--machine-readable", "-t", str(path), *options)
    return done.returncode, done.stdout.decode().splitlines()


def different(seed: int, folder: Path, *options: str) -> str | None:
    """Return the differences to hcheck for a generated cluster; None if it is not comparable."""
    raw = document(seed, ("relocate", "node-evacuate")[seed % 2])
    if not comparable(raw):
        return None
    path = as_text(raw, folder)
    theirs, mine = hcheck(path, *options), ours(path, *options)
    if theirs == mine:
        return ""
    lines = sorted({*theirs[1]} ^ {*mine[1]})
    return f"seed {seed} {options}: {theirs[0]} {mine[0]} {lines}"


def test_check_of_generated_clusters_is_that_of_hcheck(tmp_path: Path) -> None:
    """`check` prints the lines of hcheck and has its exit status, with any options."""
    found = [
        different(seed, tmp_path, *OPTIONS[seed % len(OPTIONS)]) for seed in seeds(16, 48, 600)
    ]
    compared = [one for one in found if one is not None]
    assert not any(compared), "\n".join(filter(None, compared))
    assert len(compared) >= 10


def test_check_counts_no_spindles_of_exclusive_storage_for_shared_disks(tmp_path: Path) -> None:
    """On exclusive storage, hcheck counts spindles for shared disks, and `check` does not.

    Without exclusive storage, both print equal lines.
    """
    raw = document(70062, "relocate")
    path = as_text(raw, tmp_path)
    assert hcheck(path) != ours(path)
    for node in raw["nodes"].values():
        node["ndparams"]["exclusive_storage"] = False
    path = as_text(raw, tmp_path)
    assert hcheck(path) == ours(path)


def test_check_with_an_offline_node_is_that_of_hcheck(tmp_path: Path) -> None:
    """`check -O` regards the given nodes as offline and evacuates them, as hcheck does."""
    compared = []
    for seed in range(648, 656):
        name = next(iter(document(seed, ("relocate", "node-evacuate")[seed % 2])["nodes"]))
        compared.append(different(seed, tmp_path, "-O", name))
    assert not any(compared), "\n".join(filter(None, compared))
    assert "" in compared


@pytest.mark.parametrize(
    "path",
    peer_data("*.data"),
    ids=lambda path: str(path.stem),
)
def test_check_of_peer_data_is_that_of_hcheck(path: Path) -> None:
    """On Ganeti's own test data, `check` prints the lines of hcheck."""
    assert ours(path) == hcheck(path)


def test_group_without_an_online_node_scores_0_as_in_hcheck(tmp_path: Path) -> None:
    """`check --machine-readable` prints the score 0 for a group without online nodes, as hcheck."""
    pair = {"a": instance("node1", "node2"), "b": instance("node3", "node4")}
    raw = allocate(cluster({"default": 2, "other": 2}, instances=pair))
    path = as_text(raw, tmp_path)
    options = ("-O", "node1", "-O", "node2", "--no-simulation")
    assert ours(path, *options) == hcheck(path, *options)
    assert "HCHECK_INIT_GROUP_0_SCORE=0.00000000" in ours(path, *options)[1]
