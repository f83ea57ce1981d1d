"""Test `squeeze` against hsqueeze: it frees no fewer nodes, and powers no more nodes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import Json
from tests.command import run
from tests.paths import peer_data
from tests.seeds import seeds

from .hsqueeze import hsqueeze, installed, standby_cluster, text_cluster

pytestmark = pytest.mark.skipif(not installed(), reason="hsqueeze is not installed")

PEER_FILES = peer_data("hsqueeze-*.data")

FREELY = ("--n1=off", "--ignore-soft-errors")
"""Options without N+1 and soft limits, which hsqueeze does not check either."""

LEVELS = ("--minimal-resources=0.5", "--target-resources=1")


def ours(path: Path, *options: str) -> Json:
    """Return the plan of squeeze, after executing it on the model."""
    done = run("squeeze", "--json", "--verify-plan", "-t", str(path), *options)
    assert (done.returncode, done.stderr) == (0, b"")
    plan: Json = json.loads(done.stdout)
    return plan


@pytest.mark.parametrize(
    "options", [(), pytest.param(LEVELS, marks=pytest.mark.slow)], ids=" ".join
)
def test_squeeze_frees_as_many_nodes_as_hsqueeze(options: tuple[str, ...], tmp_path: Path) -> None:
    """`squeeze` frees no fewer nodes of any generated cluster than hsqueeze."""
    freed, path = 0, tmp_path / "cluster.data"
    for seed in seeds(8, 25):
        path.write_text(text_cluster(seed, (3, 6)))
        theirs = hsqueeze(path, *options)
        mine = ours(path, *FREELY, *options)
        if theirs.action == "online":
            assert mine["action"] in ("online", "none"), seed
            continue
        assert mine["action"] in ("offline", "none"), seed
        assert len(mine["switched_nodes"]) >= len(theirs.nodes), seed
        freed += len(theirs.nodes)
    assert freed > 4


def test_squeeze_powers_on_as_few_nodes_as_hsqueeze(tmp_path: Path) -> None:
    """`squeeze` powers on no more standby nodes than hsqueeze, if hsqueeze succeeds.

    If moves alone suffice, `squeeze` can free nodes in the same plan; hsqueeze does not.
    """
    enough, path = 0, tmp_path / "cluster.data"
    for seed in seeds(20, 30):
        path.write_text(standby_cluster(seed))
        theirs = hsqueeze(path)
        mine = ours(path, *FREELY)
        assert theirs.action == "online", seed
        if all("not enough" not in group["reason"] for group in mine["groups"]):
            woken = mine["switched_nodes"] if mine["action"] == "online" else []
            assert len(woken) <= len(theirs.nodes), seed
            enough += bool(woken)
        else:
            assert set(mine["switched_nodes"]) == set(theirs.nodes), seed
    assert enough > 1


@pytest.mark.parametrize("path", PEER_FILES, ids=lambda path: path.stem)
def test_squeeze_of_files_of_other_programs_equals_hsqueeze(path: Path) -> None:
    """For text files of other programs, `squeeze` frees or powers on as many nodes as hsqueeze."""
    theirs, mine = hsqueeze(path), ours(path, *FREELY)
    assert (mine["action"], len(mine["switched_nodes"])) == (theirs.action, len(theirs.nodes))
