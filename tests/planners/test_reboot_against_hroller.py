"""Test groups of nodes to reboot against hroller: never more groups under equal rules."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from iallocator.cli import main

from .hroller import hroller, installed, rolling_cluster

Capture = pytest.CaptureFixture[str]

pytestmark = pytest.mark.skipif(not installed(), reason="hroller is not installed")

CASES = {
    "online": (),
    "offline": ("--offline-maintenance",),
    "full": ("--full-evacuation",),
    "ignoring": ("--ignore-non-redundant",),
    "skipping": ("--skip-non-redundant",),
}


ROOMY = 0.15
"""Fullness of clusters with moving secondaries: hroller ignores what they reserve."""


def _compared(seeds: range, options: tuple[str, ...], folder: Path, capsys: Capture) -> int:
    """Compare some clusters; return how many were comparable."""
    compared = 0
    path = folder / "cluster.data"
    for seed in seeds:
        full = "--full-evacuation" in options
        path.write_text(rolling_cluster(seed, fullest=ROOMY if full else 0.4))
        theirs = hroller(path, "--no-headers", *options)
        status = main(["reboot", "-t", str(path), "--n1=off", "--no-headers", *options])
        ours = capsys.readouterr().out.splitlines()
        if theirs is None:
            continue
        compared += 1
        assert status == 0, seed
        assert len(ours) <= len(theirs), seed
        assert _nodes(ours) == _nodes(theirs), seed
        assert ours[-1].split(",")[-1] == "node00" if "node00" in _nodes(ours) else True, seed
    return compared


def _nodes(lines: list[str]) -> list[str]:
    return sorted(name for line in lines for name in line.split(","))


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_number_of_groups_is_at_most_that_of_hroller(
    options: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """The nodes are equal, in as many groups or fewer, with the master last."""
    assert _compared(range(8), options, tmp_path, capsys) > 2


@pytest.mark.slow
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_number_of_groups_of_hundreds_of_clusters_is_at_most_that_of_hroller(
    options: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """Many clusters have no more groups than with hroller."""
    assert _compared(range(8, 150), options, tmp_path, capsys) > 40


def test_lines_without_titles_are_those_of_hroller(tmp_path: Path, capsys: Capture) -> None:
    """If there is only one answer, the lines with one node each are equal."""
    path = tmp_path / "cluster.data"
    text = rolling_cluster(3, nodes=2)
    path.write_text(text)
    for options in (("--no-headers",), ("--one-step-only", "--no-headers")):
        theirs = hroller(path, *options)
        assert theirs
        main(["reboot", "-t", str(path), "--n1=off", *options])
        assert sorted(capsys.readouterr().out.splitlines()) == sorted(theirs)


def test_installed_hroller_is_found() -> None:
    """The comparison above runs the installed hroller."""
    assert shutil.which("hroller")
