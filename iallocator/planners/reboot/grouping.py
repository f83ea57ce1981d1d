"""Groups of nodes that can be away together, as few as are found.

Two nodes of one instance are never away together: that is a graph, whose colours are a lower
bound.  Whether a whole group can be away is asked of an `Absence`; where colours are too
coarse for that, groups are grown node by node, in several orders, and the smallest are
dissolved into others.
"""

from __future__ import annotations

from iallocator.deadline import Stopped, check
from iallocator.planners.reboot.absence import Away
from iallocator.solver.colouring import colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.planners.reboot.absence import Absence

    Group = tuple[int, ...]

__all__ = ["Grouping", "conflicts", "takeover_conflicts"]

SMALL = 12
"""Up to so many nodes groups are sought exactly."""

WORK = 2000
"""Moves that are tried for the sake of fewer groups, once there are some."""


def conflicts(cluster: Cluster, nodes: Iterable[int]) -> dict[int, set[int]]:
    """Per node of `nodes` those of them that hold the other half of an instance."""
    found: dict[int, set[int]] = {index: set() for index in nodes}
    for instance in cluster.instances:
        for one in instance.nodes:
            for other in instance.nodes:
                if one != other and one in found and other in found:
                    found[one].add(other)
    return found


def takeover_conflicts(cluster: Cluster, nodes: Iterable[int]) -> dict[int, set[int]]:
    """The same, and those whose instances would go to the same node."""
    found = conflicts(cluster, nodes)
    failing: dict[int, set[int]] = {}
    for instance in cluster.instances:
        if len(instance.nodes) > 1 and instance.nodes[0] in found:
            failing.setdefault(instance.nodes[1], set()).add(instance.nodes[0])
    for primaries in failing.values():
        for one in primaries:
            found[one].update(primaries - {one})
    return found


