"""Divide nodes into few groups; the nodes of a group can be drained together.

The algorithm is graph colouring, then a local search. Two nodes of one instance are never
drained together: they are neighbours in a conflict graph. Its chromatic number, if it is found, is
a lower bound of the number of groups. A `DrainPlanner` decides whether a whole group can be
drained. A colour class that cannot be drained as a whole is divided into groups, which grow node by
node. Other orders of the nodes are tried, too. Then the smallest groups are dissolved into others.
Few nodes are also grouped by branch and bound. An integer program finds these groups, too, but
takes twice as long, because it must reject one combination of nodes after the other:
`docs/design/exact-search.md`.

With many nodes a group is complete after `GROWTH_FAILURES` failures to make it larger by
`LEAST_GROWTH`.

Cost: one drain plan for each set of nodes that is tried. After the first division into groups,
`MOST_GROUPING_MOVES` limits the plans.
"""

from __future__ import annotations

from math import ceil

from iallocator.deadline import TIME_IS_UP, Stopped, check
from iallocator.planners.search import Acceptance, LocalSearch, Neighbourhood
from iallocator.solver.branch_and_bound import BranchAndBound
from iallocator.solver.colouring import colour

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.planners.reboot.drain_plan import DrainPlan, DrainPlanner
    from iallocator.planners.search import Objective

    Group = tuple[int, ...]

__all__ = ["Grouping", "conflicts", "takeover_conflicts"]

MOST_NODES_PROVED = 10
"""The largest number of nodes for which a proof is tried that fewer groups are impossible."""

MOST_EXACT_NODES = 12
"""The largest number of nodes that are also grouped by branch and bound."""

GROWTH_FAILURES, LEAST_GROWTH = 3, 1 / 16
"""The limits of the growth of a group on a cluster of many nodes.

The group is complete after `GROWTH_FAILURES` failed attempts to add nodes. An attempt counts if it
adds one node, or at most the share `LEAST_GROWTH` of the group.
"""

MOST_GROUPING_MOVES = 2000
"""The budget of `Grouping.affords` to find fewer groups after the first division, in moves."""


def conflicts(cluster: Cluster, nodes: Iterable[int]) -> dict[int, set[int]]:
    """Return each of `nodes` -> the others of `nodes` that share a drbd instance with it."""
    neighbours: dict[int, set[int]] = {index: set() for index in nodes}
    for instance in cluster.instances:
        for one in instance.nodes:
            for other in instance.nodes:
                if one != other and one in neighbours and other in neighbours:
                    neighbours[one].add(other)
    return neighbours


def takeover_conflicts(cluster: Cluster, nodes: Iterable[int]) -> dict[int, set[int]]:
    """Return each of `nodes` -> the others with which it has a conflict or a common secondary.

    Two nodes have a common secondary if instances of both would fail over to one node. The result
    includes all `conflicts`.
    """
    neighbours = conflicts(cluster, nodes)
    failing: dict[int, set[int]] = {}
    for instance in cluster.instances:
        if len(instance.nodes) > 1 and instance.nodes[0] in neighbours:
            failing.setdefault(instance.nodes[1], set()).add(instance.nodes[0])
    for primaries in failing.values():
        for one in primaries:
            neighbours[one].update(primaries - {one})
    return neighbours


