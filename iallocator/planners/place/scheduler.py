"""Place all instances of a cluster anew by Pacemaker's rules, which are greedy list scheduling.

The instances form a list (rule 2): by priority, then by score. Each instance takes the best node
that is open to it (rules 3 to 7). This choice is never revised. The instances of a colocation set
must be on one node, and are placed one after the other. The scores of the whole set decide the node
of its first instance (rule 8). Running instances are placed anew as well. A node is open to an
instance if limits, migration tags, networks and storage allow the instance there. An open node is
taken only if this keeps global N+1.

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
from iallocator.n1 import ENTERED, MOVED_WITHIN, Rules
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

RESOURCE_REASONS = frozenset(reason for reason in LIMITS if reason not in ("FailTags", "FailMig"))
"""The failure reasons of nodes that lack a resource, or that would exceed a limit of the policy."""

ACCEPTING_POLICIES = ("preferred", "last_resort")
"""Allocation policies of groups that accept new instances, in order of preference."""


class PlannedPlace:
    """The present and the planned nodes of one instance, with the reason for the planned nodes.

    Attributes
    ----------
    before:
        The present nodes of the instance, primary first; () for a new instance.
    nodes:
        The planned nodes, primary first; None if the instance is left out.
    why:
        The deciding reason for `nodes`, in words.
    runs:
        Whether the instance runs now.
    broken:
        The soft constraints that the instance violates on `nodes`, in words.
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
        """Return whether the instance uses its present nodes: it runs, or it is forthcoming."""
        return self.runs or self.instance.forthcoming

    @property
    def node(self) -> int | None:
        """Return the planned primary node; None if the instance is left out."""
        return self.nodes[0] if self.nodes else None


