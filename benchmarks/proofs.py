"""Measure how many plans are proved to be the best possible ones, with and without ``--optimal``.

The clusters have 4 to 10 nodes and up to 60 instances. Called by ``benchmarks.planners_gap``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from random import Random
from tempfile import NamedTemporaryFile
from time import perf_counter
from typing import Any

from benchmarks.gap import STORAGE, Home, Machine, generate
from tests.conformance.whole_groups import Case

__all__ = ["proofs_table"]

SECONDS = 60.0
"""The time limit of a plan with ``--optimal``."""

FILL = {"capacity": (0.2, 0.8), "squeeze": (0.2, 0.6), "reboot": (0.3, 0.75),
        "compress": (0.3, 0.8), "redistribute": (0.4, 0.8), "place": (0.8, 1.0)}  # fmt: skip
"""Planner -> the least and the largest share of memory in use."""

OPTIMAL = ("capacity", "squeeze", "reboot", "compress", "redistribute", "place")
"""Planners with the option --optimal."""

BETWEEN = ("compress", "redistribute")
"""Planners of clusters with several groups."""


def cluster_of(planner: str, seed: int, kind: str) -> Case:
    """Return a cluster of 4 to 10 nodes with at most 60 instances."""
    rng = Random(f"proofs {planner} {seed} {kind}")
    total = rng.randint(4, 10)
    counts = [total]
    if planner in BETWEEN:
        first = rng.randint(2, total - 2)
        counts = [first, total - first]
        if counts[1] > 3 and rng.random() < 0.4:
            counts = [first, counts[1] // 2, counts[1] - counts[1] // 2]
    memory, equal = rng.choice([16384, 32768, 49152]), rng.random() < 0.5
    sizes = [1.0 if equal else rng.choice([0.75, 1.0, 1.25]) for _ in range(total)]
    machines = [
        Machine(f"node{k}", int(memory * size), 1 << 19, 16) for k, size in enumerate(sizes)
    ]
    groups = [g for g, count in enumerate(counts) for _ in range(count)]
    homes: list[Home] = []
    for group, count in enumerate(counts):
        start = groups.index(group)
        own = machines[start : start + count]
        fill = rng.uniform(*FILL[planner])
        many = min(60 // len(counts), round(fill * sum(one.memory for one in own) / 4700))
        found = generate(rng, own, STORAGE[kind], many)
        homes += [
            home._replace(name=f"inst{group}{k:02}", nodes=tuple(start + n for n in home.nodes))
            for k, home in enumerate(found)
        ]
    down = frozenset[int]()
    if planner == "redistribute":
        down = frozenset(rng.sample(range(total), rng.randint(1, 2)))
    return Case(machines, homes, groups, down)


def words_of(planner: str, seed: int) -> list[str]:
    """Return the command and its options for a cluster of a planner."""
    if planner == "capacity":
        rng = Random(f"proofs {seed}")
        memory = rng.choice([2048, 3072, 4096, 6144])
        return [planner, f"--standard-alloc=5g,{memory},1", "--disk-template=rbd"]
    return [planner, *(["--force"] if planner == "reboot" else [])]


def run(planner: str, seed: int, kind: str, *more: str) -> tuple[dict[str, Any], float]:
    """Return the document of a plan, and the seconds that it took."""
    with NamedTemporaryFile("w", suffix=".data") as file:
        file.write(cluster_of(planner, seed, kind).text())
        file.flush()
        words = [*words_of(planner, seed), f"-t{file.name}", "--json", "--no-config",
                 f"--time-limit={SECONDS:g}", "--static-kvm-node-memory=0", *more]  # fmt: skip
        start = perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "iallocator", *words],
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = perf_counter() - start
    if not done.stdout:
        raise RuntimeError(f"{planner}, {kind} {seed}: {done.stderr}")
    document = json.loads(done.stdout)
    return document.get("standard", document), seconds


def proofs_table(seeds: Sequence[int]) -> list[str]:
    """Return the lines of the table: the share of plans that are proved, and the seconds.

    Plans without a bound (`squeeze` that powers nodes on) are left out. The column "better" counts
    plans with another result with ``--optimal``.
    """
    lines = [
        "| planner | storage | plans | proved | mean s | longest s | with `--optimal` | mean s |"
        " longest s | better |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for planner in FILL:
        for kind in STORAGE:
            plain = [run(planner, seed, kind) for seed in seeds]
            stated = [seed for seed, one in zip(seeds, plain, strict=True) if "proved" in one[0]]
            plain = [one for one in plain if "proved" in one[0]]
            cells = [planner, kind, str(len(plain)), *_cells(plain)]
            if planner in OPTIMAL:
                best = [run(planner, seed, kind, "--optimal") for seed in stated]
                pairs = zip(plain, best, strict=True)
                better = sum(one[0]["reached"] != two[0]["reached"] for one, two in pairs)
                cells += [*_cells(best), str(better)]
            else:
                cells += [""] * 4
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _cells(found: Sequence[tuple[dict[str, Any], float]]) -> list[str]:
    """Return the share of plans that are proved, and the mean and the longest time in seconds."""
    proved = sum(document["proved"] for document, _ in found)
    seconds = [one for _, one in found]
    return [
        f"{proved / len(found):.0%}", f"{sum(seconds) / len(found):.1f}", f"{max(seconds):.1f}"
    ]  # fmt: skip
