"""Compare the time of ``explain`` with the time of the request that it explains.

``python -m benchmarks.explain`` writes ``benchmarks/EXPLAIN.md``. ``python -m benchmarks.explain
WORD ...`` prints the rows that contain one of the words. The runs of the request, of ``explain``
and of ``explain --json`` alternate, and the minimum of the processor seconds of the whole process
is reported. The time limit is too large to end a search.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.clusters import (
    Shape,
    allocate,
    change_group,
    document,
    multi_allocate,
    node_evacuate,
)
from benchmarks.limits import Json
from benchmarks.measure import Measured, run

SIZES = {10: 2, 80: 2, 320: 4, 1000: 4}
"""Number of nodes -> number of groups."""

TEMPLATES = ("drbd", "plain", "rbd")

ASKED = ((), ("explain",), ("explain", "--json"))

MOST = 2.0
"""Largest permitted ratio of the time of ``explain`` to that of the request."""

LEAST = 0.1
"""Processor seconds of the request below which the ratio has no limit.

The start of the program then takes the larger part of the time.
"""

COLUMNS = (
    "| nodes | template | request | request, s | explain, s | ratio | explain --json, s | ratio |",
    "|---:|---|---|---:|---:|---:|---:|---:|",
)

RESULTS = Path(__file__).with_name("EXPLAIN.md")

HEAD = """# Explanations

Written by `python -m benchmarks.explain`. Each row compares the request with `explain` and
`explain --json` on the same document: processor seconds of the whole process, minimum of several
runs that alternate. The aim is that `explain` takes at most twice as long. Where the request
takes less than 0.1 s, starting the program is the larger part, and the ratio is only reported.

"""


def inputs(nodes: int, template: str) -> Iterator[tuple[str, Json]]:
    """Yield a name and a document for each request type."""
    groups = SIZES[nodes]
    shape = Shape(nodes // groups, template, groups=groups, per_node=10)
    count = min(40, nodes)
    yield "allocate", allocate(shape)
    yield "allocate, too large", allocate(shape, memory=131072)
    yield f"multi-allocate of {count}", multi_allocate(shape, count)
    yield f"node-evacuate of {count}", node_evacuate(shape, count)
    yield f"change-group of {count}", change_group(shape, count)
    whole = document(shape)
    name, one = next(iter(whole["instances"].items()))
    request = {"type": "allocate-secondary", "name": name}
    if template != "plain":
        request = {
            "type": "relocate", "name": name, "relocate_from": one["nodes"][-1:],
            "required_nodes": 1,
        }  # fmt: skip
    yield request["type"], whole | {"request": request}


def row(head: str, file: Path, pairs: int) -> tuple[str, float]:
    """Return the measured row of a table, and its larger ratio, or 0 for a fast request."""
    found = [Measured() for _ in ASKED]
    for _ in range(pairs):
        for words, measured in zip(ASKED, found):
            if measured.again:
                command = ["-m", "iallocator", *words, "--time-limit=600", str(file)]
                run([sys.executable, *command], measured, 600)
    if any(measured.statuses - {0} for measured in found):
        raise RuntimeError(f"failed: {head}")
    request, *others = [min(measured.seconds) for measured in found]
    cells = [f"{seconds:.3f} | {seconds / request:.2f}" for seconds in others]
    ratio = max(others) / request if request >= LEAST else 0.0
    return f"{head} {request:.3f} | {' | '.join(cells)} |", ratio


def main() -> None:
    """Write the table, or print the rows that contain one of the given words."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only rows that contain one of these")
    parser.add_argument("--pairs", type=int, default=5, help="runs of each (default: 5)")
    options = parser.parse_args()
    rows, ratios = [], []
    print(*COLUMNS, sep="\n")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "document.json")
        for nodes in SIZES:
            for template in TEMPLATES:
                for name, asked in inputs(nodes, template):
                    head = f"| {nodes} | {template} | {name} |"
                    if options.words and not any(word in head for word in options.words):
                        continue
                    file.write_text(json.dumps(asked))
                    line, ratio = row(head, file, options.pairs)
                    rows.append(line)
                    ratios.append(ratio)
                    print(line, flush=True)
    over = sum(ratio > MOST for ratio in ratios)
    summary = (
        f"{len(rows)} requests; of {sum(ratio > 0 for ratio in ratios)} that take at least "
        f"{LEAST:g} s, {over} have a ratio above {MOST:g}; the largest: {max(ratios):.2f}."
    )
    print(summary)
    if not options.words:
        RESULTS.write_text("\n".join([HEAD + summary, "", *COLUMNS, *rows, ""]))


if __name__ == "__main__":
    main()
