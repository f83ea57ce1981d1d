"""Places for all instances, or for as many as possible: an integer program with lazy constraints.

Pacemaker's rules never revise a choice, so they may leave an instance out. Here all instances are
placed at once. The integer program has the linear constraints. Its answers are checked against all
rules: limits, scores that are not negative, capacities, affinity, N+1. A rejected answer becomes a
constraint, and the program is solved again.

Cost: the places of all instances are listed, m n of them for *m* instances on one node each and *n*
nodes; the program is exponential at worst, and has a budget of work.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf

from iallocator.constraints.rows import AffinityRows, ConstraintRows, SoftAffinityRows
from iallocator.deadline import LISTED, Deadline, Held
from iallocator.model.constraints import ORDER
from iallocator.model.moves import Move
from iallocator.n1 import MOVED
from iallocator.placement.several.sequence import JointResult
from iallocator.planners.place.scheduler import stopped_disks
from iallocator.solver.most import Most, find_all_or_most
from iallocator.solver.placement_problem import PlacementProblem
from iallocator.solver.problem import FOUND

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.constraints.rows import Program, Row
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.planners.place.scheduler import SchedulingPass
    from iallocator.solver.problem import Problem

__all__ = ["place_exactly", "why_not_begun"]

COST_OF_ALL = 0.25
"""The cost of all moves and all scores together is at most this."""

HIGHEST_PENALTY = 8.0
"""The maximum cost of a violated soft constraint.

