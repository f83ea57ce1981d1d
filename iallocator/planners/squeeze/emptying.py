"""Find moves that empty nodes: by greedy packing, or by exact search for shared storage.

Packing moves each instance, the largest first, to the node with the most free capacity.  The caller
tries many sets of nodes to free, and needs a balanced placement only for the last set.  So packing
does not compare each move with all other moves, and takes little more time than the moves alone.
Hard constraints are checked for each move. Penalties of soft constraints are left to balancing.

Packing can fail for an instance although another placement has capacity for all instances.  Then
exact search places all instances on shared storage at once.  The solver looks for a placement with
few moves that leaves the reserve free on every online node.  The moves are then put into an order
in which each move is allowed when it is made.
"""

from __future__ import annotations

from itertools import islice
from math import inf

from iallocator.constraints.rows import ConstraintRows
from iallocator.constraints.table import move_rejections
from iallocator.deadline import Deadline, check
from iallocator.model.moves import FAILOVER_TO, Move, places_after, replay
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.n1 import MOVED_WITHIN
from iallocator.placement.move_limits import MoveLimits
from iallocator.placement.several.sequence import make_as_allowed
from iallocator.planners.balance.move_kinds import MOVE_KINDS, possible
from iallocator.planners.node_orders import GreedyPacking, WorstFitBesideReserve
from iallocator.planners.plan import PlanEntry, mark_colocation_groups
from iallocator.planners.restart_rows import RestartRows
from iallocator.solver.highs import search
from iallocator.solver.placement_problem import MOVE_COST, PlacementProblem
from iallocator.solver.problem import FOUND, IMPOSSIBLE

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.constraints.relations import Relations
    from iallocator.constraints.rows import Program, Row
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.planners.balance.move_kinds import MoveKind, MoveRules
    from iallocator.planners.balance.plan_builder import BalanceProblem
    from iallocator.planners.squeeze.headroom import Headroom
    from iallocator.solver.problem import Problem

__all__ = ["PROVED", "Arrangement", "pack"]

if TYPE_CHECKING:
    Place = tuple[MoveKind, int, Nodes]
    """A kind of move, the target node, and the nodes of the instance after the move."""


MOST_COMPARED_TARGETS = 6
"""The largest number of target nodes that are compared for a drbd instance.

They are the nodes with the most free capacity.
"""


def pack(
    problem: BalanceProblem, off: frozenset[int], reserve: Headroom, careful: bool = False
) -> list[PlanEntry]:
    """Make moves off the nodes `off` in the state of `problem`, and return the moves.

    Each move is allowed when it is made.  Instances also leave primary nodes that are not online.
    An instance for which no move is allowed stays on its nodes.  The scores of the moves are not
    computed.

    `reserve`: the capacity that each online node should keep free. `careful`: check that a
    secondary that does not change can reserve memory for the failover from a new primary. Without
    this check, packing is faster, and later moves can free this memory.
    """
    packing = _Packing(problem, off, reserve, careful)
    leaving = [i for i in problem.instances if packing.is_left(problem.state.where[i.name])]
    leaving.sort(key=lambda instance: -instance.memory)
    made: list[PlanEntry] = []
    for instance in leaving:
        check()
        while packing.is_left(problem.state.where[instance.name]):
            move = packing.move(instance)
            if move is None:
                break
            made.append(PlanEntry(move))
    return made


