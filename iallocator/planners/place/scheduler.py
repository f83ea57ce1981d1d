"""Full re-placement by Pacemaker's rules: greedy list scheduling; no choice is revised.

The instances form a list (rule 2): by priority, then by score. Each takes the best node that is
open to it (rules 3 to 7), and never leaves it again. Instances that must be on one node are placed
one after the other; the scores of all of them choose the node of the first (rule 8). Running
instances are placed anew as well. A node is open if the limits, the migration tags, the networks
and the storage allow it, and if the choice keeps global N+1.

Cost for *m* instances and *n* nodes of a group: O(m n) checks of limits. An instance on two nodes
needs O(n) more for each primary that is tried. N+1 is checked only for the nodes that are tried.

Source: the rules of Pacemaker, see `iallocator.ranking.pacemaker`.
"""

from __future__ import annotations

from types import MappingProxyType

from iallocator.constraints.table import REASONS as LIMITS
from iallocator.constraints.table import group_obstacle
from iallocator.deadline import check
from iallocator.model.moves import Move
from iallocator.n1 import CAME, MOVED, Rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.ranking.advertised import memory_lack
from iallocator.ranking.pacemaker import facts_of, kind_of, node_scores_of
from iallocator.ranking.pacemaker.capacity_usage import CapacityUsage
from iallocator.ranking.pacemaker.colocation_sets import ColocationSet, SetRanking, units_of
from iallocator.transition.planner import stays_for_good
from iallocator.transition.requirements import demands_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.limits.rejection import Rejection
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.placement.context import Context
    from iallocator.placement.evaluator import Evaluator
    from iallocator.requests import Allocate
    from iallocator.tags.pacemaker import PacemakerTags

__all__ = ["Openings", "PlannedPlace", "SchedulingPass", "runs", "stopped_disks"]

REASONS = frozenset(reason for reason in LIMITS if reason not in ("FailTags", "FailMig"))
"""The reasons for rejecting nodes that have too little, or would exceed their policy."""

POLICIES = ("preferred", "last_resort")
"""Allocation policies of groups that accept new instances, in order of preference."""


class PlannedPlace:
    """The present and the planned nodes of one instance, with the reason.

    Attributes
    ----------
    before:
        Its nodes now, primary first; () for a new instance.
    nodes:
        Its nodes afterwards; None if it is left out.
    why:
        The deciding reason, in words.
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
        """Return whether it uses its nodes now: it runs, or it will be created there."""
        return self.runs or self.instance.forthcoming

    @property
    def node(self) -> int | None:
        """Return the primary node after the placement, or None."""
        return self.nodes[0] if self.nodes else None


def stopped_disks(instance: Instance, nodes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the nodes among `nodes` on which an instance keeps disks when it is stopped."""
    return nodes if instance.local and not instance.forthcoming else ()


def runs(state: State, instance: Instance) -> bool:
    """Return whether an instance of the cluster runs where it is."""
    home = state.cluster.nodes[state.where[instance.name][0]]
    return instance.running and not home.offline