The unit is the difference between the best and the worst score of an instance, or a change of one
of its nodes. The maximum is more than the cost of moving both instances away from each other.
"""

NODE_ROWS = ("limit", "pool", "tag", "used", "peer")
"""The kinds of rows that are limits of nodes."""

KEEP_RUNNING = 2_000_000
"""The tag keep-running adds this to a priority: more than the highest priority."""


def why_not_begun(one: SchedulingPass) -> str:
    """Return why an exact search after the pass `one` could not end, or "" if it can.

    The search lists all places of all instances; as many as it may list are counted here.
    The state is that before the pass, and is left as it is.
    """
    order = [place.instance for place in one.in_order if not one.stuck(place.instance)]
    budget = one.context.budget(one.context.settings.thoroughness)
    most = int(budget.work[LISTED])
    if budget.must_end:
        return ""  # the search reports it
    with one.context.state.trial():
        one.take_off()
        counted = budget.take(_Rows(one, order).all_places(), LISTED)
    if len(counted) < most:
        return ""
    return (
        f"exact search was not begun: {len(order)} instances have {most} places or more, "
        "too many for its budget of work"
    )


def place_exactly(one: SchedulingPass, left_out: Collection[str]) -> JointResult:
    """Find places for all instances, or for more than all but those `left_out`.

    Instances with a higher priority come first. `one` is a pass that has not been run: instances
    that may move are not placed, and other instances are on their present nodes. The state is
    unchanged in the end.
    """
    context = one.context
    order = [place.instance for place in one.in_order if not one.stuck(place.instance)]
    joint = JointResult(len(order))
    one.count_the_stuck()
    with Held() as held:
        budget = context.budget(context.settings.thoroughness)
        rows = _Rows(one, order)
        program = rows.problem(budget)
        if program is not None:
            check = _Check(one, order)
            joint.most = Most(rows.priorities(), left_out)
            present = {i.name: one.places[i.name].before for i in order}
            stay = check.some_may_stay and rows.may_all_stay(program)
            if stay and check.broken(present) is None:
                # none is left out: a better placement is not searched for longer than usual
                part = budget.part(1 / context.settings.thoroughness)
                joint.status = find_all_or_most(program, check.broken, part, joint.most)
                if joint.status != FOUND:
                    joint.most.offer(present)
                    joint.most.proved, joint.status = True, FOUND
            else:
                joint.status = find_all_or_most(program, check.broken, budget, joint.most)
                joint.doubtful = check.doubtful
    joint.limit = budget.ended
    context.interrupted |= held.asked
    return joint


class _Rows:
    """The integer program of one pass."""

    def __init__(self, one: SchedulingPass, order: Sequence[Instance]) -> None:
        self._one = one
        self._order = order
        self._names = {instance.name for instance in order}
        self._affinity = AffinityRows(one.context.affinity.relations, order, (ORDER,))
        self._unit = COST_OF_ALL / max(1, len(order))
        self._soft = SoftAffinityRows(one.relations, self._names, self._penalty_of)

    def problem(self, budget: Deadline) -> Problem | None:
        """Return the program of all places of all instances; None if there is no budget."""
        one = self._one
        constraints: list[ConstraintRows] = [
            self._affinity,
            _PacemakerRows(one, self._names),
            self._soft,
        ]
        context = one.context
        lenient = {
            index
            for group in context.cluster.groups
            if context.settings_of(group).ignore_soft_errors
            for index in group.nodes
        }
        for instance in self._order:
            place = one.places[instance.name]
            if one.openings.forced(place):
                lenient.update(context.cluster.nodes[place.before[0]].group.nodes)
        collected = PlacementProblem(context.state, lenient, constraints=constraints)
        for instance in self._order:
            if budget.must_end:
                return None
            places = list(self._places(instance))
            before = one.places[instance.name].before
            collected.add(
                instance, places, distinct=instance.name,
                priority=self._priority(instance), disks_stay=stopped_disks(instance, before),
            )  # fmt: skip
        return collected.problem()

    def may_all_stay(self, problem: Problem) -> bool:
        """Return whether all instances may stay, as far as rows say that the check does not know.

        The rows of the limits of nodes are left out: an instance may stay on a node that has too
        little for all of its instances.
        """
        used: dict[Row, float] = {}
        soft: set[Row] = set()
        for kind in problem.kinds:
            place = self._one.places.get(kind.members[0])
            if place is None:  # a soft constraint
                soft.update(row for choice in kind.choices for row in choice.uses)
                continue
            stays = [one for one in kind.choices if place.before and one.value == place.before]
            if not stays:
                return False
            for row, amount in stays[0].uses.items():
                used[row] = used.get(row, 0) + amount
        return all(
            lowest <= used.get(row, 0) <= highest
            for row, (lowest, highest) in problem.bounds.items()
            if row[0] not in NODE_ROWS and row not in soft
        )

    def all_places(self) -> Iterator[tuple[float, Nodes]]:
        """Return every place of every instance, each as if no other instance moved."""
        for instance in self._order:
            yield from self._places(instance)

    def _penalty_of(self, one: str, other: str, weight: float) -> float:
        """Return the cost of a violated soft constraint between two instances of the program."""
        both = (self._one.places[name].instance for name in (one, other))
        return self._unit * max(self._scaled_penalty(each, weight) for each in both) / 4

    def _scaled_penalty(self, instance: Instance, penalty: float) -> float:
        """Return a penalty in units of the span of scores; without a span it precedes staying."""
        one = self._one
        weights = one.weigher.of(instance, one.homes.get(instance.name))
        usable = [w for w, may in zip(weights, one.facts.usable) if may and w >= 0]
        span = float(max(usable) - min(usable)) if usable else 0.0
        if not span:
            return HIGHEST_PENALTY / 2 * (1 + penalty / (penalty + 1))
        return min(HIGHEST_PENALTY, penalty / span)

    def _priority(self, instance: Instance) -> int:
        one = self._one
        keeps = one.relations.keep_running if one.relations else ()
        first = KEEP_RUNNING if instance.name in keeps and one.places[instance.name].runs else 0
        return one.facts.of(instance).priority + first

    def priorities(self) -> dict[str, int]:
        """Return the priority of each instance.

        If not all instances can be placed, those of higher priority take precedence.
        """
        return {instance.name: self._priority(instance) for instance in self._order}

    def _places(self, instance: Instance) -> Iterator[tuple[float, Nodes]]:
        """Return every acceptable place of an instance with its cost; no other instance moves."""
        one = self._one
        place = one.places[instance.name]
        weights = one.weigher.of(instance, one.homes.get(instance.name))
        highest = max(weights)
        span = float(highest - min(weights)) or 1.0
        # The node of an instance that stays, and that this one must be with
        companion, group = None, one.facts.of(instance).group
        for other in one.places.values() if group else ():
            stays = other.instance.name not in self._names and other.runs
            if stays and one.facts.of(other.instance).group == group:
                companion = other.before[0]
                break
        penalties = one.context.affinity.costs(instance, range(len(weights)))
        for rank, field in enumerate(one.openings.fields(place)):
            usable = [i for i in field if one.facts.usable[i] and weights[i] >= 0]
            open_nodes = [index for index in usable if companion in (None, index)]
            rejected = one.openings.rejections(place, open_nodes)
            for index in open_nodes:
                if index in rejected:
                    continue
                cost = (highest - weights[index]) / span + rank
                if index in penalties:
                    cost += self._scaled_penalty(instance, penalties[index])
                pairs: list[Nodes] = [(index,)]
                if instance.required_nodes > 1:
                    unusable = one.openings.unusable_secondary(place, index)
                    pairs = [
                        (index, secondary)
                        for secondary in one.openings.secondaries_for(place, index)
                        if secondary not in unusable
                    ]
                    # Any other secondary is better than an unusable one
                    pairs += [(index, secondary) for secondary in unusable]
                for nodes in pairs:
                    moves = sum(node not in place.before for node in nodes)
                    more = len(nodes) if not all(one.facts.usable[k] for k in nodes) else 0
                    yield self._unit * (cost + moves + more) / 4, nodes


class _PacemakerRows(ConstraintRows):
    """Capacities of utilization attributes, and Pacemaker's sequences of colocated instances."""

    def __init__(self, one: SchedulingPass, names: Collection[str]) -> None:
        self._one = one
        self._bounds: dict[Row, tuple[float, float]] = {}
        self._sequences: dict[str, list[tuple[str, str]]] = {}
        for unit in one.units:
            members = [member.name for member in unit.members if member.name in names]
            for pair in pairwise(members):
                for name in pair:
                    self._sequences.setdefault(name, []).append(pair)

    def uses(self, instance: Instance, nodes: Nodes) -> dict[Row, float]:
        """Return row of the program -> amount that `instance` uses of it if it is on `nodes`."""
        one = self._one
        uses: dict[Row, float] = {}
        if one.kind != "default":
            for index in nodes:
                for name, amount in one.facts.of(instance).needs.items():
                    if amount > 0:
                        row: Row = ("capacity", name, index)
                        uses[row] = amount
                        free = one.usage.free[index].get(name, 0)
                        self._bounds[row] = (-inf, max(0, free))
        for former, latter in self._sequences.get(instance.name, ()):
            row = ("follows", former, latter)
            uses[row] = 1 if instance.name == former else -1
            self._bounds[row] = (0, inf)
        return uses

    def add_to(self, program: Program, rows: Iterable[Row]) -> None:
        program.bounds.update(self._bounds)


