"""Freeing nodes by exact search: all instances on shared storage placed at once.

Moving one instance after the other can end with an instance that has no place though
another arrangement would have one for all.  Here the solver is asked for a placement that
leaves every online node its reserve, with as few moves as it finds; the moves are then put
into an order in which each is allowed when it is made.
"""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.model.moves import FAILOVER_TO, Move, replay
from iallocator.model.node_view import Capacities
from iallocator.model.state import State
from iallocator.placement.move_limits import MoveLimits
from iallocator.planners.plan import PlanEntry, mark_colocation_groups
from iallocator.scoring.scalar import score_of
from iallocator.solver.placement_problem import PlacementProblem
from iallocator.solver.problem import FOUND, IMPOSSIBLE
from iallocator.solver.refine import search

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.n1.baseline import Baseline
    from iallocator.planners.balance.move_kinds import MoveRules
    from iallocator.planners.squeeze.headroom import Headroom
    from iallocator.solver.budget import Budget
    from iallocator.solver.problem import Problem

    Places = Mapping[str, tuple[int, ...]]

__all__ = ["PROVED", "Arrangement"]

PROVED = "proved: no arrangement of the instances will do"

MOVING = 1.0
"""What moving an instance costs, beside its memory as a share of all."""

TRIES = 8
"""Answers of the solver that may turn out not to do before the search is given up."""


class Arrangement:
    """Places for many instances at once, on the nodes of `scope`.

    In the end every online node has `reserve`, and `baseline` finds nothing wrong.  A move is
    held to what every move is held to: all limits and migration tags, or off a node that is
    neither online nor among ``rules.leaving`` the limits of forced moves; and it breaks no must
    of `relations`; those that must be together move as one.  `evacuate`: nobody may
    stay on a node of `scope` that is not online; otherwise those there are not looked at.
    """

    def __init__(
        self,
        cluster: Cluster,
        scope: Sequence[int],
        reserve: Headroom,
        baseline: Baseline,
        rules: MoveRules,
        evacuate: bool,
        relations: Relations | None = None,
    ) -> None:
        self._relations = relations
        self._cluster = cluster
        self._scope = scope
        self._online = [index for index in scope if cluster.nodes[index].online]
        self._reserve = reserve
        self._baseline = baseline
        self._rules = rules
        self._evacuate = evacuate
        self._fixed = Capacities(cluster.nodes, scope=scope)
        self._entries: list[PlanEntry] | None = None
        self._tries = 0
        self._blocked = False

    def find(
        self, movable: Sequence[Instance], budget: Budget
    ) -> tuple[list[PlanEntry] | None, bool]:
        """Moves of those of `movable` that are on shared storage.

        None if none are found; then the second says whether it is proved that there are none.
        """
        state = State(self._cluster)
        nodes = self._cluster.nodes
        flexible = self._whole_units(
            [
                i
                for i in movable
                if i.shared
                and (self._evacuate or nodes[state.where[i.name][0]].online)
                and not (self._relations is not None and self._relations.stays(i.name))
            ]
        )
        if self._evacuate and self._stuck(state, flexible):
            return None, False
        problem = self._problem(flexible)
        answer = search(problem, lambda wanted: self._rejected(flexible, wanted), budget)
        if answer.status == FOUND:
            return self._entries, False
        mirrored = any(state.reserved[index] for index in self._scope)  # then rows are too strict
        sure = not mirrored and not self._blocked
        return None, answer.status == IMPOSSIBLE and sure

    def _unit(self, instance: Instance) -> list[str]:
        """All that must be where the instance is, itself among them."""
        units = {} if self._relations is None else self._relations.units()
        return sorted(units.get(instance.name, (instance.name,)))

    def _whole_units(self, flexible: Sequence[Instance]) -> list[Instance]:
        """Those of `flexible` whose units are all of them on one node and flexible, too."""
        homes = {instance.name: instance.nodes for instance in flexible}
        return [
            one for one in flexible if all(homes.get(name) == one.nodes for name in self._unit(one))
        ]

    def _stuck(self, state: State, flexible: Sequence[Instance]) -> bool:
        """Whether somebody on a node that is to be left is not among `flexible`."""
        moving = {instance.name for instance in flexible}
        left = set(self._scope).difference(self._online)
        return any(i.name not in moving for index in left for i in state.instances_on(index))

    def _problem(self, flexible: Sequence[Instance]) -> Problem:
        """Every flexible instance on an online node, and the reserve on each of those."""
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
            bars = () if self._relations is None else self._relations.forbidden(instance.name)
            barred = dict.fromkeys(bars, "FailTags")
            found = limits.open_to(instance, own, self._online, barred)
            moving = MOVING + instance.memory / whole
            listed = [(moving, (index,)) for index in found if index != own]
            if own in self._online:
                listed.insert(0, (0.0, (own,)))
            places.add(instance, listed, distinct=own)
        for index in self._online:
            places.occupy(self._reserve.instance, index)
        problem = places.problem()
        _allow_staying(problem, {i.name: i.nodes for i in flexible})
        return problem

    def _rejected(self, flexible: Sequence[Instance], wanted: Places) -> Sequence[str] | None:
        """None if the answer `wanted` does, or is the last that is tried; else all that moves."""
        self._tries += 1
        self._entries = self._checked(flexible, wanted)
        if self._entries is not None or self._tries >= TRIES:
            return None
        return [instance.name for instance in flexible]

    def _checked(self, flexible: Sequence[Instance], wanted: Places) -> list[PlanEntry] | None:
        """The moves to `wanted`; None if they block each other, or the end does not do."""
        entries = self._in_order(flexible, wanted)
        if entries is None:
            self._blocked = True  # a longer way there may exist
            return None
        state = State(self._cluster)
        replay(state, (entry.move for entry in entries))
        if self._reserve.missing(state, self._scope) or self._baseline.broken(state):
            return None
        return entries

    def _in_order(self, flexible: Sequence[Instance], wanted: Places) -> list[PlanEntry] | None:
        """The moves to `wanted`, each made when it is allowed; None if they block each other."""
        state = State(self._cluster)
        waiting: dict[tuple[str, ...], list[Instance]] = {}
        for instance in flexible:
            if wanted[instance.name] != state.where[instance.name]:
                waiting.setdefault(tuple(self._unit(instance)), []).append(instance)
        entries: list[PlanEntry] = []
        while waiting:
            check()
            ready = next(
                (k for k, some in waiting.items() if self._allowed(state, some, wanted)), None
            )
            if ready is None:
                return None
            made = waiting.pop(ready)
            entries += (self._made(state, one, wanted[one.name][0]) for one in made)
        groups = {i.name: unit for i in flexible if len(unit := self._unit(i)) > 1}
        mark_colocation_groups(entries, groups)
        return entries

    def _allowed(self, state: State, unit: Sequence[Instance], wanted: Places) -> bool:
        """Whether those of one `unit` may move now, one after the other."""
        limits = MoveLimits(state, self._fixed, self._rules.limit_policies)
        with state.trial():
            for instance in unit:
                before, after = state.where[instance.name], wanted[instance.name]
                state.remove(instance, before)
                if not limits.allow(instance, before, after):
                    return False
                state.place(instance, after)
            return not any(self._broken(state, instance) for instance in unit)

    def _broken(self, state: State, instance: Instance) -> bool:
        """Whether the instance breaks a must where it is."""
        relations = self._relations
        if relations is None or not relations.binds(instance.name):
            return False
        home = state.where[instance.name][0]
        return bool(relations.rejected(instance.name, (home,), relations.rule_counts(state.where)))

    def _made(self, state: State, instance: Instance, target: int) -> PlanEntry:
        """Carry out a move."""
        before = state.where[instance.name]
        move = Move(instance, before, (target,), [(FAILOVER_TO, target)])
        move.apply(state)
        return PlanEntry(move, score_of(state, self._scope))


