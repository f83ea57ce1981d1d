"""Make plans shorter without changing their last placement: fewer copies, and two plans as one.

A search makes the move that helps most at the time. Later in the plan, the search may move the
instance again, to another node or back. Only the placement after the plan matters, so every copy of
a disk before the last move of its instance is needless.

Algorithm of `direct_moves`: for each instance that moves more than once, find the shortest
sequences of moves from the first to the last nodes of the instance. A sequence is used if it copies
less, or copies as much in fewer moves. First, all instances get such a sequence at once, and the
moves are put into a legal order (`iallocator.planners.steepest_order`). If there is no legal order,
each sequence is tried alone, at several positions between the first and the last move of the
instance, and kept if every move of the plan is still legal; this is repeated until nothing changes.
Cost: that of the order; then one pass over the moves of the plan for each sequence and position,
with at most `MOST_SHORTENING_MOVES` moves in all.

A plan of balance may be made in part, so its first moves should be those that help most. The search
has chosen them so, but an instance that moves directly may help less at first. So the plan of the
search is kept if its score falls faster.

Algorithm of `merge_moves`, for two plans that follow each other: pass over the instances that are
not on their last nodes, and move each instance that can move there legally now. If a pass moves
none, make the next legal move of the two plans instead. The first plan may move instances to nodes
that the second plan frees. Such nodes are drained before the first move, so no instance may move to
them. Cost: a check of the limits for each instance and pass.
"""

from __future__ import annotations

import itertools

from iallocator.deadline import Deadline, check
from iallocator.model.moves import Move, replay
from iallocator.model.node_view import Capacities
from iallocator.n1 import plan_rules
from iallocator.n1.tolerance import FailureTolerance
from iallocator.planners.balance.move_kinds import BY_NAME, MOVE_KINDS, MoveRules, possible
from iallocator.planners.balance.plan_builder import BalanceProblem
from iallocator.planners.plan import (
    PlanEntry,
    ends_of_colocation_groups,
    mark_colocation_groups,
)
from iallocator.planners.power_state import Switched
from iallocator.planners.search import Acceptance, LocalSearch, Neighbourhood
from iallocator.planners.verify import verify_moves
from iallocator.scoring.scalar import kernel_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.outcome import Failures
    from iallocator.planners.plan_limits import PlanLimits
    from iallocator.planners.result import GroupPlans
    from iallocator.planners.search import Objective
    from iallocator.planners.verify import Problem

__all__ = ["direct_moves", "merge_moves", "rescore", "rescore_all", "shortest_ways"]

if TYPE_CHECKING:
    Moves = list[Move]
    Entries = list[PlanEntry]


MOST_SHORTENING_MOVES = 15_000
"""The largest number of moves, over all plans tried, that `direct_moves` examines."""

LONG_PLAN, LEAST_SAVED = 50, 0.2
"""A plan of balance with more moves than this is made shorter only if this share of the copied MiB,
or of the moves, is saved.

If less is saved, the score nearly always falls more slowly, so that the longer plan is kept.
"""

MOST_POSITIONS_TRIED = 12
"""The largest number of positions in a plan at which a shorter sequence of moves is tried."""


