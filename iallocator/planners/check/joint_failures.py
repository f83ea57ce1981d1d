"""Find the instances that cannot be restarted if a node, a pair of nodes or a domain fails.

A domain is a failure domain, for example a rack.
"""

from __future__ import annotations

from bisect import bisect_right
from heapq import nsmallest
from itertools import islice
from math import comb

from iallocator.deadline import Deadline
from iallocator.n1 import PAIR_SIZE, Rules, UndecidedError
from iallocator.n1.tolerance import FailureTolerance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.unrestarted import InteractingNodes

__all__ = ["DomainFound", "Failure", "FailuresFound", "SetsFound", "examine_failures"]

FAILURE_MODE = "no-new"
"""The mode of N+1 in which only online nodes take over, as in a real failure."""

FAILURES_PER_MOVE_TIME = 10
"""The number of failures that are written in the time that one move of a plan takes."""


class Failure:
    """One or several nodes that fail at once.

    Attributes
    ----------
    nodes:
        The indices of the nodes, ascending.
    lost:
        The instances that cannot be restarted, by name; None if this was unknown at the time limit.
    """

    __slots__ = ("lost", "nodes")

    def __init__(self, nodes: Sequence[int], lost: Sequence[Instance] | None) -> None:
        self.nodes = nodes
        self.lost = lost and sorted(lost, key=lambda one: one.name)

    @property
    def tolerated(self) -> bool:
        """Return whether all instances can be restarted."""
        return self.lost is not None and not self.lost

    @property
    def memory(self) -> int:
        """Return the MiB of memory of all instances that cannot be restarted."""
        return sum(one.memory for one in self.lost or ())

    def document(self, cluster: Cluster) -> dict[str, object]:
        """Return the failure as plain data; ``lost`` is null if it is unknown."""
        return {
            "nodes": [cluster.nodes[index].name for index in self.nodes],
            "survived": None if self.lost is None else self.tolerated,
            "lost": None if self.lost is None else [one.name for one in self.lost],
            "lost_memory": self.memory,
        }


class SetsFound:
    """The results for all sets of one or two nodes: counts, and each set that is not tolerated.

    Two nodes interact if other instances may be unable to restart when both fail than when each of
    them fails alone. Pairs that do not interact are not stored.  `losing` and `worst` derive the
    failure of such a pair from the failures of its two nodes.

    Attributes
    ----------
    count:
        The number of all sets.
    tolerated:
        The number of tolerated sets.
    lose:
        The number of sets with an instance that cannot be restarted.
    unknown:
        The number of sets that were not checked before the time limit.
    """

    __slots__ = (
        "_alone",
        "_checked",
        "_interacting",
        "_online",
        "_tolerated",
        "count",
        "lose",
        "tolerated",
        "unknown",
    )  # fmt: skip

    def __init__(
        self,
        online: Sequence[int],
        size: int,
        interacting: InteractingNodes | None = None,
        alone: Iterable[Failure] = (),
    ) -> None:
        """Count the pairs of nodes that do not interact; `alone`: the failures of single nodes."""
        self._online = online
        self._interacting = interacting
        self._checked: dict[int, dict[int, Failure]] = {}  # not tolerated, by first and last node
        self._tolerated: set[int] = set()
        self._alone: dict[int, Failure] = {}
        for one in alone:
            if one.tolerated:
                self._tolerated.add(one.nodes[0])
            elif one.lost is not None:
                self._alone[one.nodes[0]] = one
        self.count = comb(len(online), size)
        self.tolerated = self._apart(self._tolerated)
        self.lose = self._apart(self._tolerated.union(self._alone)) - self.tolerated
        self.unknown = self.count - self.tolerated - self.lose

    def _apart(self, nodes: Collection[int]) -> int:
        """Return the number of pairs of `nodes` that do not interact."""
        return (
            0
            if self._interacting is None
            else comb(len(nodes), PAIR_SIZE) - self._interacting.count(nodes)
        )

    def add_tolerated(self, count: int) -> None:
        """Count `count` more sets as tolerated."""
        self.tolerated += count
        self.unknown -= count

    def add(self, failures: Iterable[Failure]) -> None:
        """Count the sets `failures` as tolerated or not, up to the first undecided set."""
        for one in failures:
            if one.lost is None:
                break
            if one.tolerated:
                self.tolerated += 1
            else:
                self.lose += 1
                self._checked.setdefault(one.nodes[0], {})[one.nodes[-1]] = one
            self.unknown -= 1

    def losing(self) -> Iterator[Failure]:
        """Yield the sets that are not tolerated, in the order of their nodes."""
        losers = [index for index in self._online if index in self._alone]
        known = [
            index for index in self._online if index in self._alone or index in self._tolerated
        ]
        for first in self._online:
            checked = self._checked.get(first, {})
            others: Iterable[int] = ()
            if first in self._alone:
                others = known[bisect_right(known, first) :]
            elif first in self._tolerated:
                others = losers[bisect_right(losers, first) :]
            for last in sorted(checked.keys() | others) if others else checked:
                losing = checked.get(last) or self._both(first, last)
                if losing is not None:
                    yield losing

    def _both(self, first: int, last: int) -> Failure | None:
        """Return the failure of two nodes that do not interact; None if the nodes interact."""
        assert self._interacting is not None
        if self._interacting(first, last):
            return None
        lost = [
            instance
            for index in (first, last)
            if index in self._alone
            for instance in self._alone[index].lost or ()
        ]
        return Failure((min(first, last), max(first, last)), lost)

    def worst(self, most: int) -> list[Failure]:
        """Return the `most` worst sets: by number of instances that cannot be restarted, then MiB.

        A pair that does not interact can only be among the worst sets if one of its nodes is among
        the `most` worst partners of the other node.  Therefore few pairs of each node are compared.
        """
        failures = [one for inside in self._checked.values() for one in inside.values()]
        size = {index: (-len(one.lost or ()), -one.memory) for index, one in self._alone.items()}
        known = [
            index for index in self._online if index in self._alone or index in self._tolerated
        ]
        known.sort(
            key=lambda index: size.get(index, (0, 0))
        )  # nodes with equal keys keep their order
        for first in self._alone:
            pairs = (self._both(first, last) for last in known if last != first)
            failures += islice(filter(None, pairs), most)
        failures = nsmallest(
            most * PAIR_SIZE,
            failures,
            key=lambda one: (-len(one.lost or ()), -one.memory, one.nodes),
        )
        return list({tuple(one.nodes): one for one in failures}.values())[:most]

    def within(self, nodes: Iterable[int]) -> int:
        """Return the number of sets that are not tolerated and consist of nodes in `nodes`."""
        inside = frozenset(nodes)
        checked = sum(last in inside for first in inside for last in self._checked.get(first, ()))
        safe = inside & self._tolerated
        return checked + self._apart(safe.union(inside & self._alone.keys())) - self._apart(safe)

    def document(self, cluster: Cluster) -> dict[str, object]:
        """Return the counts and the sets that are not tolerated as plain data."""
        return {
            "count": self.count,
            "survived": self.tolerated,
            "unknown": self.unknown,
            "losing": [one.document(cluster) for one in self.losing()],
        }