class _Check:
    """The check of answers: it places the instances one by one.

    Instances that leave a node that is not online come last: soft limits do not keep them off.

    Attributes
    ----------
    some_may_stay:
        Whether some instances may stay on nodes that have too little for all of them.
    doubtful:
        As `some_may_stay`, or whether an answer was rejected that another order of the places might
        allow.
    """

    def __init__(self, one: SchedulingPass, order: Sequence[Instance]) -> None:
        self._one = one
        self._order = sorted(order, key=lambda i: one.openings.forced(one.places[i.name]))
        nodes = one.context.cluster.nodes
        starts = [one.places[instance.name].before[:1] for instance in order]
        self._returning = {nodes[k].group for start in starts for k in start if not nodes[k].online}
        # The rows of the program do not know that some instances may stay on nodes that have too
        # little for all of them
        self.some_may_stay = False
        state = one.context.state
        with state.trial():
            existing = [i for i in self._order if one.places[i.name].before]
            for instance in existing:
                state.place(instance, one.places[instance.name].before)
            for instance in existing:
                place = one.places[instance.name]
                state.remove(instance, place.before)
                if one.openings.may_only_stay(place):
                    self.some_may_stay = True
                    break
                state.place(instance, place.before)
        self.doubtful = self.some_may_stay

    def broken(self, nodes: Mapping[str, Nodes]) -> list[str] | None:
        """Return the first instance that fails in its place, and those before it; None if none."""
        one, state = self._one, self._one.context.state
        placed: list[Instance] = []
        idle: list[str] = []
        late: dict[Group, FailureTolerance] = {}
        with state.trial():
            for instance in self._order:
                disks = stopped_disks(instance, one.places[instance.name].before)
                if disks and instance.name not in nodes:
                    state.keep_disks(instance, disks)
                    idle.append(instance.name)
            for instance in self._order:
                own_nodes = nodes.get(instance.name)
                if own_nodes is None:
                    continue
                place = one.places[instance.name]
                rejection = one.openings.rejection  # capacities and N+1 are not checked
                allowed = not (
                    rejection(place, own_nodes[:1])
                    or (len(own_nodes) > 1 and rejection(place, own_nodes))
                )
                tolerance = one.tolerance(own_nodes[0], place) if allowed else None
                if tolerance is not None and not self._tolerates(tolerance, instance, own_nodes):
                    group = state.cluster.nodes[own_nodes[0]].group
                    if tolerance.rules.exact and place.before and group in self._returning:
                        late[group] = tolerance  # instances that return allow more to be lost
                    else:
                        allowed = False
                if not allowed:
                    return [*idle, *(other.name for other in placed), instance.name]
                state.place(instance, own_nodes)
                placed.append(instance)
            if any(one.comparison.broken(MOVED, rescues=True) for one in late.values()):
                return [instance.name for instance in self._order]
        return None

    def _tolerates(self, tolerance: FailureTolerance, instance: Instance, nodes: Nodes) -> bool:
        """Return whether N+1 allows a place; note whether a rejection is no proof."""
        effort = self._one.context.effort
        undecided = effort.undecided
        if tolerance.allows(Move(instance, (), nodes)):
            return True
        cluster = self._one.context.cluster
        # The other modes restart instances one by one, each on the best node
        members = cluster.members(cluster.nodes[nodes[0]].group)
        simulated = not tolerance.rules.exact and any(i.required_nodes == 1 for i in members)
        new = bool(self._returning) and not self._one.places[instance.name].before
        self.doubtful |= simulated or new or effort.undecided > undecided
        return False
