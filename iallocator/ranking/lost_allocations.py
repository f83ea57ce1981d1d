"""Ranking for exclusive storage: lose as few possible allocations as can be.

On nodes with exclusive storage a placement is good if it spoils little: for every
interval of the policy, largest minimum disk first, count how many instances of
the minimum size the node could take before it and cannot take after it.  Fewer is
better, compared from the largest size on; then less free disk on the nodes used.
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
from iallocator.tolerances import AMOUNT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.policy import Spec
    from iallocator.model.state import State
    from iallocator.ranking.base import Wishes
    from iallocator.scoring.candidates import Placement

__all__ = ["rank", "shown"]

Lost = tuple[tuple[int, ...], float]
"""Allocations lost per interval, and free disk left (MiB); lower is better."""


def rank(
    state: State, group: Group, instance: Instance, candidates: Candidates, bonds: Wishes
) -> tuple[Candidates, dict[tuple[int, ...], float]]:
    """`candidates` ranked by what they lose, and the cluster score of each.

    Of equals who breaks less of what `bonds` say that the instance should do comes first.

    Cost: the losses of each node once in each role, and once more of a secondary for each
    of its peers; a sum for each candidate that is looked at.
    """
    losses, costs = _Losses(state, group, instance), bonds.costs(instance, group.nodes)
    return _ByLoss(candidates, losses, costs), ScoresOf(candidates)


class _ByLoss(Candidates):
    """The candidates of another rank, by what they lose; of equals the first by node.

    `costs`: node → what the instance should not do there costs, which comes before the node.
    """

    def __init__(self, candidates: Candidates, losses: _Losses, costs: Mapping[int, float]) -> None:
        self._candidates = candidates
        self._costs = costs
        self._numbers = self._row_numbers()
        self._losses = losses
        self._order: list[int] = []  # all nodes as secondaries, those that lose least first
        self.failures = candidates.failures
        self.feasible = candidates.feasible

    def rows(self) -> int:
        return self._candidates.rows()

    def _row_numbers(self) -> Sequence[int]:
        """The rows of the candidates, those first whose primaries break less."""
        numbers, costs = range(self._candidates.rows()), self._costs
        if not costs:
            return numbers
        firsts = {number: self._candidates.open(number)[0] for number in numbers}
        return sorted(numbers, key=lambda k: costs.get(firsts[k][0], 0.0) if firsts[k] else 0.0)

    def row(self, number: int) -> Iterator[Placement]:
        prefix, lasts = self._candidates.open(self._numbers[number])
        if not prefix:
            losses, costs = self._losses.primary, self._costs
            lasts = sorted(lasts, key=lambda last: (losses[last], costs.get(last, 0.0), last))
            return iter([(losses[last], (last,)) for last in lasts])
        beside = self._losses.beside.get(prefix[0], {})
        return heapq.merge(
            self._pairs(prefix[0], [last for last in self._usual(lasts) if last not in beside]),
            sorted(self._pairs(prefix[0], [last for last in lasts if last in beside])),
        )

    def _usual(self, lasts: Sequence[int]) -> list[int]:
        """These nodes by what they lose as secondary of any primary."""
        if not self._order:
            losses = self._losses.secondary
            self._order = sorted(losses, key=lambda node: (losses[node], node))
        possible = set(lasts)
        return [node for node in self._order if node in possible]

    def _pairs(self, primary: int, lasts: Sequence[int]) -> Iterator[Placement]:
        first = self._losses.primary[primary]
        beside = self._losses.beside.get(primary, {})
        for last in lasts:
            second = beside.get(last) or self._losses.secondary[last]
            yield (
                (tuple(a + b for a, b in zip(first[0], second[0])), first[1] + second[1]),
                (primary, last),
            )


def shown(lost: Lost) -> str:
    """``([0,0,1],20490)``."""
    vector, disk = lost
    return f"([{','.join(map(str, vector))}],{disk:.0f})"


class _Losses:
    """Losses by placement of one instance in one group, as the state is when this is made."""

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
                # The node keeps memory free for the failover of each of its peers already
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
    """How many instances of `size`, one after the other, the node could take as primary."""
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
        allowed = node.vcpu_ratio * node.total_cpus + AMOUNT
        limits += [(allowed - row[column]) // size.cpus for column in (CPUS, CPUS_LATER)]
    if size.spindles and not node.exclusive_storage:
        allowed = node.high_spindles
        used = (row[SPINDLES], row[SPINDLES_LATER])
        limits += [(allowed - spindles) // size.spindles for spindles in used]
    return max(0, int(min(limits, default=0)))
