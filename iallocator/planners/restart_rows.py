"""Add rows to an integer program so that a failure is tolerated: all its instances restart.

The program chooses the nodes of some instances.  For each failure it also chooses where each item
of the failed nodes restarts, and how many of the chosen instances restart on each node. An item is
an instance, or all members of a colocation group on one failed node.  The program finds placements
that keep N+1 where greedy placement finds none.

The rows are too lenient if other limits than memory and disk matter. They are also too lenient for
colocation groups that the program places, because each member may restart on another node.  So
exact search of N+1 must check each solution.

A failure that is not tolerated initially may lose as much as before.  The program then chooses the
items that are not restarted.

Cost: choices and rows for each failure, item of a failed node, and node that can take over.
"""

from __future__ import annotations

from types import MappingProxyType

from iallocator.solver.problem import Choice, Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iallocator.model.instance import Instance
    from iallocator.n1 import Failure
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.packing import Item
    from iallocator.solver.problem import Problem

    Row = tuple[Any, ...]

__all__ = ["RestartRows"]


class RestartRows:
    """The rows of `failure` in an integer program.

    Parameters
    ----------
    problem:
        The program, to which the rows are added: the choices of the program place instances.
    failure:
        The nodes that fail.
    tolerance:
        N+1 of the state without the instances that the program places.
    losses:
        How many items at most are not restarted; with `by_memory`, how many MiB of them. None:
        all items must be restarted. With None, the program places no instance with a secondary.
    by_memory:
        Whether `losses` is in MiB.
    """

    def __init__(
        self,
        problem: Problem,
        failure: Failure,
        tolerance: FailureTolerance,
        losses: float | None = None,
        by_memory: bool = False,
    ) -> None:
        self._problem = problem
        self._failure = failure
        self._name = failure if losses is None else (*failure, by_memory)
        self._lossy = losses is not None
        self._by_memory = by_memory
        if losses is not None:
            problem.at_most(("lost", self._name), losses)
        self._evacuation = tolerance.evacuation(failure)
        # Every item that leaves restarts on one of its nodes
        alike: dict[tuple[Any, ...], list[Item]] = {}
        for _, item, _ in self._evacuation.leavers():
            alike.setdefault((item.memory, item.disk, item.bins, item.others), []).append(item)
        for number, items in enumerate(alike.values()):
            count = len(items)
            members = [f"{self._name} item {number} {k}" for k in range(count)]
            self._problem.kinds.append(Kind(members, self._restarts(items[0])))
        # Each node that takes over has bounds
        targets, name = self._evacuation.targets, self._name
        for b, index in enumerate(targets.nodes):
            self._problem.at_most(("restart", name, "memory", b), max(0, targets.memory[b]))
            self._problem.at_most(("restart", name, "disk", b), targets.disk[b])
            for k, left in enumerate(self._evacuation.others.get(index, ())):
                self._problem.at_most(("restart", name, k, b), left)

    def add(self, kind: Kind, instance: Instance) -> None:
        """Add to each choice of `kind` the amounts that it uses after the failure.

        `instance` is one member of `kind`, and must not be placed. The value of a choice is a tuple
        of nodes, the primary first.
        """
        failure, name, position = self._failure, self._name, self._evacuation.targets.position
        memory = instance.memory if instance.uses_memory else 0
        single = instance.required_nodes == 1
        others = self._evacuation.needs([instance]) if single else ()
        leaving: dict[int, Item] = {}
        number = len(self._problem.kinds)  # distinguishes the rows of this kind from others
        for choice in kind.choices:
            uses, nodes = dict(choice.uses), choice.value
            if nodes[0] not in failure:
                if nodes[0] in position:
                    uses["restart", name, "memory", position[nodes[0]]] = memory
                    for k, need in enumerate(others):
                        uses["restart", name, k, position[nodes[0]]] = need
                for index in nodes if instance.local else ():
                    if index in position:
                        uses["restart", name, "disk", position[index]] = instance.own_disk
                        first = len(self._evacuation.targets.limits)
                        for k, amount in enumerate(self._evacuation.space([instance]), first):
                            uses["restart", name, k, position[index]] = amount
            elif single:
                leaving[nodes[0]] = self._evacuation.item(nodes[0], [instance])
                uses["again", name, nodes[0], number] = 1.0
            elif nodes[1] in position:
                uses["restart", name, "memory", position[nodes[1]]] = memory
            choice.uses = uses
        for node, item in leaving.items():
            row = ("again", name, node, number)
            members = [f"{name} {node} {number} {k}" for k in range(len(kind.members))]
            self._problem.kinds.append(Kind(members, self._restarts(item, {row: -1.0}), 0.0))
            self._problem.at_most(row, 0)

    def _restarts(
        self, item: Item, more: Mapping[Row, float] = MappingProxyType({})
    ) -> list[Choice]:
        """Return the choices of `item` after the failure; each one also uses the amounts `more`."""
        choices = [Choice(b, 0.0, {**self._uses(item, b), **more}) for b in sorted(item.bins)]
        if self._lossy:
            loss = float(item.memory if self._by_memory else 1)
            choices.append(Choice("lost", 0.0, {("lost", self._name): loss, **more}))
        return choices

    def _uses(self, item: Item, b: int) -> dict[Row, float]:
        """Return row -> the amount that `item` uses on the target node with position `b`."""
        uses: dict[Row, float] = {("restart", self._name, "memory", b): item.memory}
        if item.disk:
            uses["restart", self._name, "disk", b] = item.disk
        for k, need in enumerate(item.others):
            uses["restart", self._name, k, b] = need
        return uses
