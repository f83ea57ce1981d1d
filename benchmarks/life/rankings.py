"""Compare rankings of nodes: some from the literature, and one that keeps large free capacity.

They are not strategies of the program. `benchmarks/LIFE.md` has the results. Of nodes with an equal
rank, the one with the lowest score is chosen, then the first.

``best-fit``: least free memory.

``dot-product``: the largest product of requested and free amounts of memory, disk and cpus (R.
Panigrahy et al., "Heuristics for Vector Bin Packing", 2011).

``fgd``: the least growth of free memory that is too little for the instances of the cluster (Q.
Weng et al., "Beware of Fragmentation", ATC 2023).

``headroom``: the most capacity for further instances of the policy's standard size and its doubles,
after the failure of any one node.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from iallocator.model.columns import CPUS, DISK, MEMORY
from iallocator.model.policy import Policy, Spec
from iallocator.ranking import STRATEGIES
from iallocator.ranking.base import NodeRanking, RankQuery
from iallocator.ranking.lost_allocations import room_for

__all__ = ["RANKINGS", "install"]

Key = Callable[[RankQuery, int], float]
"""Function that returns the cost of a node, lower is better.

For a secondary, ``beside`` of the query is the primary.
"""


def install() -> None:
    """Register the rankings as strategies of the program, in this process."""
    for name, keys in RANKINGS.items():
        module: Any = ModuleType(f"iallocator.ranking.{name.replace('-', '_')}")
        module.order = _order_by(keys)
        STRATEGIES[name] = name.replace("-", "_")
        sys.modules[module.__name__] = module


def _order_by(keys: Callable[[RankQuery], Key]) -> Callable[..., NodeRanking]:
    def order(task: RankQuery, nodes: Sequence[int]) -> NodeRanking:
        if task.role == "secondary" and not task.beside:
            return NodeRanking(list(nodes))
        key, scores = keys(task), _scores(task, nodes)
        costs = {i: (round(key(task, i), 9), scores.get(i, 0.0), i) for i in nodes}
        return NodeRanking(sorted(nodes, key=costs.__getitem__))

    return order


def _scores(task: RankQuery, nodes: Sequence[int]) -> dict[int, float]:
    """Return the lowest score with the instance on each of `nodes`, in the role of the query."""
    context: Any = task.context
    kernel, every = context.kernel(context.all_nodes()), context.all_nodes()
    if task.instance.required_nodes == 1:
        found = kernel.singles(task.instance, nodes, {})
        return {placed[0]: score for score, placed in found.everything()}
    if task.beside:
        found = kernel.pairs(task.instance, task.beside, nodes, {})
        return {placed[1]: score for score, placed in found.everything()}
    return {
        placed[0]: score for score, placed in kernel.pairs(task.instance, nodes, every, {}).best()
    }


def _after(task: RankQuery, index: int) -> tuple[list[float], float]:
    """Return the amounts of a node with the instance on it, and its reserve for failovers."""
    state, instance = task.context.state, task.instance
    primary = task.role == "primary"
    vector = instance.as_primary if primary else instance.as_secondary
    reserved = state.reserved[index]
    if not primary and instance.reserves:
        reserved = max(reserved, state.peers[index].get(task.beside[0], 0) + instance.memory)
    return [a + b for a, b in zip(state.row(index), vector)], reserved


def _best_fit(task: RankQuery) -> Key:
    return lambda task, index: task.context.state.columns[MEMORY][index]


def _dot_product(task: RankQuery) -> Key:
    def key(task: RankQuery, index: int) -> float:
        node, one = task.context.cluster.nodes[index], task.instance
        columns = task.context.state.columns
        cpus = node.vcpu_ratio * node.total_cpus
        return -(
            one.memory * columns[MEMORY][index] / node.total_memory**2
            + one.own_disk * columns[DISK][index] / max(1, node.total_disk) ** 2
            + one.vcpus * (cpus - columns[CPUS][index]) / cpus**2
        )

    return key


def _fgd(task: RankQuery) -> Key:
    state = task.context.state
    sizes = [one.memory for some in state.primaries for one in some.values()]
    sizes.append(task.instance.memory)

    def useless(free: float) -> float:
        return sum(free for size in sizes if size >= free) / len(sizes)

    def key(task: RankQuery, index: int) -> float:
        row, reserved = _after(task, index)
        before = state.columns[MEMORY][index] - state.reserved[index]
        return useless(row[MEMORY] - reserved) - useless(before)

    return key


def _sizes(policy: Policy) -> list[Spec]:
    """Return the standard size and its doubles up to the largest size of the policy."""
    most = max(interval.high.memory for interval in policy.intervals)
    size, found = policy.standard, []
    while 0 < size.memory <= most:
        found.append(size)
        size = Spec(size.memory * 2, size.cpus * 2, size.disk * 2, size.disks, size.nics,
                    size.spindles * 2)  # fmt: skip
    return found


class _Room:
    """Counts the further instances of each size that a group can have, also if a node fails."""

    def __init__(self, task: RankQuery, nodes: Sequence[int], policy: Policy) -> None:
        state = task.context.state
        self._nodes = nodes
        self._sizes = _sizes(policy)
        self._counts = {
            i: self._count(task, i, list(state.row(i)), state.reserved[i]) for i in nodes
        }
        self._moving = {
            i: sum(one.memory for one in state.primaries[i].values() if one.required_nodes == 1)
            for i in nodes
        }

    def _count(self, task: RankQuery, index: int, row: list[float], kept: float) -> list[int]:
        node = task.context.cluster.nodes[index]
        return [room_for(size, node, row, kept) for size in self._sizes]

    def left(self, task: RankQuery, index: int) -> float:
        """Return the MiB for further instances with the instance on `index`, if any node fails."""
        row, kept = _after(task, index)
        counts = {**self._counts, index: self._count(task, index, row, kept)}
        moving = dict(self._moving)
        if task.instance.required_nodes == 1:
            moving[index] = moving.get(index, 0) + task.instance.memory
        total = 0.0
        for k, size in enumerate(self._sizes):
            whole = sum(counts[i][k] for i in self._nodes)
            worst = max(counts[i][k] + -(-moving[i] // size.memory) for i in self._nodes)
            total += size.memory * max(0, whole - worst)
        return total


def _headroom(task: RankQuery) -> Key:
    rooms: dict[int, _Room] = {}

    def key(task: RankQuery, index: int) -> float:
        every = task.context.cluster.nodes
        group = every[index].group
        if group.index not in rooms:
            online = [i for i in group.nodes if every[i].online]
            rooms[group.index] = _Room(task, online, group.policy)
        return -rooms[group.index].left(task, index)

    return key


RANKINGS = {
    "best-fit": _best_fit,
    "dot-product": _dot_product,
    "fgd": _fgd,
    "headroom": _headroom,
}
"""Name of a ranking -> function that returns its key for a query."""