class Grouping:
    """Puts nodes into groups.

    Attributes
    ----------
    groups:
        The groups; found by `run`.
    left:
        Node -> why it cannot be away, even alone.
    bound:
        No way has fewer groups.
    stop:
        What ended the search for fewer groups before its time; None if nothing did.
    """

    def __init__(
        self,
        cluster: Cluster,
        absence: Absence,
        tell: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self._tell = tell
        self.groups: list[Group] = []
        self.left: dict[int, str] = {}
        self.bound = 0
        self.stop: Stopped | None = None
        self._cluster = cluster
        self._absence = absence
        self._known: dict[frozenset[int], Away] = {}
        self._apart: dict[int, set[int]] = {}
        self._work = WORK
        self._held = [0] * len(cluster.nodes)
        for instance in cluster.instances:
            for index in instance.nodes:
                self._held[index] += 1
        self._part: list[int] = []

    def away(self, group: Iterable[int]) -> Away:
        """What comes of taking these nodes away; asked once for each set."""
        key = frozenset(group)
        if key not in self._known:
            self._known[key] = self._absence.of(key)
        return self._known[key]

    def run(self, nodes: Sequence[int]) -> None:
        """Put `nodes` into groups; an interruption leaves the best that were found until then."""
        try:
            with self._absence.deadline:
                self._run(nodes)
        except Stopped as stop:
            self.stop = stop
            known = {index for group in self.groups for index in group} | self.left.keys()
            self.left |= {n: stop.reason for n in nodes if n not in known}

    def _run(self, nodes: Sequence[int]) -> None:
        for done, index in enumerate(nodes):
            self._tell(done, len(nodes))
            alone = self.away((index,))
            if alone.reason:
                self.left[index] = alone.reason
            else:
                self.groups.append((index,))
                self._absence.deadline.spare(2 * len(alone.entries))  # there and back, in any group
        nodes = [index for index in nodes if index not in self.left]
        if not nodes:
            return
        self._apart = conflicts(self._cluster, nodes)
        classes, proved = _classes(self._apart)
        self.bound = max(len(classes) if proved else 1, self._absence.fewest(nodes))
        self.groups = self._first_that_does(classes, nodes)
        self._dissolve()
        if len(nodes) <= SMALL:
            self._exactly(nodes)

    def _first_that_does(self, classes: Sequence[Group], nodes: Sequence[int]) -> list[Group]:
        """The fewest groups of several ways; the first that comes to the bound ends it."""
        best: list[Group] = []
        for way in self._ways(classes, nodes):
            found: list[Group] = []
            try:
                for one in way:
                    for part in self._parts(one):
                        found.append(part)
                        self._tell(sum(map(len, found)), len(nodes))
            except Stopped:
                self.groups = best or self._completed(found, nodes)
                raise
            if not best or len(found) < len(best):
                best = found
            if len(best) <= self.bound or not self._affords(nodes):
                break
        return best

    def _completed(self, found: Sequence[Group], nodes: Sequence[int]) -> list[Group]:
        """`found`, the group that was being grown, and each of the other `nodes` alone."""
        groups = [*found, *([tuple(self._part)] if self._part else [])]
        placed = {index for group in groups for index in group}
        return [*groups, *((index,) for index in nodes if index not in placed)]

    def _affords(self, nodes: Sequence[int]) -> bool:
        """Whether there is work left to ask about these nodes; if so, it is spent."""
        cost = 1 + sum(self._held[index] for index in nodes)
        known = frozenset(nodes) in self._known
        self._work -= 0 if known else cost
        return self._work > 0

    def _ways(self, classes: Sequence[Group], nodes: Sequence[int]) -> Iterator[Sequence[Group]]:
        """Groups to begin with: by one node of an instance; by where instances go; all at once."""
        yield classes
        yield _classes(takeover_conflicts(self._cluster, nodes))[0]
        yield [tuple(sorted(nodes, key=lambda n: (-len(self._apart[n]), n)))]
        yield [tuple(nodes)]

    def _parts(self, group: Group) -> Iterator[Group]:
        """`group` in parts that can be away, each as large as it gets."""
        rest = list(group)
        while rest:
            check()
            part = self._grown(rest)
            self._part = []
            yield part
            rest = [index for index in rest if index not in part]

    def _grown(self, nodes: Sequence[int]) -> Group:
        """A group of `nodes`, grown in their order: by many at once where that does."""
        part = self._part = []
        position, step = 0, len(nodes)
        while position < len(nodes):
            check()
            some = list(nodes[position : position + step])
            if self._can([*part, *some]):
                part += some
                position += len(some)
                step *= 2
            elif len(some) > 1:
                step = max(1, len(some) // 2)
            else:
                position += 1
        return tuple(part)

    def _can(self, group: Sequence[int]) -> bool:
        """Whether these nodes can be away together."""
        members = set(group)
        if any(not members.isdisjoint(self._apart[index]) for index in group):
            return False
        return not self.away(group).reason

    # One group less

    def _dissolve(self) -> None:
        """Spread the nodes of small groups over the others, as long as that does."""
        while len(self.groups) > self.bound:
            check()
            for group in sorted(self.groups, key=len):
                spread = self._spread(group, [other for other in self.groups if other != group])
                if spread is not None:
                    self.groups = spread
                    break
            else:
                return

    def _spread(self, group: Group, others: list[Group]) -> list[Group] | None:
        """`others` with the nodes of `group` among them; None if one finds no place."""
        for index in group:
            for number, other in enumerate(others):
                if not self._affords([*other, index]):
                    return None
                if self._can([*other, index]):
                    others[number] = (*other, index)
                    break
            else:
                return None
        return others

    def _exactly(self, nodes: Sequence[int]) -> None:
        """Look for fewer groups node by node, going back where that fails."""
        order = sorted(nodes, key=lambda n: (-len(self._apart[n]), n))
        while len(self.groups) > self.bound:
            found = self._placed(order, [], len(self.groups) - 1)
            if found is None:
                return
            self.groups = found

    def _placed(self, nodes: Sequence[int], groups: list[Group], most: int) -> list[Group] | None:
        """`groups` and `nodes` in at most `most` groups; None if none is found."""
        if not nodes:
            return groups
        first, *rest = nodes
        for number in range(min(len(groups) + 1, most)):
            new = number == len(groups)
            wider = (first,) if new else (*groups[number], first)
            if not self._affords(wider):
                return None
            if new or self._can(wider):
                found = self._placed(rest, [*groups[:number], wider, *groups[number + 1 :]], most)
                if found is not None:
                    return found
        return None


def _classes(apart: dict[int, set[int]]) -> tuple[list[Group], bool]:
    """The nodes by colour, and whether fewer colours cannot do."""
    nodes = sorted(apart)
    place = {index: number for number, index in enumerate(nodes)}
    colours, proved = colour([{place[other] for other in apart[index]} for index in nodes])
    found: dict[int, list[int]] = {}
    for index, number in zip(nodes, colours):
        found.setdefault(number, []).append(index)
    return [tuple(found[number]) for number in sorted(found)], proved
