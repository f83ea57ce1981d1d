"""Which nodes, pairs of nodes and failure domains may fail at once, and what would be lost."""

from __future__ import annotations

from bisect import bisect_right
from heapq import nsmallest
from itertools import islice
from math import comb

from iallocator.n1.rules import Effort, Rules, UndecidedError
from iallocator.n1.simultaneous import JointFailures

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

__all__ = ["DomainFound", "Failure", "FailuresFound", "SetsFound", "examine_failures"]

PAIR = 2

RULES = "no-new"
"""The mode in which only online nodes take over: the question is what would really happen."""


class Failure:
    """Several nodes that fail at once.

    Attributes
    ----------
    nodes:
        Their indices, ascending.
    lost:
        Who finds no place, by name; None where there was not enough time to find out.
    """

    __slots__ = ("lost", "nodes")

    def __init__(self, nodes: Sequence[int], lost: Sequence[Instance] | None) -> None:
        self.nodes = nodes
        self.lost = lost and sorted(lost, key=lambda one: one.name)

    @property
    def survived(self) -> bool:
        """Whether everybody has a place."""
        return self.lost is not None and not self.lost

    @property
    def memory(self) -> int:
        """MiB of those that are lost; of those that run or would."""
        return sum(one.memory for one in self.lost or ())

    def document(self, cluster: Cluster) -> dict[str, object]:
        """As plain data; ``lost`` is null where it is not known."""
        return {
            "nodes": [cluster.nodes[index].name for index in self.nodes],
            "survived": None if self.lost is None else self.survived,
            "lost": None if self.lost is None else [one.name for one in self.lost],
            "lost_memory": self.memory,
        }


class Meetings:
    """Which pairs of nodes must be judged together: one failure changes what the other loses.

    Nodes of one group meet if some of their instances can go to several nodes, which both
    failures then compete for.  Where all instances fail over to their secondaries, two nodes
    meet if they share a secondary, or if one holds secondaries of the other.  All other pairs
    lose what each of the nodes loses alone.  Groups with an instance in both count as one.
    """

    def __init__(self, state: State, joint: JointFailures, online: Sequence[int]) -> None:
        nodes = state.cluster.nodes
        part = _parts(state)
        self._part = {index: part[nodes[index].group.index] for index in online}
        self._members: dict[int, list[int]] = {}
        for index in online:
            self._members.setdefault(self._part[index], []).append(index)
        self._near: dict[int, set[int]] = {}
        for key, members in self._members.items():
            if not any(map(joint.moves, members)):
                self._note_near(joint, members)
                self._members[key] = []
        self._bits = {key: bits_of(members) for key, members in self._members.items()}

    def _note_near(self, joint: JointFailures, members: Sequence[int]) -> None:
        """Note who shares secondaries, where all instances fail over."""
        sharing: dict[int, list[int]] = {}
        for index in members:
            self._near[index] = set()
            for secondary in joint.failover_targets(index):
                sharing.setdefault(secondary, []).append(index)
        for secondary, some in sharing.items():
            meeting = {*some, secondary} if secondary in self._part else set(some)
            for index in meeting:
                self._near[index] |= meeting - {index}

    def parts(self) -> list[list[int]]:
        """The sets of nodes each of which meets all others of the set."""
        return [members for members in self._members.values() if members]

    def __call__(self, first: int, second: int) -> bool:
        """Whether two nodes meet."""
        near = self._near.get(first)
        if near is not None:
            return second in near
        return self._part[first] == self._part[second]

    def of(self, index: int) -> int:
        """The nodes that a node meets, a bit for each; itself may be among them."""
        near = self._near.get(index)
        return self._bits[self._part[index]] if near is None else bits_of(near)

    def count(self, nodes: Collection[int]) -> int:
        """How many pairs of `nodes`, which are online, meet."""
        sizes: dict[int, int] = {}
        near = 0
        for index in nodes:
            if index in self._near:
                near += sum(other in nodes for other in self._near[index])
            else:
                sizes[self._part[index]] = sizes.get(self._part[index], 0) + 1
        return near // 2 + sum(comb(size, PAIR) for size in sizes.values())


