"""Which nodes, pairs of nodes and failure domains may fail at once, and what would be lost."""

from __future__ import annotations

from itertools import combinations, product
from math import comb

from iallocator.n1.effort import Effort, UndecidedError
from iallocator.n1.loss.joint import JointFailures
from iallocator.n1.rules import Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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


class SetsFound:
    """All sets of so many nodes, added up; those that are not survived one by one.

    Attributes
    ----------
    count, survived:
        How many sets there are, and how many of them are survived.
    losing:
        Those that are not, as nodes stand.
    """

    __slots__ = ("count", "losing", "survived")

    def __init__(self, count: int, survived: int, found: Iterable[Failure]) -> None:
        """`count` sets, of which so many are `survived`, and what was `found` of others.

        That ends with the first of which it is not known.
        """
        self.count = count
        self.survived = survived
        self.losing: list[Failure] = []
        for one in found:
            if one.lost is None:
                break
            if one.survived:
                self.survived += 1
            else:
                self.losing.append(one)

    @property
    def unknown(self) -> int:
        """Of how many sets it is not known."""
        return self.count - self.survived - len(self.losing)

    def within(self, nodes: Iterable[int]) -> list[Failure]:
        """The sets of these nodes alone that lose something."""
        inside = frozenset(nodes)
        return [one for one in self.losing if inside.issuperset(one.nodes)]

    def document(self, cluster: Cluster) -> dict[str, object]:
        """As plain data."""
        return {
            "count": self.count,
            "survived": self.survived,
            "unknown": self.unknown,
            "losing": [one.document(cluster) for one in self.losing],
        }


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

    `state` is left as it is. What is not decided when `over` says so is not known. Cost: a few
    sums per pair where memory is all that matters.
    """
    cluster = state.cluster
    units = None if relations is None else relations.units()
    joint = JointFailures(state, Rules(RULES, units, Effort(over=over)), min_disk)
    inside = _domains(cluster) if racks else {}
    domains = [DomainFound(name, _failure(joint, some, over)) for name, some in inside.items()]
    online = [index for index, node in enumerate(cluster.nodes) if node.online]
    cleared: set[tuple[int, ...]] = set()
    if size == PAIR:
        moving = [index for index in online if joint.moves(index)]  # failovers are quickly told
        moving.sort(key=joint.cost)
        _clear(joint, moving, moving, cleared, over)
    sets = None
    if size:
        others = (some for some in combinations(online, size) if some not in cleared)
        judged = (_failure(joint, some, over) for some in others)
        sets = SetsFound(comb(len(online), size), len(cleared), judged)
    return FailuresFound(cluster, size, sets, domains if racks else None)


def _clear(
    joint: JointFailures,
    some: Sequence[int],
    others: Sequence[int],
    cleared: set[tuple[int, ...]],
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
        pairs = combinations(some, PAIR) if some is others else product(some, others)
        cleared.update((min(pair), max(pair)) for pair in pairs)
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
