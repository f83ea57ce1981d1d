"""Measure how many plans of capacity, squeeze, reboot and make-room are the best possible ones.

``python -m benchmarks.planners_gap [--clusters N] [--first SEED] [--write]`` prints tables, or
writes them to ``benchmarks/PLANNERS.md``. The clusters have 3 to 5 nodes. The best possible result
is found here by trying every placement, without the code of the planners:

* capacity: the largest number of equal instances with which every failure of a node is tolerated;
* squeeze: the largest number of nodes that can be freed;
* reboot: the nodes that can be drained alone, and the least number of groups of these nodes.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from random import Random
from sys import stderr
from time import process_time

from benchmarks.gap import OWN_DISK, OWN_MEMORY, Home, Machine, as_text, generate
from iallocator.options.settings import Settings
from iallocator.planners.capacity.capacity import CapacityOptions, FillingRules, compute_capacity
from iallocator.planners.capacity.site import Size
from iallocator.planners.plan_limits import StopCriteria
from iallocator.planners.reboot.options import RebootOptions
from iallocator.planners.reboot.reboot import plan_reboots
from iallocator.planners.squeeze.headroom import SqueezeOptions
from iallocator.planners.squeeze.squeeze import squeeze_cluster
from iallocator.sources.text import read_text
from iallocator.wire.reading import Reading

__all__ = [
    "MOVABLE", "TEMPLATES", "Steps", "Wanted", "capacity_case", "drains", "fewest_groups",
    "freeable", "hspace", "most", "ours", "reboot_case", "rebooted", "size_of",
    "squeeze_case", "valid",
]  # fmt: skip

TEMPLATES = {
    "shared": (("rbd",), "rbd"),
    "plain": (("plain",), "plain"),
    "drbd": (("drbd",), "drbd"),
    "mixed": (("drbd", "rbd"), "rbd"),
    "mixed, drbd": (("drbd", "rbd"), "drbd"),
}
"""Kind of cluster -> disk templates of its instances, and of instances that are added."""

STEPS = 300_000
"""Number of steps of the brute force after which a cluster is left out."""

PROVED_CLUSTERS = 20
"""The largest number of clusters of each kind in the table of proofs, which takes minutes."""


class Wanted:
    """The size of the instances to add: MiB of memory and of disk, and the disk template."""

    def __init__(self, memory: int, disk: int, template: str) -> None:
        self.memory = memory
        self.disk = disk
        self.template = template


class TooManyError(Exception):
    """Raised if trying every placement takes too long."""


class Steps:
    """The remaining steps of a search by brute force, initially `STEPS`."""

    def __init__(self) -> None:
        self.left = STEPS

    def spend(self) -> None:
        """Use up one step of the search; raise `TooManyError` if none is left."""
        self.left -= 1
        if self.left < 0:
            raise TooManyError


def capacity_case(seed: int, kind: str) -> tuple[list[Machine], list[Home], Wanted]:
    """Return a cluster of 3 to 5 nodes, and the size of the instances to add."""
    rng = Random(f"capacity {seed} {kind}")
    templates, template = TEMPLATES[kind]
    memory, disk = rng.choice([16384, 24576, 32768]), rng.choice([131072, 262144])
    equal = rng.random() < 0.6
    machines = []
    for k in range(rng.randint(3, 4 if template == "drbd" else 5)):
        size = 1.0 if equal else rng.choice([0.75, 1.0, 1.25])
        machines.append(Machine(f"node{k}", int(memory * size), int(disk * size), 16))
    homes = generate(rng, machines, templates, rng.randint(3, 9))
    return machines, homes, Wanted(rng.choice([2048, 3072, 4096, 6144]), 5 * 1024, template)


def free_of(machines: Sequence[Machine], homes: Sequence[Home]) -> list[list[float]]:
    """Return the MiB of memory and of disk that are free on each node."""
    free = [[float(one.memory - OWN_MEMORY), one.disk - OWN_DISK] for one in machines]
    for home in homes:
        free[home.nodes[0]][0] -= home.memory
        for node in home.nodes if home.template in ("plain", "drbd") else ():
            free[node][1] -= home.disk
    return free


def restarts(
    items: Sequence[tuple[int, int, Sequence[int]]], free: list[list[float]], steps: Steps
) -> bool:
    """Return whether all items (MiB of memory, of disk, nodes) fit into the amounts `free`."""
    if not items:
        return True
    steps.spend()
    (memory, disk, nodes), rest = items[0], items[1:]
    seen = set()
    for node in nodes:
        left = free[node]
        if left[0] > memory and (not disk or left[1] > disk) and tuple(left) not in seen:
            seen.add(tuple(left))
            left[0] -= memory
            left[1] -= disk
            fits = restarts(rest, free, steps)
            left[0] += memory
            left[1] += disk
            if fits:
                return True
    return False


def tolerated(count: int, homes: Sequence[Home], free: list[list[float]], steps: Steps) -> bool:
    """Return whether the instances of every node can restart on the other nodes."""
    for failed in range(count):
        others = [k for k in range(count) if k != failed]
        items = []
        for home in homes:
            if home.nodes[0] == failed:
                drbd = home.template == "drbd"
                disk = home.disk if home.template == "plain" else 0
                items.append((home.memory, disk, [home.nodes[1]] if drbd else others))
        items.sort(key=lambda one: (len(one[2]), -one[0]))
        if not restarts(items, [list(one) for one in free], steps):
            return False
    return True


def reserved_of(count: int, homes: Sequence[Home]) -> list[int]:
    """Return the MiB that each node reserves for the failure of any one primary node."""
    peers: dict[tuple[int, int], int] = {}
    for home in homes:
        if home.template == "drbd":
            first, second = home.nodes
            peers[second, first] = peers.get((second, first), 0) + home.memory
    return [max((m for (at, _), m in peers.items() if at == k), default=0) for k in range(count)]


def valid(
    machines: Sequence[Machine], homes: Sequence[Home], checks_restarts: bool, steps: Steps
) -> bool:
    """Return whether the instances keep the limits of each node, and N+1."""
    free, reserved = free_of(machines, homes), reserved_of(len(machines), homes)
    local = any(home.template != "rbd" for home in homes)
    for (memory, disk), kept in zip(free, reserved, strict=True):
        if memory <= kept or (local and disk <= 0):
            return False
    return not checks_restarts or tolerated(len(machines), homes, free, steps)


def most(
    machines: Sequence[Machine],
    homes: Sequence[Home],
    wanted: Wanted,
    checks_restarts: bool | None = None,
) -> int | None:
    """Return how many instances can be added; -1: the cluster violates N+1; None: unknown.

    A valid placement of several instances stays valid without one of them. So the placements of
    one more instance are found by adding an instance to each placement of one less.
    `checks_restarts` is by default true for instances on one node.
    """
    count, pair = len(machines), wanted.template == "drbd"
    places = [
        (a, b) if pair else (a,)
        for a in range(count)
        for b in (range(count) if pair else [0])
        if not pair or a != b
    ]
    steps = Steps()

    def holds(chosen: Sequence[int]) -> bool:
        more = [
            Home(f"more{k}", wanted.memory, wanted.disk, 1, wanted.template, places[place])
            for k, place in enumerate(chosen)
        ]
        checks = not pair if checks_restarts is None else checks_restarts
        return valid(machines, [*homes, *more], checks, steps)

    try:
        level: list[tuple[int, ...]] = [()] if holds(()) else []
        found = -1
        while level:
            found += 1
            more = {tuple(sorted((*one, k))) for one in level for k in range(len(places))}
            if len(more) > STEPS // 10:
                return None
            level = [one for one in sorted(more) if holds(one)]
    except TooManyError:
        return None
    return found


def size_of(wanted: Wanted) -> Size:
    """Return the size of the instances to add as an object of the planner."""
    return Size(wanted.memory, wanted.disk, 1, 1, wanted.template, 1)


def ours(text: str, wanted: Wanted, n1: str = "", tiered: bool = False) -> tuple[list[int], float]:
    """Return the sizes (MiB of memory) that `capacity` places, and the processor seconds."""
    cluster = read_text(text.encode(), "cluster", Reading(static_kvm_memory=0)).cluster
    start = process_time()
    size = size_of(wanted)
    found = compute_capacity(
        cluster, CapacityOptions(size, [size], rules=FillingRules(n1=n1)), lambda *_: None
    )
    run = found.tiered if tiered else found.standard
    assert run is not None
    return [one.size.memory for one in run.filling.placed], process_time() - start


def hspace(text: str, wanted: Wanted) -> tuple[int, list[tuple[int, int, int]]]:
    """Return the number that hspace places, and its tiers: MiB of memory, of disk, count."""
    with tempfile.NamedTemporaryFile("w", suffix=".data") as file:
        file.write(text)
        file.flush()
        size = f"{wanted.disk},{wanted.memory},1"
        done = subprocess.run(
            ["hspace", "-t", file.name, "--machine-readable", f"--standard-alloc={size}",
             f"--tiered-alloc={size}", f"--disk-template={wanted.template}"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    keys = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    tiers = []
    for word in keys.get("HTS_TSPEC", "").replace("'", "").strip('"').split():
        memory, disk, _, rest = word.split(",", 3)
        tiers.append((int(memory), int(disk), int(rest.rsplit("=", 1)[1])))
    return int(keys["HTS_ALLOC_INSTANCES"]), tiers


def capacity_table(seeds: Sequence[int]) -> list[str]:
    """Return the lines of the table of capacity."""
    with_hspace = shutil.which("hspace") is not None
    lines = [
        "| storage | clusters | possible | `capacity` | optimal | fewest | hspace | below hspace |"
        " tiers below | seconds |",
        "|---|---:|---:|---:|---:|---|---:|---:|---:|---:|",
    ]
    for kind in TEMPLATES:
        known = possible = placed = theirs = optimal = below = lower = 0
        worst, seconds = (0, 0), 0.0
        for seed in seeds:
            machines, homes, wanted = capacity_case(seed, kind)
            best = most(machines, homes, wanted)
            if best is None or best < 0:
                continue
            text = as_text(machines, homes)
            sizes, time = ours(text, wanted)
            count = len(sizes)
            if count > best:
                raise AssertionError(f"{kind} {seed}: {count} are placed, {best} are possible")
            known, possible, placed = known + 1, possible + best, placed + count
            seconds += time
            optimal += count == best
            worst = max(worst, (best - count, best))
            if with_hspace:
                number, tiers = hspace(text, wanted)
                if number > best:
                    print(f"{kind} {seed}: hspace places {number}, {best} are possible")
                theirs, below = theirs + number, below + (count < number)
                memory = [one for one, _, many in tiers for _ in range(many)]
                mine, _ = ours(text, wanted, tiered=True)
                lower += sorted(mine, reverse=True) < sorted(memory, reverse=True)
        lines.append(
            f"| {kind} | {known} | {possible} | {placed} | {optimal / max(1, known):.1%} | "
            f"{worst[1] - worst[0]} of {worst[1]} | {theirs} | {below} | {lower} | "
            f"{seconds / max(1, known):.3f} |"
        )
    return lines


def squeeze_case(seed: int, kind: str) -> tuple[list[Machine], list[Home]]:
    """Return a cluster of 3 to 5 nodes that is about half full, or empty in part."""
    rng = Random(f"squeeze {seed} {kind}")
    memory = rng.choice([16384, 24576, 32768])
    equal = rng.random() < 0.6
    machines = []
    for k in range(rng.randint(3, 5)):
        size = 1.0 if equal else rng.choice([0.75, 1.0, 1.25])
        machines.append(Machine(f"node{k}", int(memory * size), 262144, 16))
    return machines, generate(rng, machines, MOVABLE[kind], rng.randint(4, 9))


MOVABLE = {"shared": ("rbd",), "mixed": ("drbd", "rbd", "rbd", "rbd"),
           "plain and shared": ("plain", "rbd", "rbd", "rbd")}  # fmt: skip
"""Kind of cluster for squeeze and reboot -> disk templates of its instances."""

RESERVE = 2 * 128
"""MiB of memory that each node keeps for two standard instances of the policy."""


def freeable(machines: Sequence[Machine], homes: Sequence[Home]) -> int | None:
    """Return how many nodes can be freed by moving instances on shared storage; None: unknown.

    The result is -1 if the cluster violates N+1.
    """
    steps, count = Steps(), len(machines)
    try:
        if not valid(machines, homes, True, steps):
            return -1
        fixed = {node for home in homes if home.template != "rbd" for node in home.nodes}
        for number in range(count - len(fixed), 0, -1):
            for off in combinations([k for k in range(count) if k not in fixed], number):
                on = [k for k in range(count) if k not in off]
                if on and _packs(machines, homes, on, steps):
                    return number
    except TooManyError:
        return None
    return 0


def _packs(
    machines: Sequence[Machine], homes: Sequence[Home], on: Sequence[int], steps: Steps
) -> bool:
    """Return whether the instances fit on the nodes `on` alone, with reserve and N+1."""
    movable = sorted((h for h in homes if h.template == "rbd"), key=lambda home: -home.memory)
    staying = [home for home in homes if home.template != "rbd"]
    kept = reserved_of(len(machines), homes)
    remaining = [machines[k] for k in on]
    position = {node: k for k, node in enumerate(on)}
    free = free_of(machines, staying)

    def place(rest: Sequence[Home], placed: list[Home]) -> bool:
        steps.spend()
        if not rest:
            moved = [
                Home(*home[:5], tuple(position[k] for k in home.nodes))
                for home in [*staying, *placed]
            ]
            return tolerated(len(on), moved, free_of(remaining, moved), steps)
        home = rest[0]
        for node in on:
            if free[node][0] - kept[node] - RESERVE > home.memory:
                free[node][0] -= home.memory
                placed.append(Home(*home[:5], (node,)))
                if place(rest[1:], placed):
                    return True
                placed.pop()
                free[node][0] += home.memory
        return False

    return all(free[node][0] - kept[node] > RESERVE for node in on) and place(movable, [])


def squeezed(text: str) -> tuple[int, float]:
    """Return how many nodes `squeeze` frees, and the processor time in seconds."""
    source = read_text(text.encode(), "cluster", Reading(static_kvm_memory=0))
    start = process_time()
    options = SqueezeOptions(StopCriteria(), Settings())
    found = squeeze_cluster(source.cluster, source.policy, options)
    return len(found.off), process_time() - start


def squeeze_table(seeds: Sequence[int]) -> list[str]:
    """Return the lines of the table of squeeze."""
    lines = [
        "| storage | clusters | can be freed | freed | optimal | clusters below | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for kind in MOVABLE:
        known = possible = freed = optimal = 0
        seconds, below = 0.0, []
        for seed in seeds:
            machines, homes = squeeze_case(seed, kind)
            best = freeable(machines, homes)
            if best is None or best < 0:
                continue
            number, time = squeezed(as_text(machines, homes))
            if number > best:
                raise AssertionError(f"{kind} {seed}: {number} are freed, {best} are possible")
            known, possible, freed = known + 1, possible + best, freed + number
            optimal, seconds = optimal + (number == best), seconds + time
            below += [seed] * (number < best)
        lines.append(
            f"| {kind} | {known} | {possible} | {freed} | {optimal / max(1, known):.1%} | "
            f"{len(below)} | {seconds / max(1, known):.3f} |"
        )
        if below:
            print(f"squeeze, {kind}: fewer than possible for seeds {below}", file=stderr)
    return lines


def reboot_case(seed: int, kind: str) -> tuple[list[Machine], list[Home]]:
    """Return a random cluster of 3 to 6 nodes that are so full that few can be drained."""
    rng = Random(f"reboot {seed} {kind}")
    memory, equal = rng.choice([16384, 24576, 32768]), rng.random() < 0.6
    machines = []
    for k in range(rng.randint(3, 6)):
        size = 1.0 if equal else rng.choice([0.75, 1.0, 1.25])
        machines.append(Machine(f"node{k}", int(memory * size), 262144, 16))
    count = len(machines) * memory * rng.uniform(0.3, 0.75) / 4700
    return machines, generate(rng, machines, MOVABLE[kind], max(2, round(count)))


def drains(
    machines: Sequence[Machine], homes: Sequence[Home], off: Sequence[int], steps: Steps
) -> bool:
    """Return whether the instances on the nodes `off` can run on other nodes.

    The nodes `off` are offline meanwhile. drbd instances fail over to their secondary, others move
    to any node. The other nodes must then tolerate each failure. In these failures, an instance
    with an offline secondary is not restarted; it only uses capacity of its primary.
    """
    on = [k for k in range(len(machines)) if k not in off]
    position = {node: k for k, node in enumerate(on)}
    staying = [home for home in homes if home.nodes[0] in position]
    movable = []
    for home in homes:
        if home.nodes[0] not in off:
            continue
        if home.template != "drbd":
            movable.append(home)
        elif home.nodes[1] in position:
            staying.append(Home(*home[:5], home.nodes[::-1]))
        else:
            return False
    movable.sort(key=lambda home: -home.memory)

    def place(rest: Sequence[Home], placed: list[Home]) -> bool:
        steps.spend()
        free, kept = free_of(machines, placed), reserved_of(len(machines), placed)
        if any(free[k][0] <= kept[k] or free[k][1] <= 0 for k in on):
            return False
        if rest:
            return any(place(rest[1:], [*placed, Home(*rest[0][:5], (k,))]) for k in on)
        if len(on) == 1:
            return len(off) == 1 or not placed
        whole = [home for home in placed if position.keys() >= set(home.nodes)]
        moved = [Home(*home[:5], tuple(position[k] for k in home.nodes)) for home in whole]
        return tolerated(len(on), moved, [free[k] for k in on], steps)

    return bool(on) and place(movable, staying)


def fewest_groups(
    machines: Sequence[Machine], homes: Sequence[Home]
) -> tuple[list[int], int] | None:
    """Return the nodes that can be drained alone, and the least number of groups of them.

    None: unknown, or the cluster violates N+1. The two nodes of a drbd instance are never drained
    together.
    """
    steps, count = Steps(), len(machines)
    pairs = {frozenset(home.nodes) for home in homes if len(home.nodes) > 1}
    known: dict[tuple[int, ...], bool] = {}

    def can(group: tuple[int, ...]) -> bool:
        if group not in known:
            known[group] = not any(pair.issubset(group) for pair in pairs) and drains(
                machines, homes, group, steps
            )
        return known[group]

    try:
        if not valid(machines, homes, True, steps):
            return None
        alone = [k for k in range(count) if can((k,))]
        sets = [
            frozenset(one)
            for size in range(1, len(alone) + 1)
            for one in combinations(alone, size)
            if can(one)
        ]
        for number in range(len(alone) + 1):
            if any(frozenset().union(*some) == set(alone) for some in combinations(sets, number)):
                return alone, number
    except TooManyError:
        pass
    return None


def rebooted(text: str) -> tuple[list[int], int, float]:
    """Return the nodes that `reboot` drains, the number of groups, and the processor seconds."""
    cluster = read_text(text.encode(), "cluster", Reading(static_kvm_memory=0)).cluster
    start = process_time()
    done = plan_reboots(cluster, Settings(), RebootOptions(force=True))
    nodes = sorted(index for one in done.rounds for index in one.nodes)
    return nodes, len(done.rounds), process_time() - start


def reboot_table(seeds: Sequence[int]) -> list[str]:
    """Return the lines of the table of reboot."""
    lines = [
        "| storage | clusters | nodes that can be drained | drained | fewest groups | groups |"
        " optimal | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for kind in MOVABLE:
        known = possible = drained = fewest = groups = optimal = 0
        seconds, below = 0.0, []
        for seed in seeds:
            machines, homes = reboot_case(seed, kind)
            best = fewest_groups(machines, homes)
            if best is None:
                continue
            nodes, number, time = rebooted(as_text(machines, homes))
            if not set(nodes) <= set(best[0]) or (nodes == best[0] and number < best[1]):
                raise AssertionError(f"{kind} {seed}: {nodes}, {number} groups; possible: {best}")
            known, possible, drained = known + 1, possible + len(best[0]), drained + len(nodes)
            fewest, groups, seconds = fewest + best[1], groups + number, seconds + time
            optimal += (nodes, number) == best
            below += [seed] * ((nodes, number) != best)
        lines.append(
            f"| {kind} | {known} | {possible} | {drained} | {fewest} | {groups} | "
            f"{optimal / max(1, known):.1%} | {seconds / max(1, known):.3f} |"
        )
        if below:
            print(f"reboot, {kind}: not the best for seeds {below}", file=stderr)
    return lines


def proofs(seeds: Sequence[int]) -> list[str]:
    """Return the lines of the table of proofs, on up to `PROVED_CLUSTERS` clusters of each kind."""
    from benchmarks.proofs import proofs_table  # which imports this module

    return proofs_table(seeds[:PROVED_CLUSTERS])


TABLES: dict[str, Callable[[Sequence[int]], list[str]]] = {
    "proofs": proofs,
    "capacity": capacity_table,
    "squeeze": squeeze_table,
    "reboot": reboot_table,
}
"""Planner -> function that returns the lines of its table."""


def page(seeds: Sequence[int], planners: Sequence[str]) -> Iterator[str]:
    """Yield the lines of the page."""
    yield from (
        "# Planners and the best possible result",
        "",
        "How many plans on clusters of 3 to 5 nodes are the best possible ones",
        "(`python -m benchmarks.planners_gap --write`). Every placement is tried.",
        "N+1 is that of the commands by default. The table of proofs is about clusters of 4 to 10",
        "nodes with up to 60 instances, and a time limit of 60 s.",
        "",
    )
    for name in planners:
        yield from (f"## {name}", "", *TABLES[name](seeds), "")


def main() -> None:
    """Print the tables of planners, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clusters", type=int, default=200, help="clusters of each kind")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--planner", choices=TABLES, action="append", help="only this one")
    parser.add_argument("--write", action="store_true", help="write benchmarks/PLANNERS.md")
    chosen = parser.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.clusters)
    lines = page(seeds, chosen.planner or list(TABLES))
    if chosen.write:
        Path(__file__).with_name("PLANNERS.md").write_text("\n".join(lines))
    else:
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
