"""Measure how far greedy placement is from the optimum, and the time of the proof.

`python -m benchmarks.optimal` answers batches of new instances of mixed sizes on generated clusters
with ``--optimal``. The output is a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import time
from typing import Any

from benchmarks.clusters import Shape, multi_allocate
from iallocator.cli import answer

CASES = (
    (6, "rbd", 3), (10, "rbd", 3), (10, "rbd", 4), (20, "rbd", 4), (6, "drbd", 2), (10, "drbd", 2),
)  # fmt: skip
"""Number of nodes, disk template, and number of instances in the batch."""

CLUSTERS = 10
LIMIT = 20
REPORTED = re.compile(r"score ([\d.]+), (proved)?.*greedy ([\d.]+), gap ([\d.]+)")


def batch(nodes: int, template: str, count: int, seed: int) -> dict[str, Any]:
    """Return a request for instances of mixed sizes on a cluster that is about half full."""
    rng = random.Random(seed)
    shape = Shape(nodes, template, per_node=6, fullness=0.3 + 0.3 * rng.random(), seed=seed)
    document = multi_allocate(shape, count)
    for wanted in document["request"]["instances"]:
        wanted["memory"] = rng.choice((1024, 4096, 8192, 16384))
        wanted["vcpus"] = rng.choice((1, 2, 4))
    return document


def main() -> None:
    """Measure every case of --optimal, and print the table."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    print(
        "| nodes | template | instances | proved | greedy is the optimum | mean gap | "
        "largest gap | median time |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for nodes, template, count in CASES:
        gaps, times, proved = [], [], 0
        for seed in range(CLUSTERS):
            raw = json.dumps(batch(nodes, template, count, seed)).encode()
            start = time.perf_counter()
            info = json.loads(answer(raw, ["--optimal", f"--time-limit={LIMIT}"]))["info"]
            times.append(time.perf_counter() - start)
            figures = REPORTED.search(info)
            assert figures, info
            proved += figures[2] is not None
            gaps.append(float(figures[4]) / float(figures[3]))
        equal = sum(gap < 1e-7 for gap in gaps)
        print(
            f"| {nodes} | {template} | {count} | {proved}/{CLUSTERS} | {equal}/{CLUSTERS} | "
            f"{statistics.mean(gaps):.2%} | {max(gaps):.2%} | {statistics.median(times):.2f} s |"
        )


if __name__ == "__main__":
    main()
