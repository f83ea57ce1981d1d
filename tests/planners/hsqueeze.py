"""Run `hsqueeze` on a text file, parse its output, and generate clusters for it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.patience import PATIENCE

__all__ = ["Advice", "hsqueeze", "installed", "standby_cluster", "text_cluster"]

_MOVE = re.compile(r"gnt-instance \w+ .*-n (\S+) (\S+)")


class Advice(NamedTuple):
    """The advice that hsqueeze prints.

    It is ``offline``, ``online`` or ``none``, with the nodes to switch and the targets of the
    moves.
    """

    action: str
    nodes: list[str]
    targets: list[tuple[str, str]]


def installed() -> bool:
    """Return whether hsqueeze is installed."""
    return shutil.which("hsqueeze") is not None


def hsqueeze(path: Path, *options: str) -> Advice:
    """Return the advice of hsqueeze for the cluster in a text file."""
    done = subprocess.run(
        ["hsqueeze", "-t", str(path), "-C", *options],
        capture_output=True, text=True, check=True, timeout=PATIENCE,
    )  # fmt: skip
    head, _, commands = done.stdout.partition("Commands to run:")
    title, *nodes = head.split("\n")
    targets = [(m[2], m[1]) for m in map(_MOVE.search, commands.splitlines()) if m]
    if title == "'No action'":
        return Advice("none", [], [])
    action = title.strip("'").removeprefix("Nodes to ")
    return Advice(action, [node for node in nodes if node], targets)


def text_cluster(seed: int, nodes: tuple[int, int] = (3, 9)) -> str:
    """Return a cluster of one group with nodes that can be powered down, as text.

    Most instances are on shared storage; some clusters also have drbd or plain instances. Sizes of
    nodes, sizes of instances, and the fullness are random.
    """
    rng = Random(f"squeeze/{seed}")
    names = [f"node{k:02}" for k in range(rng.randint(*nodes))]
    equal = rng.random() < 0.5
    memory = {name: 4096 if equal else rng.choice((2048, 4096, 8192)) for name in names}
    mixed = rng.choice((0.0, 0.0, 0.0, 0.2, 0.4))
    fill = rng.choice((0.05, 0.2, 0.3, 0.4, 0.5))
    sizes = rng.choice(((128,), (128, 256, 512), (256, 512, 1024, 1536)))
    used = dict.fromkeys(names, 0)
    instances: list[str] = []
    for home in names:
        share = fill * rng.uniform(0.3, 1.7)
        while used[home] < share * memory[home]:
            size = rng.choice(sizes)
            if used[home] + size > 0.9 * memory[home]:
                break
            used[home] += size
            other = rng.choice([name for name in names if name != home])
            template = rng.choice(("drbd", "drbd", "plain")) if rng.random() < mixed else "ext"
            secondary = other if template == "drbd" else ""
            state = "ADMIN_down" if rng.random() < 0.05 else "running"
            if state != "running":
                used[home] -= size
            tags = rng.choice(("", "", "", f"web:{rng.randint(1, 3)}"))
            instances.append(
                f"inst{len(instances):03}|{size}|{10 if template != 'ext' else 0}"
                f"|{rng.randint(1, 2)}|{state}|Y|{home}|{secondary}|{template}|{tags}|1|-"
            )
    lines = []
    for number, name in enumerate(names):
        flag = "M" if number == 0 else "Y" if rng.random() < 0.05 and not used[name] else "N"
        disk = 100000 - 10 * sum(f"|{name}|" in i and "|ext|" not in i for i in instances)
        free = memory[name] - used[name]
        tag = rng.choice(("", "", "htools:standby:manual"))
        lines.append(
            f"{name}|{memory[name]}|0|{free}|100000|{disk}|{rng.choice((4, 8))}|{flag}|uuid|1|{tag}"
        )
    ratio = rng.choice((1.0, 2.0, 4.0, 8.0))
    cluster_tags = ["htools:iextags:web"] if rng.random() < 0.15 else []
    return _text(lines, instances, cluster_tags, ratio)


def standby_cluster(seed: int) -> str:
    """Return a cluster with an overfull node, and standby nodes, as text."""
    rng = Random(f"standby/{seed}")
    online = rng.randint(1, 4)
    instances: list[str] = []
    lines = []
    for number in range(online + rng.randint(1, 6)):
        name = f"node{number:02}"
        memory = rng.choice((2048, 2048, 4096))
        used = 0
        on = number < online
        while on and used + 128 <= memory * (0.97 if number == 0 else rng.uniform(0.4, 0.98)):
            size = min(rng.choice((128, 256, 384)), memory - used)
            used += size
            instances.append(f"inst{len(instances):03}|{size}|0|1|running|Y|{name}||ext||1|-")
        flag = "M" if number == 0 else "N" if on else "Y"
        tag = "" if on else rng.choice(("htools:standby:auto", "htools:standby:x", "other"))
        lines.append(f"{name}|{memory}|0|{memory - used}|1000|1000|32|{flag}|uuid|1|{tag}")
    return _text(lines, instances, [], 8.0)


def _text(nodes: list[str], instances: list[str], tags: list[str], ratio: float) -> str:
    ends = "1,1,0,0,0,1;99999,64,9999999,16,8,12|plain,drbd,ext"
    policy = [f"{name}|128,1,1024,1,1,1|{ends}|{ratio}|64.0" for name in ("", "group")]
    parts = [["group|uuid|preferred|"], nodes, instances, tags, policy]
    return "\n".join("".join(line + "\n" for line in part) for part in parts)