class DomainFound:
    """One failure domain, with the failure of all its online nodes at once."""

    __slots__ = ("failure", "name")

    def __init__(self, name: str, failure: Failure) -> None:
        self.name = name
        self.failure = failure


class FailuresFound:
    """The results for all sets of nodes, and for all failure domains.

    Attributes
    ----------
    size:
        The number of nodes in each set of `sets`; 0 if sets were not requested.
    sets:
        The results for sets of nodes; None if they were not requested.
    domains:
        The failure domains, by name; None if they were not requested.
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
        """Return whether all requested failures were checked before the time limit or a signal."""
        domains = self.domains or ()
        known = all(one.failure.lost is not None for one in domains)
        return known and (self.sets is None or not self.sets.unknown)

    def document(self) -> dict[str, object]:
        """Return the requested results as plain data."""
        result: dict[str, object] = {}
        if self.sets is not None:
            result["at_once"] = self.size
            result["nodes"] = self.sets.document(self.cluster)
        if self.domains is not None:
            result["domains"] = [
                {"domain": one.name, **one.failure.document(self.cluster)} for one in self.domains
            ]
        return result


def examine_failures(
    state: State,
    size: int,
    racks: bool,
    min_disk: float = 0.0,
    relations: Relations | None = None,
    deadline: Deadline | None = None,
) -> FailuresFound:
    """Check all sets of `size` online nodes (0: none), and with `racks` all failure domains.

    `state` is not changed. Failures that are undecided at `deadline`, or when a signal comes, are
    unknown in the result.

    Cost: see `FailureTolerance.tolerated_pairs`.
    """
    cluster = state.cluster
    deadline = Deadline(None) if deadline is None else deadline
    units = None if relations is None else relations.units()
    rules = Rules(FAILURE_MODE, units, deadline)
    failures = FailureTolerance(state, rules, min_disk=min_disk)
    inside: dict[str, tuple[int, ...]] = {}  # tag of each failure domain -> its online nodes
    for index, node in enumerate(cluster.nodes):
        for location in node.locations if racks and node.online else ():
            inside[location] = (*inside.get(location, ()), index)
    domains = [
        DomainFound(name, _failure(failures, some, deadline))
        for name, some in sorted(inside.items())
    ]
    online = [index for index, node in enumerate(cluster.nodes) if node.online]
    sets = None
    if size == PAIR_SIZE:
        # All pairs of nodes
        interacting = failures.interacting(online)
        tolerated = failures.tolerated_pairs(interacting, deadline)
        apart = comb(len(online), PAIR_SIZE) > interacting.count(set(online))
        alone = [_failure(failures, (index,), deadline) for index in online] if apart else ()
        sets = SetsFound(online, PAIR_SIZE, interacting, alone)
        sets.add_tolerated(tolerated.count())
        pairs = (
            _failure(failures, (first, last), deadline)
            for first in online
            for last in tolerated.left(first, interacting.of(first))
        )
        sets.add(_leaving_time(pairs, deadline))
    elif size:
        sets = SetsFound(online, size)
        sets.add(_failure(failures, (index,), deadline) for index in online)
    return FailuresFound(cluster, size, sets, domains if racks else None)


def _leaving_time(found: Iterable[Failure], deadline: Deadline) -> Iterator[Failure]:
    """Yield the failures in `found`, and let `deadline` reserve the time to write them."""
    losing = 0
    for one in found:
        if one.lost:
            losing += 1
            if losing % FAILURES_PER_MOVE_TIME == 0:
                deadline.spare(1)
        yield one


def _failure(failures: FailureTolerance, nodes: tuple[int, ...], deadline: Deadline) -> Failure:
    if deadline.must_end:
        return Failure(nodes, None)
    try:
        return Failure(nodes, failures.unrestarted(nodes))
    except UndecidedError:
        return Failure(nodes, None)
