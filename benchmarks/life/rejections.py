"""Count the rejections on shared storage that a better allocator could have avoided.

`python -m benchmarks.life.rejections` simulates lives under `no-worse` and examines each rejection
by packing alone, without the program:

1. Is there a node for the instance, with all others where they are, such that every failure stays
tolerated, or (if one is not tolerated already) loses no more than before?

2. Could all running instances and the new one be placed from scratch such that every failure is
tolerated?

It also computes how many of the rejected instances an *ideal* allocator could accept in addition to
all that were accepted. The ideal allocator knows the future and moves all instances at no cost. It
keeps the same safety: every failure is tolerated whenever an instance is accepted and whenever all
nodes are online, and an outage loses nothing. The rejected requests are tried in order of time and
from the smallest to the largest; the larger number of accepted requests is reported. It is a lower
bound: another selection of requests could contain more.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from benchmarks.life.life import live
from benchmarks.life.policies import POLICIES
from benchmarks.life.safety import all_failures_tolerable, all_failures_tolerated, packs
from benchmarks.life.simulated_cluster import SCENARIOS, SimulatedCluster
from benchmarks.life.trace import ARRIVAL, DEPARTURE, Event, trace_of

LITERAL = "a node would do, but memory that an unsafe failure lacks would be used"
MISPLACED = "no node would do; all placed from scratch would"
FULL = "no placement of these instances tolerates every failure"
MISSED = "a node would do (a wrong refusal)"
CAUSES = (MISSED, LITERAL, MISPLACED, FULL)


class _Moment(NamedTuple):
    """The cluster after an event: the MiB of each instance, and the total MiB of each online
    node.
    """

    sizes: list[int]
    bins: list[int]
    outage: bool
    accepted: bool


class _Rejections:
    """The rejections of one life, and the events that the ideal allocator needs."""

    def __init__(self) -> None:
        self.causes: Counter[tuple[str, bool]] = Counter()
        self.moments: list[_Moment] = []
        self.waiting: dict[int, tuple[int, int]] = {}  # instance -> its MiB, index of its arrival

    def rejected(self, simulated: SimulatedCluster, name: str, memory: int) -> None:
        self.causes[_cause(simulated, memory), _outage(simulated)] += 1
        self.waiting[int(name[1:])] = memory, len(self.moments)

    def happened(self, simulated: SimulatedCluster, event: Event) -> None:
        sizes = [one["memory"] for one in simulated.instances.values()]
        accepted = event.kind == ARRIVAL and f"i{event.number}" in simulated.instances
        self.moments.append(_Moment(sizes, _bins(simulated), _outage(simulated), accepted))

    def ideal(self, events: Sequence[Event]) -> int:
        """Return how many of the rejected instances the ideal allocator accepts in addition."""
        ends = {e.number: k for k, e in enumerate(events) if e.kind == DEPARTURE}
        by_time = list(self.waiting)
        by_size = sorted(by_time, key=lambda number: self.waiting[number][0])
        return max(self._accepted(order, ends) for order in (by_time, by_size))

    def _accepted(self, order: Sequence[int], ends: dict[int, int]) -> int:
        extra: list[list[int]] = [[] for _ in self.moments]
        arrivals = {k for k, moment in enumerate(self.moments) if moment.accepted}
        count = 0
        for number in order:
            memory, first = self.waiting[number]
            last = ends.get(number, len(self.moments))
            if all(
                self._holds(k, [*extra[k], memory], k == first or k in arrivals)
                for k in range(first, last)
            ):
                count += 1
                arrivals.add(first)
                for k in range(first, last):
                    extra[k].append(memory)
        return count

    def _holds(self, k: int, extra: list[int], accepts: bool) -> bool:
        moment = self.moments[k]
        spare = 1 if accepts or not moment.outage else 0
        return packs(moment.sizes + extra, sorted(moment.bins)[: len(moment.bins) - spare])


def _outage(simulated: SimulatedCluster) -> bool:
    return any(node["offline"] for node in simulated.nodes.values())


def _bins(simulated: SimulatedCluster) -> list[int]:
    return [
        node["free_memory"]
        + sum(simulated.instances[one]["memory"] for one in simulated.on(name, 0))
        - 1
        for name, node in simulated.nodes.items()
        if not node["offline"]
    ]


def _cause(simulated: SimulatedCluster, memory: int) -> str:
    """Return why an instance of `memory` MiB was rejected, one of `CAUSES`."""
    online = [name for name, node in simulated.nodes.items() if not node["offline"]]
    safe = all_failures_tolerated(simulated)
    before = {} if safe else _losses(simulated, online)
    for node in online:
        if simulated.nodes[node]["free_memory"] <= memory:
            continue
        simulated.add("new", memory, [node])
        if safe:
            good = all_failures_tolerated(simulated)
        else:
            after = _losses(simulated, online)
            good = all(a <= b for f in online for a, b in zip(after[f], before[f]))
        simulated.remove("new")
        if good:
            return MISSED if safe else LITERAL
    simulated.add("new", memory, online[:1])
    possible = all_failures_tolerable(simulated)
    simulated.remove("new")
    return MISPLACED if possible else FULL


def _losses(simulated: SimulatedCluster, online: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the fewest instances and the least MiB that the failure of each node loses."""
    free = {name: simulated.nodes[name]["free_memory"] - 1 for name in online}
    return {
        failing: _loss(
            [simulated.instances[one]["memory"] for one in simulated.on(failing, 0)],
            [free[name] for name in online if name != failing],
        )
        for failing in online
    }


