"""Test that `capacity` prints every key and value of hspace, in its order."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.command import run
from tests.patience import PATIENCE
from tests.planners.capacities import cluster, odd, options
from tests.seeds import seeds

pytestmark = pytest.mark.skipif(not shutil.which("hspace"), reason="hspace is not installed")


def hspace(*words: str) -> list[str]:
    """Return the lines that `hspace --machine-readable` prints."""
    command = ["hspace", "--machine-readable", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    return done.stdout.splitlines()


def ours(*words: str) -> list[str]:
    """Return the lines that `capacity --machine-readable` prints."""
    return (
        run("capacity", "--machine-readable", "--compat=hail", *words).stdout.decode().splitlines()
    )


@pytest.mark.parametrize("seed", seeds(12, 40))
def test_capacity_of_a_cluster_is_the_one_of_hspace(seed: int, tmp_path: Path) -> None:
    """`capacity` prints hspace's lines for a cluster: counts, tiers, scores, usage and reason."""
    path = tmp_path / "cluster.data"
    path.write_text(cluster(seed))
    words = ["-t", str(path), *options(seed)]
    assert ours(*words) == hspace(*words), words


@pytest.mark.parametrize("seed", seeds(16, 60))
def test_capacity_with_several_intervals_is_the_one_of_hspace(seed: int, tmp_path: Path) -> None:
    """`capacity` prints hspace's lines if a policy has several intervals."""
    text, words = odd(seed)
    path = tmp_path / "cluster.data"
    path.write_text(text)
    words = ["-t", str(path), *words]
    assert ours(*words) == hspace(*words), words


@pytest.mark.parametrize("most", [0, 2, 5, 13])
@pytest.mark.parametrize("seed", seeds(8, 40, 20))
def test_capacity_with_a_limit_is_the_one_of_hspace(seed: int, most: int, tmp_path: Path) -> None:
    """`capacity` prints hspace's lines if --max-length limits the number of instances."""
    path = tmp_path / "cluster.data"
    for text, words in ((cluster(seed), options(seed)), odd(seed)):
        path.write_text(text)
        every = ["-t", str(path), *words, f"--max-length={most}"]
        assert ours(*every) == hspace(*every), every


@pytest.mark.parametrize("template", ["drbd", "plain", "rbd"])
@pytest.mark.parametrize("spec", ["preferred,4,100G,16g,4,2", "last_resort,3,200g,8g,2"])
def test_capacity_of_a_simulated_cluster_is_the_one_of_hspace(spec: str, template: str) -> None:
    """`capacity` prints hspace's lines for a simulated cluster."""
    words = [f"--simulate={spec}", f"--disk-template={template}"]
    theirs = hspace(*words)
    assert theirs[-1] == "HTS_OK=1"
    assert ours(*words) == theirs
