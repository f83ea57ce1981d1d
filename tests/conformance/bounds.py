"""Compare the bounds of planners with the best result, found by trying everything.

``python -m tests.conformance.bounds --clusters N [--start K] [-j JOBS] [--planner NAME]`` checks N
clusters of 3 to 4 nodes (most planners: up to 6) for each planner and each kind of storage, and
ends with status 1 if a bound is wrong. For balance, some clusters have an offline node, exclusion
tags, or instances that may not move. For compress, redistribute, squeeze and place, some have
offline nodes, nodes that are too full, and other modes of N+1. Every other cluster is planned with
``--optimal``, by planners that have it. Clusters that take too long are left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import inf, prod
from multiprocessing import Pool
from random import Random
from typing import NamedTuple

from benchmarks.gap import STORAGE, Machine, as_text, generate, read
from benchmarks.planners_gap import (
    MOVABLE,
    TEMPLATES,
    capacity_case,
    fewest_groups,
    most,
    reboot_case,
    size_of,
)
from iallocator.model.columns import DISK, MEMORY
from iallocator.model.instance import Instance
from iallocator.model.state import State
from iallocator.options.settings import OPTIMAL_WORK_FACTOR, Settings
from iallocator.planners.balance.balance import BalanceOptions, balance_cluster
from iallocator.planners.balance.move_kinds import MoveRules
from iallocator.planners.capacity.capacity import CapacityOptions, FillingExtent, compute_capacity
from iallocator.planners.intergroup.compress import compress
from iallocator.planners.intergroup.context import IntergroupContext
from iallocator.planners.intergroup.redistribute import redistribute
from iallocator.planners.place.place import place_anew
from iallocator.planners.plan_limits import StopCriteria
from iallocator.planners.quality import Quality
from iallocator.planners.reboot.options import RebootOptions
from iallocator.planners.reboot.reboot import plan_reboots
from iallocator.planners.result import PlanResult
from iallocator.planners.squeeze.headroom import SqueezeOptions
from iallocator.planners.squeeze.squeeze import squeeze_cluster
from iallocator.scoring.scalar import kernel_of
from iallocator.sources.text import read_text
from iallocator.wire.reading import Reading
from tests.conformance.whole_groups import (
    KINDS,
    Case,
    compress_case,
    fewest_left_out,
    fewest_unhealthy,
    largest_share,
    most_freed,
    place_case,
    redistribute_case,
    squeeze_case,
)

__all__ = ["COUNTED", "Found", "balance_bound", "clusters", "lowest"]

PLACEMENTS = 1500
"""Number of placements above which a cluster is left out."""

BATCH = 100
"""Number of clusters that the processes share at a time."""

MODES = ("off", "no-worse", "strict")
"""Modes of N+1 that plans of the comparison use."""


class Found(NamedTuple):
    """The bound of a score, the lowest score, and the score of the plan."""

    bound: float | None
    best: float
    reached: float

    def wrong(self) -> str:
        """Return why the bound is wrong; "" if it is correct."""
        if self.bound is None:
            return ""
        if self.bound > self.best * (1 + 1e-12):
            return f"the bound {self.bound!r} is above the lowest score {self.best!r}"
        quality = Quality(self.reached, self.bound)
        if quality.proved and self.reached > self.best * (1 + 2e-9) + 1e-11:
            return f"{self.reached!r} is said to be the lowest score, which is {self.best!r}"
        return ""


def machines_of(rng: Random, count: int) -> list[Machine]:
    """Return `count` random nodes, of equal or different sizes."""
    memory, disk = rng.choice([16384, 24576, 32768]), rng.choice([131072, 262144])
    cpus, equal = rng.choice([4, 8, 16]), rng.random() < 0.6
    sizes = [1.0 if equal else rng.choice([0.75, 1.0, 1.25]) for _ in range(count)]
    return [
        Machine(f"node{k}", int(memory * size), int(disk * size), cpus)
        for k, size in enumerate(sizes)
    ]


def cluster_text(seed: int, kind: str) -> str:
    """Return a random cluster of 3 to 4 nodes with storage of `kind`, as a text file."""
    rng = Random(f"bounds {seed} {kind}")
    machines = machines_of(rng, rng.randint(3, 4))
    homes = generate(rng, machines, STORAGE[kind], rng.randint(2, 3 + 2 * (kind != "drbd")))
    text = as_text(machines, homes)
    if rng.random() < 0.3:  # the first node has most instances
        text = text.replace("|N|uuid", "|Y|uuid", 1)
    if rng.random() < 0.3:
        lines = text.split("\n")
        for k, line in enumerate(lines):
            if line.startswith("inst") and rng.random() < 0.6:
                lines[k] = line.removesuffix("||1") + f"|role:{rng.choice('ab')}|1"
            elif line.startswith("inst") and rng.random() < 0.2:
                lines[k] = line.replace(
                    "|running|Y|", f"|{rng.choice(['ADMIN_down', 'running'])}|N|"
                )
        lines[-3] = "htools:iextags:role"
        text = "\n".join(lines)
    return text


def clusters(kind: str, numbers: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each cluster that has few placements."""
    for seed in numbers:
        text = cluster_text(seed, kind)
        state = State(read(text))
        if prod(len(places(one, state)) for one in state.cluster.instances) <= PLACEMENTS:
            yield seed, text


