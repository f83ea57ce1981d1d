"""Compare the times of ``--n1 no-worse`` and ``no-new``, and of searches for single failures.

``python -m benchmarks.n1 [--rounds N] [--clusters N]`` prints the tables of `benchmarks/N1.md`. The
processor time of this process is measured; runs in both modes alternate.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from random import Random
from time import process_time
from typing import NamedTuple

from benchmarks.clusters import POLICY, Shape, allocate, group_entry, node_entry
from iallocator.aliases import Json
from iallocator.cli import answer
from iallocator.model.state import State
from iallocator.n1 import UNPROVED, Rules
from iallocator.n1.bounds import check_bounds, demand_of
from iallocator.n1.exact import ExactSearch
from iallocator.n1.simulation import Simulation
from iallocator.scoring import Kernels
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading

NODES = 80
"""Number of nodes of the clusters with searched failures."""

PIECES = 10
"""Number of instances on each node; all nodes have instances of the same sizes."""

SMALLEST, LARGEST = 800, 9000
"""Least and largest MiB of an instance."""

ROOMS = 4
"""Number of nodes that together have hardly more free memory than a failed node needs."""

LITTLE = 700
"""Free MiB of each node that can receive no instance."""

FAILURES = 3
"""Number of failures that are searched in each cluster."""


class RequestTimes(NamedTuple):
    """One request in both modes: milliseconds of each run, alternately."""

    usual: list[float]
    exact: list[float]

    @property
    def ratio(self) -> float:
        """Return the median of the ratios of the time with ``no-worse`` to that with ``no-new``."""
        return statistics.median(b / a for a, b in zip(self.usual, self.exact))


def main(arguments: list[str] | None = None) -> None:
    """Print two tables: the times of the N+1 modes, and those of exact searches."""
    parser = argparse.ArgumentParser("python -m benchmarks.n1", description=__doc__)
    parser.add_argument("--rounds", type=int, default=9, help="pairs of each request (9)")
    parser.add_argument("--clusters", type=int, default=24, help="clusters that are searched (24)")
    options = parser.parse_args(arguments)
    print("| nodes | template | in use | no-new, ms | no-worse, ms | ratio |")
    print("|---:|---|---:|---:|---:|---:|")
    for nodes in (20, 80, 320):
        for template in ("drbd", "rbd", "plain"):
            for fullness in (0.4, 0.7):
                shape = Shape(nodes, template, fullness=fullness)
                found = time_request(allocate(shape), options.rounds)
                print_row(f"{nodes} | {template} | {fullness:.0%}", found)
    request = _shared("", LITTLE - 200) | {"type": "allocate", "name": "new", "required_nodes": 1}
    for seed in range(3):
        found = time_request({**tight(seed), "request": request}, options.rounds)
        print_row(f"{NODES} | rbd | tight {seed}", found)
    print()
    print_searches(list(searches(options.clusters)))


def print_row(title: str, times: RequestTimes) -> None:
    """Print one line of the table with the times of the N+1 modes."""
    usual, exact = map(statistics.median, times)
    print(f"| {title} | {usual:.1f} | {exact:.1f} | {times.ratio:.2f} |", flush=True)


def time_request(request: Json, rounds: int) -> RequestTimes:
    """Return the times of `rounds` runs of the request in both modes.

    One more run before them loads the modules.
    """
    raw = json.dumps(request).encode()
    found = RequestTimes([], [])
    for turn in range(rounds + 1):
        for mode, times in zip(("no-new", "no-worse"), found):
            begun = process_time()
            answer(raw, [f"--n1={mode}"])
            if turn:
                times.append(1000 * (process_time() - begun))
    return found


def tight(seed: int) -> Json:
    """Return a cluster in which a failed node's instances fit in one way only.

    Instances are on shared storage, and all nodes have equal instances.
    """
    rng = Random(f"n1/{seed}")
    sizes = rng.sample(range(SMALLEST, LARGEST), PIECES)
    rooms = [sum(sizes[k::ROOMS]) + rng.randrange(1, 64) for k in range(ROOMS)]
    free = rooms + [LITTLE] * (NODES - ROOMS)
    rng.shuffle(free)
    nodes: dict[str, Json] = {}
    instances: dict[str, Json] = {}
    for number, spare in enumerate(free):
        name = f"node{number:02}"
        nodes[name] = node_entry("uuid", sum(sizes) + spare, cpus=256)
        nodes[name] |= {"reserved_memory": 0, "free_memory": spare}
        for memory in rng.sample(sizes, PIECES):
            instances[f"i{len(instances)}"] = _shared(name, memory)
    return {
        "version": 2, "cluster_name": "n1.example.com", "cluster_tags": [],
        "enabled_hypervisors": ["xen-pvm"], "ipolicy": POLICY,
        "nodegroups": {"uuid": group_entry(0)}, "nodes": nodes, "instances": instances,
    }  # fmt: skip


def _shared(home: str, memory: int) -> Json:
    return {
        "memory": memory, "vcpus": 1, "spindle_use": 1, "disk_template": "rbd",
        "disks": [{"size": 1024, "mode": "rw"}], "disk_space_total": 1024, "nics": [], "tags": [],
        "os": "debian", "hypervisor": "xen-pvm", "admin_state": "up", "nodes": [home],
    }  # fmt: skip


def searches(clusters: int) -> Iterator[tuple[float, bool]]:
    """Yield milliseconds and result of each failure that needs a search.

    Sums, and one order of moves, do not decide it. Each failure has a new search without stored
    results.
    """
    rules = Rules("no-worse")
    for seed in range(clusters):
        state = State(read_cluster(tight(seed), Reading()))
        group = state.cluster.groups[0]
        kernels = Kernels(state, [(NODES, 0)])
        simulation = Simulation(state, kernels, rules, group.nodes)
        left = FAILURES
        for node in group.nodes:
            demand = demand_of(state, (node,), rules)
            if check_bounds(state, (node,), demand, rules)[0] != UNPROVED:
                continue
            if not left or not simulation.lost([(node,)]):
                continue
            left -= 1
            begun = process_time()
            saved = ExactSearch(state, kernels, rules, simulation).tolerates((node,))
            yield 1000 * (process_time() - begun), saved


def print_searches(found: list[tuple[float, bool]]) -> None:
    """Print a table of exact searches: how many failures they prove tolerated, and their times.

    `found`: for each search, its milliseconds, and whether all instances can be restarted.
    """
    times = sorted(time for time, _ in found)
    print(
        "| failures that one order loses | of those saved | median, ms | 95 %, ms | longest, ms |"
    )
    print("|---:|---:|---:|---:|---:|")
    if times:
        print(
            f"| {len(times)} | {sum(saved for _, saved in found)} | {statistics.median(times):.1f} "
            f"| {times[int(0.95 * (len(times) - 1))]:.1f} | {times[-1]:.1f} |"
        )


if __name__ == "__main__":
    main()