def stopped_disks(instance: Instance, nodes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the nodes of `nodes` that keep disks of `instance` when the instance is stopped.

    `nodes` are the nodes of the instance. The result is all of them for local disks, else ().
    """
    return nodes if instance.local and not instance.forthcoming else ()


def runs(state: State, instance: Instance) -> bool:
    """Return whether `instance` runs on its primary node in `state`: the node is not offline."""
    home = state.cluster.nodes[state.where[instance.name][0]]
    return instance.running and not home.offline


class Openings:
    """The nodes that are open to an instance, in the present state of `context`.

    Limits, affinity, migration tags, networks and storage are checked. Scores, capacities of
    Pacemaker's tags, and N+1 are not.

    Parameters
    ----------
    places:
        Name of an instance -> its present and planned nodes.
    homes:
        Name of a running instance -> the node on which it runs.
    wanted:
        Name of a new instance -> the request for it.
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
        """Return lists of nodes to choose from; a list is used if those before have no open node.

        An existing instance stays in its group. For a new instance, the lists are ordered by the
        allocation policy of the groups, unless its request names a group.
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
            for policy in ACCEPTING_POLICIES
        ]

    def _allowed(self, instance: Instance, groups: Iterable[Group]) -> list[int]:
        """Return the nodes of `groups` that may be used for `instance`.

        The request for a new instance can restrict the nodes. Otherwise all nodes are returned.
        """
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
        """Return why the instance of `place` may not be placed on `nodes`, or None.

        The instance must not be placed. If it requires two nodes, `nodes` may be the primary alone.
        An instance may stay on its nodes, beside instances that were also there initially, even if
        the nodes lack capacity for all of them. `with_normal_limits`: soft limits are checked even
        for an instance that leaves a node which is not online.
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
        """Return node -> why the node rejects the instance as its primary; other nodes are missing.

        The checks are those of `rejection`.
        """
        by_group: dict[Group, list[int]] = {}
        groups = self.context.cluster.groups
        if len(groups) == 1:
            by_group[groups[0]] = list(nodes)
        else:
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
        if not reasons:
            return {}
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
        """Return the text of `rejection`; None if the instance may stay on `nodes` all the same.

        The instance may stay if three conditions are met: `nodes` are its initial nodes, they lack
        a resource, and all instances on them were there initially, in the present role.
        """
        if nodes == place.before[: len(nodes)] and rejection.reason in RESOURCE_REASONS:
            state = self.context.state
            if all(
                all(i.nodes[:1] == (index,) for i in state.primaries[index].values())
                and all(i.nodes[1:] == (index,) for i in state.secondaries[index].values())
                for index in nodes
            ):
                return None
        return _wording(rejection)

    def _lack_of_memory(self, place: PlannedPlace, node: int) -> str | None:
        """Return why the real memory of `node` is too small for the instance, or None.

        Only nodes that advertise more memory than they have are checked. The instances that run on
        such a node and are not placed yet still use its memory.
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

    def exempt_roles(self, place: PlannedPlace) -> int:
        """Return for how many roles of an instance soft limits are ignored, because it must leave
        a node that is not online.

        2: on any new nodes, because its primary is not online. 1: on a new secondary, because only
        its secondary is not online. 0 if the settings enforce soft limits for all moves.
        """
        nodes = [self.context.cluster.nodes[index] for index in place.before]
        for roles, node in zip((2, 1), nodes):
            off = self.context.evaluator(node.group).limit_policies.off(node)
            if not node.online and off.secondary.spares:
                return roles
        return 0

    def may_only_stay(self, place: PlannedPlace) -> bool:
        """Return whether an instance may stay on its nodes only because it is there already.

        A new instance would be rejected there for lack of a resource. The instance must not be
        placed; all other instances must be on their initial nodes.
        """
        evaluator = self._evaluator(self._group[place.before[0]], False)
        if not self.facts.usable[place.before[0]]:
            return False
        ends = [place.before] if all(self.facts.usable[k] for k in place.before) else []
        return any(
            rejection is not None and rejection.reason in RESOURCE_REASONS
            for nodes in [place.before[:1], *ends]
            for rejection in [evaluator.check(Move(place.instance, place.before, nodes))]
        )

    def secondaries_for(
        self, place: PlannedPlace, primary: int, with_normal_limits: bool = False
    ) -> list[int]:
        """Return the nodes that may be the secondary of an instance with the primary `primary`.

        If no usable node accepts the secondary, the result is that of `unusable_secondary`: the
        disks may stay there. Otherwise the instance would be stopped, or could not fail over, only
        for lack of a secondary.
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
        """Return a list of the one other node of the instance if it is unusable; else []."""
        others = [index for index in place.before if index != primary]
        return [i for i in others if len(others) == 1 and not self.facts.usable[i]]


def _wording(rejection: Rejection) -> str:
    """Return the text for `rejection`: the failure reason if a limit of a node fails, else words.

    The words name the constraint, for example a migration tag.
    """
    return rejection.reason if rejection.reason in RESOURCE_REASONS else rejection.text


class SchedulingPass:
    """One pass that places all instances, on the state of `context`.

    The state must be in a trial. A new pass removes from it the instances that may move; `run`
    places them on their new nodes.

    Parameters
    ----------
    strategy:
        The name of the strategy, for example ``pacemaker-balanced``.
    instances, wanted:
        The instances of the cluster, and the requests for new instances, which follow. Their order
        decides between equal instances.
    kept:
        Name of an instance -> why it stays on its nodes.
    stopped:
        Name of an instance that a pass before left out -> why it is left out again, or "" if it may
        find a place now. Until then, its disks are counted on its nodes.
    report:
        Called with the number of colocation sets that are placed, and the number of all.

    Attributes
    ----------
    places:
        Name of an instance -> its present and planned nodes.
    units:
        The colocation sets, in the order of placing.
    homes:
        Name of a running instance -> the node on which it runs.
    kind:
        The kind of the strategy: ``default``, ``utilization``, ``balanced`` or ``minimal``.
    facts, weigher, usage:
        The contents of Pacemaker's tags, the scores that they give to nodes, and the free capacity
        of every node.
    fewest_out:
        A lower bound of the number of instances that any placement leaves out.
    intolerable_nodes:
        With ``strict``, the nodes with a failure that no placement makes tolerated, because of
        instances that stay.
    openings:
        The nodes that are open to each instance.
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

        # N+1 of each group is measured in the initial state, before `take_off`; failures are
        # exempt by the state after it, with the staying instances alone
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
            if self.stuck(instance):  # it does not run: it uses only space for its disks
                self.leave_disks(self.places[instance.name])
        exempt = [
            one for failures in self._failures.values() for one in failures.comparison.exempt()
        ]
        self.intolerable_nodes = frozenset(node for failure in exempt for node in failure)

        # The free capacity of empty nodes, less the amounts that staying instances use
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
        """Place the instances of every colocation set, one set after the other."""
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
                if has_disks:  # the disks may move with the instance
                    self._left_disks.remove(instance.name)
                    self.context.state.keep_disks(instance, place.before, -1)
                choice = self._choose(unit, position, place)
                if choice is not None:
                    self.put(place, choice)
                elif has_disks:
                    self.leave_disks(place)

    def _choose(self, unit: ColocationSet, position: int, place: PlannedPlace) -> Nodes | None:
        """Return the best nodes for the instance at `position` of `unit`; None if none is open.

        Set `place.why` to the reason. If the primary of the instance is not online, soft limits
        are enforced at first. If they leave no node, they are ignored.
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
                costs: dict[int, float] = {}  # node -> the penalty of constraints violated there
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
        """Return the possible nodes of the instance with the primary `primary`, best first."""
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

        With ``no-new``, the failures that were tolerated initially must be tolerated. With
        ``no-worse``, no failure may lose more than initially. With ``strict``, all failures must be
        tolerated; the failures of `intolerable_nodes` only for a new instance, as in an
        allocation. In a group with fewer than two online nodes, only new instances are checked,
        because no other node can take over.
        """
        state = self.context.state
        failures = self._failures.get(state.cluster.nodes[node].group)
        if failures is None or (place.before and not failures.comparison.initial.several):
            return None
        if failures.rules.exact:
            back = failures.comparison.initial.offline_instances.back(state, place.instance)
            failures.require(losses=failures.comparison.initial.allowed_losses(back))
        else:
            failures.require(
                failures.comparison.required(MOVED_WITHIN if place.before else ENTERED)
            )
        return failures

    def take(self, placed: Mapping[str, Nodes], why: str, why_not: str) -> None:
        """Place each instance on its nodes in `placed`, the answer of exact search.

        `why`: the reason to record for these places. `why_not`: the reason for left out instances.
        """
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
        """Return the places of all instances, in the order of placing."""
        return [self.places[member.name] for unit in self.units for member in unit.members]

    def take_off(self) -> list[Instance]:
        """Remove instances from the state, and return them.

        They are the instances that may move, and those that stay but do not use their nodes.
        """
        removed = [
            place.instance
            for place in self.places.values()
            if place.before and not (self.stuck(place.instance) and place.holds)
        ]
        for instance in removed:
            self.context.state.remove(instance, self.places[instance.name].before)
        return removed

    def stuck(self, instance: Instance) -> str:
        """Return why `instance` must stay on its nodes, or remain stopped; "" if it may move."""
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
        """Return the planned places of the instances that could move but are not placed."""
        return [
            place
            for place in self.places.values()
            if place.nodes is None and not self.stuck(place.instance)
        ]

    @property
    def uncounted(self) -> dict[str, str]:
        """Return name -> reason, for left out instances with disks not counted on their nodes.

        The reason is why the place of the instance was withdrawn; "" if it was not withdrawn.
        """
        return {
            place.instance.name: place.why if place.instance.name in self._dropped else ""
            for place in self.left_out
            if stopped_disks(place.instance, place.before)
            and place.instance.name not in self._left_disks
        }

    def drop(self, place: PlannedPlace, why: str) -> None:
        """Withdraw the place of an instance, and record the reason `why`."""
        name = place.instance.name
        self.context.state.remove(place.instance, self.context.state.where[name])
        place.nodes = None
        place.why = why
        self._dropped.add(name)

    def leave_disks(self, place: PlannedPlace) -> None:
        """Count the disks of an instance that is not placed on the nodes that hold the disks."""
        nodes = stopped_disks(place.instance, place.before)
        if nodes:
            self.context.state.keep_disks(place.instance, nodes)
            self._left_disks.add(place.instance.name)

    def _stay(self, place: PlannedPlace, why: str) -> None:
        """Record that an instance stays on its nodes for the reason `why`, and count its usage.

        An instance that does not run uses nothing.
        """
        if not place.holds:
            place.why = f"rule 7: it does not run, and stays so: {why}"
            return
        place.nodes = place.before
        place.why = f"rule 7: it stays: {why}"
        if place.instance.name not in self._kept:
            self.count(place.instance, place.before)

    def count_the_stuck(self) -> None:
        """Count the usage of the instances that stay; those of `kept` are counted already."""
        for place in self.places.values():
            if place.instance.name not in self._kept and place.holds and self.stuck(place.instance):
                self.count(place.instance, place.before)

    def put(self, place: PlannedPlace, nodes: Nodes) -> None:
        """Place an instance on `nodes`, and count its usage; it must not be placed yet."""
        place.nodes = nodes
        self.context.state.place(place.instance, nodes)
        self.count(place.instance, nodes)

    def count(self, instance: Instance, nodes: Sequence[int]) -> None:
        """Subtract the amounts that `instance` needs from the free amounts of each of `nodes`."""
        for index in nodes:
            self.usage.take(index, self.facts.of(instance).needs)