def places(instance: Instance, state: State) -> list[tuple[int, ...]]:
    """Return the possible final nodes of an instance: online nodes, and its present nodes."""
    present = state.where[instance.name]
    if not instance.kind.planners_move or not instance.auto_balance:
        return [present]
    may = [node.index for node in state.cluster.nodes if node.online or node.index in present]
    return [one for one in product(may, repeat=len(present)) if len({*one}) == len(one)]


def lowest(text: str) -> float:
    """Return the lowest score of all placements that keep the free memory and disk of nodes."""
    state = State(read(text))
    instances = state.cluster.instances
    nodes = range(len(state.cluster.nodes))
    choices = [places(one, state) for one in instances]
    first = [list(state.columns[column]) for column in (MEMORY, DISK)]
    for one in instances:
        state.remove(one, state.where[one.name])
    kernel = kernel_of(state, nodes)
    best = inf

    def place(number: int) -> None:
        nonlocal best
        if number < len(instances):
            for chosen in choices[number]:
                state.place(instances[number], chosen)
                place(number + 1)
                state.remove(instances[number], chosen)
            return
        for column, before in zip((MEMORY, DISK), first, strict=True):
            for k in nodes:
                if not (state.columns[column][k] > 0 or state.columns[column][k] >= before[k]):
                    return
        kernel.follow()
        best = min(best, kernel.score())

    place(0)
    return best


def balance_bound(text: str, mode: str, compound: bool = False) -> Found:
    """Return the bound of balance, the lowest score, and the score of the plan.

    With `compound`, the plan has swaps and chains of moves.
    """
    settings = Settings()
    settings.n1 = mode
    options = BalanceOptions(
        StopCriteria(compound=compound, min_gain=0.0),
        MoveRules(),
        group="default",
        settings=settings,
    )
    done = balance_cluster(read(text), options)
    return Found(done.sum_of_bounds(), lowest(text), done.reached)


class Counted(NamedTuple):
    """The bound of a count, the best count, and the planner's count.

    If `most` is true, more is better.
    """

    bound: float | None
    best: float
    reached: float
    most: bool

    def wrong(self) -> str:
        """Return why the bound is wrong; "" if it is correct."""
        if self.bound is None:
            return ""
        sign = -1 if self.most else 1
        if sign * self.bound > sign * self.best:
            return f"the bound is {self.bound:g}, the best possible number {self.best:g}"
        if sign * self.reached < sign * self.bound:
            return f"{self.reached:g} is better than the bound {self.bound:g}"
        if sign * self.reached < sign * self.best:
            return f"{self.reached:g} is better than the best possible number {self.best:g}"
        return ""


def capacity_bound(seed: int, kind: str) -> Counted | None:
    """Return the bound of capacity for a generated cluster; None if brute force gives up."""
    machines, homes, wanted = capacity_case(seed, kind)
    best = most(machines, homes, wanted)
    if best is None or best < 0:
        return None
    size = size_of(wanted)
    extent = FillingExtent(
        thoroughness=OPTIMAL_WORK_FACTOR if seed % 2 else 1
    )  # as with ``--optimal``
    options = CapacityOptions(size, [size], extent=extent)
    found = compute_capacity(read(as_text(machines, homes)), options, lambda *_: None).standard
    assert found is not None
    assert found.quality is not None
    return Counted(found.quality.bound, best, len(found.filling.placed), True)


def squeeze_bound(seed: int, kind: str) -> Counted | None:
    """Return the bound of squeeze for a generated cluster; None if brute force gives up."""
    case = squeeze_case(seed, kind)
    best = most_freed(case)
    if best is None:
        return None
    source = read_text(case.text().encode(), "cluster", Reading(static_kvm_memory=0))
    options = SqueezeOptions(StopCriteria(min_gain=0.0), settings_of(case, seed))
    done = squeeze_cluster(source.cluster, source.policy, options)
    if done.bounding is None:  # nodes are powered on
        return None
    # Instances with secondaries may move, too; no-new requires what a simulation tolerates now
    if case.n1 == "no-new" or any(len(home.nodes) > 1 for home in case.homes):
        best = max(best, int(done.reached))
    return Counted(done.bounding(), best, done.reached, True)


def reboot_bound(seed: int, kind: str) -> Counted | None:
    """Return the bound of reboot for a generated cluster; None if brute force gives up."""
    machines, homes = reboot_case(seed, kind)
    best = fewest_groups(machines, homes)
    if best is None:
        return None
    done = plan_reboots(read(as_text(machines, homes)), Settings(), RebootOptions(force=True))
    nodes = sorted(index for one in done.rounds for index in one.nodes)
    if done.bounding is None:
        return None
    if not nodes:  # a bound of 0 groups says that no node can be rebooted
        return Counted(done.bounding(), len(best[0]), 0, True)
    if nodes != best[0]:
        return None
    return Counted(done.bounding(), best[1], done.reached, False)


