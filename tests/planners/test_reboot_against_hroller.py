"""Test that `reboot` with hroller's rules never has more groups than hroller."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from iallocator.cli import main
from tests.aliases import Capture
from tests.patience import PATIENCE

MIXES = (("drbd",), ("drbd",), ("ext",), ("drbd", "ext"), ("drbd", "ext", "plain"))


def installed() -> bool:
    """Return whether hroller is installed."""
    return shutil.which("hroller") is not None


def hroller(path: Path, *options: str) -> list[str] | None:
    """Return the lines with groups that hroller prints; None if it fails."""
    done = subprocess.run(
        ["hroller", "-t", str(path), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    return None if done.returncode else done.stdout.splitlines()


def rolling_cluster(seed: int, nodes: int = 9, fullest: float = 0.4) -> str:
    """Return a generated cluster of one group as text, with instances of one or more kinds."""
    rng = Random(f"reboot/{seed}")
    names = [f"node{k:02}" for k in range(rng.randint(2, nodes))]
    mix, memory = rng.choice(MIXES), rng.choice((4096, 8192))
    fill = min(fullest, rng.choice((0.05, 0.15, 0.3, 0.4))) * memory
    used, disk = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    instances: list[str] = []
    for home in names:
        while used[home] < fill * rng.uniform(0.5, 1.5):
            size, template = rng.choice((128, 256, 512)), rng.choice(mix)
            secondary = rng.choice([n for n in names if n != home]) if template == "drbd" else ""
            used[home] += size
            for name in (home, secondary) if template != "ext" else ():
                if name:
                    disk[name] += 10
            instances.append(
                f"inst{len(instances):03}|{size}|10|1|running|Y|{home}|{secondary}|{template}||1|-"
            )
    lines = [
        f"{name}|{memory}|128|{memory - 128 - used[name]}|100000|{100000 - disk[name]}|16|"
        f"{'M' if name == names[0] else 'N'}|uuid-1|1"
        for name in names
    ]
    return "\n".join(["default|uuid-1|preferred||", "", *lines, "", *instances, "", "", ""]) + "\n"


pytestmark = pytest.mark.skipif(not installed(), reason="hroller is not installed")

CASES = {
    "online": (),
    "offline": ("--offline-maintenance",),
    "full": ("--full-evacuation",),
    "ignoring": ("--ignore-non-redundant",),
    "skipping": ("--skip-non-redundant",),
}


ROOMY = 0.15
"""Fullness of clusters in which secondaries move; hroller ignores what secondaries reserve."""


def _compared(seeds: range, options: tuple[str, ...], folder: Path, capsys: Capture) -> int:
    """Compare reboot with hroller on some clusters; return how many were comparable."""
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
    """`reboot` has the nodes of hroller in as many groups or fewer, with the master last."""
    assert _compared(range(8), options, tmp_path, capsys) > 2


@pytest.mark.slow
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_number_of_groups_of_hundreds_of_clusters_is_at_most_that_of_hroller(
    options: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    """On hundreds of clusters, `reboot` never has more groups than hroller."""
    assert _compared(range(8, 150), options, tmp_path, capsys) > 40


def test_lines_without_titles_are_those_of_hroller(tmp_path: Path, capsys: Capture) -> None:
    """`reboot` prints the lines of hroller, one node each, if there is only one answer."""
    path = tmp_path / "cluster.data"
    text = rolling_cluster(3, nodes=2)
    path.write_text(text)
    for options in (("--no-headers",), ("--one-step-only", "--no-headers")):
        theirs = hroller(path, *options)
        assert theirs
        main(["reboot", "-t", str(path), "--n1=off", *options])
        assert sorted(capsys.readouterr().out.splitlines()) == sorted(theirs)


def test_installed_hroller_is_found() -> None:
    """The installed program hroller is found, so that the tests of this module run."""
    assert shutil.which("hroller")
