"""Ranking for exclusive storage: lose as few possible allocations as possible.

For every interval of the policy, an allocation is an instance of the minimum size.  A placement
loses an allocation if the node has capacity for it before the placement, but not after it.  Fewer
lost allocations are better.  The losses are compared interval by interval, largest minimum disk
first. If all losses are equal, less free disk on the nodes used is better.
"""

from __future__ import annotations

import heapq

from iallocator.model.columns import (
    CPUS,
    CPUS_LATER,
    DISK,
    DISK_LATER,
    FREE_SPINDLES,
    FREE_SPINDLES_LATER,
    MEMORY,
    MEMORY_LATER,
    SPINDLES,
    SPINDLES_LATER,
)
from iallocator.scoring.candidates import Candidates, ScoresOf
from iallocator.tolerances import AMOUNT_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.policy import Spec
    from iallocator.model.state import State
    from iallocator.ranking.base import SoftConstraints
    from iallocator.scoring.candidates import Placement

__all__ = ["rank", "words_of_losses"]

Lost = tuple[tuple[int, ...], float]
"""The allocations lost per interval, and the free disk left (MiB); lower is better."""


def rank(
    state: State,
    group: Group,
    instance: Instance,
    candidates: Candidates,
    affinity: SoftConstraints,
) -> tuple[Candidates, dict[tuple[int, ...], float]]:
    """Return `candidates` ranked by their lost allocations, and the cluster score of each.

    Of equal candidates, the candidate with the lower penalty of soft constraints comes first.

    Cost: the losses of each node are computed once in each role, and for a secondary once more for
    each of its peers.  Each candidate that is read takes one sum.
    """
    losses, costs = _Losses(state, group, instance), affinity.costs(instance, group.nodes)
    return _ByLoss(candidates, losses, costs), ScoresOf(candidates)


class _ByLoss(Candidates):
    """Candidates ranked by lost allocations, then by penalty, then by node.

    `costs`: node -> penalty of the soft constraints that the instance violates there.
    """

    def __init__(self, candidates: Candidates, losses: _Losses, costs: Mapping[int, float]) -> None:
        self._candidates = candidates
        self._costs = costs
        numbers: Sequence[int] = range(candidates.rows())
        if costs:  # the rows with the smallest penalty of the primary come first
            firsts = {number: candidates.open(number)[0] for number in numbers}
            numbers = sorted(
                numbers, key=lambda k: costs.get(firsts[k][0], 0.0) if firsts[k] else 0.0
            )
        self._numbers = numbers
        self._losses = losses
        self._order: list[int] = []  # all nodes as secondaries, by increasing loss
        self.failures = candidates.failures
        self.feasible = candidates.feasible

    def rows(self) -> int:
        return self._candidates.rows()

    def row(self, number: int) -> Iterator[Placement]:
        prefix, lasts = self._candidates.open(self._numbers[number])
        if not prefix:
            losses, costs = self._losses.primary, self._costs
            lasts = sorted(lasts, key=lambda last: (losses[last], costs.get(last, 0.0), last))
            return iter([(losses[last], (last,)) for last in lasts])
        if not self._order:
            losses = self._losses.secondary
            self._order = sorted(losses, key=lambda node: (losses[node], node))
        beside = self._losses.beside.get(prefix[0], {})
        usual = {*lasts} - beside.keys()
        return heapq.merge(
            self._pairs(prefix[0], [last for last in self._order if last in usual]),
            sorted(self._pairs(prefix[0], [last for last in lasts if last in beside])),
        )

    def _pairs(self, primary: int, lasts: Sequence[int]) -> Iterator[Placement]:
        first = self._losses.primary[primary]
        beside = self._losses.beside.get(primary, {})
        for last in lasts:
            second = beside.get(last) or self._losses.secondary[last]
            yield (
                (tuple(a + b for a, b in zip(first[0], second[0])), first[1] + second[1]),
                (primary, last),
            )


def words_of_losses(lost: Lost) -> str:
    """Return the losses and the free disk as text, such as ``([0,0,1],20490)``."""
    vector, disk = lost
    return f"([{','.join(map(str, vector))}],{disk:.0f})"


class _Losses:
    """The allocations lost by placing one instance in one group, in the state at creation."""

    def __init__(self, state: State, group: Group, instance: Instance) -> None:
        self._state = state
        self._instance = instance
        intervals = sorted(group.policy.intervals, key=lambda interval: -interval.low.disk)
        self._sizes = [interval.low for interval in intervals]
        self.primary: dict[int, Lost] = {}
        self.secondary: dict[int, Lost] = {}
        self.beside: dict[int, dict[int, Lost]] = {}
        for node in group.nodes:
            self.primary[node] = self._loss(node, instance.as_primary, state.reserved[node])
            if instance.required_nodes == 2:
                self.secondary[node] = self._second(node, 0)
                # The node already reserves memory for failovers of each of its peers
                for primary, amount in state.peers[node].items():
                    if amount and primary != node:
                        self.beside.setdefault(primary, {})[node] = self._second(node, amount)

    def _second(self, node: int, kept: float) -> Lost:
        reserved = self._state.reserved[node]
        if self._instance.reserves:
            reserved = max(reserved, kept + self._instance.memory)
        return self._loss(node, self._instance.as_secondary, reserved)

    def _loss(self, index: int, vector: Sequence[float], reserved: float) -> Lost:
        node = self._state.cluster.nodes[index]
        before = self._state.row(index)
        after = [quantity + amount for quantity, amount in zip(before, vector)]
        now = self._state.reserved[index]
        lost = [
            room_for(size, node, before, now) - room_for(size, node, after, reserved)
            for size in self._sizes
        ]
        return tuple(lost), after[DISK]


def room_for(size: Spec, node: Node, row: Sequence[float], reserved: float) -> int:
    """Return how many instances of `size` fit on `node` as primary.

    `row`: the columns of the node; `reserved`: MiB of memory that it reserves for failovers.
    """
    if node.exclusive_storage and min(row[FREE_SPINDLES], row[FREE_SPINDLES_LATER]) < 0:
        return 0
    limits: list[float] = []
    if size.memory:
        kept = reserved if row[MEMORY] > reserved else 0
        limits += [
            (row[MEMORY] - kept - 1) // size.memory,
            (row[MEMORY_LATER] - 1) // size.memory,
        ]
    if size.disk:
        limits += [(row[DISK] - 1) // size.disk, (row[DISK_LATER] - 1) // size.disk]
    if size.cpus:
        allowed = node.vcpu_ratio * node.total_cpus + AMOUNT_TOLERANCE
        limits += [(allowed - row[column]) // size.cpus for column in (CPUS, CPUS_LATER)]
    if size.spindles and not node.exclusive_storage:
        allowed = node.high_spindles
        used = (row[SPINDLES], row[SPINDLES_LATER])
        limits += [(allowed - spindles) // size.spindles for spindles in used]
    return max(0, int(min(limits, default=0)))
