"""Where an instance may go while a cluster is placed anew, whatever ranks and N+1 say."""

from __future__ import annotations

from iallocator.limits.group import lacks_network
from iallocator.limits.node import REASONS as LIMITS
from iallocator.model.moves import Move
from iallocator.ranking.advertised import memory_lack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.limits.rejection import Rejection
    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.planners.place.planned_place import PlannedPlace
    from iallocator.requests import Allocate
    from iallocator.tags.pacemaker import PacemakerTags

__all__ = ["Openings"]

REASONS = frozenset(reason for reason in LIMITS if reason not in ("FailTags", "FailMig"))
"""What a node is refused for that has too little, or would exceed its policy."""

POLICIES = ("preferred", "last_resort")
"""Allocation policies of groups that take new instances, those that come first first."""


class Openings:
    """What is open to whom on the state of `context`, as it is when asked.

    `places`: those of everybody, by name; `homes`: the nodes of those that run; `wanted`: the
    requests for new instances, by name.
    """

    def __init__(
        self,
        context: Context,
        facts: PacemakerTags,
        places: Mapping[str, PlannedPlace],
        homes: Mapping[str, int],
        wanted: Mapping[str, Allocate],
    ) -> None:
        self.context = context
        self.facts = facts
        self.places = places
        self.homes = homes
        self._wanted = wanted
        self._unhurried: dict[Group, Evaluator] = {}
        self._group = [node.group for node in context.cluster.nodes]
        self._promising = {n.index for n in context.cluster.nodes if n.memory_ratio > 1}

    def fields(self, place: PlannedPlace) -> list[list[int]]:
        """The nodes to choose from, in one field after the other until one has a place.

        An instance that exists stays in its group; a new one prefers groups by policy.
        """
        cluster, instance = self.context.cluster, place.instance
        if place.before:
            return [list(cluster.nodes[place.before[0]].group.nodes)]
        wanted = self._wanted[instance.name]
        allowed = self._restricted(instance)
        groups = [
            group
            for group in cluster.groups
            if not lacks_network(group, instance) and wanted.group_name in (None, group.name)
        ]
        if wanted.group_name is not None:
            return [_of(groups, allowed, cluster.nodes)]
        return [
            _of([g for g in groups if g.alloc_policy == policy], allowed, cluster.nodes)
            for policy in POLICIES
        ]

    def _restricted(self, instance: Instance) -> Sequence[str] | None:
        """The names of the nodes that a new instance is restricted to; None: it is not."""
        wanted = self._wanted.get(instance.name)
        if wanted is None:
            return None
        option = self.context.settings.restrict_allocation_to
        return wanted.restrict_to if option is None else option

    def refusal(
        self, place: PlannedPlace, nodes: tuple[int, ...], unhurried: bool = False
    ) -> str | None:
        """Why an instance that is off the state may not come to `nodes`, ranks and N+1 aside.

        `nodes` of one that needs two may be the primary alone.  Who is where it was, beside
        nobody new, may stay there even if the node has too little for all of them.
        `unhurried`: all limits count, even for who leaves a node that is not online.
        """
        if len(nodes) > 1 and self._dead_mirror(place, nodes[0]) == [nodes[1]]:
            nodes = nodes[:1]
        evaluator = self._evaluator(self.context.cluster.nodes[nodes[0]].group, unhurried)
        found = evaluator.check(Move(place.instance, place.before, nodes))
        if found is None:
            return self._really_full(place, nodes[0])
        return self._objection(place, nodes, found)

    def refusals(
        self, place: PlannedPlace, nodes: Sequence[int], unhurried: bool = False
    ) -> dict[int, str]:
        """The same for each of `nodes` as the primary alone; those that are refused."""
        told: dict[int, str | None] = {}
        for group, members in self._by_group(nodes).items():
            evaluator = self._evaluator(group, unhurried)
            found = evaluator.rejections(place.instance, place.before, members)
            told |= {i: _wording(refusal) for i, refusal in found.items()}
            told |= {
                i: self._objection(place, (i,), found[i]) for i in place.before[:1] if i in found
            }
            promising = self._promising and self._promising.intersection(members)
            told |= {i: self._really_full(place, i) for i in promising if i not in found}
        return {i: why for i in nodes if i in told and (why := told[i]) is not None}

    def _by_group(self, nodes: Sequence[int]) -> dict[Group, Sequence[int]]:
        """`nodes` by their groups; mostly those of one."""
        of = self._group
        found = dict.fromkeys([of[index] for index in nodes])
        if len(found) < 2:
            return dict.fromkeys(found, nodes)
        return {group: [index for index in nodes if of[index] is group] for group in found}

    def _evaluator(self, group: Group, unhurried: bool) -> Evaluator:
        evaluator = self.context.evaluator(group)
        if not unhurried:
            return evaluator
        if group not in self._unhurried:
            self._unhurried[group] = evaluator.unhurried()
        return self._unhurried[group]

    def _objection(
        self, place: PlannedPlace, nodes: tuple[int, ...], found: Rejection
    ) -> str | None:
        """What is said of a refusal; None where it does not count for who stays there."""
        stays = nodes == place.before[: len(nodes)] and found.reason in REASONS
        if stays and all(self._nobody_new(index) for index in nodes):
            return None
        return _wording(found)

    def _really_full(self, place: PlannedPlace, node: int) -> str | None:
        """Why an instance may not come to a node that promises more memory than it has."""
        state = self.context.state
        if node in place.before[:1] or node not in self._promising:
            return None
        waiting = sum(
            self.places[name].instance.memory
            for name, home in self.homes.items()
            if home == node and name not in state.where
        )
        return memory_lack(state, node, place.instance, waiting=waiting) or None

    def _nobody_new(self, index: int) -> bool:
        """Whether everybody on the node has been there all the time, in the same role."""
        state = self.context.state
        return all(i.nodes[:1] == (index,) for i in state.primaries[index].values()) and all(
            i.nodes[1:] == (index,) for i in state.secondaries[index].values()
        )

    def mirrors(self, place: PlannedPlace, primary: int, unhurried: bool = False) -> list[int]:
        """The nodes that may take the mirror of an instance on `primary`.

        If none may, an instance that has its disks on `primary` leaves the other half even
        where nothing may come: that is no reason to stop what runs, or not to fail over.
        """
        nodes = self.context.cluster.nodes
        group = nodes[primary].group
        usable = [
            index
            for index in _of([group], self._restricted(place.instance), nodes)
            if index != primary and self.facts.usable[index]
        ]
        evaluator = self._evaluator(group, unhurried)
        refused = evaluator.rejections(place.instance, place.before, usable, primary)
        found = [
            index
            for index in usable
            if index not in refused
            or self._objection(place, (primary, index), refused[index]) is None
        ]
        return found or self._dead_mirror(place, primary)

    def _dead_mirror(self, place: PlannedPlace, primary: int) -> list[int]:
        """The node of the other half, if one is on `primary` and nothing may come to the other."""
        others = [index for index in place.before if index != primary]
        return [i for i in others if len(others) == 1 and not self.facts.usable[i]]


def _wording(found: Rejection) -> str:
    """What is told of a refusal: of limits of nodes what they count as, else the rule."""
    return found.reason if found.reason in REASONS else found.text


def _of(groups: Sequence[Group], allowed: Sequence[str] | None, nodes: Sequence[Node]) -> list[int]:
    return [
        index
        for group in groups
        for index in group.nodes
        if allowed is None or nodes[index].name in allowed
    ]