class SetsFound:
    """All sets of so many nodes, added up; those that are not survived one by one.

    A pair of nodes that do not meet is not stored: `losing` and `worst` make its failure of
    those of the nodes.

    Attributes
    ----------
    count, survived, lose, unknown:
        How many sets there are, how many of them are survived or not, and how many are not
        judged for lack of time.
    """

    __slots__ = ("_alone", "_judged", "_meet", "_online", "_safe", "count", "lose", "survived",
                 "unknown")  # fmt: skip

    def __init__(
        self,
        online: Sequence[int],
        size: int,
        meet: Meetings | None = None,
        alone: Iterable[Failure] = (),
    ) -> None:
        """`alone`: where there are pairs that do not `meet`, the failure of each node."""
        self._online = online
        self._meet = meet
        self._judged: dict[int, dict[int, Failure]] = {}  # by first and last node
        self._safe: set[int] = set()
        self._alone: dict[int, Failure] = {}
        for one in alone:
            if one.survived:
                self._safe.add(one.nodes[0])
            elif one.lost is not None:
                self._alone[one.nodes[0]] = one
        self.count = comb(len(online), size)
        self.survived = self._apart(self._safe)
        self.lose = self._apart(self._safe.union(self._alone)) - self.survived
        self.unknown = self.count - self.survived - self.lose

    def _apart(self, nodes: Collection[int]) -> int:
        """How many pairs of `nodes` do not meet."""
        return 0 if self._meet is None else comb(len(nodes), PAIR) - self._meet.count(nodes)

    def add_survived(self, count: int) -> None:
        """Count so many sets as survived."""
        self.survived += count
        self.unknown -= count

    def add(self, failures: Iterable[Failure]) -> None:
        """Count what is found of sets; that ends with the first of which it is not known."""
        for one in failures:
            if one.lost is None:
                break
            if one.survived:
                self.survived += 1
            else:
                self.lose += 1
                self._judged.setdefault(one.nodes[0], {})[one.nodes[-1]] = one
            self.unknown -= 1

    def losing(self) -> Iterator[Failure]:
        """The sets that lose something, as their nodes stand."""
        losers = [index for index in self._online if index in self._alone]
        known = [index for index in self._online if index in self._alone or index in self._safe]
        for first in self._online:
            judged = self._judged.get(first, {})
            others: Iterable[int] = ()
            if first in self._alone:
                others = known[bisect_right(known, first) :]
            elif first in self._safe:
                others = losers[bisect_right(losers, first) :]
            for last in sorted(judged.keys() | others) if others else judged:
                found = judged.get(last) or self._both(first, last)
                if found is not None:
                    yield found

    def _both(self, first: int, last: int) -> Failure | None:
        """The failure of two nodes that do not meet; None if they do."""
        assert self._meet is not None
        if self._meet(first, last):
            return None
        lost = [
            instance
            for index in (first, last)
            if index in self._alone
            for instance in self._alone[index].lost or ()
        ]
        return Failure((min(first, last), max(first, last)), lost)

    def worst(self, most: int) -> list[Failure]:
        """The `most` sets that lose most: instances first, then memory; of equals as they stand.

        Of pairs that do not meet, one of the worst has a node whose partner is one of the
        `most` worst for it: few of each node are compared.
        """
        found = [one for inside in self._judged.values() for one in inside.values()]
        size = {index: (-len(one.lost or ()), -one.memory) for index, one in self._alone.items()}
        known = [index for index in self._online if index in self._alone or index in self._safe]
        known.sort(key=lambda index: size.get(index, (0, 0)))  # of equals as they stand
        for first in self._alone:
            pairs = (self._both(first, last) for last in known if last != first)
            found += islice(filter(None, pairs), most)
        found = nsmallest(most * PAIR, found, key=_badness)
        return list({tuple(one.nodes): one for one in found}.values())[:most]

    def within(self, nodes: Iterable[int]) -> int:
        """How many sets of these nodes alone lose something."""
        inside = frozenset(nodes)
        judged = sum(last in inside for first in inside for last in self._judged.get(first, ()))
        safe = inside & self._safe
        return judged + self._apart(safe.union(inside & self._alone.keys())) - self._apart(safe)

    def document(self, cluster: Cluster) -> dict[str, object]:
        """As plain data."""
        return {
            "count": self.count,
            "survived": self.survived,
            "unknown": self.unknown,
            "losing": [one.document(cluster) for one in self.losing()],
        }


def _badness(one: Failure) -> tuple[int, int, Sequence[int]]:
    return -len(one.lost or ()), -one.memory, one.nodes


class DomainFound:
    """One failure domain, and the failure of all its online nodes."""

    __slots__ = ("failure", "name")

    def __init__(self, name: str, failure: Failure) -> None:
        self.name = name
        self.failure = failure


class FailuresFound:
    """What was found.

    Attributes
    ----------
    size:
        How many nodes fail at once in `sets`; 0: not asked, and `sets` is None.
    domains:
        By name; None if not asked.
    """

    __slots__ = ("cluster", "domains", "sets", "size")

    def __init__(
        self,
        cluster: Cluster,
        size: int,
        sets: SetsFound | None,
        domains: Sequence[DomainFound] | None,
    ) -> None:
        self.cluster = cluster
        self.size = size
        self.sets = sets
        self.domains = domains

    @property
    def complete(self) -> bool:
        """Whether all that was asked was analysed before time was up."""
        domains = self.domains or ()
        known = all(one.failure.lost is not None for one in domains)
        return known and (self.sets is None or not self.sets.unknown)

    def document(self) -> dict[str, object]:
        """As plain data; only what was asked."""
        found: dict[str, object] = {}
        if self.sets is not None:
            found["at_once"] = self.size
            found["nodes"] = self.sets.document(self.cluster)
        if self.domains is not None:
            found["domains"] = [
                {"domain": one.name, **one.failure.document(self.cluster)} for one in self.domains
            ]
        return found


