"""Place all instances, or as many as possible, by an integer program with lazy constraints.

Pacemaker's rules never revise a choice, so they can leave out an instance for which another
placement of the other instances has capacity. The integer program places all instances at once. It
lists only nodes with scores that are not negative, and has rows for capacities and other linear
constraints. Each answer of the solver is checked against the limits of nodes, affinity and N+1. A
rejected answer becomes a further constraint, and the program is solved again.

Cost: the program lists the places of all instances, m n places for *m* instances on one node each
and *n* nodes. The solver takes exponential time in the worst case; a budget limits its work.
"""

from __future__ import annotations

from itertools import pairwise
from math import inf

from iallocator.constraints.rows import AffinityRows, ConstraintRows, SoftAffinityRows
from iallocator.deadline import LISTED, Deadline, Held
from iallocator.model.constraints import ORDER
from iallocator.model.moves import Move
from iallocator.n1 import MOVED_WITHIN
from iallocator.placement.several.sequence import JointResult
from iallocator.planners.place.scheduler import RESOURCE_REASONS, stopped_disks
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
"""The maximum cost of all moves and all scores of an answer together."""

HIGHEST_PENALTY = 8.0
"""The maximum cost of a violated soft constraint.

The unit is the difference between the best and the worst score of an instance. A change of one node
of an instance costs 1. The maximum is more than the cost of moving both instances of a violated
constraint.
"""

SHARE_WITH_STAYING = 0.5
"""The share of the budget for places of instances that may stay on nodes that lack capacity."""

NODE_ROWS = ("limit", "pool", "tag", "used", "peer")
"""The kinds of the rows that express limits of nodes."""

KEEP_RUNNING_PRIORITY = 2_000_000
"""The amount that the tag keep-running adds to a priority; it exceeds the highest priority."""


def why_not_begun(one: SchedulingPass) -> str:
    """Return why exact search is not started for the instances of the pass `one`; "" if it can be.

    Exact search lists all places of all instances, and its budget limits their number. This
    function lists the places up to that number. The state must be that before the pass. It is not
    changed.
    """
    order = [place.instance for place in one.in_order if not one.stuck(place.instance)]
    budget = one.context.budget(one.context.settings.thoroughness)
    most = int(budget.work[LISTED])
    if budget.must_end:
        return ""  # the search reports that its budget is used up
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
    """Return the result of exact search for places of all instances of the pass `one`.

    If not all instances can be placed, those with a higher priority take precedence. An answer
    counts only if it is better than one that leaves out `left_out`. `one` must not have been run:
    instances that may move are not placed, and other instances are on their present nodes. The
    state is not changed.
    """
    context = one.context
    order = [place.instance for place in one.in_order if not one.stuck(place.instance)]
    joint = JointResult(len(order))
    one.count_the_stuck()
    with Held() as held:
        budget = context.budget(context.settings.thoroughness)
        rows, check = _Rows(one, order), _Check(one, order)
        program = rows.problem(budget, check.failing)
        if program is not None:
            joint.most = Most(rows.priorities(), left_out)
            present = {i.name: one.places[i.name].before for i in order}
            stay = check.some_may_stay and rows.may_all_stay(program)
            if stay and check.broken(present) is None:
                # No instance is left out if all stay, so the thoroughness adds no work here
                part = budget.part(1 / context.settings.thoroughness)
                joint.status = find_all_or_most(program, check.broken, part, joint.most)
                if joint.status != FOUND:
                    joint.most.offer(present)
                    joint.most.proved, joint.status = True, FOUND
            else:
                part = budget.part(SHARE_WITH_STAYING) if check.some_may_stay else budget
                joint.status = find_all_or_most(program, check.broken, part, joint.most)
                joint.doubtful, proved = check.doubtful, joint.most.proved
                unproved = check.some_may_stay and (check.doubtful or not proved)
                strict = rows.problem(budget) if unproved else None
                if strict is not None:
                    # Without staying, more is often found soon; but that search proves nothing
                    if find_all_or_most(strict, check.broken, budget, joint.most) == FOUND:
                        joint.status, joint.doubtful = FOUND, False
                    else:
                        joint.most.proved = proved
    joint.limit = budget.ended
    context.interrupted |= held.asked
    return joint


