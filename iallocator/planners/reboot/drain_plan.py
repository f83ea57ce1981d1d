"""Plan how to drain a set of nodes: the moves of their instances, and a check of their return.

The algorithm is greedy: instances leave their nodes one after the other, the largest first, to
their secondary or to the best node of their group. A plan is for a whole set of nodes. It satisfies
every limit, and the other nodes still tolerate the failures that were tolerated before. The return
of each instance is checked before any move. A node that would not accept one of its instances back
is not drained.

A bound by memory is checked first. Instances stay in their node group. Therefore the free memory of
the nodes of a set, plus the memory of the instances that leave these nodes, must not exceed the
free memory of the group. If one of the other nodes fails, its free memory is missing, too, and its
instances need memory.

If no greedy plan keeps N+1, or no node accepts an instance, a search tries other nodes for the
instances that moved earlier (`iallocator.planners.reboot.drain_search`).

In a cluster of more than `MANY_NODES` nodes, an instance without a secondary moves to the emptiest
node that accepts it. The computation of the scores of all nodes would take minutes.

Cost: up to four times the choice of a node for each leaving instance, and one check of N+1 for the
set. Small plans add one check of N+1 for each node that is tried, and up to `MOVES_TRIED` checks in
the search.
"""

from __future__ import annotations

from math import ceil

from iallocator.constraints.table import move_rejections
from iallocator.deadline import check
from iallocator.light import ValueObject
from iallocator.model.columns import MEMORY
from iallocator.model.instance import primary_vector
from iallocator.model.moves import DRBD_FAILOVER, FAILOVER_TO, REPLACE_SECONDARY, Move
from iallocator.model.tags import new_conflict
from iallocator.model.templates import PLAIN
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.placement.context import EXPECTED_MOVES, Context
from iallocator.placement.moves import move_anywhere, move_secondary
from iallocator.planners.plan import PlanEntry, mark_colocation_groups
from iallocator.planners.power_state import Switched
from iallocator.planners.reboot.drain_search import DrainSearch
from iallocator.planners.reboot.options import IGNORED
from iallocator.tolerances import AMOUNT_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from iallocator.aliases import Nodes
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.options.settings import Settings
    from iallocator.placement.evaluator import Evaluator
    from iallocator.placement.results import MoveResult
    from iallocator.planners.reboot.options import RebootOptions

    Steps = list[ElementaryMove]

__all__ = ["DrainPlan", "DrainPlanner", "RebootContext", "way_back"]

MOST_MOVES_CHECKED = 40
"""The largest number of leaving instances for which N+1 is checked after each move."""

MOVES_TRIED = 100
"""The largest number of moves that the search for other nodes tries for one plan."""

ALL_TRIES = 8_000
"""The moves that the searches of all plans try, times the nodes of the cluster.

They take some tenths of a second.
"""


UNNAMED_FAILURE = "the failure of another node would not be tolerated"
"""The reason if N+1 rejects a drain, and the failing node is not named."""

MANY_NODES = 150
"""With more nodes, instances without a secondary move to the emptiest node, without scores."""

OPTIMAL_DRAIN_FACTOR = 100
"""The factor of `MOVES_TRIED` and `ALL_TRIES` with `RebootOptions.optimal`."""


class RebootContext(Context):
    """The context of placements in a cluster in which nodes can be drained temporarily."""

    __slots__ = ()

    def __init__(
        self, cluster: Cluster, settings: Settings, deadline: Deadline | None = None
    ) -> None:
        sizes = [(len(cluster.nodes), 0)] * EXPECTED_MOVES
        super().__init__(cluster, settings, sizes, deadline=deadline)

    def drained(self, nodes: Collection[int]) -> Drained:
        """Return a ``with`` block in which `nodes` are offline.

        Its end restores the nodes, and the placement of all instances.
        """
        return Drained(self, nodes)

    def forget(self) -> None:
        """Delete the cached data that depends on which nodes are online."""
        self._scopes.clear()
        self._evaluators.clear()
        self._rules.clear()


