"""Full re-placement by Pacemaker's rules: where each instance goes, and why.

Every instance chooses once, the running ones too.  It chooses among the nodes that limits,
migration tags, networks and storage allow.  The choice must keep global N+1: no failure that was
tolerated before may become intolerable, see `RequiredFailures`.
"""

from __future__ import annotations

from types import MappingProxyType

from iallocator.constraints.table import NETWORKS
from iallocator.constraints.table import REASONS as LIMITS
from iallocator.deadline import check
from iallocator.model.moves import Move
from iallocator.n1.rules import CAME, Rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.ranking.advertised import memory_lack
from iallocator.ranking.pacemaker import facts_of, kind_of, node_scores_of
from iallocator.ranking.pacemaker.capacity_usage import CapacityUsage
from iallocator.ranking.pacemaker.colocation_sets import (
    ColocationSet,
    choose_for,
    in_turn,
    units_of,
)
from iallocator.transition.planner import stays_for_good

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.limits.rejection import Rejection
    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.rules import Failure
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.ranking.pacemaker.rules import Choice
    from iallocator.requests import Allocate
    from iallocator.tags.pacemaker import PacemakerTags

__all__ = ["Openings", "PlannedPlace", "SchedulingPass", "stopped_disks"]


class PlannedPlace:
    """Where one instance is, where it will be, and why.

    Attributes
    ----------
    before:
        Its nodes now, primary first; () for a new instance.
    nodes:
        Its nodes afterwards; None if it is left out.
    why:
        What decided, in words.
    runs:
        Whether it runs now.
    broken:
        The soft constraints that it violates afterwards, in words.
    """

    __slots__ = ("before", "broken", "instance", "nodes", "runs", "why")

    def __init__(self, instance: Instance, before: tuple[int, ...], runs: bool) -> None:
        self.instance = instance
        self.before = before
        self.runs = runs
        self.nodes: tuple[int, ...] | None = None
        self.why = ""
        self.broken: list[str] = []

    @property
    def holds(self) -> bool:
        """Whether it uses its nodes now: it runs, or it will be created there."""
        return self.runs or self.instance.forthcoming

    @property
    def node(self) -> int | None:
        """Its primary afterwards."""
        return self.nodes[0] if self.nodes else None


