"""Packing where items have access to some nodes only (storage pools): which items are left over.

Sums first; then best fit, beginning with the items that have access to the fewest nodes; then
bounds; then a search for fewer left-over items as long as there is work to spend.  The space in the
pools themselves is not considered.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from iallocator.model.columns import DISK, MEMORY
from iallocator.n1.bounds import TargetCapacity
from iallocator.n1.uniform_packing import at_least
from iallocator.packing import LIMIT, Bins, Item, Packing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Rules

    Reach = frozenset[int] | None
    Reaching = tuple[float, float, Sequence[Instance], Reach]
    """MiB of memory and of disk, the instances, and the nodes they have access to; None: all."""

__all__ = ["RestrictedPacking"]


WORK = 300_000
"""Places that all searches together try: less than a second."""


class RestrictedPacking:
    """Packs items with access to some nodes; all calls share `work`, and the same state."""

    __slots__ = ("_accessible", "_rules", "_state", "_work")

    def __init__(self, state: State, rules: Rules, work: int = WORK) -> None:
        self._state = state
        self._rules = rules
        self._work = work
        self._accessible: dict[tuple[int, Reach], _AccessibleNodes] = {}

    def left_over(
        self,
        group: Group,
        items: Sequence[Reaching],
        failed: Collection[int],
        taken: Mapping[int, float],
    ) -> list[int]:
        """Return the positions of as few of `items` as were found that must be left over.

        `items` in descending order; `failed`: nodes that take none; `taken`: node -> MiB used
        before.
        """
        classes: dict[Reach, list[int]] = {}
        for position, (*_, reach) in enumerate(items):
            classes.setdefault(reach, []).append(position)
        accessible = {reach: self._nodes_with(group, reach) for reach in classes}
        problem = _Problem(items, classes, accessible, failed, taken)
        if problem.surely_fits():
            return []
        left = self._best_fit(problem)
        if not left or self._work <= 0:
            return left
        if all(len(members) == 1 for _, _, members, _ in items) and len(left) <= problem.least():
            return left
        return self._searched(problem, left)

    def _nodes_with(self, group: Group, reach: Reach) -> _AccessibleNodes:
        found = self._accessible.get((group.index, reach))
        if found is None:
            targets = self._rules.targets(self._state.cluster, group)
            nodes = targets if reach is None else [t for t in targets if t in reach]
            found = self._accessible[group.index, reach] = _AccessibleNodes(self._state, nodes)
        return found

    def _best_fit(self, problem: _Problem) -> list[int]:
        """Place each item on the fullest node that accepts it; return the other positions."""
        memory, disk = self._state.columns[MEMORY], self._state.columns[DISK]
        now = {node: memory[node] - 1 - amount for node, amount in problem.taken.items()}
        free = dict[int, float]()
        left = []
        for reach in sorted(
            problem.classes, key=lambda reach: len(problem.accessible[reach].nodes)
        ):
            order = problem.accessible[reach].order(problem.failed, now)
            for position in problem.classes[reach]:
                need, space, *_ = problem.items[position]
                place = bisect_left(order, (need, -1))
                while space and place < len(order):
                    node = order[place][1]
                    if free.setdefault(node, disk[node] - 1) >= space:
                        break
                    place += 1
                if place == len(order):
                    left.append(position)
                    continue
                room, node = order.pop(place)
                insort(order, (room - need, node))
                now[node] = room - need
                if space:
                    free[node] -= space
        return left

    def _searched(self, problem: _Problem, left: list[int]) -> list[int]:
        """Return fewer positions than `left`, if a search finds them."""
        columns, items, accessible = self._state.columns, problem.items, problem.accessible
        reached = {node for field in accessible.values() for node in field.nodes}
        nodes = sorted(reached.difference(problem.failed))
        bins = {
            reach: frozenset(b for b, node in enumerate(nodes) if node in field.nodes)
            for reach, field in accessible.items()
        }
        packing = Packing(
            [Item(memory, disk, bins[r], len(some)) for memory, disk, some, r in items],
            Bins(
                [columns[MEMORY][node] - 1 - problem.taken.get(node, 0) for node in nodes],
                [max(0, columns[DISK][node] - 1) for node in nodes],
            ),
            limit=min(LIMIT, self._work),
        )
        places = packing.solve().places
        self._work -= packing.work
        found = [k for k, place in enumerate(places) if place is None]
        return min(left, found, key=lambda some: sum(len(items[k][2]) for k in some))


class _Problem:
    """The packing of `items` on nodes that are not in `failed`.

    `classes`: nodes with access -> the positions of the items that have it, in order; `accessible`:
    the nodes of each class; `taken`: node -> MiB used before.
    """

    __slots__ = ("accessible", "classes", "failed", "items", "taken")

    def __init__(
        self,
        items: Sequence[Reaching],
        classes: Mapping[Reach, Sequence[int]],
        accessible: Mapping[Reach, _AccessibleNodes],
        failed: Collection[int],
        taken: Mapping[int, float],
    ) -> None:
        self.items = items
        self.classes = classes
        self.accessible = accessible
        self.failed = failed
        self.taken = taken

    def surely_fits(self) -> bool:
        """Return whether all items fit in any order: no class can have all nodes closed."""
        if any(disk for _, disk, _, _ in self.items):
            return False
        moved = sum(memory for memory, *_ in self.items)
        for reach, positions in self.classes.items():
            largest = self.items[positions[0]][0]
            closing = self.accessible[reach].room.closing(largest, self.failed, self.taken)
            if closing <= moved - largest:
                return False
        return True

    def least(self) -> int:
        """Return how many items must be left over: of each class alone, and of all on all nodes."""
        found = 0
        if None in self.accessible:
            found = self._at_least(range(len(self.items)), self.accessible[None])
        for reach, some in self.classes.items():
            found = max(found, self._at_least(some, self.accessible[reach]))
        return found

    def _at_least(self, positions: Iterable[int], field: _AccessibleNodes) -> int:
        sizes = [self.items[position][0] for position in positions]
        return at_least(sizes, field.room.capacities(self.failed, self.taken))


class _AccessibleNodes:
    """The nodes that one class of items has access to, sorted by free memory.

    Attributes
    ----------
    nodes:
        Their indices.
    room:
        Their capacities, as sums.
    """

    __slots__ = ("_order", "_place", "nodes", "room")

    def __init__(self, state: State, nodes: Sequence[int]) -> None:
        self.nodes = frozenset(nodes)
        self.room = TargetCapacity(state, nodes)
        memory = state.columns[MEMORY]
        self._place = {node: (memory[node] - 1, node) for node in nodes}
        self._order = sorted(self._place.values())

    def order(self, failed: Collection[int], now: Mapping[int, float]) -> list[tuple[float, int]]:
        """Return (MiB, node), ascending, without `failed`; `now`: the MiB left on some nodes."""
        found = list(self._order)
        for node in self.nodes.intersection((*failed, *now)):
            del found[bisect_left(found, self._place[node])]
        for node in self.nodes.intersection(now).difference(failed):
            insort(found, (now[node], node))
        return found
