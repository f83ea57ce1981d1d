"""Run `hroller` on a text file, and generate clusters for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

from tests.patience import PATIENCE

__all__ = ["hroller", "installed", "rolling_cluster"]

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
    """Return a generated cluster of one group as text, with one or more kinds of instances."""
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
