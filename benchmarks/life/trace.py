"""Generate the events of a life: arrivals and departures of instances, failures of nodes.

The events are equal for all policies. The distributions have the shapes of published traces.

Sizes: most virtual machines have little memory (0.75, 1.75, 3.5 GB are the most frequent, and each
size doubles the one before): E. Cortez et al., "Resource Central", SOSP 2017, figures 2 and 3, and
the Azure public data set that belongs to it.

Lifetimes and use are heavy-tailed: most instances live for hours, few for very long, and these use
nearly all of the resources (the same paper; M. Tirmazi et al., "Borg: the Next Generation", EuroSys
2020: the largest 1 % of jobs use more than 99 %).

So sizes are a discrete distribution that falls with size, and lifetimes a Pareto distribution. It
is cut off at the top so that a life of some hundred requests gets near its steady state.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from benchmarks.life.simulated_cluster import Scenario

__all__ = ["ARRIVAL", "BALANCE", "DEPARTURE", "FAILURE", "REPAIR", "Event", "trace_of"]

ARRIVAL, DEPARTURE, FAILURE, REPAIR, BALANCE = range(5)

SIZES = {768: 20, 1792: 30, 3584: 25, 7168: 15, 14336: 8, 28672: 2}
"""MiB of memory -> percentage of the instances of this size."""

ALPHA = 1.2
"""Shape of the Pareto distribution of lifetimes."""

LONGEST = 100
"""The longest lifetime as a multiple of the shortest one."""

FAILURES = 8
"""Number of node failures in one life."""

BALANCES = 20
"""Number of times that the cluster is balanced in one life."""

OUTAGE = 0.002
"""Share of the life for which a failed node is offline, by default."""


class Event(NamedTuple):
    """An event at `time` (0 to 1), with the number of its instance or node.

    `memory` is in MiB, for an arrival.
    """

    time: float
    kind: int
    number: int
    memory: int = 0


def trace_of(scenario: Scenario, seed: int, requests: int, outage: float = OUTAGE) -> list[Event]:
    """Return the events of one life, in order of time.

    A failed node is repaired after `outage`, a share of the life.
    """
    rng = Random(f"life/{scenario.name}/{seed}")
    mean_size = sum(size * share for size, share in SIZES.items()) / sum(SIZES.values())
    wanted = scenario.load * sum(scenario.memory) / mean_size  # instances at a time
    shortest = wanted / requests / _mean_life()
    events = []
    for number in range(requests):
        time = rng.random()
        size = rng.choices(list(SIZES), list(SIZES.values()))[0]
        events.append(Event(time, ARRIVAL, number, size))
        end = time + shortest * _life(rng)
        if end < 1:
            events.append(Event(end, DEPARTURE, number))
    for k in range(FAILURES):
        time = (k + 0.5 + 0.5 * rng.random()) / FAILURES
        node = rng.randrange(len(scenario.memory))
        events += [Event(time, FAILURE, node), Event(min(1, time + outage), REPAIR, node)]
    events += [Event((k + 1) / BALANCES, BALANCE, k) for k in range(BALANCES)]
    return sorted(events)


def _life(rng: Random) -> float:
    """Return a random lifetime from 1 to `LONGEST`."""
    share = 1 - LONGEST**-ALPHA
    return float((1 - rng.random() * share) ** (-1 / ALPHA))


def _mean_life() -> float:
    """Return the mean of the lifetimes that `_life` returns."""
    share = 1 - LONGEST**-ALPHA
    return float(ALPHA / (ALPHA - 1) * (1 - LONGEST ** (1 - ALPHA)) / share)