def direct_moves(
    done: GroupPlans,
    limits: PlanLimits,
    failures: Failures,
    rules: MoveRules,
    over: Callable[[], bool] = lambda: False,
) -> list[Entries] | None:
    """Return the moves of each plan of `done` without needless copies; None if nothing changes.

    The moves of a plan that changes, and that may be made in part, are ordered so that the score
    falls early. If its score falls faster without the change, it is kept as it is. Moves of
    colocation groups are not changed. Moves that change have a score of 0; `rescore_all` computes
    their scores.

    Parameters
    ----------
    done:
        The plans that the planner found; they are not changed.
    limits, failures:
        The limits and the N+1 results against which a shorter plan is verified. The plans of
        `done` must have passed this verification.
    rules:
        The kinds of moves that the planner may make.
    over:
        Returns whether time is up. The shorter plans found until then are kept.
    """
    work = _Shortening(done, limits, failures, over)
    if done.keeps_n1_on_the_way:
        work.shorten_all(rules)
        if not work.changed:
            return None
        if work.put_in_order(rules):
            return work.plans if work.keep_faster() else None
    for each in (False, True):
        work = _Shortening(done, limits, failures, over)
        for number in range(len(done.plans)):
            work.begin(number, rules)
            LocalSearch(
                [_DirectWay()],
                lambda state: _effort(entry.move for entry in state.plan),
                Acceptance(allows=work.passes if each else work.is_legal),
                Deadline(None),
            ).run(work)
        if not work.changed:
            return None
        # It is faster to verify only the last plans
        if work.put_in_order(rules) or not work.is_wrong():
            break
    if done.keeps_n1_on_the_way and not work.keep_faster():
        return None
    return work.plans