class Drained:
    """A ``with`` block of `context` in which `nodes` are offline."""

    __slots__ = ("_context", "_switched", "_trial")

    def __init__(self, context: RebootContext, nodes: Collection[int]) -> None:
        self._context = context
        self._switched = Switched(context.cluster, off=nodes)
        self._trial = context.state.trial()

    def __enter__(self) -> None:
        self._switched.__enter__()
        self._trial.__enter__()
        self._context.forget()

    def __exit__(self, *_: object) -> None:
        self._trial.__exit__()
        self._switched.__exit__()
        self._context.forget()


class DrainPlan:
    """The moves that empty a set of nodes.

    Attributes
    ----------
    entries:
        The moves in an order in which they can be made.
    reason:
        Why the nodes cannot be drained at the same time; "" if they can.
    short:
        The failure that would not be tolerated while the nodes are drained; "" for none.
    homeless:
        Whether an instance has no other node that accepts it and keeps N+1.
    proved:
        Whether it is proved that no choice of targets drains the nodes at the same time. It has no
        meaning if `reason` is "".
    """

    __slots__ = ("entries", "homeless", "proved", "reason", "short")

    def __init__(self) -> None:
        self.entries: list[PlanEntry] = []
        self.reason = ""
        self.short = ""
        self.homeless = False
        self.proved = False

    @property
    def moves(self) -> list[Move]:
        """Return the moves of the entries."""
        return [entry.move for entry in self.entries]


def way_back(move: Move) -> Move:
    """Return the move that reverses `move`: the instance returns to the nodes `move.before`."""
    steps: list[ElementaryMove]
    if len(move.before) == 1:
        steps = [(FAILOVER_TO, move.before[0])]
    elif move.after == move.before[::-1]:
        steps = [(DRBD_FAILOVER, move.before[0])]
    elif move.after[0] == move.before[0]:
        steps = [(REPLACE_SECONDARY, move.before[1])]
    else:
        steps = [(REPLACE_SECONDARY, move.before[0]), (DRBD_FAILOVER, move.before[0])]
    return Move.by_steps(move.instance, move.after, steps)