def examine_failures(
    state: State,
    size: int,
    racks: bool,
    min_disk: float = 0.0,
    relations: Relations | None = None,
    over: Callable[[], bool] | None = None,
) -> FailuresFound:
    """Let all sets of `size` online nodes fail (0: none), and with `racks` all failure domains.

    `state` is left as it is. What is not decided when `over` says so is not known.  Cost: a few
    sums per node and per pair that meets, see `Meetings`; memory: per node, and a bit per pair.
    """
    cluster = state.cluster
    units = None if relations is None else relations.units()
    joint = JointFailures(state, Rules(RULES, units, Effort(over=over)), min_disk)
    inside = _domains(cluster) if racks else {}
    domains = [DomainFound(name, _failure(joint, some, over)) for name, some in inside.items()]
    online = [index for index, node in enumerate(cluster.nodes) if node.online]
    sets = None
    if size == PAIR:
        sets = _pairs(state, joint, online, over)
    elif size:
        sets = SetsFound(online, size)
        sets.add(_failure(joint, (index,), over) for index in online)
    return FailuresFound(cluster, size, sets, domains if racks else None)


def _pairs(
    state: State, joint: JointFailures, online: Sequence[int], over: Callable[[], bool] | None
) -> SetsFound:
    """What all pairs of nodes lose."""
    meet = Meetings(state, joint, online)
    cleared = _Cleared()
    for part in meet.parts():
        moving = [index for index in part if joint.moves(index)]  # failovers are quickly told
        moving.sort(key=joint.cost)
        _clear(joint, moving, moving, cleared, over)
    apart = comb(len(online), PAIR) > meet.count(set(online))
    alone = [_failure(joint, (index,), over) for index in online] if apart else ()
    found = SetsFound(online, PAIR, meet, alone)
    found.add_survived(cleared.count())
    found.add(
        _failure(joint, (first, last), over)
        for first in online
        for last in cleared.left(first, meet.of(first))
    )
    return found


def bits_of(nodes: Iterable[int]) -> int:
    """A number with a bit for each node."""
    bits = 0
    for index in nodes:
        bits |= 1 << index
    return bits


class _Cleared:
    """Pairs that are survived for sure: for each node a number with a bit for each other node."""

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}

    def add(self, some: Iterable[int], others: Iterable[int]) -> None:
        """Note every pair of one of `some` and one of `others`, but those of a node with itself."""
        bits = bits_of(others)
        for index in some:
            self._bits[index] = self._bits.get(index, 0) | bits & ~(1 << index)

    def left(self, first: int, others: int) -> Iterator[int]:
        """Those of `others` (a bit for each) above `first` that make no such pair with it."""
        left = (others & ~self._bits.get(first, 0)) >> first + 1
        last = first
        while left:
            step = (left & -left).bit_length()
            last += step
            left >>= step
            yield last

    def count(self) -> int:
        """How many pairs there are."""
        return sum(bits.bit_count() for bits in self._bits.values()) // 2


def _parts(state: State) -> list[int]:
    """For each group the first of the groups that it is connected with by instances in both."""
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


def _clear(
    joint: JointFailures,
    some: Sequence[int],
    others: Sequence[int],
    cleared: _Cleared,
    over: Callable[[], bool] | None,
) -> None:
    """Add to `cleared` the pairs of one of `some` and one of `others` that are survived for sure.

    Both are ordered by what their failures cost, the least first; they are the same, or have none
    in common.  If all of them together may fail, so may every pair; if not even the first two
    may, hardly any does, and all are left to be asked one by one; else their halves are looked
    at.
    """
    nodes = some if some is others else [*some, *others]
    if len(nodes) <= PAIR or (over is not None and over()):
        return
    if not joint.saves_all([some[0], others[some is others]]):
        return
    if joint.saves_all(nodes):
        cleared.add(some, others)
        if some is not others:
            cleared.add(others, some)
        return
    halves = [some[: len(some) // 2], some[len(some) // 2 :]]
    if some is others:
        for first, second in ((0, 0), (0, 1), (1, 1)):
            _clear(joint, halves[first], halves[second], cleared, over)
        return
    for half in halves:
        for other in (others[: len(others) // 2], others[len(others) // 2 :]):
            _clear(joint, half, other, cleared, over)


def _failure(
    joint: JointFailures, nodes: Sequence[int], over: Callable[[], bool] | None
) -> Failure:
    if over is not None and over():
        return Failure(nodes, None)
    try:
        return Failure(nodes, joint.lost(nodes))
    except UndecidedError:
        return Failure(nodes, None)


def _domains(cluster: Cluster) -> dict[str, list[int]]:
    """The online nodes of each failure domain, by its tag."""
    found: dict[str, list[int]] = {}
    for index, node in enumerate(cluster.nodes):
        for location in node.locations if node.online else ():
            found.setdefault(location, []).append(index)
    return dict(sorted(found.items()))
