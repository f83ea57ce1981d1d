"""Failover plan: where the instances of each failed node of a group would restart.

The plan covers groups on shared storage where memory alone decides.  A node keeps free the memory
that the worst failure needs of it, and a new instance is itself added to the plan for the failure
of its node.  As long as every new instance keeps to that, the plan proves that no failure loses
more instances or more memory than before.  The loss of a failure that is not tolerated stays.

Cost: O(m log n) for the *m* instances of a node and *n* nodes if first fit decreasing finds a
placement for all of them, else one packing; O(n) for each new instance.

Source: the argument is this program's own.
"""

from __future__ import annotations

from iallocator.limits.node import other_limits
from iallocator.model.columns import MEMORY
from iallocator.n1.exact import Evacuation
from iallocator.n1.rules import PACKED_LIMITS
from iallocator.n1.simulation import Simulation
from iallocator.packing import Bins, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.state import State
    from iallocator.n1.exact import Access, Leaver
    from iallocator.n1.rules import Failure, Rules

__all__ = ["FailoverPlan", "plan_failovers"]

Needed = dict[int, float]
"""Node -> MiB of the instances that restart on it when one other node fails."""


class FailoverPlan:
    """The memory that each node of a group keeps free for failures of the others.

    `failovers`: the failing node, the nodes that may take over, and the memory needed of each.  A
    failure that is not tolerated has two entries: the fewest lost instances, and the least memory.

    Attributes
    ----------
    kept:
        Node -> MiB that it keeps free for the worst failure.
    nodes:
        The nodes that can receive instances: those that have a failure in the plan.
    """

    __slots__ = ("_failovers", "_memory", "kept", "nodes")

    def __init__(
        self, state: State, failovers: Sequence[tuple[Failure, frozenset[int], Needed]]
    ) -> None:
        self._memory = state.columns[MEMORY]
        self._failovers: dict[int, list[tuple[frozenset[int], Needed]]] = {}  # by failing node
        self.kept: dict[int, float] = {}
        self.nodes = list(dict.fromkeys(node for failure, _, _ in failovers for node in failure))
        for failure, targets, needed in failovers:
            own = dict(needed)
            for node in failure:
                self._failovers.setdefault(node, []).append((targets, own))
            for index, amount in needed.items():
                self.kept[index] = max(amount, self.kept.get(index, 0))

    def allows(self, index: int, memory: float, access: Access = None) -> bool:
        """Return whether a new instance of `memory` MiB on a node keeps to the plan.

        The node must keep its memory free, and another node must have memory for the instance.
        """
        if self._memory[index] - memory <= self.kept.get(index, 0):
            return False
        return all(
            self._target(_within(targets, access), needed, memory) is not None
            for targets, needed in self._failovers[index]
        )

    def add(self, index: int, memory: float, access: Access = None) -> list[int]:
        """Add a new instance on a node to the plan; return the nodes that keep memory for it."""
        chosen = []
        for targets, needed in self._failovers[index]:
            target = self._target(_within(targets, access), needed, memory)
            assert target is not None
            needed[target] = needed.get(target, 0) + memory
            self.kept[target] = max(
                needs.get(target, 0) for some in self._failovers.values() for _, needs in some
            )
            chosen.append(target)
        return chosen

    def _target(self, targets: frozenset[int], needed: Needed, memory: float) -> int | None:
        """Return the target that must keep least more memory; of equal ones the fullest."""
        best, least = None, (float("inf"), float("inf"))
        for index in targets:
            amount = needed.get(index, 0) + memory
            if amount < self._memory[index]:
                cost = (max(0, amount - self.kept.get(index, 0)), self._memory[index] - amount)
                if cost < least:
                    best, least = index, cost
        return best


def plan_failovers(state: State, group: Group, rules: Rules) -> FailoverPlan | None:
    """Return the plan of `group` in `state`; None if memory alone does not decide."""
    if other_limits(group, *PACKED_LIMITS):
        return None
    simulation = Simulation.of_group(state, group, rules)
    nodes = state.cluster.nodes
    failovers: list[tuple[Failure, frozenset[int], Needed]] = []
    for failure in rules.failing(state.cluster, group, group.nodes):
        if any(nodes[node].group is not group for node in failure):
            return None
        evacuation = Evacuation(state, simulation.kernels, rules, simulation, failure)
        leavers = evacuation.leavers()
        if any(one.draws or one.local for members, _, _ in leavers for one in members):
            return None
        for needed in _restarts(state, rules, group, leavers):
            if needed is None:
                return None
            failovers.append((failure, evacuation.open, needed))
    return FailoverPlan(state, failovers)


def _within(targets: frozenset[int], access: Access) -> frozenset[int]:
    return targets if access is None else targets & access


def _restarts(
    state: State, rules: Rules, group: Group, leavers: Sequence[Leaver]
) -> Iterator[Needed | None]:
    """Yield the memory needed of each node so that all items restart, by first fit decreasing.

    If some are left over, yield a packing with the fewest lost items, and one with the least lost
    memory; None instead if the search does not prove one of them.
    """
    targets = rules.targets(state.cluster, group)
    free = [state.columns[MEMORY][index] - 1 for index in targets]
    items = [item for _, item, _ in leavers]
    largest_first = sorted(range(len(free)), key=lambda b: -free[b])
    bins = Bins(free, [0] * len(free), order=largest_first)
    packed = Packing(items, bins, limit=0, first_fit=True).solve()
    solutions = [packed] if not packed.cost else []
    for by_memory in () if solutions else (False, True):
        packed = Packing(items, bins, by_memory).solve()
        if packed.cost > packed.least:
            yield None
            return
        solutions.append(packed)
        if not packed.cost:
            break
    for packed in solutions:
        needed: Needed = {}
        for item, place in zip(items, packed.places):
            if place is not None:
                needed[targets[place]] = needed.get(targets[place], 0) + item.memory
        yield needed
