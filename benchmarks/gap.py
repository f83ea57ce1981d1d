"""Measure how far plans of balance are from the best possible placement.

``python -m benchmarks.gap [--large N] [--small N] [--from SEED] [--write]`` prints three tables, or
writes them to ``benchmarks/GAP.md``:

* clusters of 10 to 20 equal nodes with 42 to 127 instances on shared storage: the distance of the
  final score to a lower bound;
* clusters of 3 to 5 nodes with up to 8 instances: how many plans reach the optimum, which is found
  by trying every placement;
* such clusters with one offline node, for each mode of N+1: how many plans reach the best placement
  that the mode allows, and how many plans of hbal are better.

N+1 is off in the first two tables, and a move on the small clusters needs no minimum gain. "Single
moves" are the moves of hbal. The score of the optimum follows from the table of statistics.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from pathlib import Path
from random import Random
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iallocator.compat import behaviour_of
from iallocator.model.cluster import Cluster
from iallocator.model.node_view import Capacities, NodeView, capacities
from iallocator.model.state import State
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.options.settings import Settings
from iallocator.planners.balance.balance import BalanceOptions, balance_cluster
from iallocator.planners.balance.move_kinds import MOVE_KINDS, MoveRules, possible
from iallocator.planners.plan import Plan
from iallocator.planners.plan_limits import StopCriteria
from iallocator.scoring.arrays import scores_of_states
from iallocator.scoring.metrics import node_counts
from iallocator.scoring.scalar import score_of
from iallocator.sources.text import read_text
from iallocator.wire.reading import Reading

__all__ = ["HBAL", "MODES", "STORAGE", "Home", "Machine", "allowed", "as_text", "fails", "large",
           "large_table", "lower_bound", "offline_table", "optimum", "placements", "planned",
           "small", "small_table"]  # fmt: skip

STORAGE = {
    "shared": ("rbd",),
    "drbd": ("drbd",),
    "mixed": ("drbd", "rbd"),
    "plain and shared": ("plain", "rbd"),
}
"""Kind of cluster -> disk templates of its instances."""

PLACEMENTS = 250_000
"""Number of placements above which a cluster is left out, as the search would take minutes."""

CHUNK = 10_000
"""Number of placements that are scored at once."""

REACHABLE = 20_000
"""Number of placements above which a search of legal moves ends, as it would take minutes."""

ALLOWED = 5_000
"""Number of the best placements that are checked by N+1."""

MODES = ("off", "no-worse", "no-new", "strict")
"""The modes of N+1 in the table of clusters with an offline node."""

HBAL = MoveRules(behaviour=behaviour_of("hail"))
"""The rules for moves of hbal."""

Scores = NDArray[Any]

EQUAL = 1e-6
"""Difference below which two scores count as equal."""

POLICY = (
    "|128,1,1024,1,1,1|128,1,1024,1,1,1;65536,16,1048576,16,8,12|"
    "diskless,file,sharedfile,plain,blockdev,drbd,rbd,ext|64|128"
)


class Machine(NamedTuple):
    """A node: MiB of memory and of disk, and cpus."""

    name: str
    memory: int
    disk: int
    cpus: int


class Home(NamedTuple):
    """An instance: its nodes by number, MiB of memory and of disk, virtual cpus."""

    name: str
    memory: int
    disk: int
    cpus: int
    template: str
    nodes: tuple[int, ...]


OWN_MEMORY, OWN_DISK = 1024, 8192
"""The memory and the disk that a node uses itself, in MiB."""


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
    """Return a random cluster of 10 to 20 equal nodes on shared storage."""
    rng = Random(seed)
    machines = [Machine(f"node{k:02}", 65536, 1 << 20, 16) for k in range(rng.randint(10, 20))]
    return machines, generate(rng, machines, ("rbd",), rng.randint(42, 127))


def small(seed: int, kind: str) -> tuple[list[Machine], list[Home]]:
    """Return a random cluster of 3 to 5 nodes, of equal or different sizes."""
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


def fails(seed: int, kind: str) -> tuple[list[Machine], list[Home], int]:
    """Return a small cluster, and the number of a node with instances that is offline."""
    machines, homes = small(seed, kind)
    used = sorted({home.nodes[0] for home in homes if home.template != "plain"})
    return machines, homes, Random(seed).choice(used or [0])


def as_text(machines: Sequence[Machine], homes: Sequence[Home], down: int | None = None) -> str:
    """Return the cluster in htools' text format; the node `down` is offline."""
    lines = ["default|uuid|preferred|", ""]
    for k, one in enumerate(machines):
        memory = sum(home.memory for home in homes if home.nodes[0] == k)
        disk = sum(home.disk for home in homes if k in home.nodes and home.template != "rbd")
        lines.append(
            f"{one.name}|{one.memory}|{OWN_MEMORY}|{one.memory - OWN_MEMORY - memory}|{one.disk}|"
            f"{one.disk - OWN_DISK - disk}|{one.cpus}|{'Y' if k == down else 'N'}|uuid|1"
        )
    lines.append("")
    for home in homes:
        primary, *other = (machines[k].name for k in home.nodes)
        lines.append(
            f"{home.name}|{home.memory}|{home.disk}|{home.cpus}|running|Y|{primary}|"
            f"{''.join(other)}|{home.template}||1"
        )
    return "\n".join([*lines, "", "", POLICY, ""])


