"""Places for all, or for as many as possible, by exact search, where the rules leave some out.

Pacemaker's rules never go back on a choice.  Here all instances choose at once: what is
linear is left to the solver, and its answer is tried out by the very rules that
each choice has to keep: limits, scores that are not negative, capacities, bonds, N+1.
"""

from __future__ import annotations

from itertools import pairwise

from iallocator.placement.joint_affinity import BondRows
from iallocator.planners.place.followers import leaders_of
from iallocator.planners.place.gate import Gate
from iallocator.solver.placement_problem import PlacementProblem
from iallocator.solver.problem import FOUND
from iallocator.solver.refine import Deadline, search

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.model.instance import Instance
    from iallocator.planners.place.scheduler import ScheduleResult, SchedulingPass
    from iallocator.solver.problem import Problem

    Nodes = tuple[int, ...]
    Row = tuple[Any, ...]

__all__ = ["place_exactly"]

LEVELS = 3
"""How many classes of priority are told apart; lower ones count as the lowest of these."""

TINY = 0.25
"""What all moves and all scores together may cost at most: less than anybody left out."""


def place_exactly(one: SchedulingPass) -> dict[str, Nodes] | None:
    """Name → nodes for as many as possible, more important ones first; None if none is found.

    `one` is a pass that has not been run: what may move is off the state.  Those that
    do not move are counted where they are.  The state is left as it is.
    """
    deadline = Deadline(one.context.settings.search_seconds)
    order = [m for unit in one.units for m in unit.members if not one.stuck(m)]
    for place in one.places.values():
        if one.stuck(place.instance) and place.runs:
            one.count(place.instance, place.before)
    problem = _Rows(one, order).problem(deadline)
    if problem is None:
        return None
    answer = search(problem, lambda nodes: _broken(one, order, nodes), deadline)
    return answer.values(problem) if answer.status == FOUND else None


class _Rows:
    """The integer program of one pass."""

    def __init__(self, one: SchedulingPass, order: Sequence[Instance]) -> None:
        self._one = one
        self._order = order
        self._names = {instance.name for instance in order}
        self._bonds = BondRows(one.context, order)
        self._unit = TINY / max(1, len(order))
        self._bounds: dict[Row, tuple[float, float]] = {}

    def problem(self, deadline: Deadline) -> Problem | None:
        """All places of all instances; None if there is no time for them."""
        context = self._one.context
        collected = PlacementProblem(context.state, context.ignore_soft)
        penalties = self._penalties()
        for instance in self._order:
            if deadline.left <= 0:
                return None
            places = list(self._places(instance))
            bonds = self._bonds.needs(instance, [nodes for _, nodes in places])
            needs = {
                nodes: {**bonds.get(nodes, {}), **self._uses(instance, nodes)}
                for _, nodes in places
            }
            collected.add(instance, places, penalties[instance.name], needs, distinct=instance.name)
        program = collected.problem()
        self._bonds.bound(program)
        program.bounds.update(self._bounds)
        return program

    def _penalties(self) -> dict[str, float]:
        """What leaving out costs: one of a class as much as all of the classes below it."""
        one = self._one
        keep = one.relations.keep_running if one.relations else ()
        rank = {
            i.name: (
                i.name in keep and one.places[i.name].runs,
                one.facts.of(i).priority,
            )
            for i in self._order
        }
        classes = sorted(set(rank.values()), reverse=True)
        lowest = min(len(classes), LEVELS) - 1
        level = {some: max(0, lowest - k) for k, some in enumerate(classes)}
        return {name: float((len(rank) + 1) ** level[some]) for name, some in rank.items()}

    def _places(self, instance: Instance) -> Iterator[tuple[float, Nodes]]:
        """Every place that an instance may have if nothing else moves, with what it costs."""
        one = self._one
        place = one.places[instance.name]
        weights = one.weigher.of(instance, one.homes.get(instance.name))
        highest = max(weights)
        span = float(highest - min(weights)) or 1.0
        gate = Gate(one.context, place, one.relations)
        with_it = self._companion(instance)
        for group, field in enumerate(one.fields(place)):
            for index in field:
                usable = one.facts.usable[index] and weights[index] >= 0
                if not usable or with_it not in (None, index) or not gate.as_primary(index):
                    continue
                cost = (highest - weights[index]) / span + group
                for nodes in self._pairs(instance, index, gate):
                    moves = sum(node not in place.before for node in nodes)
                    yield self._unit * (cost + moves) / 4, nodes

    def _companion(self, instance: Instance) -> int | None:
        """The node of one that stays, and that the instance must be with."""
        one = self._one
        group = one.facts.of(instance).group
        for place in one.places.values() if group else ():
            stays = place.instance.name not in self._names and place.runs
            if stays and one.facts.of(place.instance).group == group:
                return place.before[0]
        return None

    def _pairs(self, instance: Instance, primary: int, gate: Gate) -> list[Nodes]:
        if instance.required_nodes == 1:
            return [(primary,)]
        facts = self._one.facts
        return [
            (primary, index)
            for index in self._one.context.cluster.nodes[primary].group.nodes
            if index != primary and facts.usable[index] and gate.as_secondary(primary, index)
        ]

    def _uses(self, instance: Instance, nodes: Nodes) -> dict[Row, float]:
        """Capacities that it takes, and whom it has to follow."""
        one = self._one
        uses: dict[Row, float] = {}
        if one.kind != "default":
            for index in nodes:
                for name, amount in one.facts.of(instance).needs.items():
                    if amount > 0:
                        row: Row = ("capacity", name, index)
                        uses[row] = amount
                        free = one.ledger.free[index].get(name, 0)
                        self._bounds[row] = (float("-inf"), max(0, free))
        for former, latter in self._sequences(instance.name):
            row = ("follows", former, latter)
            uses[row] = 1 if instance.name == former else -1
            self._bounds[row] = (0, float("inf"))
        return uses

    def _sequences(self, name: str) -> Iterator[tuple[str, str]]:
        """(one, other): where the other has a place the one must have one; `name` is either."""
        for unit in self._one.units:
            members = [member.name for member in unit.members if member.name in self._names]
            if name in members:
                yield from (pair for pair in pairwise(members) if name in pair)
        for other in self._names:
            for bond in leaders_of(self._one, other):
                if bond.other in self._names and name in (other, bond.other):
                    yield bond.other, other


def _broken(
    one: SchedulingPass, order: Sequence[Instance], nodes: Mapping[str, Nodes]
) -> list[str] | None:
    """Try the places out, one after the other; the first that fails, and who was there before."""
    state = one.context.state
    placed: list[Instance] = []
    try:
        for instance in order:
            taken = nodes.get(instance.name)
            if taken is None:
                continue
            if not _possible(one, one.places[instance.name], taken):
                return [*(other.name for other in placed), instance.name]
            state.place(instance, taken)
            placed.append(instance)
    finally:
        for instance in reversed(placed):
            state.remove(instance, nodes[instance.name])
    return None


def _possible(one: SchedulingPass, place: ScheduleResult, nodes: Nodes) -> bool:
    """Whether an instance may go to `nodes` as the state is now, capacities aside."""
    gate = Gate(one.context, place, one.relations)
    if not gate.as_primary(nodes[0]):
        return False
    if len(nodes) > 1 and not gate.as_secondary(*nodes):
        return False
    judge = one.keeper.judge(one.context.cluster.nodes[nodes[0]].group.nodes)
    return judge is None or judge.accepts(place.instance, nodes)