def stopped_disks(instance: Instance, nodes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the nodes among `nodes` on which an instance keeps disks when it is stopped."""
    return nodes if instance.local and not instance.forthcoming else ()


def runs(state: State, instance: Instance) -> bool:
    """Return whether an instance of the cluster runs where it is."""
    home = state.cluster.nodes[state.where[instance.name][0]]
    return instance.running and not home.offline


def _reason(choice: Choice, index: int) -> str:
    """Return what decided for node `index`."""
    others = [other for other in choice.ranked if other != index]
    if not others:
        return "the only node that can take it"
    name = choice.node_name(others[0])
    if choice.ranked[0] != index:
        return f"the ones before it are refused by N+1; next is {name}"
    return f"{choice.decided(index, others[0])}, next is {name}"


def _rejection(choice: Choice, rejected: Mapping[int, str]) -> str:
    """Return why no node accepts the instance, each reason with its nodes."""
    by_reason: dict[str, list[str]] = {}
    for index, reason in [*choice.rejected.items(), *rejected.items()]:
        by_reason.setdefault(reason, []).append(choice.node_name(index))
    told = (f"{', '.join(names)}: {reason}" for reason, names in by_reason.items())
    return "; ".join(told) or "no node may be used"


REASONS = frozenset(reason for reason in LIMITS if reason not in ("FailTags", "FailMig"))
"""The reasons of nodes that have too little, or would exceed their policy."""

POLICIES = ("preferred", "last_resort")
"""Allocation policies of groups that accept new instances, in order of preference."""


class Openings:
    """The nodes that are open to an instance, on the state of `context` as it is now.

    Parameters
    ----------
    places:
        Name -> the place of an instance.
    homes:
        Name -> the node where an instance runs.
    wanted:
        Name -> the request for a new instance.
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
        """Return sets of nodes to choose from; the next one counts only if one has no place.

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
            if not NETWORKS.missing(group, instance) and wanted.group_name in (None, group.name)
        ]
        if wanted.group_name is not None:
            return [_of(groups, allowed, cluster.nodes)]
        return [
            _of([g for g in groups if g.alloc_policy == policy], allowed, cluster.nodes)
            for policy in POLICIES
        ]

    def _restricted(self, instance: Instance) -> Sequence[str] | None:
        """Return the names of the nodes that a new instance is restricted to, or None."""
        wanted = self._wanted.get(instance.name)
        if wanted is None:
            return None
        option = self.context.settings.restrict_allocation_to
        return wanted.restrict_to if option is None else option

    def rejection(
        self, place: PlannedPlace, nodes: tuple[int, ...], with_normal_limits: bool = False
    ) -> str | None:
        """Return why an instance that is off the state may not come to `nodes`, or None.

        Ranks and N+1 are not checked.  `nodes` of an instance that requires two may be the primary
        alone. An instance may stay where it was, beside instances that were there too, even if the
        node has too little for all of them.  `with_normal_limits`: soft limits are checked even if
        it leaves a node that is not online.
        """
        if len(nodes) > 1 and self._dead_mirror(place, nodes[0]) == [nodes[1]]:
            nodes = nodes[:1]
        evaluator = self._evaluator(self.context.cluster.nodes[nodes[0]].group, with_normal_limits)
        found = evaluator.check(Move(place.instance, place.before, nodes))
        if found is None:
            return self._really_full(place, nodes[0])
        return self._objection(place, nodes, found)

    def rejections(
        self, place: PlannedPlace, nodes: Sequence[int], with_normal_limits: bool = False
    ) -> dict[int, str]:
        """Return what `rejection` says of each of `nodes` as the primary alone."""
        told: dict[int, str | None] = {}
        for group, members in self._by_group(nodes).items():
            evaluator = self._evaluator(group, with_normal_limits)
            found = evaluator.rejections(place.instance, place.before, members)
            told |= {i: _wording(rejection) for i, rejection in found.items()}
            told |= {
                i: self._objection(place, (i,), found[i]) for i in place.before[:1] if i in found
            }
            promising = self._promising and self._promising.intersection(members)
            told |= {i: self._really_full(place, i) for i in promising if i not in found}
        return {i: why for i in nodes if i in told and (why := told[i]) is not None}

    def _by_group(self, nodes: Sequence[int]) -> dict[Group, Sequence[int]]:
        """Return `nodes` by their groups; mostly there is one group."""
        of = self._group
        found = dict.fromkeys([of[index] for index in nodes])
        if len(found) < 2:
            return dict.fromkeys(found, nodes)
        return {group: [index for index in nodes if of[index] is group] for group in found}

    def _evaluator(self, group: Group, with_normal_limits: bool) -> Evaluator:
        evaluator = self.context.evaluator(group)
        if not with_normal_limits:
            return evaluator
        if group not in self._unhurried:
            self._unhurried[group] = evaluator.with_normal_limits()
        return self._unhurried[group]

    def _objection(
        self, place: PlannedPlace, nodes: tuple[int, ...], found: Rejection
    ) -> str | None:
        """Return the words for a rejection; None if the instance stays, and may."""
        stays = nodes == place.before[: len(nodes)] and found.reason in REASONS
        if stays and all(self._nobody_new(index) for index in nodes):
            return None
        return _wording(found)

    def _really_full(self, place: PlannedPlace, node: int) -> str | None:
        """Return why an instance may not come to a node that advertises too much memory."""
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
        """Return whether all instances of the node were there initially, in the same role."""
        state = self.context.state
        return all(i.nodes[:1] == (index,) for i in state.primaries[index].values()) and all(
            i.nodes[1:] == (index,) for i in state.secondaries[index].values()
        )

    def mirrors(
        self, place: PlannedPlace, primary: int, with_normal_limits: bool = False
    ) -> list[int]:
        """Return the nodes that may be the secondary of an instance on `primary`.

        If there are none, an instance that has its disks on `primary` leaves its other node even if
        no node accepts a secondary: that is no reason to stop it, or not to fail over.
        """
        nodes = self.context.cluster.nodes
        group = nodes[primary].group
        usable = [
            index
            for index in _of([group], self._restricted(place.instance), nodes)
            if index != primary and self.facts.usable[index]
        ]
        evaluator = self._evaluator(group, with_normal_limits)
        rejected = evaluator.rejections(place.instance, place.before, usable, primary)
        found = [
            index
            for index in usable
            if index not in rejected
            or self._objection(place, (primary, index), rejected[index]) is None
        ]
        return found or self._dead_mirror(place, primary)

    def _dead_mirror(self, place: PlannedPlace, primary: int) -> list[int]:
        """Return the other node of the instance, if nothing may come to it."""
        others = [index for index in place.before if index != primary]
        return [i for i in others if len(others) == 1 and not self.facts.usable[i]]


def _wording(found: Rejection) -> str:
    """Return the words for a rejection: the reason of a limit of a node, else the rule."""
    return found.reason if found.reason in REASONS else found.text


def _of(groups: Sequence[Group], allowed: Sequence[str] | None, nodes: Sequence[Node]) -> list[int]:
    return [
        index
        for group in groups
        for index in group.nodes
        if allowed is None or nodes[index].name in allowed
    ]


class RequiredFailures:
    """The failures that a full re-placement must tolerate, by the N+1 mode of each group.

    ``no-new``: those that were tolerated initially. ``no-worse``: no failure may lose more than
    initially. ``strict``: all, except those that are not tolerated because of instances that stay
    where they are. In a group with fewer than two online nodes no failure can be tolerated, so
    instances of that group are not checked there.

    Attributes
    ----------
    hopeless:
        With ``strict``, the nodes whose failure instances that stay make intolerable.
    """

    def __init__(self, context: Context) -> None:
        self._state = context.state
        self.hopeless: frozenset[int] = frozenset()
        self._hopeless: frozenset[Failure] = frozenset()
        self._failures: dict[Group, FailureTolerance] = {}
        self._strict: list[FailureTolerance] = []
        relations = context.bonds.relations
        units = None if relations is None else relations.units()
        for group in context.cluster.groups:
            mode = context.settings_of(group).n1
            if mode != "off":
                # `tolerance` names the failures that ``strict`` requires
                compared = "no-new" if mode == "strict" else mode
                rules = Rules(compared, units, context.effort, plan=True)
                failures = FailureTolerance(
                    context.state, rules, context.all_nodes(), context.kernels, group
                )
                failures.measure(now=mode != "strict")
                self._failures[group] = failures
                if mode == "strict":
                    self._strict.append(failures)

    def find_hopeless(self) -> None:
        """Look for hopeless nodes, when only the instances that stay are on the state."""
        hopeless: set[Failure] = set()
        for failures in self._strict:
            failing = failures.failing()
            tolerated = failures.tolerated(failing) if failures.initial.several else ()
            hopeless.update(set(failing).difference(tolerated))
        self._hopeless = frozenset(hopeless)
        self.hopeless = frozenset(node for failure in hopeless for node in failure)

    def tolerance(self, node: int, instance: Instance, before: Nodes) -> FailureTolerance | None:
        """Return what checks `instance` on `node`; None: nothing is required.

        `before`: its nodes now; () for a new instance.

        A new instance cannot come to a group with a failure that is not tolerated, as in an
        allocation.
        """
        state, new = self._state, not before
        failures = self._failures.get(state.cluster.nodes[node].group)
        if failures is None or not (failures.initial.several or new):
            return None
        if failures.rules.exact:
            back = failures.initial.offline_instances.back(state, instance)
            failures.require({}, failures.initial.allowed_losses(back))
            return failures
        failing = failures.failing()
        if failures in self._strict:
            required = set(failing) if new else set(failing).difference(self._hopeless)
        else:
            required = set(failures.required(CAME))
        failures.require({one: one in required for one in failing})
        return failures


class SchedulingPass:
    """One pass over all instances, on the state of a context, which is in a trial.

    The instances are removed from the state, and are in their new places on it afterwards.

    Parameters
    ----------
    instances, wanted:
        The instances of the cluster, which choose in this order, and the new ones, which follow.
    kept:
        Name -> why an instance stays where it is.
    stopped:
        Name -> why an instance is left out, or "" if it may find a place.  Until it does, its disks
        are counted where they are.
    tell:
        Called with how many of how many colocation sets have chosen.

    Cost: every limit of every node of its group for each instance; for instances on two
    nodes that again for each primary that is tried.

    Attributes
    ----------
    places:
        Name -> the place of an instance now and afterwards.
    units:
        The instances that choose together, in the order in which they choose.
    homes:
        Name -> the node where an instance runs.
    facts, weigher, usage:
        What Pacemaker's tags say, the scores by them, and what every node has left.
    n1:
        The failures that must be tolerated.
    openings:
        The nodes that may be chosen.
    """

    def __init__(
        self,
        context: Context,
        strategy: str,
        instances: Sequence[Instance],
        wanted: Sequence[Allocate],
        kept: Mapping[str, str] = MappingProxyType({}),
        stopped: Mapping[str, str] | None = None,
        tell: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        cluster, state = context.cluster, context.state
        self.context = context
        self._kept = kept
        self._tell = tell
        self._stopped = stopped or {}
        self._left_disks: set[str] = set()
        self._dropped: set[str] = set()
        self.kind = kind_of(strategy)
        self._wanted = {one.instance.name: one for one in wanted}
        self.facts = facts_of(context)
        self.weigher = node_scores_of(context)
        self.n1 = RequiredFailures(context)
        self.relations = context.bonds.relations
        self._demands = context.bonds.demands()
        self.places = {
            i.name: PlannedPlace(i, state.where[i.name], runs(state, i)) for i in instances
        }
        self.places |= {one.instance.name: PlannedPlace(one.instance, (), False) for one in wanted}
        self.homes = {name: place.before[0] for name, place in self.places.items() if place.runs}
        self.openings = Openings(context, self.facts, self.places, self.homes, self._wanted)
        for instance in self.take_off():
            if self.stuck(instance):  # it does not run, and keeps no instance away
                self.leave_disks(self.places[instance.name])
        self.n1.find_hopeless()
        with state.trial():
            for instance in instances:
                if instance.name in state.where:
                    state.remove(instance, state.where[instance.name])
            self.usage = CapacityUsage(self.facts, state, range(len(cluster.nodes)))
        for name in kept:
            if self.places[name].holds:
                self.count(self.places[name].instance, self.places[name].before)
        for name in self._stopped:
            self.leave_disks(self.places[name])
        everybody = [*instances, *(one.instance for one in wanted)]
        units = units_of(
            self.facts, self.weigher, everybody, self.homes, lambda i: bool(self.stuck(i))
        )
        self.units = in_turn(self.kind, cluster, self.facts, self.weigher, self.usage, units)

    def run(self) -> None:
        """Let every colocation set choose."""
        for done, unit in enumerate(self.units):
            check()
            self._tell(done, len(self.units))
            for position in range(len(unit.members)):
                self._member(unit, position)

    def take(self, found: Mapping[str, Nodes], why: str, why_not: str) -> None:
        """Give every instance the place that was `found` for all together."""
        for place in self.in_order:
            name, stuck = place.instance.name, self.stuck(place.instance)
            if stuck:
                self._stay(place, stuck)
                continue
            if name in found:
                self.put(place, found[name])
            else:
                self.leave_disks(place)
            place.why = why if name in found else why_not

    @property
    def in_order(self) -> list[PlannedPlace]:
        """All places, in the order in which the instances choose."""
        return [self.places[member.name] for unit in self.units for member in unit.members]

    def take_off(self) -> list[Instance]:
        """Remove from the state the instances that may move, or that stay without using nodes."""
        found = [
            place.instance
            for place in self.places.values()
            if place.before and not (self.stuck(place.instance) and place.holds)
        ]
        for instance in found:
            self.context.state.remove(instance, self.places[instance.name].before)
        return found

    def stuck(self, instance: Instance) -> str:
        """Return why an instance stays as it is, or ""."""
        if instance.name in self._kept:
            return self._kept[instance.name]
        if not instance.auto_balance:
            return "it is not managed (auto_balance is false)"
        if instance.forthcoming:
            return "it does not exist yet"
        home = self.homes.get(instance.name)
        if home is not None and self.facts.kept[home]:
            return "its node is in maintenance"
        before = self.places[instance.name].before
        if home is not None and stays_for_good(self._demands, instance.name):
            return "it cannot be stopped, and must not be by force"
        if before and not instance.kind.planners_move:
            return f"disks of type {instance.template} are on its node only"
        if len(before) == 1 and instance.required_nodes == 2:
            return "it has no mirror to move to"
        return self._cut_off(instance, before)

    def _cut_off(self, instance: Instance, before: tuple[int, ...]) -> str:
        """Return why an instance of an offline node cannot start on its secondary, or ""."""
        nodes, pools = self.context.cluster.nodes, self.context.state.pools
        if len(before) < 2 or pools is None or not nodes[before[0]].offline:
            return ""
        closed = pools.obstacle(before[1], instance, here=True)
        if not closed:
            return ""
        return f"its secondary {nodes[before[1]].name} {closed}"

    def _member(self, unit: ColocationSet, position: int) -> None:
        """Give the instance at `position` of `unit` its place, if there is one."""
        instance, nodes = unit.members[position], self.context.cluster.nodes
        place = self.places[instance.name]
        stuck = self.stuck(instance)
        if stuck:
            self._stay(place, stuck)
            return
        place.why = self._stopped.get(instance.name, "")
        if place.why:
            return
        expected = self._lift_disks(place)
        for field in filter(None, self.openings.fields(place)):
            allowed = field
            if position:
                before = self.places[unit.members[position - 1].name]
                allowed = [index for index in field if index == before.node]
                if not allowed:
                    where = "nowhere" if before.node is None else f"to {nodes[before.node].name}"
                    place.why = f"rule 8: {before.instance.name} goes {where}, and it follows"
                    continue
            found = self._choose(unit, position, place, allowed)
            if found is not None:
                self.put(place, found)
                return
        place.why = place.why or "no node may be used"
        if expected:
            self.leave_disks(place)

    def _choose(
        self, unit: ColocationSet, position: int, place: PlannedPlace, nodes: Sequence[int]
    ) -> Nodes | None:
        """Return the nodes of the instance, with a primary among `nodes`.

        Returns None if there are none, and `place.why` says why.  An instance whose primary is not
        online first tries with the soft limits, then without them.
        """
        instance, facts = place.instance, self.facts
        usable = [index for index in nodes if facts.usable[index]]
        online = all(self.context.cluster.nodes[index].online for index in place.before[:1])
        for with_normal_limits in (False,) if online else (True, False):
            rejected = self.openings.rejections(place, usable, with_normal_limits)
            possible = [index for index in usable if index not in rejected]
            costs: dict[int, float] = {}  # node -> the penalty of its soft constraints
            for member in unit.members[position:]:
                for index, cost in self.context.bonds.costs(member, possible).items():
                    costs[index] = costs.get(index, 0) + cost
            choice = choose_for(
                self.kind, self.context.cluster, facts, self.weigher, self.usage,
                unit, position, possible, self.homes.get(instance.name), costs,
            )  # fmt: skip
            for index in choice.ranked:
                tolerance = self.n1.tolerance(index, instance, place.before)
                for pair in self._pairs(place, index, with_normal_limits):
                    if tolerance is None or tolerance.allows(Move(instance, (), pair)):
                        place.why = _reason(choice, index)
                        return pair
                    rejected[index] = "FailN1"
            place.why = _rejection(choice, rejected)
        return None

    def _pairs(self, place: PlannedPlace, primary: int, with_normal_limits: bool) -> list[Nodes]:
        """Return the placements with this primary, best first."""
        instance = place.instance
        if instance.required_nodes == 1:
            return [(primary,)]
        possible = self.openings.mirrors(place, primary, with_normal_limits)
        if possible and not self.facts.usable[possible[0]]:
            return [(primary, possible[0])]
        present = None  # the node that holds the other copy once `primary` is the primary
        if len(place.before) > 1:
            present = place.before[1] if primary == place.before[0] else place.before[0]
        unit = ColocationSet([instance], [self.weigher.of(instance, present)], present)
        choice = choose_for(
            self.kind, self.context.cluster, self.facts, self.weigher, self.usage,
            unit, 0, possible, present,
        )  # fmt: skip
        return [(primary, index) for index in choice.ranked]

    @property
    def lenient(self) -> set[int]:
        """The nodes of groups where soft limits are ignored."""
        context = self.context
        groups = context.cluster.groups
        return {
            index
            for group in groups
            if context.settings_of(group).ignore_soft_errors
            for index in group.nodes
        }

    @property
    def left_out(self) -> list[PlannedPlace]:
        """The instances that found no place, though they may move."""
        return [
            place
            for place in self.places.values()
            if place.nodes is None and not self.stuck(place.instance)
        ]

    @property
    def uncounted(self) -> dict[str, str]:
        """The instances left out whose disks were not counted while others chose.

        Each has the reason if its place was taken from it, else "".
        """
        return {
            place.instance.name: place.why if place.instance.name in self._dropped else ""
            for place in self.left_out
            if stopped_disks(place.instance, place.before)
            and place.instance.name not in self._left_disks
        }

    def drop(self, place: PlannedPlace, why: str) -> None:
        """Take an instance's place from it."""
        name = place.instance.name
        self.context.state.remove(place.instance, self.context.state.where[name])
        place.nodes = None
        place.why = why
        self._dropped.add(name)

    def leave_disks(self, place: PlannedPlace) -> None:
        """Count the disks of an instance that is off the state where they are."""
        nodes = stopped_disks(place.instance, place.before)
        if nodes:
            self.context.state.keep_disks(place.instance, nodes)
            self._left_disks.add(place.instance.name)

    def _lift_disks(self, place: PlannedPlace) -> bool:
        """Undo `leave_disks`; return whether there was anything to undo."""
        if place.instance.name not in self._left_disks:
            return False
        self._left_disks.remove(place.instance.name)
        self.context.state.keep_disks(place.instance, place.before, -1)
        return True

    def _stay(self, place: PlannedPlace, why: str) -> None:
        """Count an instance that stays where it is; one that does not run uses nothing."""
        if not place.holds:
            place.why = f"rule 7: it does not run, and stays so: {why}"
            return
        place.nodes = place.before
        place.why = f"rule 7: it stays: {why}"
        if place.instance.name not in self._kept:
            self.count(place.instance, place.before)

    def count_the_stuck(self) -> None:
        """Count the instances that stay, unless they are counted from the beginning."""
        for place in self.places.values():
            if place.instance.name not in self._kept and place.holds and self.stuck(place.instance):
                self.count(place.instance, place.before)

    def put(self, place: PlannedPlace, nodes: Nodes) -> None:
        """Give an instance that is off the state its place."""
        place.nodes = nodes
        self.context.state.place(place.instance, nodes)
        self.count(place.instance, nodes)

    def count(self, instance: Instance, nodes: Sequence[int]) -> None:
        """Subtract what `instance` needs from what `nodes` have left."""
        for index in nodes:
            self.usage.take(index, self.facts.of(instance).needs)