class Grouping:
    """A search for the fewest groups of nodes that can be drained together.

    `most`: the largest number of nodes in a group; 0 for any number. `report` is called with the
    number of nodes that are done in the present stage, and the number of all nodes.

    Attributes
    ----------
    groups:
        The groups that `run` found, as indices of nodes.
    left:
        Index of each node that is in no group -> why.
    left_proved:
        Whether it is proved of each node of `left` that it cannot be drained.
    bound:
        A lower bound of the number of groups.
    apart:
        Index of each node -> the nodes that have a drbd instance in common with it.
    work:
        The rest of the budget of `affords`, in moves; not above 0 if the budget is spent.
    """

    def __init__(
        self,
        cluster: Cluster,
        planner: DrainPlanner,
        report: Callable[[int, int], None] = lambda done, total: None,
        most: int = 0,
    ) -> None:
        self._report = report
        self._most = most or len(cluster.nodes)
        self.groups: list[Group] = []
        self.left: dict[int, str] = {}
        self.left_proved = True
        self.bound = 0
        self._cluster = cluster
        self._planner = planner
        self._known: dict[frozenset[int], DrainPlan] = {}
        self.apart: dict[int, set[int]] = {}
        self.work = MOST_GROUPING_MOVES
        self._misses = GROWTH_FAILURES if planner.many else len(cluster.nodes)
        self._least = LEAST_GROWTH if planner.many else 0.0
        self._held = [0] * len(cluster.nodes)
        for instance in cluster.instances:
            for index in instance.nodes:
                self._held[index] += 1
        self._best: list[Group] = []  # the smallest division that is complete
        self._growing: list[Group] = []  # the groups of the division in progress
        self._part: list[int] = []  # the group that is being grown

    def plan(self, group: Iterable[int]) -> DrainPlan:
        """Return the plan that drains all nodes of `group` at the same time, from a cache."""
        key = frozenset(group)
        if key not in self._known:
            self._known[key] = self._planner.plan(key)
        return self._known[key]

    def run(self, nodes: Sequence[int]) -> None:
        """Divide `nodes` into few groups: set `groups`, `left` and `bound`.

        Raises
        ------
        Stopped
            If the run must end; the caller then calls `settle` to complete the groups.
        """
        for done, index in enumerate(nodes):
            self._report(done, len(nodes))
            alone = self.plan((index,))
            if alone.reason:
                self.left[index] = alone.reason
                self.left_proved &= alone.proved
            else:
                self.groups.append((index,))
                self._planner.deadline.spare(2 * len(alone.entries))  # instances leave and return
        nodes = [index for index in nodes if index not in self.left]
        if not nodes:
            return
        self.apart = conflicts(self._cluster, nodes)
        classes, proved = _classes(self.apart)
        self.bound = max(
            len(classes) if proved else 1,
            self._planner.bound.fewest(nodes),
            ceil(len(nodes) / self._most),
        )
        for way in self._ways(classes, nodes):
            self._growing = []
            for one in way:
                for part in self._parts(one):
                    self._growing.append(part)
                    self._report(sum(map(len, self._growing)), len(nodes))
            if not self._best or len(self._growing) < len(self._best):
                self.groups = self._best = self._growing
            if len(self.groups) <= self.bound or not self.affords(nodes):
                break
        fewest = Acceptance[_Spread](lambda: "proved" if len(self.groups) <= self.bound else "")
        search = LocalSearch(
            [_Dissolving()], lambda work: (len(work.groups),), fewest, self._planner.deadline
        )
        if search.run(self) == TIME_IS_UP:
            raise Stopped(TIME_IS_UP)
        if len(nodes) <= MOST_EXACT_NODES:
            _FewestGroups(self, nodes).search()
        if len(nodes) <= MOST_NODES_PROVED:
            self._prove(nodes)

    def _prove(self, nodes: Sequence[int]) -> None:
        """Raise `bound` to the least number of groups that are not proved to be impossible.

        A set of nodes is possible until a plan for the set fails, and the failure is proved. The
        nodes are divided into the fewest possible sets, and these sets are planned. If all sets can
        be drained, they become `groups`. Otherwise the nodes are divided again.

        Cost: 3^nodes operations for each division.
        """
        possible = [True] * (1 << len(nodes))
        for k, index in enumerate(nodes):
            for m, other in enumerate(nodes[:k]):
                if other in self.apart[index]:
                    both = 1 << k | 1 << m
                    possible = [can and mask & both != both for mask, can in enumerate(possible)]
        for mask in range(1, len(possible)):
            if mask.bit_count() > self._most:
                possible[mask] = False
                continue
            known = self._known.get(frozenset(_members(nodes, mask)))
            if known is not None and known.reason and known.proved:
                possible[mask] = False
        while True:
            check()
            masks = _fewest_sets(possible)
            parts = [_members(nodes, mask) for mask in masks]
            self.bound = max(self.bound, len(parts))
            if len(parts) >= len(self.groups):
                return
            progress = False
            for mask, part in zip(masks, parts, strict=True):
                if frozenset(part) in self._known:
                    continue
                if not self.affords(part):
                    return
                drain_plan = self.plan(part)
                possible[mask] = not (drain_plan.reason and drain_plan.proved)
                progress = True
            if not any(self.plan(part).reason for part in parts):
                self.groups = parts
            elif not progress:
                return

    def settle(self, nodes: Sequence[int], reason: str) -> None:
        """Complete the groups after the search has ended early, for `reason`.

        If no division was completed, the groups found until then are kept, and each other node
        that is known to be drainable is a group alone. All nodes in no group are added to `left`.
        """
        if not self._best:
            grown = [*self._growing, *([tuple(self._part)] if self._part else [])]
            placed = {index for group in grown for index in group}
            self.groups = [*grown, *(one for one in self.groups if one[0] not in placed)]
        known = {index for group in self.groups for index in group} | self.left.keys()
        unknown = [index for index in nodes if index not in known]
        self.left |= dict.fromkeys(unknown, reason)
        self.left_proved &= not unknown

    def affords(self, nodes: Sequence[int]) -> bool:
        """Subtract the cost of a plan for `nodes` from `work`; return whether `work` is left.

        The cost is one, plus the instances on each of the nodes. A known plan costs nothing.
        """
        cost = 1 + sum(self._held[index] for index in nodes)
        known = frozenset(nodes) in self._known
        self.work -= 0 if known else cost
        return self.work > 0

    def _ways(self, classes: Sequence[Group], nodes: Sequence[int]) -> Iterator[Sequence[Group]]:
        """Yield divisions of `nodes` with which `run` begins; their groups may be impossible.

        These are the colour classes of the conflicts; the colour classes of the takeover conflicts;
        all nodes by decreasing number of conflicts; all nodes in the given order.
        """
        yield classes
        yield _classes(takeover_conflicts(self._cluster, nodes))[0]
        yield [tuple(sorted(nodes, key=lambda n: (-len(self.apart[n]), n)))]
        yield [tuple(nodes)]

    def _parts(self, group: Group) -> Iterator[Group]:
        """Yield parts of `group` that can be drained, each made large before the next begins."""
        rest = list(group)
        while rest:
            # The part grows in the order of `rest`, by several nodes at a time if possible
            part = self._part = []
            position, step, misses = 0, len(rest), 0
            while position < len(rest) and misses < self._misses:
                check()
                some = rest[position : position + step]
                if self.can([*part, *some]):
                    part += some
                    position += len(some)
                    step *= 2
                elif len(some) > max(1, self._least * len(part)):
                    step = max(1, len(some) // 2)
                else:
                    position += max(1, (len(rest) - position) // 4 if self._planner.many else 0)
                    misses += 1
            self._part = []
            yield tuple(part)
            done = set(part)
            rest = [index for index in rest if index not in done]

    def can(self, group: Sequence[int]) -> bool:
        """Return whether the nodes of `group` can be drained together, and are not too many."""
        members = set(group)
        if len(members) > self._most:
            return False
        if any(not members.isdisjoint(self.apart[index]) for index in group):
            return False
        return not self.plan(group).reason


class _Spread:
    """A step of the local search: the reboot groups after one group joined the others."""

    __slots__ = ("_groups",)

    def __init__(self, groups: list[Group]) -> None:
        self._groups = groups

    def apply(self, state: Grouping) -> None:
        """Replace the reboot groups of `state` by the groups of this step."""
        state.groups = self._groups


class _Dissolving(Neighbourhood[Grouping, _Spread]):
    """The steps that spread the nodes of one group over the other groups, until `work` is spent."""

    name = "dissolving"

    def best(
        self, state: Grouping, objective: Objective, allows: Callable[[_Spread], bool]
    ) -> _Spread | None:
        """Return the step that dissolves the smallest possible group; None if no group can be."""
        for group in sorted(state.groups, key=len):
            others = [other for other in state.groups if other != group]
            if all(self._joins(state, index, others) for index in group):
                return _Spread(others)
        return None

    @staticmethod
    def _joins(state: Grouping, index: int, groups: list[Group]) -> bool:
        """Add node `index` to the first of `groups` with which it can be drained.

        Return whether such a group was found before `work` was spent.
        """
        for number, group in enumerate(groups):
            wider = (*group, index)
            if not state.affords(wider):
                return False
            if state.can(wider):
                groups[number] = wider
                return True
        return False


class _FewestGroups(BranchAndBound):
    """A search for fewer groups than `grouping` has; it ends at the lower bound of `grouping`.

    Each decision adds one of `nodes` to an existing group or to a new group. The cost is the number
    of groups.
    """

    def __init__(self, grouping: Grouping, nodes: Sequence[int]) -> None:
        super().__init__(len(nodes), len(grouping.groups), grouping.bound)
        self._grouping = grouping
        self._nodes = sorted(nodes, key=lambda n: (-len(grouping.apart[n]), n))
        self._groups: list[Group] = []

    def must_end(self) -> bool:
        return self._grouping.work <= 0

    def branches(self, depth: int) -> Iterator[tuple[int, int]]:
        for number, group in enumerate([*self._groups, ()]):
            wider = (*group, self._nodes[depth])
            if len(self._groups) + (not group) >= self.cost or not self._grouping.affords(wider):
                return
            if not group or self._grouping.can(wider):
                yield len(self._groups) + (not group), number

    def enter(self, depth: int, choice: int) -> None:
        if choice == len(self._groups):
            self._groups.append(())
        self._groups[choice] += (self._nodes[depth],)

    def leave(self, depth: int, choice: int) -> None:
        self._groups[choice] = self._groups[choice][:-1]
        if not self._groups[choice]:
            self._groups.pop()

    def accept(self, cost: int) -> bool:
        self._grouping.groups = list(self._groups)
        return True


def _members(nodes: Sequence[int], mask: int) -> Group:
    """Return the nodes of the set `mask`, in which bit k represents `nodes[k]`."""
    return tuple(index for k, index in enumerate(nodes) if mask >> k & 1)


def _fewest_sets(possible: Sequence[bool]) -> list[int]:
    """Return the fewest disjoint possible sets that contain all elements; sets are bit masks.

    `possible`: for each bit mask, whether the set is possible; a set of one element always counts
    as possible. The algorithm is dynamic programming over all sets of elements.
    """
    count, last = [0], [0]
    for mask in range(1, len(possible)):
        lowest = mask & -mask
        rest = mask ^ lowest
        best, chosen, part = count[rest] + 1, lowest, rest
        while part:  # sets of `lowest` and other elements
            if possible[part | lowest] and count[mask ^ part ^ lowest] + 1 < best:
                best, chosen = count[mask ^ part ^ lowest] + 1, part | lowest
            part = (part - 1) & rest
        count.append(best)
        last.append(chosen)
    sets, mask = [], len(possible) - 1
    while mask:
        sets.append(last[mask])
        mask ^= last[mask]
    return sets


def _classes(apart: dict[int, set[int]]) -> tuple[list[Group], bool]:
    """Return the colour classes of the graph `apart`, and whether fewer are proved impossible.

    `apart`: each node -> its neighbours, which get other colours.
    """
    nodes = sorted(apart)
    place = {index: number for number, index in enumerate(nodes)}
    colours, proved = colour([{place[other] for other in apart[index]} for index in nodes])
    classes: dict[int, list[int]] = {}
    for index, number in zip(nodes, colours):
        classes.setdefault(number, []).append(index)
    return [tuple(classes[number]) for number in sorted(classes)], proved
