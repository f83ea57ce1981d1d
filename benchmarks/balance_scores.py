"""Compare the final scores of plans of balance with those of hbal, on generated clusters.

``python -m benchmarks.balance_scores [--seeds N] [--first SEED]`` prints two tables: the final
scores, and with ``--cost`` the gain per GiB copied beside hbal's plan, cut at the same traffic.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

from iallocator.model.cluster import Cluster
from iallocator.model.moves import traffic
from iallocator.planners.balance.balance import BalanceOptions, balance_cluster
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.plan_limits import StopCriteria
from iallocator.planners.result import GroupPlans
from iallocator.sources.text import read_text
from iallocator.wire.reading import Reading
from tests.conformance.documents import document
from tests.planners.hbal import HbalPlan, as_text, hbal
from tests.planners.test_balance_against_hbal import comparable

__all__ = ["Compared", "compare", "cut", "lines"]

ROUNDING = 1e-7
"""Largest difference of equal scores: hbal prints eight decimals."""

SHARES = (0.25, 0.5)
"""Traffic limits, as shares of the traffic of hbal's plan."""


class Compared(NamedTuple):
    """The comparison of one group: final scores, seconds, and scores by traffic limit."""

    name: str
    before: float
    peer: float
    greedy: float
    ahead: float
    seconds: float
    limited: list[tuple[float, float, float, float]]
    """Permitted MiB, our score, MiB that our plan copies, score of hbal's shortened plan."""
    rejected: bool
    """True if hbal's plan has a step that Ganeti rejects."""


def balanced(path: Path, group: str, **limits: Any) -> GroupPlans:
    """Return this program's plan for a group of the cluster in a text file."""
    cluster = read_text(path.read_bytes(), str(path), Reading(static_kvm_memory=0)).cluster
    return balance_cluster(
        cluster, BalanceOptions(StopCriteria(**limits), MoveRules(), group=group)
    )


def cut(peer: HbalPlan, sizes: dict[str, Any], allowed: float) -> tuple[float, float]:
    """Return score and MiB of hbal's plan, cut before it copies more than `allowed` MiB."""
    score, copied = peer.before, 0.0
    for name, after, notation in peer.moves:
        letters = [word.partition(":")[0] for word in notation.split()]
        more = traffic(sizes[name], letters)
        if copied + more > allowed:
            break
        score, copied = after, copied + more
    return score, copied


def rejected(peer: HbalPlan, cluster: Cluster) -> bool:
    """Return whether Ganeti rejects a step of hbal's plan that copies from an offline primary."""
    at = {one.name: list(one.nodes) for one in cluster.instances}
    index = {node.name: number for number, node in enumerate(cluster.nodes)}
    for name, _, notation in peer.moves:
        here = at[name]
        for word in notation.split():
            letter, _, target = word.partition(":")
            if letter == "r" and cluster.nodes[here[0]].offline:
                return True
            if letter == "r":
                here[1] = index[target]
            elif target:
                here[0] = index[target]
            else:
                here.reverse()
    return False


def compare(seed: int, folder: Path) -> list[Compared]:
    """Return the comparison of each group of a document; [] if hbal reads other amounts from it."""
    raw = document(seed, ("relocate", "node-evacuate")[seed % 2])
    if not comparable(raw):
        return []
    path = as_text(raw, folder)
    found = []
    for group in raw["nodegroups"].values():
        name = group["name"]
        peer = hbal(path, "-G", name)
        if peer is None or not peer.moves:
            continue
        greedy = balanced(path, name).plans[0].plan
        if abs(greedy.before - peer.before) > ROUNDING:
            continue
        start = process_time()
        done = balanced(path, name, compound=True)
        seconds = process_time() - start
        sizes = {instance.name: instance for instance in done.cluster.instances}
        limited = []
        _, whole = cut(peer, sizes, float("inf"))
        for share in SHARES:
            score, copied = cut(peer, sizes, whole * share)
            if not copied:
                continue
            mine = balanced(path, name, cost=copied).plans[0].plan
            limited.append((copied, mine.after, float(mine.copied), score))
        found.append(
            Compared(
                f"seed {seed} {name}",
                peer.before,
                peer.scores[-1],
                greedy.after,
                done.plans[0].plan.after,
                seconds,
                limited,
                rejected(peer, done.cluster),
            )
        )
    return found


def lines(found: list[Compared]) -> list[str]:
    """Return the lines of both tables of scores."""
    lower = sum(one.ahead < one.peer - ROUNDING for one in found)
    higher = [one for one in found if one.ahead > one.peer + ROUNDING]
    before, peer, greedy, ahead = (
        sum(getattr(one, what) for one in found) for what in ("before", "peer", "greedy", "ahead")
    )
    lines = [
        f"| {len(found)} groups | before | hbal | single moves | swaps and chains |",
        "|---|---|---|---|---|",
        f"| sum of final scores | {before:.2f} | {peer:.2f} | {greedy:.2f} | {ahead:.2f} |",
        f"| groups with a lower score than hbal's; higher | | | | {lower}; {len(higher)} |",
        f"| longest time in seconds | | | | {max(one.seconds for one in found):.1f} |",
        *(
            f"higher: {one.name} {one.peer:.8f} {one.ahead:.8f}"
            + ", which Ganeti refuses to carry out" * one.rejected
            for one in higher
        ),
        "",
    ]
    plans = [(one, limit) for one in found for limit in one.limited]
    worse = [
        (one, limit)
        for one, limit in plans
        if _per_gib(one.before, limit[3], limit[0])
        > _per_gib(one.before, limit[1], limit[2]) + 1e-9
    ]
    gained = [sum(one.before - limit[k] for one, limit in plans) for k in (3, 1)]
    copied = [sum(limit[k] for _, limit in plans) / 1024 for k in (0, 2)]
    lines += [
        f"| {len(plans)} plans with a traffic limit | hbal, cut off | `--cost` |",
        "|---|---|---|",
        f"| decrease of the score | {gained[0]:.2f} | {gained[1]:.2f} |",
        f"| GiB copied | {copied[0]:.1f} | {copied[1]:.1f} |",
        f"| decrease per GiB | {gained[0] / copied[0]:.4f} | {gained[1] / copied[1]:.4f} |",
        "| plans with a smaller decrease per GiB than hbal's; with a higher final score | | "
        f"{len(worse)}; "
        f"{sum(limit[1] > limit[3] + ROUNDING for _, limit in plans)} |",
        *(f"worse: {one.name} {limit}" for one, limit in worse),
    ]
    return lines


def _per_gib(before: float, after: float, copied: float) -> float:
    return (before - after) / copied * 1024 if copied else float("inf")


def main() -> None:
    """Compare the plans of all seeds, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first", type=int, default=700)
    parser.add_argument("--json", default="")
    chosen = parser.parse_args()
    found: list[Compared] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            found += compare(seed, Path(folder))
            print(f"\r{seed}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(found))
    print("\n".join(lines(found)))


if __name__ == "__main__":
    main()