class _Shortening:
    """The plans of all groups while they are made shorter; the state of a local search.

    Attributes
    ----------
    plans:
        The moves of each plan.
    number:
        Position in `plans` of the plan that is made shorter now.
    rules:
        The kinds of moves that this plan may make.
    changed:
        The numbers of the plans that have become shorter.
    """

    rules: MoveRules

    def __init__(
        self, done: GroupPlans, limits: PlanLimits, failures: Failures, over: Callable[[], bool]
    ) -> None:
        self.before = done.before
        self._groups = [one.group for one in done.plans]
        self._keeps_on_the_way = done.keeps_n1_on_the_way
        self._tolerances: dict[int, FailureTolerance] = {}
        self.plans = [list(one.plan.entries) for one in done.plans]
        self._found = [list(entries) for entries in self.plans]
        self.number = 0
        self.changed: dict[int, None] = {}
        self._limits = limits
        self._failures = failures
        self._over = over
        self._fixed = Capacities(done.cluster.nodes, limits.min_disk)
        self._left = MOST_SHORTENING_MOVES

    @property
    def plan(self) -> Entries:
        """Return the moves of the plan that is made shorter now."""
        return self.plans[self.number]

    def begin(self, number: int, rules: MoveRules) -> None:
        """Continue with the plan at position `number`; `rules`: the kinds of moves of all plans."""
        self.number = number
        soft = self._limits.of(self._groups[number]).ignore_soft_errors
        self.rules = rules.minding_soft_limits(soft).while_leaving(self._limits.power.off)

    def shorten_all(self, rules: MoveRules) -> None:
        """Move every instance directly that moves several times, in all plans.

        A direct move takes the place of the first move of its instance. A long plan that becomes
        only a little shorter is not changed. Whether the moves are legal is not checked.
        """
        for number in range(len(self.plans)):
            self.begin(number, rules)
            direct: dict[int, Entries] = {}  # by the position of the first of the old moves
            old: set[int] = set()
            for places in _moved_again(self.plan).values():
                moves = [self.plan[k].move for k in places]
                first, last = moves[0], moves[-1]
                ways = shortest_ways(
                    self.before, first.instance, first.before, last.after, self.rules
                )
                way = next((one for one in ways if _effort(one) < _effort(moves)), None)
                if way is not None:
                    direct[places[0]] = [PlanEntry(move) for move in way]
                    old.update(places)
            shorter = [
                one
                for k, entry in enumerate(self.plan)
                for one in direct.get(k, [] if k in old else [entry])
            ]
            pairs = zip(_effort(e.move for e in shorter), _effort(e.move for e in self.plan))
            least = LEAST_SAVED if len(self.plan) > LONG_PLAN else 0.0
            if direct and any(after <= (1 - least) * before for after, before in pairs):
                self.plans[number] = shorter
                self.changed[number] = None

    def put_in_order(self, rules: MoveRules) -> bool:
        """Order the moves of the changed plans so that the score falls early.

        Return False, and change nothing, if the limits or N+1 do not allow it, or if moves may not
        be made in part. `rules`: the kinds of moves of all plans.
        """
        ordered = list(self.plans)
        for number in self.changed if self._keeps_on_the_way else ():
            self.begin(number, rules)
            group, keeps, state = self._groups[number], lambda: True, self.before
            if self._limits.settings.plan_n1(group.index) != "off":
                tolerance = self._tolerance(number)
                state, keeps = tolerance.state, tolerance.comparison.passing_guard().keeps
            problem = BalanceProblem(
                state, group.nodes, self._fixed, (), self.rules, self._limits.relations
            )
            from iallocator.planners.steepest_order import steepest_order  # loads arrays

            entries = steepest_order(problem, self.plan, keeps, self._over)
            if entries is None:
                return False
            ordered[number] = entries
        if not self._keeps_on_the_way or self._wrong(ordered):
            return False
        self.plans = ordered
        return True

    def keep_faster(self) -> bool:
        """Restore the plans of the search of which the score falls faster.

        Return whether a changed plan is left. The score falls faster if the lowest score so far is
        lower on average over the moves of the longer plan. A plan that has ended keeps its score.
        A plan without swaps and chains is not restored.
        """
        for number in list(self.changed):
            if not any(b.score > a.score for a, b in itertools.pairwise(self._found[number])):
                continue
            found = self._lowest_scores(number, self._found[number])
            shorter = self._lowest_scores(number, self.plans[number])
            shorter += shorter[-1:] * (len(found) - len(shorter))
            if sum(found) < sum(shorter):
                self.plans[number] = self._found[number]
                del self.changed[number]
        return bool(self.changed)

    def _lowest_scores(self, number: int, entries: Entries) -> list[float]:
        """Return the lowest score until each move of a plan, but at least its last score."""
        group, state = self._groups[number], self.before
        scores: list[float] = []
        with state.trial():
            kernel = kernel_of(state, group.nodes)
            for entry in entries:
                entry.move.apply(state)
                kernel.follow()
                scores.append(kernel.score())
        return [max(score, scores[-1]) for score in itertools.accumulate(scores, min)]

    def spend(self, moves: int) -> bool:
        """Subtract `moves` from the budget of moves; return whether budget and time are left."""
        self._left -= moves
        return self._left >= 0 and not self._over()

    def problems(self, entries: Entries) -> list[Problem]:
        """Return the problems of all plans together if `entries` replace the plan at `number`."""
        return self._wrong([*self.plans[: self.number], entries, *self.plans[self.number + 1 :]])

    def _wrong(self, plans: Sequence[Entries]) -> list[Problem]:
        every = [entry for plan in plans for entry in plan]
        return verify_moves(self.before, every, self._limits, self._failures)

    def is_wrong(self) -> bool:
        """Return whether the verifier rejects a move of a plan, or N+1 a state between moves."""
        if self.problems(self.plan):
            return True
        return not all(self._keeps_n1(k, entries, 0) for k, entries in enumerate(self.plans))

    def _keeps_n1(self, number: int, entries: Entries, same: int) -> bool:
        """Return whether no failure loses more instances between the moves of a plan of balance.

        The first `same` moves have been checked already. A colocation group is checked after its
        last move.
        """
        off = self._limits.settings.plan_n1(self._groups[number].index) == "off"
        if off or not self._keeps_on_the_way:
            return True
        failures = self._tolerance(number)
        guard = failures.comparison.passing_guard()
        with failures.state.trial():
            replay(failures.state, (entry.move for entry in entries[:same]))
            for entry, last in list(zip(entries, ends_of_colocation_groups(entries)))[same:]:
                entry.move.apply(failures.state)
                if last and not guard.keeps():
                    return False
        return True

    def _tolerance(self, number: int) -> FailureTolerance:
        """Return the N+1 checks of a group, with the state before all plans as the initial one."""
        if number not in self._tolerances:
            rules = plan_rules("no-worse", self._limits.relations)
            made = FailureTolerance(self.before.copy(), rules, group=self._groups[number])
            made.measure()
            self._tolerances[number] = made
        return self._tolerances[number]

    def passes(self, shorter: _ShorterPlan) -> bool:
        """Return whether each move is legal when it is made, and the verifier accepts all plans.

        N+1 must allow each state on the way, too.
        """
        if not self.is_legal(shorter) or self.problems(shorter.entries):
            return False
        return self._keeps_n1(self.number, shorter.entries, self._same(shorter.entries))

    def _same(self, changed: Entries) -> int:
        """Return the number of leading moves that `changed` and the present plan have in common."""
        pairs = zip(changed, self.plan)
        return next((k for k, (new, old) in enumerate(pairs) if new is not old), len(changed))

    def is_legal(self, shorter: _ShorterPlan) -> bool:
        """Return whether each move is legal when it is made.

        Moves up to the first difference from the present plan have been checked already.
        """
        state, limits, changed, plan = self.before, self._limits, shorter.entries, self.plan
        start = [entry for entries in self.plans[: self.number] for entry in entries]
        same = self._same(changed)
        # Nodes on which one plan has moves that the other has not. To all others, instances come
        # and go as before, and only that matters to their limits. Storage pools, which several
        # nodes may share, are the exception.
        known = {id(entry) for entry in plan}, {id(entry) for entry in changed}
        alone = [one for one in changed if id(one) not in known[0]]
        alone += (one for one in plan if id(one) not in known[1])
        nodes = {index for one in alone for index in one.move.nodes}
        with state.trial(), Switched(state.cluster, limits.power.off, limits.power.on):
            replay(state, (entry.move for entry in (*start, *changed[:same])))
            for entry in changed[same:]:
                if state.access is None and nodes.isdisjoint(entry.move.nodes):
                    entry.move.apply(state)
                elif not possible(state, self._fixed, entry.move, self.rules):
                    return False
        return True