def _loss(sizes: list[int], room: list[int]) -> tuple[int, int]:
    sizes = sorted(sizes)
    # The smallest instances are the easiest to place, so the fewest lost are the largest.
    fewest = next(k for k in range(len(sizes) + 1) if packs(sizes[: len(sizes) - k], room))
    # Sets of lost instances in order of memory; equal instances are lost from the left.
    queue: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    while True:
        mib, lost = heappop(queue)
        if packs([one for k, one in enumerate(sizes) if k not in lost], room):
            return fewest, mib
        for k in range(lost[-1] + 1 if lost else 0, len(sizes)):
            if k == 0 or sizes[k] != sizes[k - 1] or k - 1 in lost:
                heappush(queue, (mib + sizes[k], (*lost, k)))


def main(arguments: list[str] | None = None) -> int:
    """Print a table of the rejections by cause, and what the ideal allocator accepts."""
    parser = argparse.ArgumentParser("python -m benchmarks.life.rejections")
    parser.add_argument("--seeds", type=int, default=4, help="number of lives (4)")
    parser.add_argument("--first", type=int, default=5000, help="number of the first life (5000)")
    parser.add_argument("--requests", type=int, default=800, help="requests in a life (800)")
    parser.add_argument(
        "--outage", type=float, default=0.02, help="share of a life that a failed node is away"
    )
    parser.add_argument("--scenario", choices=("shared", "mixed"), default="shared")
    options = parser.parse_args(arguments)
    scenario = SCENARIOS[options.scenario]
    causes: Counter[tuple[str, bool]] = Counter()
    asked = rejected = extra = 0
    for seed in range(options.first, options.first + options.seeds):
        observer = _Rejections()
        outcome = live(
            scenario, POLICIES["no-worse"], seed, options.requests,
            outage=options.outage, observer=observer,
        )  # fmt: skip
        asked, rejected = asked + outcome.asked, rejected + outcome.rejected
        causes += observer.causes
        extra += observer.ideal(trace_of(scenario, seed, options.requests, options.outage))
    print(f"{asked} requests, {rejected} rejected; an ideal allocator accepts {extra} of these")
    print("\n| cause | all nodes online | during an outage |\n|---|---|---|")
    for cause in CAUSES:
        print(f"| {cause} | {causes[cause, False]} | {causes[cause, True]} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
