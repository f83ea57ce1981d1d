"""All pairs of nodes that fail at once: which pairs interact, and which are certainly tolerated.

Two failures interact if one changes what the other loses.  A pair that does not interact loses what
each of its nodes loses alone.  Of interacting pairs, most are proved tolerable together: if a set
of nodes can fail at once, so can every pair of it, and a set that cannot is divided into halves.

Cost: a few sums for each node, each interacting pair, and each set that is checked; memory: a bit
for each pair.

Source: divide and conquer over sets, this program's own.
"""

from __future__ import annotations

from math import comb

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from iallocator.deadline import Deadline
    from iallocator.model.state import State
    from iallocator.n1.unrestarted import UnrestartedSearch

__all__ = ["InteractingNodes", "ToleratedPairs"]

PAIR = 2


class InteractingNodes:
    """The pairs of `online` nodes that must be checked together.

    Nodes of one group interact if some of their instances can restart on several nodes, for which
    the failures compete.  If all instances fail over to their secondaries, two nodes interact if
    they share a secondary, or if one holds secondaries of the other.  Groups with an instance in
    both count as one.
    """

    def __init__(self, state: State, failures: UnrestartedSearch, online: Sequence[int]) -> None:
        nodes = state.cluster.nodes
        connected = _connected_groups(state)
        self._part = {index: connected[nodes[index].group.index] for index in online}
        self._members: dict[int, list[int]] = {}  # part -> its nodes, if all of them interact
        for index in online:
            self._members.setdefault(self._part[index], []).append(index)
        self._near: dict[int, set[int]] = {}  # node -> the nodes it interacts with, otherwise
        for key, members in self._members.items():
            if not any(map(failures.moves, members)):
                self._find_near(failures, members)
                self._members[key] = []
        self._bits = {key: _bits_of(members) for key, members in self._members.items()}

    def _find_near(self, failures: UnrestartedSearch, members: Sequence[int]) -> None:
        """Find the interacting pairs of `members`, where all instances fail over."""
        sharing: dict[int, list[int]] = {}
        for index in members:
            self._near[index] = set()
            for secondary in failures.failover_targets(index):
                sharing.setdefault(secondary, []).append(index)
        for secondary, some in sharing.items():
            together = {*some, secondary} if secondary in self._part else set(some)
            for index in together:
                self._near[index] |= together - {index}

    def parts(self) -> list[list[int]]:
        """Return the sets of nodes in which every pair interacts."""
        return [members for members in self._members.values() if members]

    def __call__(self, first: int, second: int) -> bool:
        """Return whether two nodes interact."""
        near = self._near.get(first)
        if near is not None:
            return second in near
        return self._part[first] == self._part[second]

    def of(self, index: int) -> int:
        """Return the nodes that a node interacts with, one bit each; itself may be among them."""
        near = self._near.get(index)
        return self._bits[self._part[index]] if near is None else _bits_of(near)

    def count(self, nodes: Collection[int]) -> int:
        """Return the number of interacting pairs of `nodes`, which are online."""
        sizes: dict[int, int] = {}
        near = 0
        for index in nodes:
            if index in self._near:
                near += sum(other in nodes for other in self._near[index])
            else:
                sizes[self._part[index]] = sizes.get(self._part[index], 0) + 1
        return near // 2 + sum(comb(size, PAIR) for size in sizes.values())


class ToleratedPairs:
    """The pairs of interacting nodes that are certainly tolerated, as found within `deadline`."""

    def __init__(
        self,
        failures: UnrestartedSearch,
        interacting: InteractingNodes,
        deadline: Deadline,
    ) -> None:
        self._failures = failures
        self._deadline = deadline
        self._bits: dict[int, int] = {}  # node -> a bit for each other node of its pairs
        for part in interacting.parts():
            moving = [index for index in part if failures.moves(index)]  # failovers cost little
            moving.sort(key=failures.cost)
            self._find(moving, moving)

    def _find(self, some: Sequence[int], others: Sequence[int]) -> None:
        """Find tolerated pairs of one of `some` and one of `others`.

        Both are sorted by the cost of their failures, the least first; they are equal or disjoint.
        If all of them can fail at once, every pair can. If not even the first two can, hardly any
        pair can, and all are left to be checked one by one. Otherwise the halves are checked.
        """
        same = some is others
        nodes = some if same else [*some, *others]
        if len(nodes) <= PAIR or self._deadline.over():
            return
        if not self._failures.saves_all((some[0], others[same])):
            return
        if self._failures.saves_all(tuple(nodes)):
            self._add(some, others)
            if not same:
                self._add(others, some)
            return
        halves = [some[: len(some) // 2], some[len(some) // 2 :]]
        if same:
            for first, second in ((0, 0), (0, 1), (1, 1)):
                self._find(halves[first], halves[second])
            return
        for half in halves:
            for other in (others[: len(others) // 2], others[len(others) // 2 :]):
                self._find(half, other)

    def _add(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Add every pair of one of `some` and one of `others`, except a node with itself."""
        bits = _bits_of(others)
        for index in some:
            self._bits[index] = self._bits.get(index, 0) | bits & ~(1 << index)

    def left(self, first: int, others: int) -> Iterator[int]:
        """Yield the nodes above `first`, of the bits `others`, that are in no pair with it."""
        left = (others & ~self._bits.get(first, 0)) >> first + 1
        last = first
        while left:
            step = (left & -left).bit_length()
            last += step
            left >>= step
            yield last

    def count(self) -> int:
        """Return the number of pairs."""
        return sum(bits.bit_count() for bits in self._bits.values()) // 2


def _bits_of(nodes: Iterable[int]) -> int:
    """Return a number with a bit for each node."""
    bits = 0
    for index in nodes:
        bits |= 1 << index
    return bits


def _connected_groups(state: State) -> list[int]:
    """Return for each group the first group that instances in both connect it with."""
    nodes = state.cluster.nodes
    parts = list(range(len(state.cluster.groups)))

    def root(index: int) -> int:
        while parts[index] != index:
            parts[index] = index = parts[parts[index]]
        return index

    for where in state.where.values():
        for index in where[1:]:
            first, other = sorted(
                (root(nodes[where[0]].group.index), root(nodes[index].group.index))
            )
            parts[other] = first
    return [root(index) for index in range(len(parts))]
