"""Measure the peak memory of planners and large requests at 1 000 nodes and 20 000 instances.

``python -m benchmarks.memory [--limit SECONDS] [WORD ...]`` prints a table; with words (``drbd``,
``squeeze``, ...), only lines with one of them. Each run has a ``--time-limit``, which counts
processor time, as in `benchmarks.limits`, so that the load of the machine does not matter. Reading
the document (5 MB) and writing the result are not included.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

from benchmarks.clusters import Shape, allocate, change_group, multi_allocate, node_evacuate
from benchmarks.limits import ended
from benchmarks.measure import Measured
from iallocator.aliases import Json

TEMPLATES = ("drbd", "rbd", "plain")
LIMIT = 30.0
EVERY = 23
"""In the input with offline nodes, one of this number of nodes is offline."""

ALLOCATE = (
    "balance", "balance --cost=2000", "balance --evac-mode",
    "check", "check --no-simulation", "check --failures=2",
    "capacity", "capacity --tiered-alloc=1048576,65536,32",
    "squeeze", "squeeze --drbd", "squeeze --all",
    "place --strategy=pacemaker-default", "place --strategy=pacemaker-utilization",
    "place --strategy=pacemaker-balanced", "place --strategy=pacemaker-minimal",
    "reboot --force", "reboot --force --full-evacuation", "reboot --offline-maintenance",
    "report --html=page.html", "explain",
    "", "--optimal", "--strategy=lost-allocations", "--strategy=affinity", "--compat=hail",
)  # fmt: skip
OFFLINE = ("balance", "check", "repair")
BETWEEN = ("compress", "redistribute", "balance-groups")
BATCH = ("", "--optimal", "--compat=hail")

ASKED: dict[str, tuple[str, ...]] = {
    "allocate": ALLOCATE,
    "allocate of 60 GB on 75 % full nodes": ("make-room", "--make-room=2"),
    "every 23rd node offline": OFFLINE,
    "20 groups": BETWEEN,
    "20 groups, every 23rd node offline": BETWEEN,
    "multi-allocate of 40": BATCH,
    "multi-allocate of 1000": ("",),
    "node-evacuate of 40": BATCH,
    "node-evacuate of 1000": ("",),
    "change-group of 40, 20 groups": BATCH,
    "change-group of 1000, 20 groups": ("",),
}
"""Input -> the commands, or the options of requests, that run on it."""


def document(name: str, template: str) -> Json:
    """Return the document `name`; the first quarter of its nodes has 30 % more instances."""
    whole = Shape(1000, template, per_node=20, crowding=0.3)
    groups = Shape(50, template, groups=20, per_node=20, crowding=0.3)
    full = Shape(1000, template, per_node=20, crowding=0.1, fullness=0.75)
    count = int(name.split()[2].rstrip(",")) if " of " in name else 0
    made: dict[str, Callable[[], Json]] = {
        "allocate": lambda: allocate(full, 61440) if count else allocate(whole),
        "every": lambda: offline(allocate(whole)),
        "20": lambda: offline(allocate(groups)) if "offline" in name else allocate(groups),
        "multi-allocate": lambda: multi_allocate(whole, count),
        "node-evacuate": lambda: node_evacuate(whole, count),
        "change-group": lambda: change_group(groups, count),
    }
    return made[name.split(maxsplit=1)[0]]()


def offline(whole: Json) -> Json:
    """Return the document with every `EVERY`-th node offline, and all repairs permitted."""
    for name in list(whole["nodes"])[::EVERY]:
        whole["nodes"][name]["offline"] = True
    return whole | {"cluster_tags": ["ganeti:watcher:autorepair:reinstall"]}


def write(name: str, template: str, file: Path) -> None:
    """Write the input as a file.

    A separate process calls this, because its memory would count for the processes that it starts.
    """
    file.write_text(json.dumps(document(name, template)))


def main() -> None:
    """Print the table with one line for each input, command and template."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=LIMIT, help="of each, processor seconds")
    parser.add_argument("words", nargs="*", help="only lines with one of these")
    options = parser.parse_args()
    print("| input | asked | template | MiB | s |\n|---|---|---|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "document.json")
        for template in TEMPLATES:
            for name, asked in ASKED.items():
                lines = {
                    f"| {name} | `{one or 'the request'}` | {template} |": one for one in asked
                }
                chosen = [
                    line for line in lines
                    if not options.words or any(word in line for word in options.words)
                ]  # fmt: skip
                if chosen:
                    with get_context("spawn").Pool(1) as pool:
                        pool.apply(write, (name, template, file))
                for line in chosen:
                    found = ended(lines[line], options.limit, file)
                    print(f"{line} {shown(found)} |", flush=True)


def shown(found: Measured) -> str:
    """Return peak and time of a run as text; those of a stopped run are lower bounds."""
    if found.rejected:
        return "refused | "
    more = "> " if found.limited else ""
    return f"{more}{found.peak_mib:.0f} | {more}{found.median:.0f}"


if __name__ == "__main__":
    main()