class _ShorterPlan:
    """A plan in which one instance moves less, or copies less."""

    __slots__ = ("entries",)

    def __init__(self, entries: Entries) -> None:
        self.entries = entries

    def apply(self, state: _Shortening) -> None:
        """Replace the plan that `state` makes shorter now by this plan."""
        state.plans[state.number] = self.entries
        state.changed[state.number] = None


class _DirectWay(Neighbourhood[_Shortening, _ShorterPlan]):
    """Plans in which one instance moves fewer times, or copies less; the first one is used.

    For each instance, plans that replace all its moves come first, then plans that replace fewer of
    its consecutive moves. Of these, plans in which the instance moves late come first.
    """

    name = "direct way"

    def best(
        self, state: _Shortening, objective: Objective, allows: Callable[[_ShorterPlan], bool]
    ) -> _ShorterPlan | None:
        """Return the first shorter plan that `allows` accepts, as long as budget and time last."""
        for entries in self._shorter(state.before, state.plan, state.rules):
            if not state.spend(len(entries)):
                return None
            step = _ShorterPlan(entries)
            if allows(step):
                return step
        return None

    @staticmethod
    def _shorter(state: State, plan: Entries, rules: MoveRules) -> Iterator[Entries]:
        """Yield plans in which one instance that moves several times copies less, or moves less.

        Instances that move together with their colocation group are left out.
        """
        for every in _moved_again(plan).values():
            spans = [
                every[start : start + length]
                for length in range(len(every), 1, -1)
                for start in range(len(every) - length + 1)
            ]
            for places in spans:
                moves = [plan[k].move for k in places]
                first, last = moves[0], moves[-1]
                ways = shortest_ways(state, first.instance, first.before, last.after, rules)
                for direct in ways:
                    if _effort(direct) >= _effort(moves):
                        continue
                    new = [PlanEntry(move) for move in direct]
                    # positions after which to move, from the last one; some, if they are many
                    step = max(1, (places[-1] - places[0]) // MOST_POSITIONS_TRIED)
                    for place in (*range(places[-1], places[0], -step), places[0]):
                        yield [
                            one
                            for k, entry in enumerate(plan)
                            for one in (
                                *([] if k in places else [entry]),
                                *(new if k == place else []),
                            )
                        ]


def _moved_again(plan: Entries) -> dict[str, list[int]]:
    """Return for each instance that moves several times the positions of its moves in `plan`.

    Instances that move together with their colocation group are left out.
    """
    own: dict[str, list[int]] = {}
    for k, entry in enumerate(plan):
        own.setdefault(entry.move.instance.name, []).append(k)
    return {
        name: places
        for name, places in own.items()
        if len(places) > 1 and not any(plan[k].colocated for k in places)
    }


def rescore_all(done: GroupPlans, limits: PlanLimits) -> None:
    """Set the score of each move of `done`: the score of its group after the move."""
    fixed = Capacities(done.cluster.nodes, limits.min_disk)
    state = done.before.copy()
    with Switched(done.cluster, limits.power.off, limits.power.on):
        for one in done.plans:
            rules = MoveRules(leaving=limits.power.off, behaviour=limits.settings.behaviour)
            scope = one.group.nodes
            problem = BalanceProblem(state, scope, fixed, (), rules, limits.relations)
            rescore(problem, one.plan.entries)


def rescore(problem: BalanceProblem, entries: Sequence[PlanEntry]) -> float:
    """Set the score of each move of `entries`, and return the score after the last move.

    The moves are made in the state of `problem`, which may have no instances to move.
    """
    scan, scores = problem.scan(), []
    for entry in entries:
        entry.move.apply(problem.state)
        scan.follow(entry.move.nodes)
        scores.append(scan.score() + problem.fixed_penalty)
    for entry, score in zip(entries, scores):
        entry.score = score
    return scan.score() + problem.fixed_penalty


def _effort(moves: Iterable[Move]) -> tuple[int, int, int]:
    """Return the MiB that are copied, the number of moves, and the number of steps."""
    every = list(moves)
    return (
        sum(move.copied for move in every),
        len(every),
        sum(len(move.steps) for move in every),
    )


def shortest_ways(
    state: State, instance: Instance, before: Nodes, after: Nodes, rules: MoveRules
) -> Iterator[Moves]:
    """Yield the shortest sequences of moves that bring `instance` from `before` to `after`.

    Each sequence consists of kinds of moves that `rules` allow; it is empty if both places are
    equal. A drbd instance needs at most two moves.
    """
    nodes = state.cluster.nodes
    if before == after:
        yield []
    elif len(before) == 1:
        yield [BY_NAME["fa"].move(instance, before, after[0])]
    elif set(before) == set(after):
        if rules.allows_of(BY_NAME["f"], nodes[before[0]], nodes[before[1]]):
            yield [BY_NAME["f"].move(instance, before, after[0])]
    else:
        (new, *more) = (index for index in after if index not in before)
        kinds = [kind for kind in MOVE_KINDS if kind.drbd and kind.targeted]
        if more:  # the new primary becomes the secondary first
            kinds = [BY_NAME["r f"], BY_NAME["f r f"]]
        for kind in kinds:
            if not rules.allows_of(kind, nodes[before[0]], nodes[before[1]]):
                continue
            first = kind.move(instance, before, new)
            if first.after == after:
                yield [first]
            elif more and first.after[0] == after[0]:
                yield [first, BY_NAME["r"].move(instance, first.after, after[1])]


def merge_moves(
    state: State,
    moves: Sequence[Move],
    fixed: Capacities,
    rules: MoveRules,
    relations: Relations | None,
    over: Callable[[], bool],
) -> list[PlanEntry] | None:
    """Return moves that reach the same placement as `moves` reach from `state`.

    None if no legal order of moves is found, or if `over` returns that time is up. Instances move
    only to nodes that are online. `state` is not changed. The scores of the moves are 0.
    """
    routes = _Routes(state, moves, fixed, rules, relations)
    with state.trial():
        return routes.find(over)


class _Routes:
    """Finds a sequence of legal moves that brings every instance to its final nodes.

    The methods make the moves in the state.
    """

    def __init__(
        self,
        state: State,
        moves: Sequence[Move],
        fixed: Capacities,
        rules: MoveRules,
        relations: Relations | None,
    ) -> None:
        self._state = state
        self._fixed = fixed
        self._rules = rules
        self._relations = relations
        self._units = {} if relations is None else relations.units()
        self._own: dict[str, list[Move]] = {}
        for move in moves:
            self._own.setdefault(move.instance.name, []).append(move)
        self._left = list(moves)

    def find(self, over: Callable[[], bool]) -> list[PlanEntry] | None:
        """Return moves that bring every instance to its final nodes; None if they are not found."""
        made: list[Move] = []
        waiting = list(dict.fromkeys(self._unit(name) for name in self._own))
        while waiting := [unit for unit in waiting if self._away(unit)]:
            check()
            if over():
                return None
            count = len(made)
            for unit in waiting:
                made += self._whole_way(unit)
            if len(made) == count:
                made += self._on_the_way()
            if len(made) == count:
                return None
        entries = [PlanEntry(move) for move in made]
        mark_colocation_groups(entries, self._units)
        return entries

    def _unit(self, name: str) -> tuple[str, ...]:
        """Return the moving members of the colocation group of `name`; only `name` without one."""
        return tuple(one for one in self._units.get(name, (name,)) if one in self._own)

    def _away(self, unit: Sequence[str]) -> list[str]:
        """Return the members of `unit` that are not on their final nodes."""
        return [name for name in unit if self._state.where[name] != self._own[name][-1].after]

    def _whole_way(self, unit: Sequence[str]) -> list[Move]:
        """Move all of `unit` to their final nodes; return the moves, or [] if one is not legal."""
        made: list[Move] = []
        with self._state.trial():
            for name in self._away(unit):
                own, here = self._own[name], self._state.where[name]
                ways: Iterable[Moves] = shortest_ways(
                    self._state, own[0].instance, here, own[-1].after, self._rules
                )
                if own[-1].before == here:
                    ways = itertools.chain([own[-1:]], ways)
                way = next(filter(self._legal, ways), None)
                if way is None:
                    return []
                replay(self._state, way)
                made += way
        return made if self._make(made) else []

    def _on_the_way(self) -> list[Move]:
        """Make the next legal move of the two plans, and return it; [] if there is none."""
        for number, move in enumerate(self._left):
            name = move.instance.name
            alone = self._unit(name) == (name,)
            next_one = alone and move.before == self._state.where[name]
            if next_one and self._legal([move]) and self._make([move]):
                del self._left[number]
                return [move]
        return []

    def _legal(self, moves: Sequence[Move]) -> bool:
        """Return whether the limits allow to make `moves` of one instance in the present state."""
        with self._state.trial():
            return all(possible(self._state, self._fixed, move, self._rules) for move in moves)

    def _make(self, moves: Sequence[Move]) -> bool:
        """Make `moves`, unless they violate a hard constraint; return whether they were made."""
        names = {move.instance.name for move in moves}
        before = self._violating(names)
        with self._state.trial():
            replay(self._state, moves)
            if not self._violating(names) <= before:
                return False
        replay(self._state, moves)
        return True

    def _violating(self, names: set[str]) -> set[str]:
        """Return the instances of `names` that violate a hard constraint where they are."""
        relations, where = self._relations, self._state.where
        if relations is None or not any(map(relations.binds, names)):
            return set()
        rule_counts = relations.rule_counts(where)
        return {name for name in names if relations.rejected(name, where[name][:1], rule_counts)}