class _Rows:
    """The integer program that places the instances `order`, of the scheduling pass `one`."""

    def __init__(self, one: SchedulingPass, order: Sequence[Instance]) -> None:
        self._one = one
        self._order = order
        self._names = {instance.name for instance in order}
        self._affinity = AffinityRows(one.context.affinity.relations, order, (ORDER,))
        self._unit = COST_OF_ALL / max(1, len(order))
        self._soft = SoftAffinityRows(one.relations, self._names, self._penalty_of)

    def problem(self, budget: Deadline, failing: Collection[int] | None = None) -> Problem | None:
        """Return the program with every place of every instance; None if the budget has ended.

        `failing`: the nodes that initially lack memory for failovers, if instances may stay beside
        each other on nodes that lack capacity for them; None if no row permits that.
        """
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
            if one.openings.exempt_roles(place):
                lenient.update(context.cluster.nodes[place.before[0]].group.nodes)
        collected = PlacementProblem(
            context.state, lenient, failing=failing or (), constraints=constraints
        )
        for instance in self._order:
            if budget.must_end:
                return None
            places = list(self._places(instance))
            before = one.places[instance.name].before
            collected.add(
                instance, places, distinct=instance.name,
                priority=self._priority(instance), disks_stay=stopped_disks(instance, before),
                initial=() if failing is None else before,
            )  # fmt: skip
        return collected.problem()

    def may_all_stay(self, problem: Problem) -> bool:
        """Return whether all instances may stay on their nodes, by the rows that `_Check` skips.

        The limits of nodes are ignored: an instance may stay on a node that lacks capacity for all
        of its instances. Soft constraints are ignored, too.
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
        """Yield (cost, nodes) for every place of every instance; see `_places`."""
        for instance in self._order:
            yield from self._places(instance)

    def _penalty_of(self, one: str, other: str, weight: float) -> float:
        """Return the cost of a violated soft constraint between the instances `one` and `other`.

        `weight` is the penalty of the constraint, in units of scores.
        """
        both = (self._one.places[name].instance for name in (one, other))
        return self._unit * max(self._scaled_penalty(each, weight) for each in both) / 4

    def _scaled_penalty(self, instance: Instance, penalty: float) -> float:
        """Return `penalty` in units of the span of scores, at most `HIGHEST_PENALTY`.

        The span is the difference between the best and the worst score of `instance` on usable
        nodes. If all scores are equal, the result is at least half of `HIGHEST_PENALTY`: a violated
        constraint then costs as much as the most expensive place, or more.
        """
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
        first = (
            KEEP_RUNNING_PRIORITY
            if instance.name in keeps and one.places[instance.name].runs
            else 0
        )
        return one.facts.of(instance).priority + first

    def priorities(self) -> dict[str, int]:
        """Return name of an instance -> its priority, increased by the tag keep-running.

        If not all instances can be placed, those with a higher priority take precedence.
        """
        return {instance.name: self._priority(instance) for instance in self._order}

    def _places(self, instance: Instance) -> Iterator[tuple[float, Nodes]]:
        """Yield (cost, nodes) for every acceptable place of `instance`, the primary first.

        Each place is checked alone: no other instance that may move is placed.
        """
        one = self._one
        place = one.places[instance.name]
        weights = one.weigher.of(instance, one.homes.get(instance.name))
        highest = max(weights)
        span = float(highest - min(weights)) or 1.0
        # companion: the node of a member of the instance's colocation set that stays
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
    """Rows for the capacities of utilization attributes, and for Pacemaker's colocation sets.

    A member of a colocation set is placed only if the member before it is placed.
    """

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
        """Return row of the program -> the amount of the row that `instance` uses on `nodes`."""
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
    """Checks the answers of the solver: it places the instances of an answer one by one.

    If `some_may_stay`, instances that stay come first, because they may stay only beside each
    other. Instances that are exempt from soft limits come last: they must leave nodes that are not
    online.

    Attributes
    ----------
    failing:
        The nodes that initially lack memory for failovers.
    some_may_stay:
        Whether some instances may stay on nodes that lack capacity for all of their instances.
    doubtful:
        Whether the search proves nothing, because an answer was rejected that may be allowed if the
        instances are placed in another order.
    """

    def __init__(self, one: SchedulingPass, order: Sequence[Instance]) -> None:
        self._one = one
        places = one.places
        self._last = {i.name for i in order if one.openings.exempt_roles(places[i.name]) > 1}
        self._order = sorted(order, key=lambda i: i.name in self._last)
        nodes = one.context.cluster.nodes
        starts = [one.places[instance.name].before[:1] for instance in order]
        self._returning = {nodes[k].group for start in starts for k in start if not nodes[k].online}
        self.some_may_stay = False
        state = one.context.state
        with state.trial():
            existing = [i for i in self._order if one.places[i.name].before]
            for instance in existing:
                state.place(instance, one.places[instance.name].before)
            self.failing = {node.index for node in nodes if state.fails_n1(node.index)}
            for instance in existing:
                place = one.places[instance.name]
                state.remove(instance, place.before)
                if one.openings.may_only_stay(place):
                    self.some_may_stay = True
                    break
                state.place(instance, place.before)
        self.doubtful = False

    def broken(self, nodes: Mapping[str, Nodes]) -> list[str] | None:
        """Return the instances that together break a constraint in the answer `nodes`, or None.

        `nodes`: name of an instance -> its nodes. The result has the first instance with a rejected
        place, those placed before it, and those that are left out but keep disks on their nodes. If
        a limit of a node rejects the place, only instances with the same nodes are in the result.
        """
        if not self.some_may_stay:
            return self._broken(nodes, self._order)[0]
        instances = {i.name: i for i in self._order}
        places = self._one.places
        changes = {n: _changes(places[n].before, nodes.get(n)) for n in instances}
        # An instance that keeps one of two roles may have to come before others that arrive on its
        # node. If it is rejected, it comes before the others that keep a role
        rejected: dict[str, list[str]] = {}
        while True:
            rank = {name: -number for number, name in enumerate(rejected)}
            order = sorted(changes, key=lambda n: (n in self._last, changes[n], rank.get(n, 1)))
            broken, by_limit = self._broken(nodes, [instances[name] for name in order])
            if broken is None or not by_limit:
                return broken
            *others, last = broken
            movers = [name for name in others if changes[name]]
            if changes[last] != 1 or not movers:
                return broken
            if last in rejected:
                opposite = rejected.get(movers[0], []) if len(movers) == 1 else []
                if [name for name in opposite if changes[name]] == [last, *movers]:
                    union = dict.fromkeys(n for n in (*opposite, *others) if n != last)
                    return [*union, last]  # in neither order
                self.doubtful = True
                return broken
            rejected[last] = broken

    def _broken(
        self, nodes: Mapping[str, Nodes], order: Sequence[Instance]
    ) -> tuple[list[str] | None, bool]:
        """Return the result of `broken` if the instances are placed in the order of `order`, and
        whether a limit of a node rejects the last of its instances.
        """
        one, state = self._one, self._one.context.state
        placed: list[str] = []
        idle: dict[str, Nodes] = {}
        late: dict[Group, FailureTolerance] = {}
        with state.trial():
            for instance in self._order:
                disks = stopped_disks(instance, one.places[instance.name].before)
                if disks and instance.name not in nodes:
                    state.keep_disks(instance, disks)
                    idle[instance.name] = disks
            for instance in order:
                own_nodes = nodes.get(instance.name)
                if own_nodes is None:
                    continue
                place = one.places[instance.name]
                # It checks neither capacities nor N+1
                rejection = one.openings.rejection(place, own_nodes[:1])
                if not rejection and len(own_nodes) > 1:
                    rejection = one.openings.rejection(place, own_nodes)
                if rejection:
                    others = [*idle, *placed]
                    by_limit = rejection in RESOURCE_REASONS
                    if by_limit and instance.pools is None:
                        used = {**nodes, **idle}
                        others = [
                            name for name in others if not {*own_nodes}.isdisjoint(used[name])
                        ]
                    return [*others, instance.name], by_limit
                tolerance = one.tolerance(own_nodes[0], place)
                if tolerance is not None and not self._tolerates(tolerance, instance, own_nodes):
                    group = state.cluster.nodes[own_nodes[0]].group
                    if not (tolerance.rules.exact and place.before and group in self._returning):
                        return [*idle, *placed, instance.name], False
                    # Checked in the end: instances that return may count as lost
                    late[group] = tolerance
                state.place(instance, own_nodes)
                placed.append(instance.name)
            if any(one.comparison.broken(MOVED_WITHIN, rescues=True) for one in late.values()):
                self.doubtful |= one.context.effort.spent
                return [instance.name for instance in self._order], False
        return None, False

    def _tolerates(self, tolerance: FailureTolerance, instance: Instance, nodes: Nodes) -> bool:
        """Return whether N+1 allows `instance` on `nodes`.

        Set `doubtful` if N+1 rejects the place without a proof.
        """
        effort = self._one.context.effort
        undecided = effort.undecided
        if tolerance.allows(Move(instance, (), nodes)):
            return True
        cluster = self._one.context.cluster
        # Modes other than no-worse simulate: they restart instances one by one, each on the best
        # node, which proves nothing
        members = cluster.members(cluster.nodes[nodes[0]].group)
        simulated = not tolerance.rules.exact and any(i.required_nodes == 1 for i in members)
        new = bool(self._returning) and not self._one.places[instance.name].before
        self.doubtful |= simulated or new or effort.undecided > undecided
        return False


def _changes(before: Nodes, after: Nodes | None) -> int:
    """Return 0 if an instance stays, 1 if it keeps one of two roles, 2 if it keeps none."""
    if after is None or after == before:
        return 0
    return 1 if any(one == other for one, other in zip(before, after)) else 2
