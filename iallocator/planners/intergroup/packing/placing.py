"""One instance after the other moved to the first of the nodes with most room that takes it."""

from __future__ import annotations

from heapq import nsmallest
from itertools import islice

from iallocator.model.columns import MEMORY
from iallocator.planners.intergroup.packing.node_order import Solvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.placement.results import MoveOption
    from iallocator.planners.intergroup.moving import Mover
    from iallocator.planners.intergroup.packing.node_order import NodeOrder

    Targets = Callable[[Instance], Sequence[Group]]
    Made = list[tuple[Instance, Nodes, MoveOption]]
    """Who, from where, and how."""

__all__ = ["Placing", "undo"]

PRIMARIES, MIRRORS = 12, 4
"""So many of the first nodes are asked, and so many mirrors for each of them."""

MANY, PATIENCE = 100, 2
"""The same where N+1 rejects some; but none of a group that has rejected so often."""


class Placing:
    """Finds the next place, and takes it; if `careful`, one that keeps N+1.

    Where the rooms are `Solvent`, one with a mirror that has it for all that would fail over there.
    """

    def __init__(
        self,
        mover: Mover,
        instances: Sequence[Instance],
        rooms: NodeOrder,
        careful: bool = False,
    ) -> None:
        self._mover = mover
        self._careful = careful
        self._solvent = rooms if isinstance(rooms, Solvent) else None
        self._context = mover.context
        self._state = mover.context.state
        self._instances = instances
        self._rooms = rooms

    def run(self, targets: Targets) -> Made | None:
        """Move all as they stand; None, and the state as before, if one stays."""
        made: Made = []
        for instance in self._instances:
            self._context.keep_going()
            before = self._state.where[instance.name]
            move = self._place(instance, before, targets(instance))
            if move is None:
                undo(self._mover, made)
                return None
            self._mover.apply(instance, move)
            self._rooms.came(instance, before, move.nodes)
            made.append((instance, before, move))
        return made

    def _place(
        self, instance: Instance, before: Nodes, groups: Sequence[Group]
    ) -> MoveOption | None:
        """Where it goes; nowhere if those with most room reject it."""
        reach = self._mover.ranking.reachable(instance, groups)
        rejected: dict[Group, int] = {}
        primaries = (k for k in self._rooms.ranked(instance) if k in reach)
        thorough = self._careful or self._solvent is not None
        for primary in islice(primaries, MANY if thorough else PRIMARIES):
            group = self._context.cluster.nodes[primary].group
            if rejected.get(group, 0) >= PATIENCE:
                continue
            self._state.remove(instance, before)
            allowed = self._allowed(instance, before, primary)
            self._state.place(instance, before)
            for nodes in allowed:
                way = self._way(instance, group, nodes)
                if way is not None:
                    return way
            if instance.required_nodes == 1:  # the failures of a group are the same for all there
                rejected[group] = rejected.get(group, 0) + bool(allowed)
        return None

    def _way(self, instance: Instance, group: Group, nodes: Nodes) -> MoveOption | None:
        """The steps to a place that the limits allow, if there are any."""
        if self._careful and not self._mover.keeps_n1(instance, group, nodes):
            return None
        return self._mover.way(instance, nodes)

    def _allowed(self, instance: Instance, before: Nodes, primary: int) -> list[Nodes]:
        """The best places with this primary that the limits allow; it is off the state."""
        evaluator = self._context.evaluator(self._context.cluster.nodes[primary].group)
        if evaluator.rejections(instance, before, [primary]):
            return []
        if instance.required_nodes == 1:
            return [(primary,)]
        mirrors = self._mirrors(instance, primary)
        rejected = evaluator.rejections(instance, before, mirrors, primary)
        return [(primary, mirror) for mirror in mirrors if mirror not in rejected]

    def _mirrors(self, instance: Instance, primary: int) -> list[int]:
        """The nodes beside `primary` that have most room once they hold its mirror.

        Where that is asked for, those first that keep least more than before for one failure.
        """
        state, group = self._state, self._context.cluster.nodes[primary].group
        free, reserved, peers = state.columns[MEMORY], state.reserved, state.peers
        memory = instance.memory if instance.reserves else 0

        def asked(index: int) -> float:
            return peers[index].get(primary, 0) + memory

        def left(index: int) -> float:
            return max(reserved[index], asked(index)) - free[index]

        reach = self._mover.ranking.reachable(instance, [group])
        others = (k for k in group.nodes if k in reach and k != primary)
        solvent = self._solvent
        if solvent is None:
            return nsmallest(MIRRORS, others, left)
        if primary in solvent.lost:
            return nsmallest(MIRRORS, others, lambda k: -free[k])
        able = (index for index in others if asked(index) < free[index])
        return nsmallest(MIRRORS, able, lambda k: (max(0, asked(k) - solvent.kept(k)), left(k)))


def undo(mover: Mover, made: Made) -> None:
    """Take moves back, the last first."""
    for instance, before, _ in reversed(made):
        mover.put(instance, before)
