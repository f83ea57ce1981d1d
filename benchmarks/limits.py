"""What ``--time-limit=1`` comes to at 1 000 nodes and 20 000 instances, on every path.

``python -m benchmarks.limits [WORD ...]`` prints processor seconds from the start of each process
to its end, reading (5 MB) included; words leave out what has none of them.  The limit itself is
counted in processor time here, so that a busy machine measures the same as a calm one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.clusters import Shape, allocate, change_group, multi_allocate, node_evacuate
from benchmarks.measure import Measured, run

Json = dict[str, Any]

TEMPLATES = ("drbd", "plain", "rbd")

COMMANDS = (
    "balance --json", "balance --lookahead", "balance --html=page.html", "squeeze",
    "squeeze --all --json", "redistribute --json", "compress --json", "balance-groups --json",
    "check", "check --failures=2 --json", "capacity --json", "make-room",
    "place --strategy=pacemaker-balanced", "place --strategy=pacemaker-utilization --json",
    "reboot --force --json", "reboot --force --full-evacuation",
)  # fmt: skip

REQUESTS = ("", "--strategy=lost-allocations", "--strategy=affinity", "--n1=strict", "--optimal",
            "--make-room=2", "explain", "--compat=hail")  # fmt: skip

CHILD = """
import sys, time
sys.path.insert(0, {root!r})
from iallocator import deadline
from iallocator.process import run

deadline.monotonic = time.process_time
sys.argv[1:] = {words!r}
run()
"""

MOST = 60.0
"""Seconds of processor time, beyond twice the limit, after which a process is ended."""


def inputs(template: str) -> Iterator[tuple[str, Json, tuple[str, ...]]]:
    """A name, a document, and what is asked of it."""
    shape = Shape(250, template, groups=4, per_node=20, crowding=0.3)
    yield "allocate", allocate(shape), (*REQUESTS, *COMMANDS)
    yield "multi-allocate of 40", multi_allocate(shape, 40), REQUESTS
    for mode in ("primary-only", "all"):
        yield f"node-evacuate of 40, {mode}", node_evacuate(shape, 40, mode), REQUESTS
    yield "change-group of 40", change_group(shape, 40), REQUESTS


def main() -> None:
    """Print the table, a line for each input and what is asked of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only lines with one of these")
    words = parser.parse_args().words
    print("| template | input | asked | s |\n|---|---|---|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for template in TEMPLATES:
            for name, asked, all_options in inputs(template):
                file = Path(folder, "document.json")
                file.write_text(json.dumps(asked))
                for options in all_options:
                    line = f"| {template} | {name} | `{options}` |"
                    if not words or any(word in line for word in words):
                        print(f"{line} {ended(options, 1, file).median:.2f} |", flush=True)


def ended(options: str, limit: float, file: Path) -> Measured:
    """One run with `limit` seconds of processor time; pages are written beside `file`."""
    given = options.replace("page.html", str(file.with_name("page.html"))).split()
    child = CHILD.format(
        root=str(Path(__file__).parents[1]), words=[*given, f"--time-limit={limit:g}", str(file)]
    )
    found = Measured()
    run([sys.executable, "-c", child], found, MOST + 2 * limit)
    return found


if __name__ == "__main__":
    main()