class _Packing(GreedyPacking):
    """Moves instances off the nodes `off`, each to the node with the most free capacity.

    The reserve of a node does not count as free.
    """

    order: WorstFitBesideReserve

    def __init__(
        self, problem: BalanceProblem, off: frozenset[int], reserve: Headroom, careful: bool
    ) -> None:
        nodes = problem.state.cluster.nodes
        online = [index for index in problem.scope if nodes[index].online]
        super().__init__(
            problem.state, WorstFitBesideReserve(problem.state, online, reserve.instance)
        )
        self._problem = problem
        self._careful = careful
        self._freed = off
        self._down = frozenset(problem.scope).difference(online)
        self._off = off | self._down
        self._limits = MoveLimits(problem.state, problem.fixed, problem.rules.limit_policies)
        self._known: dict[tuple[bool, ...], list[tuple[MoveKind, Nodes]]] = {}
        self._relations = relations = problem.relations
        self._rule_counts = None if relations is None else relations.live(problem.state)

    def is_left(self, nodes: Sequence[int]) -> bool:
        """Return whether an instance on `nodes`, the primary first, must move.

        It must move if one of `nodes` is to be freed, or if the primary is not online.
        """
        return not self._freed.isdisjoint(nodes) or nodes[0] in self._down

    def first_allowed(self, instance: Instance, before: Nodes) -> Move | None:
        """Return the best allowed move of `instance` off a node to empty; None if there is none."""
        allows = self._allows
        if len(before) > 1:
            with self.state.trial():
                self.state.remove(instance, before)
                pairs = self._pairs(instance, before)
                place = next((one for one in pairs if allows(instance, before, one)), None)
        else:  # on shared storage; its node is no target, so the instance need not be removed
            nodes = ((MOVE_KINDS[-1], index, (index,)) for index in self.order.in_order())
            place = next((one for one in nodes if allows(instance, before, one)), None)
        return None if place is None else place[0].move(instance, before, place[1])

    def _allows(self, instance: Instance, before: Nodes, place: Place) -> bool:
        """Return whether the limits allow every step of the move from `before` to `place`."""
        kind, target, after = place
        if self._violates(instance, before, after, kind):
            return False
        if len(kind.letters) > 1:
            changed = before[0] != after[0], before[1] != after[1]
            if self._limits.rejection(instance, before, after, *changed) is not None:
                return False  # the last nodes are checked before the steps, because that is fast
            with self.state.trial():
                self.state.place(instance, before)
                move = kind.move(instance, before, target)
                return possible(self.state, self._problem.fixed, move, self._problem.rules)
        if not self._limits.allow(instance, before, after):
            return False
        if not self._careful or before[1:] != after[1:]:
            return True
        return self._limits.rejection(instance, before, after, False, True) is None

    def _violates(self, instance: Instance, before: Nodes, after: Nodes, kind: MoveKind) -> bool:
        """Return whether a move of `kind` violates a hard constraint, in the end or on the way."""
        relations, name = self._relations, instance.name
        if relations is None or self._rule_counts is None or not relations.binds(name):
            return False
        closed = relations.forbidden(name)
        if any(index in closed for index in after[1:] if index not in before):
            return True
        counts = self._rule_counts.now()
        if kind.secondary_leads and relations.rejected_passing(name, before[1:2], counts):
            return True
        return before[0] != after[0] and bool(relations.rejected(name, after[:1], counts))

    def _pairs(self, instance: Instance, before: Nodes) -> Iterator[Place]:
        """Yield the places of a drbd instance, those that leave the most free capacity first.

        The free capacity of a place is that of the fuller one of its two nodes. Places where
        migration tags forbid a failover to the secondary come last: the failure of the primary is
        not tolerated there.
        """
        others = (index for index in self.order.in_order() if index not in before)
        targets = list(islice(others, MOST_COMPARED_TARGETS))
        as_primary: dict[int, float] = {}
        places: list[tuple[bool, float, Place]] = []
        cluster = self.state.cluster
        for kind, shape in self._shapes(before):
            for target in targets:
                check()
                after = shape[0] if shape[0] >= 0 else target, shape[1] if shape[1] >= 0 else target
                barred = bool(move_rejections(cluster, after[0], after[1:]))
                primary, secondary = after
                free = inf  # the free share of the fuller one of both nodes
                if primary not in self._off:
                    if primary not in as_primary:
                        as_primary[primary] = self.order.of(primary, instance.as_primary)
                    free = as_primary[primary]
                if secondary not in self._off:
                    reserved = 0.0
                    if instance.reserves:
                        reserved = self.state.peers[secondary].get(primary, 0) + instance.memory
                    free = min(free, self.order.of(secondary, instance.as_secondary, reserved))
                places.append((barred, free, (kind, target, after)))
        places.sort(key=lambda one: (one[0], -one[1]))
        yield from (place for _, _, place in places)

    def _shapes(self, before: Nodes) -> Iterator[tuple[MoveKind, Nodes]]:
        """Yield (kind of move, nodes after it) for the moves off those of `before` to empty.

        In the nodes, -1 stands for the target. The result depends only on the condition of the
        nodes `before`: which of them must be left, which are online, and whether the primary can
        be reached.
        """
        ends = [self.state.cluster.nodes[index] for index in before]
        left = tuple(index in self._off for index in before)
        reaches = self._problem.rules.limit_policies.reaches(ends[0])
        condition = (*left, ends[0].online, ends[1].online, reaches)
        known = self._known.get(condition)
        if known is None:
            known = self._known[condition] = []
            for kind in MOVE_KINDS[:-1]:
                if kind.targeted and self._problem.rules.allows_of(kind, ends[0], ends[1]):
                    after = places_after((0, 1), kind.steps((0, 1), -1))
                    if sum(left[place] for place in after if place >= 0) < sum(left):
                        known.append((kind, after))
        for kind, places in known:
            yield kind, tuple(before[place] if place >= 0 else -1 for place in places)


