"""Ranking for exclusive storage: lose as few possible allocations as can be.

On nodes with exclusive storage a placement is good if it spoils little: for every
interval of the policy, largest minimum disk first, count how many instances of
the minimum size the node could take before it and cannot take after it.  Fewer is
better, compared from the largest size on; then less free disk on the nodes used.
"""

from __future__ import annotations

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
from iallocator.scoring.candidates import ListedCandidates

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.policy import Spec
    from iallocator.model.state import State
    from iallocator.scoring.candidates import Candidates, Placement

__all__ = ["rank", "shown"]

Lost = tuple[tuple[int, ...], float]
"""Allocations lost per interval, and free disk left (MiB); lower is better."""


def rank(
    state: State, group: Group, instance: Instance, candidates: Candidates
) -> tuple[Candidates, dict[tuple[int, ...], float]]:
    """`candidates` ranked by what they lose, and the cluster score of each.

    Cost: the losses of each node once in each role, then one sum per candidate.
    """
    losses = _Losses(state, group, instance)
    scores: dict[tuple[int, ...], float] = {}
    rows: list[list[Placement]] = []
    for number in range(candidates.rows()):
        row: list[Placement] = []
        for score, nodes in candidates.row(number):
            scores[nodes] = score
            row.append((losses.of(nodes), nodes))
        row.sort(key=_position)
        rows.append(row)
    return ListedCandidates(rows, candidates.failures), scores


def shown(lost: Lost) -> str:
    """``([0,0,1],20490)``."""
    vector, disk = lost
    return f"([{','.join(map(str, vector))}],{disk:.0f})"


def _position(placement: Placement) -> tuple[int, ...]:
    return placement[1]


class _Losses:
    """Losses by placement of one instance in one group."""

    def __init__(self, state: State, group: Group, instance: Instance) -> None:
        self._state = state
        self._instance = instance
        intervals = sorted(group.policy.intervals, key=lambda interval: -interval.low.disk)
        self._sizes = [interval.low for interval in intervals]
        self._primary: dict[int, Lost] = {}

    def of(self, nodes: tuple[int, ...]) -> Lost:
        """What placing the instance on `nodes` loses."""
        first = self._primary.get(nodes[0])
        if first is None:
            vector, reserved = self._instance.as_primary, self._state.reserved[nodes[0]]
            first = self._primary[nodes[0]] = self._loss(nodes[0], vector, reserved)
        if len(nodes) == 1:
            return first
        primary, secondary = nodes
        reserved = self._state.reserved[secondary]
        if self._instance.reserves:
            peers = self._state.peers[secondary].get(primary, 0)
            reserved = max(reserved, peers + self._instance.memory)
        second = self._loss(secondary, self._instance.as_secondary, reserved)
        return tuple(a + b for a, b in zip(first[0], second[0])), first[1] + second[1]

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
        allowed = node.vcpu_ratio * node.total_cpus + 1e-9
        limits += [(allowed - row[column]) // size.cpus for column in (CPUS, CPUS_LATER)]
    if size.spindles and not node.exclusive_storage:
        allowed = node.high_spindles
        used = (row[SPINDLES], row[SPINDLES_LATER])
        limits += [(allowed - spindles) // size.spindles for spindles in used]
    return max(0, int(min(limits, default=0)))
