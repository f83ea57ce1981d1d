"""Peak memory of every planner at 1 000 nodes and 20 000 instances.

``python -m benchmarks.memory [NAME ...]`` prints a table; names leave out what has none of them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.clusters import Shape, as_text, document
from benchmarks.measure import Measured, run

ASKED = (
    ("balance", "--time-limit=30"),
    ("check", "--time-limit=30"),
    ("check", "--no-simulation"),
    ("capacity", "--time-limit=30"),
    ("place", "--strategy=pacemaker-balanced", "--time-limit=60"),
    ("reboot", "--force"),
    ("report", "--html=page.html"),
    ("show",),
)
"""On one group."""

BETWEEN = ("compress", "redistribute", "balance-groups")
"""On 20 groups."""

LIMIT = 300.0
"""Seconds of processor time at most."""


def shapes(template: str) -> dict[int, Shape]:
    """By how many groups there are, the cluster; the first quarter of the nodes has 30 % more."""
    return {
        groups: Shape(1000 // groups, template, groups=groups, per_node=20, crowding=0.3)
        for groups in (1, 20)
    }


def main(names: list[str]) -> None:
    """Print the table, a line for each planner and template."""
    asked = [(1, one) for one in ASKED] + [(20, (one, "--time-limit=30")) for one in BETWEEN]
    program = Path(sys.executable).with_name("iallocator")
    print("| planner | template | MiB | s |\n|---|---|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for template in ("drbd", "rbd"):
            for groups, shape in shapes(template).items():
                text = Path(folder, f"{template}-{groups}.txt")
                text.write_text(as_text(document(shape)))
                for command in [
                    c for g, c in asked if g == groups and (not names or c[0] in names)
                ]:
                    found = Measured()
                    words = [word.replace("page.html", f"{folder}/page.html") for word in command]
                    run([str(program), *words, f"--text-data={text}"], found, LIMIT)
                    print(f"| `{' '.join(command)}` | {template} | {found.peak_mib:.0f} "
                          f"| {found.median:.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