class Openings:
    """The nodes that are open to an instance, in the present state of `context`.

    Scores, capacities and N+1 are not checked.

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
        self._with_normal_limits: dict[Group, Evaluator] = {}
        self._group = [node.group for node in context.cluster.nodes]
        self._advertising = {n.index for n in context.cluster.nodes if n.memory_ratio > 1}

    def fields(self, place: PlannedPlace) -> list[list[int]]:
        """Return lists of nodes to choose from. The next list is used only if no node of one fits.

        An instance that exists stays in its group. A new one prefers groups by their policy.
        """
        cluster, instance = self.context.cluster, place.instance
        if place.before:
            return [list(cluster.nodes[place.before[0]].group.nodes)]
        name = self._wanted[instance.name].group_name
        groups = [
            group
            for group in cluster.groups
            if name in (None, group.name) and not group_obstacle(cluster, group, instance)
        ]
        if name is not None:
            return [self._allowed(instance, groups)]
        return [
            self._allowed(instance, (g for g in groups if g.alloc_policy == policy))
            for policy in POLICIES
        ]

    def _allowed(self, instance: Instance, groups: Iterable[Group]) -> list[int]:
        """Return the nodes of `groups` to which the request restricts a new instance, or all."""
        allowed: Sequence[str] | None = None
        wanted, nodes = self._wanted.get(instance.name), self.context.cluster.nodes
        if wanted is not None:
            option = self.context.settings.restrict_allocation_to
            allowed = wanted.restrict_to if option is None else option
        return [
            index
            for group in groups
            for index in group.nodes
            if allowed is None or nodes[index].name in allowed
        ]

    def rejection(
        self, place: PlannedPlace, nodes: tuple[int, ...], with_normal_limits: bool = False
    ) -> str | None:
        """Return why an instance that is not placed may not come to `nodes`, or None.

        `nodes` of an instance that requires two may be the primary alone. An instance may stay
        where it was, beside instances that were there too, even if the node has too little for all
        of them. `with_normal_limits`: soft limits are checked even if it leaves a node that is not
        online.
        """
        if len(nodes) > 1 and self.unusable_secondary(place, nodes[0]) == [nodes[1]]:
            nodes = nodes[:1]
        evaluator = self._evaluator(self._group[nodes[0]], with_normal_limits)
        rejection = evaluator.check(Move(place.instance, place.before, nodes))
        if rejection is None:
            return self._lack_of_memory(place, nodes[0])
        return self._objection(place, nodes, rejection)

    def rejections(
        self, place: PlannedPlace, nodes: Sequence[int], with_normal_limits: bool = False
    ) -> dict[int, str]:
        """Return why each of `nodes` rejects the instance as its primary; see `rejection`."""
        by_group: dict[Group, list[int]] = {}
        for index in nodes:
            by_group.setdefault(self._group[index], []).append(index)
        reasons: dict[int, str | None] = {}
        for group, members in by_group.items():
            evaluator = self._evaluator(group, with_normal_limits)
            rejected = evaluator.rejections(place.instance, place.before, members)
            reasons |= {i: _wording(rejection) for i, rejection in rejected.items()}
            for i in place.before[:1]:
                if i in rejected:
                    reasons[i] = self._objection(place, (i,), rejected[i])
            advertising = self._advertising and self._advertising.intersection(members)
            reasons |= {i: self._lack_of_memory(place, i) for i in advertising if i not in rejected}
        return {i: why for i in nodes if (why := reasons.get(i)) is not None}

    def _evaluator(self, group: Group, with_normal_limits: bool) -> Evaluator:
        evaluator = self.context.evaluator(group)
        if not with_normal_limits:
            return evaluator
        if group not in self._with_normal_limits:
            self._with_normal_limits[group] = evaluator.with_normal_limits()
        return self._with_normal_limits[group]

    def _objection(
        self, place: PlannedPlace, nodes: tuple[int, ...], rejection: Rejection
    ) -> str | None:
        """Return the text of a rejection; None if the instance stays and is allowed to.

        It is allowed to if all instances of `nodes` were there initially, in the same role.
        """
        if nodes == place.before[: len(nodes)] and rejection.reason in REASONS:
            state = self.context.state
            if all(
                all(i.nodes[:1] == (index,) for i in state.primaries[index].values())
                and all(i.nodes[1:] == (index,) for i in state.secondaries[index].values())
                for index in nodes
            ):
                return None
        return _wording(rejection)

    def _lack_of_memory(self, place: PlannedPlace, node: int) -> str | None:
        """Return why an instance may not come to a node that advertises too much memory.

        The instances that run on the node and are not placed yet still use its memory.
        """
        state = self.context.state
        if node in place.before[:1] or node not in self._advertising:
            return None
        waiting = sum(
            self.places[name].instance.memory
            for name, home in self.homes.items()
            if home == node and name not in state.where
        )
        return memory_lack(state, node, place.instance, waiting=waiting) or None

    def forced(self, place: PlannedPlace) -> bool:
        """Return whether soft limits do not keep an instance off nodes, because it must leave.

        They do where the settings enforce them for all moves.
        """
        if not place.before:
            return False
        home = self.context.cluster.nodes[place.before[0]]
        evaluator = self.context.evaluator(home.group)
        return not home.online and evaluator.limit_policies.off(home).primary.spares

    def may_only_stay(self, place: PlannedPlace) -> bool:
        """Return whether an instance that is not placed may stay, though nodes lack something.

        All other instances must be where they are initially.
        """
        evaluator = self._evaluator(self._group[place.before[0]], False)
        if not self.facts.usable[place.before[0]]:
            return False
        ends = [place.before] if all(self.facts.usable[k] for k in place.before) else []
        return any(
            rejection is not None and rejection.reason in REASONS
            for nodes in [place.before[:1], *ends]
            for rejection in [evaluator.check(Move(place.instance, place.before, nodes))]
        )

    def secondaries_for(
        self, place: PlannedPlace, primary: int, with_normal_limits: bool = False
    ) -> list[int]:
        """Return the nodes that may be the secondary of an instance on `primary`.

        If no node accepts the secondary, the result is the other node of the instance, provided
        that this node is unusable: its disks may stay there. The instance must not be stopped, or
        miss a failover, for lack of a secondary.
        """
        group = self._group[primary]
        usable = [
            index
            for index in self._allowed(place.instance, [group])
            if index != primary and self.facts.usable[index]
        ]
        evaluator = self._evaluator(group, with_normal_limits)
        rejected = evaluator.rejections(place.instance, place.before, usable, primary)
        ordered = [
            index
            for index in usable
            if index not in rejected
            or self._objection(place, (primary, index), rejected[index]) is None
        ]
        return ordered or self.unusable_secondary(place, primary)

    def unusable_secondary(self, place: PlannedPlace, primary: int) -> list[int]:
        """Return the other node of the instance, if it may not be used."""
        others = [index for index in place.before if index != primary]
        return [i for i in others if len(others) == 1 and not self.facts.usable[i]]


def _wording(rejection: Rejection) -> str:
    """Return the words for a rejection: the reason of a limit of a node, else the rule."""
    return rejection.reason if rejection.reason in REASONS else rejection.text


class SchedulingPass:
    """One pass over all instances, on the state of a context, which is in a trial.

    The instances are removed from the state, and are in their new places on it afterwards.

    Parameters
    ----------
    instances, wanted:
        The instances of the cluster in the order in which they are placed, and the new ones, which
        follow.
    kept:
        Name -> why an instance stays where it is.
    stopped:
        Name -> why an instance is left out, or "" if it may find a place.  Until it does, its disks
        are counted where they are.
    report:
        Called with the number of placed colocation sets, and the number of all.

    Attributes
    ----------
    places:
        Name -> the place of an instance now and afterwards.
    units:
        The instances that are placed together, in the order of placing.
    homes:
        Name -> the node where an instance runs.
    facts, weigher, usage:
        The facts of Pacemaker's tags, the scores by these, and the free capacity of every node.
    fewest_out:
        A lower bound of the number of instances that any placement leaves out.
    hopeless:
        With ``strict``, the nodes with an intolerable failure because of instances that stay.
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
        report: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        cluster, state = context.cluster, context.state
        self.context = context
        self.fewest_out = 0
        self._kept = kept
        self._report = report
        self._stopped = stopped or {}
        self._left_disks: set[str] = set()
        self._dropped: set[str] = set()
        self.kind = kind_of(strategy)
        self.facts = facts_of(context)
        self.weigher = node_scores_of(context)
        self.relations = context.affinity.relations
        self._demands = demands_of(context.affinity.relations)
        requests = {one.instance.name: one for one in wanted}
        self.places = {
            i.name: PlannedPlace(i, state.where[i.name], runs(state, i)) for i in instances
        }
        self.places |= {one.instance.name: PlannedPlace(one.instance, (), False) for one in wanted}
        self.homes = {name: place.before[0] for name, place in self.places.items() if place.runs}
        self.openings = Openings(context, self.facts, self.places, self.homes, requests)

        # N+1 of each group: measured in the initial state, then with the staying instances alone
        self._failures: dict[Group, FailureTolerance] = {}
        units = None if self.relations is None else self.relations.units()
        for group in cluster.groups:
            mode = context.settings_of(group).n1
            if mode != "off":
                rules = Rules(mode, units, context.effort, plan=True)
                failures = FailureTolerance(
                    state, rules, context.all_nodes(), context.kernels, group
                )
                failures.measure(now=mode != "strict")
                self._failures[group] = failures
        for instance in self.take_off():
            if self.stuck(instance):  # it does not run, and keeps no instance away
                self.leave_disks(self.places[instance.name])
        exempt = [
            one for failures in self._failures.values() for one in failures.comparison.exempt()
        ]
        self.hopeless = frozenset(node for failure in exempt for node in failure)

        # What empty nodes have left, and what staying instances use of it
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

        sets = units_of(
            self.facts,
            self.weigher,
            [*instances, *(one.instance for one in wanted)],
            self.homes,
            lambda i: bool(self.stuck(i)),
        )
        self._ranking = SetRanking(self.kind, cluster, self.facts, self.weigher, self.usage)
        self.units = self._ranking.in_turn(sets)

    def run(self) -> None:
        """Place the instances of every colocation set in turn."""
        for done, unit in enumerate(self.units):
            check()
            self._report(done, len(self.units))
            for position, instance in enumerate(unit.members):
                place, stuck = self.places[instance.name], self.stuck(instance)
                if stuck:
                    self._stay(place, stuck)
                    continue
                place.why = self._stopped.get(instance.name, "")
                if place.why:
                    continue
                has_disks = instance.name in self._left_disks
                if has_disks:  # they need not be there any more
                    self._left_disks.remove(instance.name)
                    self.context.state.keep_disks(instance, place.before, -1)
                choice = self._choose(unit, position, place)
                if choice is not None:
                    self.put(place, choice)
                elif has_disks:
                    self.leave_disks(place)

    def _choose(self, unit: ColocationSet, position: int, place: PlannedPlace) -> Nodes | None:
        """Return the best nodes for the instance at `position` of `unit`, or None.

        Sets `place.why`. If the primary of the instance is not online, soft limits are enforced at
        first, and then ignored.
        """
        instance, facts, nodes = place.instance, self.facts, self.context.cluster.nodes
        online = all(nodes[index].online for index in place.before[:1])
        for field in filter(None, self.openings.fields(place)):
            allowed = field
            if position:
                first = self.places[unit.members[position - 1].name]
                allowed = [index for index in field if index == first.node]
                if not allowed:
                    where = "nowhere" if first.node is None else f"to {nodes[first.node].name}"
                    place.why = f"rule 8: {first.instance.name} goes {where}, and it follows"
                    continue
            usable = [index for index in allowed if facts.usable[index]]
            for with_normal_limits in (False,) if online else (True, False):
                rejected = self.openings.rejections(place, usable, with_normal_limits)
                possible = [index for index in usable if index not in rejected]
                costs: dict[int, float] = {}  # node -> the penalty of its soft constraints
                for member in unit.members[position:]:
                    for index, cost in self.context.affinity.costs(member, possible).items():
                        costs[index] = costs.get(index, 0) + cost
                home = self.homes.get(instance.name)
                choice = self._ranking.choose(unit, position, possible, home, costs)
                for index in choice.ranked:
                    tolerance = self.tolerance(index, place)
                    for pair in self._pairs(place, index, with_normal_limits):
                        if tolerance is not None and not tolerance.allows(Move(instance, (), pair)):
                            rejected[index] = "FailN1"
                            continue
                        others = [other for other in choice.ranked if other != index]
                        if not others:
                            place.why = "the only node that can take it"
                        elif choice.ranked[0] != index:
                            following = choice.node_name(others[0])
                            place.why = f"N+1 rejects the nodes before it; next is {following}"
                        else:
                            following = choice.node_name(others[0])
                            place.why = f"{choice.decided(index, others[0])}, next is {following}"
                        return pair
                by_reason: dict[str, list[str]] = {}
                for index, reason in [*choice.rejected.items(), *rejected.items()]:
                    by_reason.setdefault(reason, []).append(choice.node_name(index))
                reasons = (f"{', '.join(names)}: {why}" for why, names in by_reason.items())
                place.why = "; ".join(reasons)
        place.why = place.why or "no node may be used"
        return None

    def _pairs(self, place: PlannedPlace, primary: int, with_normal_limits: bool) -> list[Nodes]:
        """Return the placements with this primary, best first."""
        instance = place.instance
        if instance.required_nodes == 1:
            return [(primary,)]
        possible = self.openings.secondaries_for(place, primary, with_normal_limits)
        if possible and not self.facts.usable[possible[0]]:
            return [(primary, possible[0])]
        present = None  # the node that holds the other copy once `primary` is the primary
        if len(place.before) > 1:
            present = place.before[1] if primary == place.before[0] else place.before[0]
        unit = ColocationSet([instance], [self.weigher.of(instance, present)], present)
        choice = self._ranking.choose(unit, 0, possible, present)
        return [(primary, index) for index in choice.ranked]

    def tolerance(self, node: int, place: PlannedPlace) -> FailureTolerance | None:
        """Return the N+1 check for an instance on `node`; None if no failure must be tolerated.

        ``no-new`` requires the failures that were tolerated initially. With ``no-worse``, no
        failure may lose more than initially. ``strict`` requires all failures that are not
        `hopeless`; a new instance needs those as well, as in an allocation. In a group with fewer
        than two online nodes no failure is tolerated, so only new instances are checked there.
        """
        state = self.context.state
        failures = self._failures.get(state.cluster.nodes[node].group)
        if failures is None or (place.before and not failures.comparison.initial.several):
            return None
        if failures.rules.exact:
            back = failures.comparison.initial.offline_instances.back(state, place.instance)
            failures.require(losses=failures.comparison.initial.allowed_losses(back))
        else:
            failures.require(failures.comparison.required(MOVED if place.before else CAME))
        return failures

    def take(self, placed: Mapping[str, Nodes], why: str, why_not: str) -> None:
        """Place every instance that the joint search has `placed`, on these nodes."""
        for place in self.in_order:
            name, stuck = place.instance.name, self.stuck(place.instance)
            if stuck:
                self._stay(place, stuck)
                continue
            if name in placed:
                self.put(place, placed[name])
            else:
                self.leave_disks(place)
            place.why = why if name in placed else why_not

    @property
    def in_order(self) -> list[PlannedPlace]:
        """Return all places, in the order in which the instances are placed."""
        return [self.places[member.name] for unit in self.units for member in unit.members]

    def take_off(self) -> list[Instance]:
        """Remove from the state the instances that may move, or that stay without using nodes."""
        removed = [
            place.instance
            for place in self.places.values()
            if place.before and not (self.stuck(place.instance) and place.holds)
        ]
        for instance in removed:
            self.context.state.remove(instance, self.places[instance.name].before)
        return removed

    def stuck(self, instance: Instance) -> str:
        """Return why an instance stays as it is, or ""."""
        nodes, access = self.context.cluster.nodes, self.context.state.access
        home, before = self.homes.get(instance.name), self.places[instance.name].before
        if instance.name in self._kept:
            return self._kept[instance.name]
        if not instance.auto_balance:
            return "it is not managed (auto_balance is false)"
        if instance.forthcoming:
            return "it does not exist yet"
        if home is not None and self.facts.kept[home]:
            return "its node is in maintenance"
        if home is not None and stays_for_good(self._demands, instance.name):
            return "it cannot be stopped, and must not be by force"
        if before and not instance.kind.planners_move:
            return f"disks of type {instance.template} are on its node only"
        if len(before) == 1 and instance.required_nodes == 2:
            return "it has no secondary to move to"
        if len(before) > 1 and access is not None and nodes[before[0]].offline:
            obstacle = access.obstacle(before[1], instance, here=True)
            if obstacle:  # it cannot start on its secondary
                return f"its secondary {nodes[before[1]].name} {obstacle}"
        return ""

    @property
    def left_out(self) -> list[PlannedPlace]:
        """The places of the instances that are left out, though they may move."""
        return [
            place
            for place in self.places.values()
            if place.nodes is None and not self.stuck(place.instance)
        ]

    @property
    def uncounted(self) -> dict[str, str]:
        """The left out instances with disks that were not counted while others were placed.

        Each has the reason if its place was taken from it, else "".
        """
        return {
            place.instance.name: place.why if place.instance.name in self._dropped else ""
            for place in self.left_out
            if stopped_disks(place.instance, place.before)
            and place.instance.name not in self._left_disks
        }

    def drop(self, place: PlannedPlace, why: str) -> None:
        """Withdraw the place of an instance."""
        name = place.instance.name
        self.context.state.remove(place.instance, self.context.state.where[name])
        place.nodes = None
        place.why = why
        self._dropped.add(name)

    def leave_disks(self, place: PlannedPlace) -> None:
        """Count the disks of an instance without a placement on the nodes that hold them."""
        nodes = stopped_disks(place.instance, place.before)
        if nodes:
            self.context.state.keep_disks(place.instance, nodes)
            self._left_disks.add(place.instance.name)

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
        """Place an instance that is not placed on its chosen nodes."""
        place.nodes = nodes
        self.context.state.place(place.instance, nodes)
        self.count(place.instance, nodes)

    def count(self, instance: Instance, nodes: Sequence[int]) -> None:
        """Subtract the amounts of `instance` from the free amounts of `nodes`."""
        for index in nodes:
            self.usage.take(index, self.facts.of(instance).needs)