class MemoryBound:
    """A necessary condition for draining nodes together, by the memory of their node groups.

    The free memory of the other nodes must be enough for the instances that leave. It must still be
    enough if one of these nodes fails, of which the failure must be tolerated: then also the
    instances of this node need another node, wherever the leaving instances are.

    Only memory is checked: a set of nodes that is rejected cannot be drained, but a set that is
    accepted may be impossible, too.

    Parameters
    ----------
    context:
        The context, in the initial state.
    leaves:
        Is called with an instance and the index of a node. Returns whether the instance leaves this
        node for another node of the group.
    failures:
        The groups in which N+1 must be kept, with the N+1 checks of the initial state.
    """

    def __init__(
        self,
        context: Context,
        leaves: Callable[[Instance, int], bool],
        failures: Sequence[tuple[Group, FailureTolerance]],
    ) -> None:
        state, nodes = context.state, context.cluster.nodes
        self._group = [node.group.index for node in nodes]
        self._free = [
            max(0.0, state.columns[MEMORY][node.index]) if node.online else 0.0 for node in nodes
        ]
        self._need = [0.0] * len(nodes)
        self._online = dict.fromkeys(self._group, 0)
        self._free_in_group = dict.fromkeys(self._group, 0.0)
        for node, free in zip(nodes, self._free):
            self._online[node.group.index] += node.online
            self._free_in_group[node.group.index] += free
            leaving = [one for one in state.instances_on(node.index) if leaves(one, node.index)]
            self._need[node.index] = free + sum(one.memory for one in leaving)
        self._reserves: dict[int, list[tuple[float, int]]] = {}
        for group, tolerance in failures:
            tolerated = tolerance.comparison.initial.tolerated
            reserves = [
                (self._free[index] + tolerance.memory_moved((index,)), index)
                for index in group.nodes
                if nodes[index].online and (index,) in tolerated
            ]
            self._reserves[group.index] = sorted(reserves, reverse=True)

    def lacks(self, drained: Collection[int]) -> bool:
        """Return whether the other nodes lack memory for the instances that leave `drained`."""
        return any(
            need + self._reserve(group, drained) > self._free_in_group[group] + AMOUNT_TOLERANCE
            for group, need in self._needs(drained).items()
        )

    def fewest(self, nodes: Collection[int]) -> int:
        """Return a lower bound of the number of sets into which `nodes` must be divided."""
        most = 0
        for group, need in self._needs(nodes).items():
            free, lent = self._free_in_group[group], 0.0
            members = [index for index in nodes if self._group[index] == group]
            if self._keeps_a_reserve(group, members):
                # The largest reserve, except in the set with the node of the largest reserve
                largest, smallest = self._reserves[group][0][0], self._reserves[group][-1][0]
                if free > largest:
                    free, lent = free - largest, largest - smallest
            most = max(most, ceil((need - lent) / free - AMOUNT_TOLERANCE) if free else 0)
        return most

    def _keeps_a_reserve(self, group: int, members: Sequence[int]) -> bool:
        """Return whether each possible set of nodes among `members` leaves a reserve in `group`.

        A set that contains all nodes with a reserve, or all nodes but one, must be impossible.
        """
        reserves, free = self._reserves.get(group), self._free_in_group[group] + AMOUNT_TOLERANCE
        if not reserves:
            return False
        with_reserve = {index for _, index in reserves}
        needs = [self._need[index] for index in members]
        return (
            not with_reserve.issubset(members)
            or sum(self._need[index] for index in with_reserve) > free
        ) and (len(members) < self._online[group] - 1 or sum(needs) - max(needs) > free)

    def _reserve(self, group: int, drained: Collection[int]) -> float:
        """Return the MiB that must be free in `group` beside the memory for leaving instances.

        If only one node is left, nothing can be restarted, and the reserve is 0.
        """
        left = self._online[group] - sum(self._group[index] == group for index in drained)
        reserves = self._reserves.get(group, ()) if left > 1 else ()
        return next((reserve for reserve, index in reserves if index not in drained), 0.0)

    def _needs(self, drained: Collection[int]) -> dict[int, float]:
        """Return index of each node group -> the MiB that it must have free to drain `drained`.

        This is the free memory of its nodes in `drained`, plus the memory of the instances that
        leave these nodes.
        """
        needs: dict[int, float] = {}
        for index in drained:
            needs[self._group[index]] = needs.get(self._group[index], 0.0) + self._need[index]
        return needs


class SearchOptions(ValueObject):
    """Options for the choice of a target among the nodes that the limits allow.

    Attributes
    ----------
    tight:
        Whether to prefer the node with the least free memory to the node with the best score, so
        that large instances fit on the other nodes later.
    careful:
        Whether to check N+1 for every move, which is expensive and seldom needed.
    """

    tight: bool
    careful: bool


