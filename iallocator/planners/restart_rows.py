"""Rows of an integer program by which a failure is tolerated: all instances of its nodes restart.

The program chooses the nodes of some instances.  For each failure it also chooses where each item
that leaves restarts, and how many of the chosen instances restart on each node.  So it finds
placements that keep N+1 where another placement within the limits does not.

The rows are too lenient where other limits than memory and disk matter, and for colocation groups,
of which each member may restart elsewhere.  So exact search of N+1 must check each solution.

Cost: choices and rows for each failure, item that leaves, and node that can take over.
"""

from __future__ import annotations

from iallocator.solver.problem import Choice, Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.model.instance import Instance
    from iallocator.n1 import Failure
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.packing import Item
    from iallocator.solver.problem import Problem

    Row = tuple[Any, ...]

__all__ = ["RestartRows"]


class RestartRows:
    """The rows of `failure` in `problem`.

    `tolerance`: N+1 of the state without the instances that the program places.
    """

    def __init__(self, problem: Problem, failure: Failure, tolerance: FailureTolerance) -> None:
        self._problem = problem
        self._failure = failure
        self._evacuation = tolerance.evacuation(failure)
        # Every item that leaves restarts on one of its nodes
        alike: dict[tuple[Any, ...], list[Item]] = {}
        for _, item, _ in self._evacuation.leavers():
            alike.setdefault((item.memory, item.disk, item.bins, item.others), []).append(item)
        for number, items in enumerate(alike.values()):
            item, count = items[0], len(items)
            choices = [Choice(b, 0.0, self._uses(item, b)) for b in sorted(item.bins)]
            members = [f"{self._failure} item {number} {k}" for k in range(count)]
            self._problem.kinds.append(Kind(members, choices))
        # Each node that takes over has bounds
        targets, failure = self._evacuation.targets, self._failure
        for b, index in enumerate(targets.nodes):
            self._problem.at_most(("restart", failure, "memory", b), max(0, targets.memory[b]))
            self._problem.at_most(("restart", failure, "disk", b), targets.disk[b])
            for k, left in enumerate(self._evacuation.others.get(index, ())):
                self._problem.at_most(("restart", failure, k, b), left)

    def add(self, kind: Kind, instance: Instance) -> None:
        """Add what the members of `kind` use; `instance` is one of them, and on no node.

        The values of its choices are nodes, the primary first.
        """
        failure, position = self._failure, self._evacuation.targets.position
        memory = instance.memory if instance.uses_memory else 0
        single = instance.required_nodes == 1
        others = self._evacuation.needs([instance]) if single else ()
        leaving: dict[int, Item] = {}
        number = len(self._problem.kinds)  # distinguishes the rows of this kind from others
        for choice in kind.choices:
            uses, nodes = dict(choice.uses), choice.value
            if nodes[0] not in failure:
                if nodes[0] in position:
                    uses["restart", failure, "memory", position[nodes[0]]] = memory
                    for k, need in enumerate(others):
                        uses["restart", failure, k, position[nodes[0]]] = need
                for index in nodes if instance.local else ():
                    if index in position:
                        uses["restart", failure, "disk", position[index]] = instance.disk
            elif single:
                leaving[nodes[0]] = self._evacuation.item(nodes[0], [instance])
                uses["again", failure, nodes[0], number] = 1.0
            elif nodes[1] in position:
                uses["restart", failure, "memory", position[nodes[1]]] = memory
            choice.uses = uses
        for node, item in leaving.items():
            row = ("again", failure, node, number)
            choices = [
                Choice(b, 0.0, {**self._uses(item, b), row: -1.0}) for b in sorted(item.bins)
            ]
            members = [f"{failure} {node} {number} {k}" for k in range(len(kind.members))]
            self._problem.kinds.append(Kind(members, choices, 0.0))
            self._problem.at_most(row, 0)

    def _uses(self, item: Item, b: int) -> dict[Row, float]:
        """Return what `item` uses of the node at position `b`."""
        uses: dict[Row, float] = {("restart", self._failure, "memory", b): item.memory}
        if item.disk:
            uses["restart", self._failure, "disk", b] = item.disk
        for k, need in enumerate(item.others):
            uses["restart", self._failure, k, b] = need
        return uses