class _UnitRows:
    """Rows that are 0 where all members of a colocation group are on one node."""

    def __init__(self, group_of: Callable[[Instance], Sequence[str]]) -> None:
        self._group_of = group_of
        self._rows: dict[tuple[object, ...], None] = {}

    def uses(self, instance: Instance, nodes: Nodes) -> dict[tuple[object, ...], float]:
        """Return what `instance` on `nodes` uses of the rows."""
        first, *others = self._group_of(instance)
        mine = others if instance.name == first else [instance.name] if others else []
        sign = 1.0 if instance.name == first else -1.0
        uses: dict[tuple[object, ...], float] = {("beside", name, nodes[0]): sign for name in mine}
        self._rows.update(dict.fromkeys(uses))
        return uses

    def add_to(self, problem: Problem) -> None:
        """Bound the rows in `problem`."""
        problem.bounds.update(dict.fromkeys(self._rows, (0.0, 0.0)))


def _allow_staying(problem: Problem, present: Places) -> None:
    """Let nobody have to leave a node that is over a limit already: limits are for arrivals."""
    staying: dict[tuple[object, ...], float] = {}
    for kind in problem.kinds:
        for choice in kind.choices:
            here = sum(present.get(name) == choice.value for name in kind.members)
            for row, amount in choice.uses.items() if here else ():
                staying[row] = staying.get(row, 0) + here * amount
    for row, (lowest, highest) in problem.bounds.items():
        problem.bounds[row] = lowest, max(highest, staying.get(row, 0))