if TYPE_CHECKING:
    Places = Mapping[str, tuple[int, ...]]


PROVED = "proved: no arrangement of the instances will do"

LARGEST_FAILURE_ROWS = 3_000
"""The largest product of failures, nodes and instances for which the program has rows of failures.

This number is multiplied by the thoroughness of the search, and so is `MOST_EMPTYING_ANSWERS`.
"""

MOST_EMPTYING_ANSWERS = 8
"""The largest number of answers of the solver that are checked before the search ends."""


class Arrangement:
    """Exact search for a placement of many instances on the nodes of `scope`.

    After the moves, every online node has `reserve`, and every failure that `failures` requires is
    tolerated.  Each move is checked against all limits and migration tags.  For moves off a node
    that is neither online nor among ``rules.leaving``, the limits are those of forced moves.  No
    move violates a hard constraint of `relations`, and a colocation group moves as a unit.

    `evacuate`: no instance may stay on a node of `scope` that is not online. Without `evacuate`,
    the instances on such nodes do not move. `thoroughness`: the factor of the work, 1 or more.
    """

    def __init__(
        self,
        cluster: Cluster,
        scope: Sequence[int],
        reserve: Headroom,
        failures: FailureTolerance,
        rules: MoveRules,
        evacuate: bool,
        relations: Relations | None = None,
        thoroughness: int = 1,
    ) -> None:
        self._relations = relations
        self._thoroughness = thoroughness
        self._cluster = cluster
        self._scope = scope
        self._online = [index for index in scope if cluster.nodes[index].online]
        self._reserve = reserve
        self._failures = failures
        self._rules = rules
        self._evacuate = evacuate
        self._fixed = Capacities(cluster.nodes, scope=scope)
        self._entries: list[PlanEntry] | None = None
        self._tries = 0
        self._doubtful = False

    def find(
        self, movable: Sequence[Instance], budget: Deadline
    ) -> tuple[list[PlanEntry] | None, bool]:
        """Return the moves of a placement that meets the requirements, and False.

        Only instances of `movable` on shared storage move. If no placement is found, return None,
        and whether it is proved that there is none.
        """
        state = State(self._cluster)
        nodes = self._cluster.nodes
        flexible = [
            i
            for i in movable
            if i.shared
            and (self._evacuate or nodes[state.where[i.name][0]].online)
            and not (self._relations is not None and self._relations.stays(i.name))
        ]
        # Leave out colocation groups that are on several nodes, or have members that cannot move
        homes = {i.name: i.nodes for i in flexible}
        flexible = [
            i for i in flexible if all(homes.get(name) == i.nodes for name in self._unit(i))
        ]
        if self._evacuate:
            moving = {i.name for i in flexible}
            left = set(self._scope).difference(self._online)
            if any(i.name not in moving for index in left for i in state.instances_on(index)):
                return None, False
        # The rows of the problem are too strict if memory is reserved for failovers: no proof then
        reserving = any(state.reserved[index] for index in self._scope)
        if not flexible:
            self._rejected([], {})
            sure = not reserving and not self._doubtful
            return self._entries, self._entries is None and sure
        problem = self._problem(flexible)
        answer = search(problem, lambda placement: self._rejected(flexible, placement), budget)
        if answer.status == FOUND:
            return self._entries, False
        sure = not reserving and not self._doubtful
        return None, answer.status == IMPOSSIBLE and sure

    def _unit(self, instance: Instance) -> list[str]:
        """Return the sorted names of the instance's colocation group, the instance included."""
        units = {} if self._relations is None else self._relations.units()
        return sorted(units.get(instance.name, (instance.name,)))

    def _problem(self, flexible: Sequence[Instance]) -> Problem:
        """Return the integer program that places the instances `flexible` on online nodes.

        The reserve of each online node counts as used.
        """
        state = State(self._cluster)
        for instance in flexible:
            state.remove(instance, instance.nodes)
        limit_policies, nodes = self._rules.limit_policies, self._cluster.nodes
        forced = any(
            limit_policies.off(nodes[i.nodes[0]]).primary.spares_unforced for i in flexible
        )
        limits = MoveLimits(state, self._fixed, limit_policies, self._scope)
        units = _UnitRows(self._unit)
        places = PlacementProblem(state, self._scope if forced else (), constraints=[units])
        whole = sum(instance.memory for instance in flexible) + 1
        for instance in flexible:
            own = instance.nodes[0]
            barred: dict[int, str] = {}
            if self._relations is not None:
                barred = dict.fromkeys(self._relations.forbidden(instance.name), "FailTags")
                confined = self._relations.confined(instance.name)
                if confined is not None:
                    outside = set(self._scope).difference(confined)
                    barred |= dict.fromkeys(sorted(outside), "FailTags")
            targets = limits.open_to(instance, own, self._online, barred)
            moving = MOVE_COST + instance.memory / whole
            listed = [(moving, (index,)) for index in targets if index != own]
            if own in self._online:
                listed.insert(0, (0.0, (own,)))
            places.add(instance, listed, distinct=own)
        for index in self._online:
            places.occupy(self._reserve.instance, index)
        problem = places.problem()
        # Limits apply only to instances that arrive: those on a node beyond a limit may stay
        present = {i.name: i.nodes for i in flexible}
        staying: dict[tuple[object, ...], float] = {}
        for kind in problem.kinds:
            for choice in kind.choices:
                here = sum(present.get(name) == choice.value for name in kind.members)
                for row, amount in choice.uses.items() if here else ():
                    staying[row] = staying.get(row, 0) + here * amount
        for row, (lowest, highest) in problem.bounds.items():
            problem.bounds[row] = lowest, max(highest, staying.get(row, 0))
        self._add_failures(problem, state, flexible)
        return problem

    def _add_failures(self, problem: Problem, state: State, flexible: Sequence[Instance]) -> None:
        """Add rows to `problem` by which the required failures are tolerated.

        `state` is without the instances `flexible`. A failure that is not tolerated initially must
        not lose more than initially. No rows are added if the program would become too large.
        """
        if self._failures.rules.mode == "off":
            return
        nodes = self._cluster.nodes
        comparison = self._failures.on(State(self._cluster)).comparison
        required = [
            failure
            for failure in comparison.required(MOVED_WITHIN)
            if all(nodes[index].online for index in failure)
        ]
        each = len(self._online) * len(flexible)
        most = LARGEST_FAILURE_ROWS * self._thoroughness
        if len(required) * each > most:
            return
        # Losses are counted in instances, but the rows count a colocation group as one item
        losses = [] if self._failures.rules.units else comparison.allowed_losses()
        if (len(required) + 2 * len(losses)) * each > most:
            losses = []
        by_name = {instance.name: instance for instance in flexible}
        kinds = [kind for kind in problem.kinds if kind.members[0] in by_name]
        tolerance = self._failures.on(state)
        for failure in required:
            check()
            rows = RestartRows(problem, failure, tolerance)
            for kind in kinds:
                rows.add(kind, by_name[kind.members[0]])
        for failure, loss in losses:
            for by_memory, least in enumerate((loss.instances, loss.memory)):
                if least < inf:
                    rows = RestartRows(problem, failure, tolerance, least, bool(by_memory))
                    for kind in kinds:
                        rows.add(kind, by_name[kind.members[0]])

    def _rejected(self, flexible: Sequence[Instance], placement: Places) -> Sequence[str] | None:
        """Store the moves to `placement` if they meet the requirements, and return None.

        Otherwise store no moves, and return the names of the instances `flexible`: the solver must
        find another answer. After the last try, return None to end the search.
        """
        self._tries += 1
        self._entries = self._in_order(flexible, placement)
        if self._entries is None:
            self._doubtful = True  # a plan with temporary moves to this answer may exist
        else:
            state = State(self._cluster)
            replay(state, (entry.move for entry in self._entries))
            comparison = self._failures.on(state).comparison
            if self._reserve.missing(state, self._scope):
                self._entries = None
            elif comparison.broken():
                self._entries = None
                self._doubtful |= not comparison.certainly_broken()
        if self._entries is not None or self._tries >= MOST_EMPTYING_ANSWERS * self._thoroughness:
            return None
        return [instance.name for instance in flexible]

    def _in_order(self, flexible: Sequence[Instance], placement: Places) -> list[PlanEntry] | None:
        """Return the moves to `placement` in an allowed order; None if no such order is found."""
        state = State(self._cluster)
        waiting: dict[tuple[str, ...], list[Instance]] = {}
        for instance in flexible:
            if placement[instance.name] != state.where[instance.name]:
                waiting.setdefault(tuple(self._unit(instance)), []).append(instance)
        entries: list[PlanEntry] = []

        def make(unit: Sequence[Instance]) -> bool:
            if not self._allowed(state, unit, placement):
                return False
            for instance in unit:
                (target,) = placement[instance.name]
                before = state.where[instance.name]
                move = Move(instance, before, (target,), [(FAILOVER_TO, target)])
                move.apply(state)
                entries.append(PlanEntry(move))
            return True

        if make_as_allowed(waiting.values(), make):
            return None
        groups = {i.name: unit for i in flexible if len(unit := self._unit(i)) > 1}
        mark_colocation_groups(entries, groups)
        return entries

    def _allowed(self, state: State, unit: Sequence[Instance], placement: Places) -> bool:
        """Return whether the instances `unit` may move to `placement` now, one after the other.

        `unit` is one instance, or all members of a colocation group.
        """
        limits = MoveLimits(state, self._fixed, self._rules.limit_policies)
        with state.trial():
            for instance in unit:
                before, after = state.where[instance.name], placement[instance.name]
                state.remove(instance, before)
                if not limits.allow(instance, before, after):
                    return False
                state.place(instance, after)
            if self._relations is not None:
                for instance in unit:
                    if not self._relations.binds(instance.name):
                        continue
                    home = state.where[instance.name][:1]
                    counts = self._relations.rule_counts(state.where)
                    if self._relations.rejected(instance.name, home, counts):
                        return False
            return True


class _UnitRows(ConstraintRows):
    """Rows by which all members of a colocation group are on one node.

    Each row compares one member with the first one on a node, and must be 0. `group_of` returns the
    names of the colocation group of an instance.
    """

    def __init__(self, group_of: Callable[[Instance], Sequence[str]]) -> None:
        self._group_of = group_of
        self._rows: dict[tuple[object, ...], None] = {}

    def uses(self, instance: Instance, nodes: Nodes) -> dict[tuple[object, ...], float]:
        """Return row -> the amount of the row that `instance` uses on `nodes`."""
        first, *others = self._group_of(instance)
        mine = others if instance.name == first else [instance.name] if others else []
        sign = 1.0 if instance.name == first else -1.0
        uses: dict[tuple[object, ...], float] = {("beside", name, nodes[0]): sign for name in mine}
        self._rows.update(dict.fromkeys(uses))
        return uses

    def add_to(self, program: Program, rows: Iterable[Row]) -> None:
        program.bounds.update(dict.fromkeys(self._rows, (0.0, 0.0)))