class DrainPlanner:
    """A planner of drains. Each plan begins with the initial state, which is not changed.

    Attributes
    ----------
    many:
        Whether the cluster has instances without a secondary, and more than `MANY_NODES` nodes.
        The choice of the node with the best score would take minutes.
    """

    def __init__(self, context: RebootContext, options: RebootOptions) -> None:
        self.deadline = context.deadline
        self.many = len(context.cluster.nodes) > MANY_NODES and any(
            not one.needs_secondary for one in context.cluster.instances
        )
        self._context = context
        self._options = options
        self._relations = context.affinity.relations
        self._known_returns: dict[tuple[str, int], str] = {}
        self._search = SearchOptions(False, False)
        factor = OPTIMAL_DRAIN_FACTOR if options.optimal else 1
        self._tries = factor * ALL_TRIES // max(1, len(context.cluster.nodes))
        self._limits: dict[int, Evaluator] = {}
        self._online: dict[int, list[int]] = {}
        self._share_of_mib = [1 / max(1, node.total_memory) for node in context.cluster.nodes]
        self._failures: list[tuple[Group, FailureTolerance]] = []
        for group in context.cluster.groups:
            if group.nodes:
                rules = plan_rules(context.settings.plan_n1(group.index), self._relations)
                failures = FailureTolerance(context.state, rules, group=group)
                failures.measure()
                self._failures.append((group, failures))
        checks_n1 = not (options.down or options.single == IGNORED)
        self.bound = MemoryBound(
            context,
            lambda one, index: not one.needs_secondary and self._leaves(one, index),
            self._failures if checks_n1 else (),
        )

    def plan(self, nodes: Collection[int]) -> DrainPlan:
        """Return the plan that drains all `nodes` at the same time, or a plan with a `reason`."""
        check()
        drained = frozenset(nodes)
        if len(drained) > 1 and self.bound.lacks(drained):
            drain = DrainPlan()
            drain.reason = "the other nodes lack memory for the leaving instances, or for failovers"
            drain.proved = True
            return drain
        drain = self._tried(drained, SearchOptions(False, False))
        if drain.homeless and not self.many:
            drain = self._tried(drained, SearchOptions(True, False))
        if not (drain.short or drain.homeless):
            drain.proved = self._relations is None
            return drain
        if len(self._leaving(drained)) <= MOST_MOVES_CHECKED:
            if drain.short:
                drain = self._tried(drained, SearchOptions(False, True))
            if drain.short or drain.homeless:
                drain = self._tried(drained, SearchOptions(True, True))
            if (drain.short or drain.homeless) and self._tries > 0:
                drain_plan = DrainPlan()
                self._begin(SearchOptions(True, False))
                with self._context.drained(drained):
                    reason = self._emptied(drained, drain_plan, self._found_by_search)
                    failed = reason or self._short(drained)
                if failed:
                    drain.proved = drain_plan.proved
                else:
                    drain = drain_plan
        drain.reason = drain.reason or drain.short
        return drain

    def _tried(self, drained: frozenset[int], search: SearchOptions) -> DrainPlan:
        """Return the greedy plan that drains `drained`; `search` has the options for targets."""
        drain = DrainPlan()
        self._begin(search)
        with self._context.drained(drained):
            drain.reason = self._emptied(drained, drain, self._chosen)
            drain.short = "" if drain.reason else self._short(drained, named=True)
        return drain

    def _begin(self, search: SearchOptions) -> None:
        """Set the options of the next plan, and delete the limits and nodes cached for the last."""
        self._search = search
        self._limits.clear()
        self._online.clear()

    def _leaves(self, instance: Instance, index: int) -> bool:
        """Return whether `instance` must leave its node `index` before the node is rebooted."""
        if instance.forthcoming:
            return False
        if instance.needs_secondary and self._options.evacuate:
            return True
        if self._options.down or not instance.running:
            return False
        if self._context.state.where[instance.name][0] != index:
            return False
        return instance.needs_secondary or self._options.single != IGNORED

    def _leaving(self, drained: frozenset[int]) -> list[Instance]:
        """Return the instances that leave `drained`, in the order in which they move.

        Instances with a secondary are first, then come larger instances before smaller.
        """
        names = {
            instance.name: instance
            for index in sorted(drained)
            for instance in self._context.state.instances_on(index)
            if self._leaves(instance, index)
        }
        return sorted(
            names.values(), key=lambda i: (not i.needs_secondary, -i.memory, -i.disk, i.name)
        )

    def _emptied(
        self,
        drained: frozenset[int],
        drain: DrainPlan,
        place: Callable[[list[list[Instance]], frozenset[int], DrainPlan], str],
    ) -> str:
        """Move all leaving instances off `drained`; return why that is impossible, or "".

        `place` is called with the units, with `drained` and `drain`. A unit is an instance, or the
        leaving instances of a colocation group. `place` makes the moves of all units and appends
        them to `drain`, or returns why that is impossible.
        """
        state, relations = self._context.state, self._relations
        leaving = self._leaving(drained)
        for instance in leaving:
            reason = self._immovable(instance)
            if not (reason or self._options.stays):
                left = next(index for index in instance.nodes if index in drained)
                key = instance.name, left
                if key not in self._known_returns:
                    self._known_returns[key] = self._cannot_return(instance, left)
                reason = self._known_returns[key]
            if reason:
                return f"{instance.name} {reason}"
        groups = {} if relations is None else relations.units()
        names = {instance.name: instance for instance in leaving}
        units: list[list[Instance]] = []
        done: set[str] = set()
        for instance in leaving:
            if instance.name not in done:
                # A colocation group moves as a whole, in the position of its first member
                unit = [names[n] for n in groups.get(instance.name, [instance.name]) if n in names]
                done.update(one.name for one in unit)
                units.append(unit)
        reason = place(units, drained, drain)
        if reason:
            return reason
        mark_colocation_groups(drain.entries, groups)
        if relations is not None:
            moved: dict[str, int | None] = {
                one.move.instance.name: one.move.before[0] for one in drain.entries
            }
            counts = relations.rule_counts(state.where)
            for name, constraint in relations.newly_broken(moved, state.where, counts):
                return f"{name} must be {constraint.text}"
        return ""

    def _chosen(
        self, units: list[list[Instance]], drained: frozenset[int], drain: DrainPlan
    ) -> str:
        """Move each unit to its preferred targets; return why an instance has no target, or "".

        The members of a unit that have not moved yet are on no node meanwhile.
        """
        state = self._context.state
        for unit in units:
            homes = [state.where[one.name] for one in unit]
            for one, before in zip(unit, homes):
                state.remove(one, before)
            for one, before in zip(unit, homes):
                state.place(one, before)
                ways, reason = self._ways(one, before, drained, drain)
                if not ways:
                    return f"{one.name} {reason}"
                move = Move.by_steps(one, before, ways[0])
                move.apply(state)
                drain.entries.append(PlanEntry(move))
        return ""

    def _found_by_search(
        self, units: list[list[Instance]], drained: frozenset[int], drain: DrainPlan
    ) -> str:
        """Search for targets that keep N+1, and move all units there; return why not, or ""."""
        state = self._context.state
        certain = self._relations is None and not self._options.evacuate
        if not units:
            drain.proved = certain
            return ""

        def moves_of(instance: Instance) -> list[Move]:
            before = state.where[instance.name]
            ways, _ = self._ways(instance, before, drained, drain)
            return [Move.by_steps(instance, before, steps) for steps in ways]

        allowed = min(
            MOVES_TRIED * (OPTIMAL_DRAIN_FACTOR if self._options.optimal else 1), self._tries
        )
        search = DrainSearch(state, units, moves_of, lambda: not self._short(drained), allowed)
        search.search()
        self._tries -= allowed - search.tries
        undecided = any(failures.rules.effort.spent for _, failures in self._failures)
        drain.proved = certain and search.proved and not undecided
        if search.moves is None:
            return "no nodes were found for all instances"
        for move in search.moves:
            move.apply(state)
            drain.entries.append(PlanEntry(move))
        return ""

    def _immovable(self, instance: Instance) -> str:
        """Return why `instance` cannot leave its node, whatever the target is, or ""."""
        relations = self._relations
        if relations is not None and instance.name in relations.stuck:
            return "cannot be stopped, and must not be by force"
        runs_on = relations is not None and instance.name in relations.keep_running
        if runs_on and not instance.kind.migrates:
            return "must keep running, and would be stopped to be moved"
        if instance.needs_secondary and len(instance.nodes) < 2:
            return "has no secondary"
        return ""

    # The return of the instances

    def _cannot_return(self, instance: Instance, left: int) -> str:
        """Return why `instance` could not return to its drained node `left`, or "".

        With `evacuate`, the disks of a drbd instance are copied back to `left` as its secondary
        first, even if `left` was its primary. Its other node keeps the disks meanwhile.
        """
        context, nodes, home = self._context, self._context.cluster.nodes, instance.nodes[0]
        relations = self._relations
        if relations is not None and relations.binds(instance.name):
            rule_counts = relations.rule_counts(context.state.where)
            if relations.rejected(instance.name, (home,), rule_counts):
                name = nodes[home].name
                return f"could not come back to {name}, where it violates a hard constraint"
        at_home = context.evaluator(nodes[home].group).for_steps()
        at_left = context.evaluator(nodes[left].group).for_steps()
        with context.state.trial():
            context.state.remove(instance, instance.nodes)
            if not at_home.takes_primary(instance, home):
                return f"could not come back to {nodes[home].name}, which lacks the capacity for it"
            if instance.needs_secondary and self._options.evacuate and len(instance.nodes) > 1:
                other = next(index for index in instance.nodes if index != left)
                candidates = at_left.candidates(instance, "secondary", (other, left), [left])
                if not candidates.feasible:
                    why = ", ".join(sorted(candidates.failures))
                    return f"could not come back to {nodes[left].name}: {why}"
        return ""

    # N+1 of the nodes that are not drained

    def _short(self, drained: frozenset[int], named: bool = False) -> str:
        """Return a failure that is no longer tolerated while `drained` are offline, or "".

        The text has the name of the failing node only if `named` is true and `drained` is a single
        node: a name costs a simulation, and is not shown for several nodes. Otherwise the text is
        `UNNAMED_FAILURE`.
        """
        if self._options.down:
            return ""
        state = self._context.state
        with state.trial():
            for index in sorted(drained):
                # An instance with a drained secondary cannot be restarted on it: a twin without
                # a secondary only uses the resources of its primary
                for instance in list(state.instances_on(index)):
                    nodes = state.where[instance.name]
                    state.remove(instance, nodes)
                    if len(nodes) > 1 and nodes[0] not in drained:
                        twin = instance.as_template(PLAIN)
                        twin.as_primary = primary_vector(instance)
                        twin.forthcoming = True
                        state.place(twin, nodes[:1])
            if self._options.single == IGNORED:
                for held in state.primaries:
                    for instance in [one for one in held.values() if not one.needs_secondary]:
                        if not instance.forthcoming:
                            state.remove(instance, state.where[instance.name])
            for group, failures in self._failures:
                away = drained.intersection(group.nodes)
                if away and failures.comparison.initial.tolerated:
                    online = [i for i in group.nodes if self._context.cluster.nodes[i].online]
                    problem, comparison = "", failures.comparison
                    if len(online) > 1 and named and len(drained) == 1:
                        problem = comparison.problem()
                    elif len(online) > 1 and comparison.first_broken() is not None:
                        problem = UNNAMED_FAILURE
                    if len(online) == 1 and len(away) > 1:
                        last = online[0]
                        here = state.primaries[last].values()
                        if any(one.running and not one.forthcoming for one in here):
                            name = self._context.cluster.nodes[last].name
                            problem = f"only {name} would be left"
                    if problem:
                        return problem
        return ""

    # The targets of the leaving instances

    def _ways(
        self, instance: Instance, before: Nodes, drained: frozenset[int], drain: DrainPlan
    ) -> tuple[list[Steps], str]:
        """Return the ways to move `instance` off `drained`, and why there is none, or "".

        Each way is a list of elementary moves. Preferred ways are first.
        """
        if not instance.needs_secondary:
            # Only nodes of the group from which migration tags allow the return are targets
            context, home = self._context, before[0]
            evaluator = self._limits_of(context.cluster.nodes[home].group)
            steps = self._emptiest(instance, before, evaluator) if self.many else []
            if steps:
                return [steps], ""
            targets = [
                index
                for index in evaluator.online_nodes()
                if not move_rejections(context.cluster, index, [home])
            ]

            def best(moved: Instance, targets: Sequence[int]) -> tuple[list[Steps], str]:
                return self._best(
                    targets,
                    drained,
                    drain,
                    lambda some: move_anywhere(context, evaluator, moved, some, names_others=False),
                )

            ways, reason = best(instance, targets)
            tags = set(instance.exclusion)
            if ways or not any(
                tags.intersection(other.exclusion)
                for other in (context.cluster.instances if tags else ())
                if other.nodes[:1] == (home,) and other is not instance
            ):
                return ways, reason
            # The instance shares an exclusion tag with other instances of its node. It may share
            # the tag with these instances on another node, too, but not with further instances.
            primaries = context.state.primaries
            apart = [i for i in targets if not new_conflict(instance, primaries[i].values())]
            untagged = instance.twin(instance.name, instance.order)
            untagged.exclusion = ()
            with context.state.trial():
                context.state.remove(instance, before)
                context.state.place(untagged, before)
                drain.homeless = False
                ways, _ = best(untagged, apart)
            return ways, "" if ways else reason
        context = self._context
        steps = []
        with context.state.trial():
            if before[0] in drained:
                reason = self._no_failover(instance, before)
                if reason:
                    return [], reason
                steps.append((DRBD_FAILOVER, before[1]))
                Move(instance, before, before[::-1]).apply(context.state)
            if not self._options.evacuate:
                return [steps], ""
            present = context.state.where[instance.name]
            group = context.cluster.nodes[present[0]].group
            evaluator = self._limits_of(group)
            more, reason = self._best(
                evaluator.online_nodes(),
                drained,
                drain,
                lambda some: move_secondary(context, evaluator, instance, some),
            )
            return [[*steps, *some] for some in more], reason

    def _emptiest(self, instance: Instance, before: Nodes, evaluator: Evaluator) -> Steps:
        """Return the steps to the emptiest node that accepts `instance`, or [] if no node does.

        The emptiest node has the largest free share of its memory. Nodes on which the instance
        violates soft constraints are tried last. Migration tags must allow the return.
        """
        context, (home,), group = self._context, before, evaluator.group
        if group.index not in self._online:
            self._online[group.index] = evaluator.online_nodes()
        targets = self._online[group.index]
        free = context.state.columns[MEMORY]
        ranks = [-mib * share for mib, share in zip(free, self._share_of_mib)]
        penalties = context.affinity.costs(instance, targets)

        def rank(index: int) -> tuple[float, float]:
            return penalties.get(index, 0.0), ranks[index]

        for index in sorted(targets, key=rank if penalties else ranks.__getitem__):
            steps: Steps = [(FAILOVER_TO, index)]
            if index == home or move_rejections(context.cluster, index, before):
                continue
            if evaluator.check(Move.by_steps(instance, before, steps), n1=False) is None:
                return steps
        return []

    def _limits_of(self, group: Group) -> Evaluator:
        """Return the evaluator of moves in `group`."""
        if group.index not in self._limits:
            self._limits[group.index] = self._context.evaluator(group).with_normal_limits()
        return self._limits[group.index]

    def _best(
        self,
        targets: Sequence[int],
        drained: frozenset[int],
        drain: DrainPlan,
        ask: Callable[[Sequence[int]], MoveResult],
    ) -> tuple[list[Steps], str]:
        """Return the steps to the best of `targets` and ""; without steps, [] and the reason.

        With `SearchOptions.tight`, return the steps to each possible target, beginning with the
        node with the least free memory. With `careful`, only targets that keep N+1 are possible.
        `ask` returns the best move to one of the nodes with which it is called.
        """
        state = self._context.state
        left, rejected = list(targets), None
        fitting: list[tuple[float, Move]] = []
        while left and (answer := ask(left)).best is not None:
            move, rejected = answer.best, None
            left.remove(move.after[-1])
            if self._search.careful:
                with state.trial():
                    move.apply(state)
                    if self._short(drained):
                        rejected = move
            if rejected is None:
                target = move.after[-1]
                fitting.append((state.columns[MEMORY][target] - state.reserved[target], move))
                if not self._search.tight:
                    break
        if fitting:
            fitting.sort(key=lambda one: one[0])
            return [list(move.steps) for _, move in fitting], ""
        drain.homeless = True
        if rejected is None:
            return [], f"has no other place: {ask(list(targets)).message}"
        with state.trial():
            rejected.apply(state)
            return [], f"has no other place: {self._short(drained, named=True)}"

    def _no_failover(self, instance: Instance, before: Nodes) -> str:
        """Return why `instance` cannot fail over to its secondary, or "".

        Hard limits, exclusion tags, and migration tags for the return are checked; N+1 is not.
        """
        context, (home, secondary) = self._context, before
        node = context.cluster.nodes[secondary]
        if not node.online:
            return f"cannot fail over to {node.name}, which is not online"
        if move_rejections(context.cluster, secondary, [home]):
            return f"could not come back from {node.name}: migration tags"
        rejection = context.evaluator(node.group).check(
            Move(instance, before, (secondary, home)), n1=False
        )
        if rejection is not None:
            return f"cannot fail over to {node.name}: {rejection.text}"
        other = new_conflict(instance, context.state.primaries[secondary].values())
        return (
            f"cannot fail over to {node.name}: {other} has the same exclusion tag" if other else ""
        )
