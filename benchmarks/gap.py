"""Measure how far plans of balance are from the best possible placement.

``python -m benchmarks.gap [--large N] [--small N] [--write]`` prints two tables, or writes them to
``benchmarks/GAP.md``:

* clusters of 10 to 20 equal nodes with 42 to 127 instances on shared storage: the distance of the
  final score to a lower bound;
* clusters of 3 to 5 nodes with up to 8 instances: how many plans reach the optimum, which is found
  by trying every placement.

N+1 is off, and no move needs a minimum gain on the small clusters. "Single moves" are the moves of
hbal. The score of the optimum is computed here from the definition of the statistics, and compared
with that of the program for the initial placement of each cluster.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from iallocator.planners.balance.balance import BalanceOptions, balance_cluster
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.plan import Plan
from iallocator.planners.plan_limits import StopCriteria
from iallocator.sources.text import read_text
from iallocator.wire.reading import Reading

__all__ = ["Home", "Machine", "large", "large_table", "lower_bound", "optimum", "planned", "small",
           "small_table"]  # fmt: skip

STORAGE = {
    "shared": ("rbd",),
    "drbd": ("drbd",),
    "mixed": ("drbd", "rbd"),
    "plain and shared": ("plain", "rbd"),
}
"""Kind of cluster -> disk templates of its instances."""

PLACEMENTS = 250_000
"""Clusters with more placements than that are left out: the search would take minutes."""

EQUAL = 1e-6
"""Two scores are equal if they differ by less."""

POLICY = (
    "|128,1,1024,1,1,1|128,1,1024,1,1,1;65536,16,1048576,16,8,12|"
    "diskless,file,sharedfile,plain,blockdev,drbd,rbd,ext|64|128"
)

SPINDLES = 128 / 4
"""A node has one spindle; its ratio is a quarter of that of the policy by default in text files."""


class Machine(NamedTuple):
    """A node: MiB of memory and of disk, and cpus."""

    name: str
    memory: int
    disk: int
    cpus: int


class Home(NamedTuple):
    """An instance and its nodes (positions): MiB of memory and of disk, virtual cpus."""

    name: str
    memory: int
    disk: int
    cpus: int
    template: str
    nodes: tuple[int, ...]


OWN_MEMORY, OWN_DISK = 1024, 8192
"""What a node uses itself, in MiB."""


def generate(
    rng: Random, machines: Sequence[Machine], templates: Sequence[str], count: int
) -> list[Home]:
    """Return up to `count` instances on random nodes; the first nodes have more of them."""
    free = [[one.memory - OWN_MEMORY, one.disk - OWN_DISK] for one in machines]
    found: list[Home] = []
    for number in range(count):
        template = rng.choice(templates)
        memory = rng.choice([512, 1024, 2048, 3072, 4096, 6144, 8192, 12288])
        disk = rng.choice([2, 5, 10, 20, 40]) * 1024
        local = template in ("plain", "drbd")
        can = [
            k for k, (left, space) in enumerate(free)
            if left > memory and (space > disk or not local)
        ]  # fmt: skip
        if len(can) < 1 + (template == "drbd"):
            continue
        if template == "drbd":
            nodes = tuple(rng.sample(can, 2))
        else:
            nodes = (
                rng.choice(can) if rng.random() < 0.5 else min(rng.choice(can), rng.choice(can)),
            )
        free[nodes[0]][0] -= memory
        for node in nodes if local else ():
            free[node][1] -= disk
        cpus = rng.choice([1, 1, 2, 2, 3, 4, 8])
        found.append(Home(f"inst{number:03}", memory, disk, cpus, template, nodes))
    return found


def large(seed: int) -> tuple[list[Machine], list[Home]]:
    """Return a cluster of 10 to 20 equal nodes on shared storage."""
    rng = Random(seed)
    machines = [Machine(f"node{k:02}", 65536, 1 << 20, 16) for k in range(rng.randint(10, 20))]
    return machines, generate(rng, machines, ("rbd",), rng.randint(42, 127))


def small(seed: int, kind: str) -> tuple[list[Machine], list[Home]]:
    """Return a cluster of 3 to 5 nodes, equal or not."""
    rng = Random(f"{seed} {kind}")
    memory, disk = rng.choice([16384, 24576, 32768]), rng.choice([131072, 262144])
    cpus, equal = rng.choice([4, 8, 16]), rng.random() < 0.6
    machines = []
    for k in range(rng.randint(3, 5)):
        size = 1.0 if equal else rng.choice([0.75, 1.0, 1.25])
        own = cpus * (1 if equal else rng.choice([1, 1, 2]))
        machines.append(Machine(f"node{k}", int(memory * size), int(disk * size), own))
    return machines, generate(
        rng, machines, STORAGE[kind], rng.randint(5, 6 + 2 * (kind != "drbd"))
    )


def as_text(machines: Sequence[Machine], homes: Sequence[Home]) -> str:
    """Return the cluster in the text format of htools."""
    lines = ["default|uuid|preferred|", ""]
    for k, one in enumerate(machines):
        memory = sum(home.memory for home in homes if home.nodes[0] == k)
        disk = sum(home.disk for home in homes if k in home.nodes and home.template != "rbd")
        lines.append(
            f"{one.name}|{one.memory}|{OWN_MEMORY}|{one.memory - OWN_MEMORY - memory}|{one.disk}|"
            f"{one.disk - OWN_DISK - disk}|{one.cpus}|N|uuid|1"
        )
    lines.append("")
    for home in homes:
        primary, *other = (machines[k].name for k in home.nodes)
        lines.append(
            f"{home.name}|{home.memory}|{home.disk}|{home.cpus}|running|Y|{primary}|"
            f"{''.join(other)}|{home.template}||1"
        )
    return "\n".join([*lines, "", "", POLICY, ""])


def planned(text: str, **limits: Any) -> tuple[Plan, float]:
    """Return the plan for the only group of a cluster, and the processor time in seconds."""
    cluster = read_text(text.encode(), "cluster", Reading(static_kvm_memory=0)).cluster
    start = process_time()
    options = BalanceOptions(StopCriteria(**limits), MoveRules())
    return balance_cluster(cluster, options).plans[0].plan, process_time() - start


def lower_bound(machines: Sequence[Machine], homes: Sequence[Home]) -> float:
    """Return a lower bound of the score of any placement on equal nodes with shared storage.

    Each statistic alone is spread as evenly as multiples of the greatest common divisor of its
    amounts can be.
    """

    def least(amounts: Sequence[int], capacity: int) -> float:
        unit = math.gcd(*amounts)
        share = sum(amounts) // unit % len(machines) / len(machines)
        return math.sqrt(share * (1 - share)) * unit / capacity

    memory = least([home.memory for home in homes], machines[0].memory)
    cpus = least([home.cpus for home in homes], machines[0].cpus)
    return 2 * 0.5 * (memory + cpus) + 4 * least([1] * len(homes), 1)


def optimum(
    machines: Sequence[Machine], homes: Sequence[Home], fixed: bool = False
) -> float | None:
    """Return the lowest score of all placements; None if there are more than `PLACEMENTS`.

    `fixed`: return the score of the present placement instead.
    """
    count = len(machines)
    choices: list[list[tuple[int, ...]]] = []
    for home in homes:
        if fixed or home.template == "plain":
            choices.append([home.nodes])
        elif home.template == "drbd":
            choices.append([(a, b) for a in range(count) for b in range(count) if a != b])
        else:
            choices.append([(a,) for a in range(count)])
    if math.prod(map(len, choices)) > PLACEMENTS:
        return None
    total = {
        "memory": np.array([float(one.memory) for one in machines]),
        "disk": np.array([float(one.disk) for one in machines]),
        "cpus": np.array([float(one.cpus) for one in machines]),
    }
    sums = {
        name: np.zeros((1, count))
        for name in ("memory", "disk", "cpus", "first", "second", "spindles")
    }
    sums["cpus"] += 1  # of the node itself
    peers = np.zeros((1, count, count))  # memory that a node keeps for each primary
    for home, options in zip(homes, choices, strict=True):
        rows = len(sums["memory"]) * len(options)
        first = np.tile([nodes[0] for nodes in options], len(sums["memory"]))
        second = np.tile([nodes[-1] for nodes in options], len(sums["memory"]))
        sums = {name: np.repeat(values, len(options), axis=0) for name, values in sums.items()}
        peers = np.repeat(peers, len(options), axis=0)
        every = np.arange(rows)
        sums["memory"][every, first] += home.memory
        sums["cpus"][every, first] += home.cpus
        sums["first"][every, first] += 1
        if home.template != "rbd":
            sums["disk"][every, first] += home.disk
            sums["spindles"][every, first] += 1
        if home.template == "drbd":
            sums["disk"][every, second] += home.disk
            sums["spindles"][every, second] += 1
            sums["second"][every, second] += 1
            peers[every, second, first] += home.memory
        legal = (sums["memory"] < total["memory"] - OWN_MEMORY).all(axis=1)
        legal &= (sums["disk"] < total["disk"] - OWN_DISK).all(axis=1)
        sums = {name: values[legal] for name, values in sums.items()}
        peers = peers[legal]
    reserved = peers.max(axis=2)
    free = total["memory"] - OWN_MEMORY - sums["memory"]
    legal = ((reserved == 0) | (free > reserved)).all(axis=1)
    if not legal.any():
        return None
    sums = {name: values[legal] for name, values in sums.items()}
    kept = reserved[legal] / total["memory"]
    score = sum(
        (sums[name] / total[name] + own / total[name]).std(axis=1)
        for name, own in (("memory", OWN_MEMORY), ("disk", OWN_DISK), ("cpus", 0))
    )
    score += kept.std(axis=1) + 0.25 * kept.sum(axis=1)
    score += 3 * sums["first"].std(axis=1) + (sums["first"] + sums["second"]).std(axis=1)
    score += (sums["spindles"] / SPINDLES).std(axis=1)
    return float(np.min(score))


def large_table(count: int) -> list[str]:
    """Return the lines of the table of the larger clusters."""
    lines = [
        "| plan | mean | 95 % | worst | moves | seconds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, compound in (("single moves", False), ("`balance`", True)):
        gaps, moves, seconds = [], 0, 0.0
        for seed in range(1, count + 1):
            cluster = large(seed)
            plan, time = planned(as_text(*cluster), compound=compound)
            gaps.append(plan.after - lower_bound(*cluster))
            moves, seconds = moves + len(plan.entries), seconds + time
        gaps.sort()
        low = gaps[min(count - 1, int(0.95 * count))]
        lines.append(
            f"| {name} | {sum(gaps) / count:.3f} | {low:.3f} | {gaps[-1]:.3f} | "
            f"{moves / count:.0f} | {seconds / count:.2f} |"
        )
    return lines


def small_table(count: int) -> list[str]:
    """Return the lines of the table of the small clusters."""
    lines = [
        "| storage | clusters | single moves: optimal | mean gap | `balance`: optimal | mean gap |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for kind in STORAGE:
        known = 0
        reached, gaps = [0, 0], [0.0, 0.0]
        for seed in range(1, count + 1):
            cluster = small(seed, kind)
            best = optimum(*cluster)
            if best is None:
                continue
            known += 1
            for k, compound in enumerate((False, True)):
                plan, _ = planned(as_text(*cluster), compound=compound, min_gain=0.0)
                gap = plan.after - best
                if gap < -EQUAL:
                    raise AssertionError(f"{kind} {seed}: {plan.after} is below the optimum {best}")
                reached[k] += gap < EQUAL
                gaps[k] += gap
        lines.append(
            f"| {kind} | {known} | {reached[0] / known:.0%} | {gaps[0] / known:.3f} | "
            f"{reached[1] / known:.0%} | {gaps[1] / known:.3f} |"
        )
    return lines


def main() -> None:
    """Print the tables, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", type=int, default=20, help="number of larger clusters")
    parser.add_argument(
        "--small", type=int, default=80, help="number of small clusters of each kind"
    )
    parser.add_argument("--write", action="store_true", help="write benchmarks/GAP.md")
    chosen = parser.parse_args()
    lines = [
        "# Distance to the optimum",
        "",
        "How far plans of `balance` are from the best possible placement",
        "(`python -m benchmarks.gap --write`). N+1 is off.",
        "",
        f"{chosen.large} clusters of 10 to 20 equal nodes, 42 to 127 instances on shared storage.",
        "The distance is that of the final score to a lower bound, in which each statistic alone",
        "is as even as the sizes of the instances allow. Seconds of processor time.",
        "",
        *large_table(chosen.large),
        "",
        "Clusters of 3 to 5 nodes with up to 8 instances. The optimum is found by trying every",
        "placement. Some placements cannot be reached by moves that the limits allow, because the",
        "clusters are small and full.",
        "",
        *small_table(chosen.small),
        "",
    ]
    if chosen.write:
        Path(__file__).with_name("GAP.md").write_text("\n".join(lines))
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