def read(text: str) -> Cluster:
    """Return the cluster of a text file, with nodes that use no memory themselves."""
    return read_text(text.encode(), "cluster", Reading(static_kvm_memory=0)).cluster


def planned(
    text: str, n1: str = "off", rules: MoveRules | None = None, **limits: Any
) -> tuple[Plan, float]:
    """Return the plan for the only group of a cluster, and the processor time in seconds."""
    cluster = read(text)
    start = process_time()
    settings = Settings()
    settings.n1 = n1
    options = BalanceOptions(StopCriteria(**limits), rules or MoveRules(), settings=settings)
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

    With `fixed`, return the score of the present placement instead.
    """
    found = placements(machines, homes, fixed=fixed)
    return float(found[0].min()) if found is not None and found[0].size else None


def reachable(
    machines: Sequence[Machine], homes: Sequence[Home], down: int | None = None, mode: str = "off"
) -> float | None:
    """Return the score of the best placement to which sequences of legal moves lead.

    With a `mode` of N+1, it and the states before it are allowed. Best is then the placement with
    the fewest instances on the node `down`; of several, one after which the instances that have
    returned can be restarted once more; then the one with the lowest score. None if more than
    `REACHABLE` placements are reached.
    """
    cluster = read(as_text(machines, homes, down))
    state, rules = State(cluster), MoveRules()
    fixed = Capacities(cluster.nodes)
    scope = range(len(machines))
    movable = [one for one in cluster.instances if one.kind.planners_move]
    names = [one.name for one in movable]
    tolerance = None
    if mode != "off":
        tolerance = FailureTolerance(state, plan_rules(mode), group=cluster.groups[0])
        tolerance.measure()
        passing = tolerance.exactly().comparison.passing_guard()
    start = tuple(state.where[name] for name in names)
    seen, left = {start}, [start]
    best: tuple[int, bool, float] | None = None
    while left:
        here = left.pop()
        with state.trial():
            for instance, old in zip(movable, start):
                state.remove(instance, old)
            for instance, new in zip(movable, here):
                state.place(instance, new)
            offline, lost, allows_end = 0, False, True
            if tolerance is not None:
                if here != start and not passing.keeps():
                    continue
                offline = tolerance.comparison.still_offline()
                if here != start:
                    allows_end = not tolerance.comparison.broken(rescues=True)
                    lost = bool(tolerance.comparison.broken())
            if allows_end:
                key = offline, lost, score_of(state, scope)
                best = key if best is None else min(best, key)
            for k, instance in enumerate(movable):
                for kind in MOVE_KINDS:
                    if kind.drbd != (len(here[k]) > 1):
                        continue
                    if not rules.allows_of(
                        kind, cluster.nodes[here[k][0]], cluster.nodes[here[k][-1]]
                    ):
                        continue
                    targets = [node for node in scope if node not in here[k] and node != down]
                    for target in targets if kind.targeted else targets[:1]:
                        move = kind.move(instance, here[k], target)
                        after = (*here[:k], move.after, *here[k + 1 :])
                        if after in seen:
                            continue
                        with state.trial():
                            legal = possible(state, fixed, move, rules)
                        if legal:
                            seen.add(after)
                            left.append(after)
        if len(seen) > REACHABLE:
            return None
    return None if best is None else best[2]


def placements(
    machines: Sequence[Machine],
    homes: Sequence[Home],
    down: int | None = None,
    fixed: bool = False,
) -> tuple[Scores, list[Scores], list[list[tuple[int, ...]]]] | None:
    """Return all placements; None if there are more than `PLACEMENTS`.

    Parameters
    ----------
    machines, homes:
        The nodes and the instances.
    down:
        The offline node. No instance moves to it; instances may stay on it, but a secondary does
        not become a primary there.
    fixed:
        Return the present placement only.

    Returns
    -------
    tuple
        The score of each placement; for each instance, the number of its choice in each
        placement; for each instance, its choices.
    """
    count = len(machines)
    up = [k for k in range(count) if k != down]
    choices: list[list[tuple[int, ...]]] = []
    for home in homes:
        some = [home.nodes]
        if not fixed and home.template == "drbd":
            some += [home.nodes[::-1]] if home.nodes[-1] in up else []
            some += [(a, b) for a in up for b in up if a != b]
        elif not fixed and home.template != "plain":
            some += [(a,) for a in up]
        choices.append(list(dict.fromkeys(some)))
    if math.prod(map(len, choices)) > PLACEMENTS:
        return None
    total = {
        "memory": np.array([float(one.memory) for one in machines]),
        "disk": np.array([float(one.disk) for one in machines]),
    }
    sums = {name: np.zeros((1, count)) for name in ("memory", "disk")}
    peers = np.zeros((1, count, count))  # memory that a node keeps for each primary
    chosen: list[Scores] = []
    for home, options in zip(homes, choices, strict=True):
        rows = len(sums["memory"]) * len(options)
        first = np.tile([nodes[0] for nodes in options], len(sums["memory"]))
        second = np.tile([nodes[-1] for nodes in options], len(sums["memory"]))
        chosen = [np.repeat(one, len(options)) for one in chosen]
        chosen.append(np.tile(np.arange(len(options)), len(sums["memory"])))
        sums = {name: np.repeat(values, len(options), axis=0) for name, values in sums.items()}
        peers = np.repeat(peers, len(options), axis=0)
        every = np.arange(rows)
        sums["memory"][every, first] += home.memory
        if home.template != "rbd":
            sums["disk"][every, first] += home.disk
        if home.template == "drbd":
            sums["disk"][every, second] += home.disk
            peers[every, second, first] += home.memory
        legal = (sums["memory"] < total["memory"] - OWN_MEMORY)[:, up].all(axis=1)
        legal &= (sums["disk"] < total["disk"] - OWN_DISK)[:, up].all(axis=1)
        sums = {name: values[legal] for name, values in sums.items()}
        peers = peers[legal]
        chosen = [one[legal] for one in chosen]
    state = State(read(as_text(machines, homes, down)))
    return _scores(state, homes, peers.max(axis=2), chosen, choices), chosen, choices


def _scores(
    state: State,
    homes: Sequence[Home],
    reserved: Scores,
    chosen: Sequence[Scores],
    choices: Sequence[Sequence[tuple[int, ...]]],
) -> Scores:
    """Return the scores of placements, by the formulas of the statistics.

    `chosen` has, for each instance, the number of its choice in each placement; `choices` has the
    choices. `reserved` is an array of placements × nodes, in MiB.
    """
    nodes = state.cluster.nodes
    fixed = np.array([capacities(node) for node in nodes], dtype=np.float64).T
    counts = node_counts(
        sum(node.online for node in nodes),
        sum(not node.online for node in nodes),
        sum(node.online and node.has_internal for node in nodes),
    )
    instances = {one.name: one for one in state.cluster.instances}
    for home in homes:
        state.remove(instances[home.name], home.nodes)
    empty = np.array(state.columns, dtype=np.float64)
    amounts = []
    for home, options in zip(homes, choices, strict=True):
        instance = instances[home.name]
        added = np.zeros((len(options), *empty.shape))
        for row, (first, *others) in enumerate(options):
            added[row, :, first] += instance.as_primary
            for second in others:
                added[row, :, second] += instance.as_secondary
        amounts.append(added)
    scores: Scores = np.empty(len(reserved))
    for start in range(0, len(scores), CHUNK):
        some = slice(start, start + CHUNK)
        columns = empty + sum(added[row[some]] for added, row in zip(amounts, chosen))
        view = NodeView(list(columns.swapaxes(0, 1)), list(fixed), reserved[some])
        scores[some] = scores_of_states(view, counts, reserved[some].shape)
    return scores


def allowed(
    machines: Sequence[Machine], homes: Sequence[Home], down: int, modes: Sequence[str]
) -> dict[str, float] | None:
    """Return the lowest score of the placements that each mode of N+1 permits.

    None if there are too many placements, or none within the limits. A mode without a permitted
    placement is missing. Instances that return from the offline node count as lost before.
    """
    found = placements(machines, homes, down)
    if found is None or not found[0].size:
        return None
    scores, chosen, choices = found
    best: dict[str, float] = {}
    for mode in modes:
        state = State(read(as_text(machines, homes, down)))
        instances = {one.name: one for one in state.cluster.instances}
        tolerance = FailureTolerance(state, plan_rules(mode), group=state.cluster.groups[0])
        if mode != "off":
            tolerance.measure()
        for row in np.argsort(scores, kind="stable")[:ALLOWED].tolist():
            with state.trial():
                for home in homes:
                    state.remove(instances[home.name], home.nodes)
                for home, column, options in zip(homes, chosen, choices):
                    state.place(instances[home.name], options[int(column[row])])
                if mode == "off" or not tolerance.comparison.broken(rescues=True):
                    best[mode] = float(scores[row])
                    break
    return best


def large_table(first: int, count: int) -> list[str]:
    """Return the lines of the table of larger clusters."""
    lines = [
        "| plan | mean | 95 % | worst | moves | seconds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, compound in (("single moves", False), ("`balance`", True)):
        gaps, moves, seconds = [], 0, 0.0
        for seed in range(first, first + count):
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


def small_table(first: int, count: int) -> list[str]:
    """Return the lines of the table of small clusters."""
    lines = [
        "| storage | clusters | single moves: optimal | mean gap | `balance`: optimal | mean gap | "
        "best reachable |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    with ProcessPoolExecutor() as pool:
        return [*lines, *pool.map(partial(_small_row, first, count), STORAGE)]


def _small_row(first: int, count: int, kind: str) -> str:
    known = others = 0
    reached, gaps = [0, 0], [0.0, 0.0]
    for seed in range(first, first + count):
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
            if compound and gap >= EQUAL:
                limit = reachable(*cluster)
                if limit is not None and plan.after < limit - EQUAL:
                    raise AssertionError(f"{kind} {seed}: {plan.after} is below {limit}")
                others += limit is not None and plan.after < limit + EQUAL
    return (
        f"| {kind} | {known} | {reached[0] / known:.0%} | {gaps[0] / known:.3f} | "
        f"{reached[1] / known:.0%} | {gaps[1] / known:.3f} | "
        f"{(reached[1] + others) / known:.0%} |"
    )


def offline_table(first: int, count: int) -> list[str]:
    """Return the lines of the table of small clusters with an offline node."""
    lines = [
        "| storage | `--n1` | clusters | best allowed: reached | mean gap | hbal: mean gap | "
        "worse than hbal | best reachable |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    with ProcessPoolExecutor() as pool:
        rows = pool.map(partial(_offline_rows, first, count), STORAGE)
        return [*lines, *chain.from_iterable(rows)]


def _offline_rows(first: int, count: int, kind: str) -> list[str]:
    lines = []
    known: dict[str, list[tuple[float, float, bool, bool]]] = {mode: [] for mode in MODES}
    for seed in range(first, first + count):
        cluster = fails(seed, kind)
        best = allowed(*cluster, MODES)
        if best is None:
            continue
        text, down = as_text(*cluster), cluster[2]
        hbal, _ = planned(text, rules=HBAL, min_gain=0.0)
        copies = any(down == one.before[0] and one.letters[0] == "r" for one in hbal.moves)
        for mode, score in best.items():
            plan, _ = planned(text, mode, compound=True, min_gain=0.0)
            above = not copies and plan.after > hbal.after + EQUAL
            gap = plan.after - score
            limit = reachable(*cluster, mode) if gap >= EQUAL else plan.after
            least = limit is not None and plan.after < limit + EQUAL
            known[mode].append((gap, hbal.after - score, above, least))
    for mode, found in known.items():
        if not found:
            continue
        size = len(found)
        reached = sum(one[0] < EQUAL for one in found) / size
        gap, other, best_of_all = (sum(one[k] for one in found) / size for k in (0, 1, 3))
        worse = str(sum(one[2] for one in found)) if mode == "off" else ""
        lines.append(
            f"| {kind} | {mode} | {size} | {reached:.0%} | {gap:.3f} | {other:.3f} | {worse} | "
            f"{best_of_all:.0%} |"
        )
    return lines


def main() -> None:
    """Print the tables of distances to the optimum, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--large", type=int, default=20, help="number of larger clusters")
    parser.add_argument(
        "--small", type=int, default=250, help="number of small clusters of each kind"
    )
    parser.add_argument(
        "--offline", type=int, default=80, help="number of those with an offline node, of each kind"
    )
    parser.add_argument("--from", type=int, default=1, dest="first", help="the first seed")
    parser.add_argument("--write", action="store_true", help="write benchmarks/GAP.md")
    chosen = parser.parse_args()
    lines = [
        "# Distance to the optimum",
        "",
        "How far plans of `balance` are from the best possible placement",
        "(`python -m benchmarks.gap --write`). N+1 is off in the first two tables.",
        "",
        f"{chosen.large} clusters of 10 to 20 equal nodes, 42 to 127 instances on shared storage.",
        "The distance is that of the final score to a lower bound, in which each statistic alone",
        "is as even as the sizes of the instances allow. Seconds of processor time.",
        "",
        *large_table(chosen.first, chosen.large),
        "",
        "Clusters of 3 to 5 nodes with up to 8 instances. The optimum is found by trying every",
        "placement. Some placements cannot be reached by moves that the limits allow, because the",
        "clusters are small and full. The last column counts the plans of `balance` that reach the",
        "best placement to which legal moves lead, which is found by trying all sequences of",
        f"moves. If there are more than {REACHABLE:,} such placements, a plan that misses the",
        "optimum does not count.",
        "",
        *small_table(chosen.first, chosen.small),
        "",
        "The same kinds of clusters with one offline node. The best placement is the one with the",
        "lowest score that the mode of N+1 allows, found by trying every placement. With `strict`,",
        "clusters are left out if no placement is allowed. One column counts the plans that end",
        "with a higher score than hbal's, where hbal copies no disks from the offline node.",
        "A plan without moves keeps a placement that `strict` may not allow: a negative gap, which",
        "counts as reached. hbal ignores N+1. The search includes placements that leave a node too",
        "little memory for failovers of secondaries; no move leads to them. The last column counts",
        "the plans that reach the best placement to which allowed moves lead. With N+1, it has",
        "the fewest instances on the offline node. Of several, those come first after which the",
        "returned instances could be restarted once more, then those with the lowest score.",
        "",
        *offline_table(chosen.first, chosen.offline),
        "",
    ]
    if chosen.write:
        Path(__file__).with_name("GAP.md").write_text("\n".join(lines))
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
