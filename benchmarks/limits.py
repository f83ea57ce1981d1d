"""Measure when each command ends with ``--time-limit=1``, on 1 000 nodes with 20 000 instances.

``python -m benchmarks.limits`` writes ``benchmarks/LIMITS.md``: processor seconds from the start of
each process to its end, including those for reading a file of 9 MB. ``python -m benchmarks.limits
WORD ...`` prints the rows that contain one of the words. The limit is measured in processor time
here, so that a busy machine gives the results of an idle one.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.clusters import (
    Shape,
    allocate,
    change_group,
    document,
    multi_allocate,
    node_evacuate,
)
from benchmarks.measure import Measured, run

Json = dict[str, Any]

TEMPLATES = ("drbd", "plain", "rbd")

NODE = "node00-0000"

MAINTAINED = f"--master-node={NODE} --ignore-non-redundant"

COMMANDS = (
    "balance --json", "balance --html=page.html", "squeeze",
    "squeeze --all --json", "redistribute --json", "compress --json", "balance-groups --json",
    "check", "check --failures=2 --json", "capacity --json", "make-room",
    "place --strategy=pacemaker-balanced", "place --strategy=pacemaker-utilization --json",
    "reboot --force --json", "reboot --force --full-evacuation", "repair --json",
    "report --html=page.html", "report --html=pages/", "balance --html=pages/",
    "balance --all-groups --json", "squeeze --all --html=page.html",
    "redistribute --html=page.html", "compress --html=page.html",
    "check --failures=2 --html=page.html", "capacity --html=page.html",
    "make-room --html=page.html", "place --html=page.html", "reboot --force --html=page.html",
    "repair --html=page.html", "explain --html=page.html", "explain --top=5",
    f"rescue {NODE} --json", f"rescue {NODE} --html=page.html", f"maintain {MAINTAINED} --json",
    f"maintain {MAINTAINED} --html=page.html", "metrics",
    "balance --steady --dynu-file=loads --history=loads-history --json",
    f"ask evacuate {NODE}", "show --settings",
)  # fmt: skip

UNLIMITED = ("show", "show --json", "show --rules", "show --rules --json")
"""Commands without searches and time limit, which must end by the usual time, too."""

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

FILES = ("--html", "--dynu-file", "--history")
"""Options with the name of a file or folder."""

LIMIT = 1.0
"""The time limit in seconds."""

LATE = 0.5
"""Seconds after the limit, or after reading if that takes longer, by which each run must end."""

COLUMNS = ("| template | input | asked | s |", "|---|---|---|---:|")

RESULTS = Path(__file__).with_name("LIMITS.md")

HEAD = """# Time limits

Written by `make limits`. Each row is one process with `--time-limit=1` on a generated cluster of
1 000 nodes in four groups with 20 000 instances. The time is processor time from the start of the
process to its end, in seconds, and so is the limit. Each path has to end within 0.5 s of the limit,
or of the time that reading takes if that is more. `show` without a page searches nothing, and
takes no limit.

"""

MOST = 60.0
"""Seconds of processor time, beyond twice the limit, after which a process is killed."""


def inputs(template: str) -> Iterator[tuple[str, Json, tuple[str, ...]]]:
    """Yield a name, a document, and the requests or commands to run on the document."""
    shape = Shape(250, template, groups=4, per_node=20, crowding=0.3)
    yield "allocate", allocate(shape), (*REQUESTS, *COMMANDS, *UNLIMITED)
    yield "multi-allocate of 40", multi_allocate(shape, 40), REQUESTS
    for mode in ("primary-only", "all"):
        yield f"node-evacuate of 40, {mode}", node_evacuate(shape, 40, mode), REQUESTS
    yield "change-group of 40", change_group(shape, 40), REQUESTS
    whole = document(shape)
    name, one = next(iter(whole["instances"].items()))
    if template == "plain":
        request = {"type": "allocate-secondary", "name": name}
    else:
        request = {
            "type": "relocate", "name": name, "relocate_from": one["nodes"][-1:],
            "required_nodes": 1,
        }  # fmt: skip
    yield str(request["type"]), whole | {"request": request}, ("", "--n1=strict", "explain")


def main() -> None:
    """Write the table, or print the rows that contain one of the given words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only rows that contain one of these")
    parser.add_argument("--limit", type=float, default=LIMIT, help="seconds of processor time")
    options = parser.parse_args()
    words, limit = options.words, options.limit
    rows: list[str] = []
    slowest, late = 0.0, 0
    print(*COLUMNS, sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        for template in TEMPLATES:
            for name, asked, all_options in inputs(template):
                file = Path(folder, "document.json")
                file.write_text(json.dumps(asked))
                loads = "".join(f"{one} 0.1 0.1 0.1 0.1\n" for one in asked["instances"])
                file.with_name("loads").write_text(loads)
                for asked_for in all_options:
                    head = f"| {template} | {name} | `{asked_for or 'no option'}` |"
                    if words and not any(word in head for word in words):
                        continue
                    seconds = ended(asked_for, limit, file).median
                    slowest, late = max(slowest, seconds), late + (seconds > limit + LATE)
                    rows.append(f"{head} {seconds:.2f} |")
                    print(rows[-1], flush=True)
    end = limit + LATE
    summary = (
        f"{len(rows)} runs, {late} of them longer than {end:g} s; the longest: {slowest:.2f} s."
    )
    print(summary)
    if not words and limit == LIMIT:
        RESULTS.write_text("\n".join([HEAD + summary, "", *COLUMNS, *rows, ""]))


def ended(options: str, limit: float, file: Path) -> Measured:
    """Return the measurement of one run with `limit` seconds of processor time.

    Pages and the history of loads are written beside `file`, which has the loads beside it, too.
    """
    parts = [word.partition("=") for word in options.split()]
    words = [
        f"{option}={file.parent}/{value}" if option in FILES else f"{option}{sign}{value}"
        for option, sign, value in parts
    ]
    if options not in UNLIMITED:
        words.append(f"--time-limit={limit:g}")
    child = CHILD.format(root=str(Path(__file__).parents[1]), words=[*words, str(file)])
    found = Measured()
    run([sys.executable, "-c", child], found, MOST + 2 * limit)
    if found.rejected:
        raise RuntimeError(f"rejected: {options}")
    return found


if __name__ == "__main__":
    main()