def settings_of(case: Case, seed: int) -> Settings:
    """Return the options of a case; every other one has ``--optimal``."""
    settings = Settings()
    settings.n1, settings.ignore_soft_errors = case.n1, case.lenient
    settings.optimal = seed % 2 > 0
    return settings


def compress_bound(seed: int, kind: str) -> Counted | None:
    """Return the bound of compress for a generated cluster; None if brute force gives up."""
    case = compress_case(seed, kind)
    best = largest_share(case)
    if best is None:
        return None
    context = IntergroupContext(read(case.text()), settings_of(case, seed))
    return _counted(compress(context), best, True)


def redistribute_bound(seed: int, kind: str) -> Counted | None:
    """Return the bound of redistribute for a generated cluster; None if brute force gives up."""
    case = redistribute_case(seed, kind)
    best = fewest_unhealthy(case)
    if best is None:
        return None
    context = IntergroupContext(read(case.text()), settings_of(case, seed))
    return _counted(redistribute(context), best, False)


def place_bound(seed: int, kind: str) -> Counted | None:
    """Return the bound of place for a generated cluster; None if brute force gives up."""
    case = place_case(seed, kind)
    best = fewest_left_out(case)
    if best is None:
        return None
    cluster = read(case.text())
    strategy = "pacemaker-default"
    done = place_anew(cluster, settings_of(case, seed), strategy, [*cluster.instances], ())
    return _counted(done, best, False)


def _counted(done: PlanResult, best: float, most: bool) -> Counted:
    assert done.bounding is not None
    bound = done.bounding()
    assert bound is not None
    return Counted(round(bound, 9), round(best, 9), round(done.reached, 9), most)


COUNTED: dict[str, tuple[Callable[[int, str], Counted | None], Sequence[str]]] = {
    "capacity": (capacity_bound, [*TEMPLATES]),
    "squeeze": (squeeze_bound, [*KINDS]),
    "reboot": (reboot_bound, [*MOVABLE]),
    "compress": (compress_bound, [*KINDS]),
    "redistribute": (redistribute_bound, [*KINDS]),
    "place": (place_bound, [*KINDS]),
}
"""Planner with a count as result -> the function for its bound, and the kinds of storage."""


def check_counted(
    case: tuple[str, str, int],
) -> tuple[str, int, str, float, bool] | None:
    """Check the bound of a planner that counts, for one cluster.

    Return the kind and the number of the cluster, the error of the bound ("" for none), the gap
    between plan and bound, and whether the plan is proved optimal. The result is None if brute
    force gives up.
    """
    planner, kind, seed = case
    found = COUNTED[planner][0](seed, kind)
    if found is None:
        return None
    gap = 0.0 if found.bound is None else abs(found.reached - found.bound)
    return kind, seed, found.wrong(), gap, found.bound == found.reached


def check(case: tuple[str, int]) -> tuple[str, int, str, float, bool] | None:
    """Check the bound of balance for one cluster.

    Return the kind and the number of the cluster, the error of the bound ("" for none), the gap
    between plan and bound, and whether the plan is proved optimal. The result is None if the
    cluster has too many placements.
    """
    kind, seed = case
    for _, text in clusters(kind, [seed]):
        found = balance_bound(text, MODES[seed % len(MODES)], seed % 10 == 0)
        quality = Quality(found.reached, found.bound)
        return kind, seed, found.wrong(), quality.gap or 0.0, quality.proved
    return None


def main() -> int:
    """Check the bounds on all clusters, and print a line for each planner and kind of storage."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=3000, help="number of each kind")
    parser.add_argument("--start", type=int, default=0, help="number of the first cluster")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--planner", choices=["balance", *COUNTED], action="append", help="only this one"
    )
    chosen = parser.parse_args()
    wrong = 0
    with Pool(chosen.jobs) as pool:
        for planner in chosen.planner or ["balance", *COUNTED]:
            for kind in COUNTED[planner][1] if planner in COUNTED else STORAGE:
                count, proved, gaps, seed = 0, 0, 0.0, chosen.start
                while count < chosen.clusters:
                    numbers = range(seed, seed + min(BATCH, chosen.clusters - count))
                    seed = numbers.stop
                    results: Iterator[tuple[str, int, str, float, bool] | None]
                    if planner in COUNTED:
                        results = pool.imap(check_counted, [(planner, kind, k) for k in numbers])
                    else:
                        results = pool.imap(check, [(kind, k) for k in numbers])
                    for found in filter(None, results):
                        count, gaps, proved = count + 1, gaps + found[3], proved + found[4]
                        if found[2]:
                            wrong += 1
                            print(f"{planner}, {kind} {found[1]}: {found[2]}", flush=True)
                print(
                    f"{planner}, {kind}: {count} clusters, {proved} proved, "
                    f"mean gap {gaps / count:.4f}",
                    flush=True,
                )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
