"""Where those on a node would go if it failed: kept while others come, so that nobody is lost.

Of a group on shared storage it is written down, for each failure, what goes to which of the other
nodes.  Who comes leaves the memory free that the worst failure asks of its node, and is written
down itself for the failure of that node.  Then what was written down is proof: of no failure is
more lost than before, by number or by memory.  What a failure loses already stays lost.
"""

from __future__ import annotations

from iallocator.limits.node import (
    DISK_SPACE,
    FREE_MEMORY,
    OWN_SPINDLES,
    POOL_SPACE,
    SPINDLES_OF_DISKS,
    other_limits,
)
from iallocator.model.columns import MEMORY
from iallocator.n1.exact import Evacuation
from iallocator.n1.simulation import Simulation
from iallocator.packing import Bins, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.state import State
    from iallocator.n1.exact import Leaver
    from iallocator.n1.rules import Rules

__all__ = ["FailoverPlan", "failover_plan_of"]

Reach = frozenset[int] | None

Asked = dict[int, float]
"""Node -> MiB that come to it when some other fails."""


class FailoverPlan:
    """What failures ask of the nodes of one group, as those are now in `state`.

    `plans`: (node that fails, the nodes that may take over, what it asks of each).

    Attributes
    ----------
    kept:
        Node -> MiB that it keeps free for the worst of these failures.
    nodes:
        Those that may receive somebody: of whose failure is asked.
    """

    __slots__ = ("_memory", "_of", "_plans", "kept", "nodes")

    def __init__(self, state: State, plans: Sequence[tuple[int, frozenset[int], Asked]]) -> None:
        self._memory = state.columns[MEMORY]
        self._plans = [(node, able, dict(asked)) for node, able, asked in plans]
        self._of: dict[int, list[tuple[frozenset[int], Asked]]] = {}
        self.kept: dict[int, float] = {}
        self.nodes = list(dict.fromkeys(node for node, _, _ in plans))
        for node, able, asked in self._plans:
            self._of.setdefault(node, []).append((able, asked))
            for index, amount in asked.items():
                self.kept[index] = max(amount, self.kept.get(index, 0))

    def takes(self, index: int, memory: float, reach: Reach = None) -> bool:
        """Whether a node has room for somebody with so much memory, and somebody else for him.

        `reach`: the nodes that reach his storage, None if all do.
        """
        if self._memory[index] - memory <= self.kept.get(index, 0):
            return False
        return all(
            self._refuge(_within(able, reach), asked, memory) is not None
            for able, asked in self._of[index]
        )

    def came(self, index: int, memory: float, reach: Reach = None) -> list[int]:
        """Write down where who has come to a node would go; the nodes that keep more for that."""
        found = []
        for able, asked in self._of[index]:
            refuge = self._refuge(_within(able, reach), asked, memory)
            assert refuge is not None
            asked[refuge] = asked.get(refuge, 0) + memory
            self.kept[refuge] = max(asked[refuge], self.kept.get(refuge, 0))
            found.append(refuge)
        return found

    def _refuge(self, able: frozenset[int], asked: Asked, memory: float) -> int | None:
        """The node that has to keep least more for it, of these the one with least room left."""
        best, least = None, (float("inf"), float("inf"))
        for index in able:
            wanted = asked.get(index, 0) + memory
            if wanted < self._memory[index]:
                cost = (max(0, wanted - self.kept.get(index, 0)), self._memory[index] - wanted)
                if cost < least:
                    best, least = index, cost
        return best


def _within(able: frozenset[int], reach: Reach) -> frozenset[int]:
    return able if reach is None else able & reach


def failover_plan_of(state: State, group: Group, rules: Rules) -> FailoverPlan | None:
    """Of `group`, as `state` is; None where memory alone does not tell who is lost."""
    if other_limits(group, FREE_MEMORY, DISK_SPACE, POOL_SPACE, OWN_SPINDLES, SPINDLES_OF_DISKS):
        return None
    simulation = Simulation.of_group(state, group, rules)
    plans: list[tuple[int, frozenset[int], Asked]] = []
    order = sorted(rules.targets(state.cluster, group), key=lambda k: -state.columns[MEMORY][k])
    for node in rules.failing(state.cluster, group, group.nodes):
        evacuation = Evacuation(state, simulation.kernels, rules, simulation, node)
        leavers = evacuation.leavers()
        if any(one.draws or one.local for members, _, _ in leavers for one in members):
            return None
        able = evacuation.open
        first = _first_fit(state, leavers, order)
        if first is not None:
            plans.append((node, able, first))
            continue
        for asked in _fewest_lost(state, rules, group, leavers):
            if asked is None:
                return None
            plans.append((node, able, asked))
    return FailoverPlan(state, plans)


def _first_fit(state: State, leavers: Sequence[Leaver], order: Sequence[int]) -> Asked | None:
    """Each to the first node of `order` that has room, the largest first; None if one has none."""
    asked: Asked = {}
    memory = state.columns[MEMORY]
    for _, item, able in sorted(leavers, key=lambda one: (len(one[2]), -one[1].memory)):
        index = next(
            (k for k in order if k in able and asked.get(k, 0) + item.memory < memory[k]), None
        )
        if index is None:
            return None
        asked[index] = asked.get(index, 0) + item.memory
    return asked


def _fewest_lost(
    state: State, rules: Rules, group: Group, leavers: Sequence[Leaver]
) -> Iterator[Asked | None]:
    """The same where fewest are lost, and where least memory is; None if that is not known."""
    targets = rules.targets(state.cluster, group)
    room = [state.columns[MEMORY][index] - 1 for index in targets]
    items = [item for _, item, _ in leavers]
    for by_memory in (False, True):
        found = Packing(items, Bins(room, [0] * len(room)), by_memory).solve()
        if found.cost > found.least:
            yield None
            return
        asked: Asked = {}
        for item, place in zip(items, found.places):
            if place is not None:
                asked[targets[place]] = asked.get(targets[place], 0) + item.memory
        yield asked
        if not found.cost:
            return
