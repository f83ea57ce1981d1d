"""Steps of balancing on small clusters: several instances, or all, get new nodes in one step.

All placements of the instances are enumerated in arrays, and scored by the formulas of the
statistics. These scores are lower bounds, because they leave out tags and soft constraints, which
can only raise the score. The placements with the lowest scores are tried in order: N+1 must accept
the placement, the limits must allow moves to it one after the other, and the score that is computed
on the state must be low enough.

If there are more than `MOST_PLACEMENTS` placements of all instances, the placements of every set of
fewer instances are enumerated, at most `MOST_SET_PLACEMENTS` in all. On a cluster that is too large
even for pairs, there is no such step.

Moves to a placement are found by best-first search: the states with the fewest instances that are
not on their new nodes come first. An instance may be on other nodes for a time.

Cost: the number of placements times the number of nodes, in arrays; then `MOST_CHECKED_PLACEMENTS`
checks of N+1, and searches. The placements of all instances are scored once for a plan, those of
sets for each step.
"""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from itertools import combinations, count
from math import comb, inf, prod
from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.model.columns import COLUMNS, CONFLICTS, DISK, MEMORY, MISPLACED
from iallocator.model.node_view import CAPACITIES, NodeView
from iallocator.planners.balance.compound_moves import allowed_move, move_to
from iallocator.planners.balance.every_placement import MOST_PLACEMENTS
from iallocator.planners.balance.move_kinds import MOVE_KINDS, ScoredMoves
from iallocator.planners.balance.plan_builder import PlanBuilder, Step
from iallocator.planners.search import Neighbourhood
from iallocator.scoring.arrays import scores_of_states
from iallocator.scoring.metrics import node_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Floats, Nodes, Truths
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.planners.balance.plan_builder import BalanceProblem
    from iallocator.planners.search import Objective

    Allows = Callable[[Step], bool]

    Placements = list[tuple[float, tuple[Nodes, ...]]]
    """Scores of placements, and the nodes of each instance; the lowest score first."""

    KnownPlacements = dict[object, Placements]
    """`PlacementScores.dependencies` -> the placements of all instances with the lowest scores."""

__all__ = ["PlacementScores", "Rearrangement", "StateScores"]

MOST_SET_PLACEMENTS = 200_000
"""The largest number of placements of sets of instances that are scored for one step."""

SCORED_AT_ONCE = 10_000
"""The number of placements that one array operation scores."""

MOST_CHECKED_PLACEMENTS = 1000
"""The largest number of placements that N+1 checks, those with the lowest scores."""

MOST_TARGETS = 200
"""The largest number of placements, accepted by N+1, to which moves are searched."""

MOST_SEARCH_STATES = 400
"""The number of states that a search for moves visits; four times as many without `parking`."""

MOST_SWAPPED_TRIES = 3
"""The largest number of tried placements that differ only by swaps of equal instances."""

RANKING_DECIMALS = 9
"""The number of decimals to which scores are rounded to order placements."""

MOST_PARKING_TARGETS = 4
"""For this many placements of a step, instances may be on other nodes for a time."""


class Rearrangement(Neighbourhood[PlanBuilder, Step]):
    """New nodes for several instances; the enumerated placement with the lowest score is used.

    `known` keeps placements of all instances of a problem, for several searches.
    """

    name = "rearrangement"

    def __init__(self, known: KnownPlacements | None = None) -> None:
        self._known = {} if known is None else known

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the moves to the placement with the lowest score that is allowed, or None."""
        problem = state.problem
        choices = self._all_choices(state)
        size = _set_size([len(some) for some in choices])
        if size < 2 or state.moves_left() < 2:
            return None
        limit = state.limit_of_compounds()
        rearrangements: list[tuple[float, tuple[int, ...], tuple[Nodes, ...]]] = []
        scores, ways = PlacementScores(state), _Ways(state)
        for rows in combinations(range(len(choices)), size):
            check()
            if state.limits.deadline.over():
                return None
            some = [problem.instances[row] for row in rows]
            listed = [choices[row] for row in rows]
            rearrangements += (
                (score, rows, nodes) for score, nodes in self._lowest(scores, limit, some, listed)
            )
            if len(rearrangements) > 4 * MOST_CHECKED_PLACEMENTS:
                rearrangements = sorted(rearrangements)[:MOST_CHECKED_PLACEMENTS]
        parked = searched = 0
        tries: dict[object, int] = {}
        shapes = _shapes(state)

        def rank(one: tuple[float, tuple[int, ...], tuple[Nodes, ...]]) -> tuple[object, ...]:
            score, rows, nodes = one
            moved = sum(choices[row][0] != some for row, some in zip(rows, nodes))
            return round(score, RANKING_DECIMALS), moved, rows, nodes

        rearrangements.sort(key=rank)
        for score, rows, nodes in rearrangements[:MOST_CHECKED_PLACEMENTS]:
            check()
            if state.limits.deadline.over():
                return None
            names = [problem.instances[row].name for row in rows]
            target = dict(zip(names, nodes))
            where = [target.get(one.name, state.state.where[one.name]) for one in problem.instances]
            key = tuple(sorted(zip(shapes, where)))
            if searched >= MOST_TARGETS or tries.get(key, 0) >= MOST_SWAPPED_TRIES:
                continue
            if not state.keeps_at(target):
                tries[key] = MOST_SWAPPED_TRIES
                continue
            searched += 1
            tries[key] = tries.get(key, 0) + 1
            way = ways.find(target, parking=False)
            if way is None and parked < MOST_PARKING_TARGETS:
                parked += 1
                way = ways.find(target, parking=True)
            if way is None or sum(move.copied for move in way) > state.budget():
                continue
            step = Step(*[ScoredMoves([move], score) for move in way])
            if allows(step) and state.score_after(step) < limit:
                return step
        return None

    def _lowest(
        self,
        scores: PlacementScores,
        limit: float,
        instances: Sequence[Instance],
        choices: Sequence[Sequence[Nodes]],
    ) -> Placements:
        """Return the placements of `instances` with a score below `limit`, the lowest first.

        There are at most `MOST_CHECKED_PLACEMENTS`.
        """
        if len(instances) < len(scores.problem.instances):
            return scores.below(limit, instances, choices, MOST_CHECKED_PLACEMENTS)
        key = scores.dependencies(choices)
        if key not in self._known:
            self._known[key] = scores.below(inf, instances, choices, MOST_CHECKED_PLACEMENTS)
        return [one for one in self._known[key] if one[0] < limit]

    @classmethod
    def looks_at_all(cls, builder: PlanBuilder) -> bool:
        """Return whether the cluster is small enough that one step may move all instances."""
        choices = cls._all_choices(builder)
        return len(choices) > 1 and _set_size([len(some) for some in choices]) == len(choices)

    @classmethod
    def _all_choices(cls, builder: PlanBuilder) -> list[list[Nodes]]:
        """Return the possible placements of each instance; [] if the cluster is too large."""
        problem = builder.problem
        if comb(len(problem.instances), 2) * len(problem.scope) ** 2 > MOST_SET_PLACEMENTS:
            return []  # to list the choices of large drbd clusters takes long
        return [cls._choices(builder, one) for one in problem.instances]

    @staticmethod
    def _choices(builder: PlanBuilder, instance: Instance) -> list[Nodes]:
        """Return the possible nodes of `instance` after the step; the present nodes come first."""
        problem, cluster = builder.problem, builder.state.cluster
        nodes, rules, relations = cluster.nodes, problem.rules, problem.relations
        present = builder.state.where[instance.name]
        closed = {*rules.leaving, *(relations.forbidden(instance.name) if relations else ())}
        reach = cluster.reach(instance)
        open_ = [
            i
            for i in problem.scope
            if nodes[i].online and i not in closed and (reach is None or i in reach)
        ]
        choices: list[Nodes]
        if len(present) == 1:
            choices = [(one,) for one in open_] if rules.instance_moves else []
        else:
            failover = rules.instance_moves and present[1] not in closed
            choices = [(present[1], present[0])] if failover else []
            if rules.disk_moves:
                choices += [(one, other) for one in open_ for other in open_ if one != other]
        return list(dict.fromkeys([present, *choices]))


def _shapes(builder: PlanBuilder) -> list[int]:
    """Return a number for each instance; instances with equal numbers are interchangeable.

    An instance with rules about other instances has a number that no other instance has.
    """
    relations = builder.problem.relations
    numbers: dict[object, int] = {}
    shapes = []
    for position, one in enumerate(builder.problem.instances):
        members = (slot for slot in one.__slots__ if slot not in ("name", "order", "nodes"))
        shape: object = repr([getattr(one, slot) for slot in members])
        if relations is not None:
            ruled = position if one.name in relations.members_of else -1
            forbidden = tuple(sorted(relations.forbidden(one.name)))
            shape = shape, ruled, forbidden, relations.stays(one.name)
        shapes.append(numbers.setdefault(shape, len(numbers)))
    return shapes


def _set_size(counts: Sequence[int]) -> int:
    """Return how many instances can be placed jointly, with few enough combinations to score.

    `counts`: for each instance, the number of its possible placements. The result is 0 if not even
    two instances can be placed jointly.
    """
    if not counts:
        return 0
    if prod(counts) <= MOST_PLACEMENTS:
        return len(counts)
    most = max(counts)
    sizes = range(len(counts) - 1, 1, -1)
    return next((k for k in sizes if comb(len(counts), k) * most**k <= MOST_SET_PLACEMENTS), 0)


class StateScores:
    """Scores of states in which some instances are on other nodes than in the present state.

    Tags and soft constraints are left out, so the scores are lower bounds.

    Attributes
    ----------
    problem:
        The group to balance.
    position:
        Index of a node -> its position in the arrays.
    columns:
        Columns × nodes: the amounts of the nodes in the present state, without those of tags.
    peers:
        Nodes × nodes: the MiB that a node reserves for failovers off another one. The last column
        is for all nodes outside the group.
    """

    def __init__(self, problem: BalanceProblem) -> None:
        scope = problem.scope
        self.problem = problem
        self.position = {index: k for k, index in enumerate(scope)}
        fixed = np.array([problem.fixed[index] for index in scope], dtype=np.float64).T
        self._fixed: Floats = fixed.reshape(len(CAPACITIES), -1)
        online = int(self._fixed[CAPACITIES.index("online")].sum())
        stored = int(self._fixed[CAPACITIES.index("stored")].sum())
        self._counts = node_counts(online, len(scope) - online, stored)
        self.columns: Floats = np.zeros((len(COLUMNS), len(scope)))
        self.peers: Floats = np.zeros((len(scope), len(scope) + 1))
        self.read_nodes(scope)

    def read_nodes(self, nodes: Iterable[int]) -> None:
        """Set the amounts of `nodes` to those of the present state of the problem."""
        state, elsewhere = self.problem.state, len(self.position)
        for index in nodes:
            place = self.position[index]
            self.columns[:, place] = state.row(index)
            peers = self.peers[place]
            peers[:] = 0.0
            for peer, memory in state.peers[index].items():
                peers[self.position.get(peer, elsewhere)] += memory
        self.columns[[CONFLICTS, MISPLACED]] = 0.0

    def scores(self, columns: Floats, reserved: Floats) -> Floats:
        """Return the score of each of several states.

        `columns`: states × columns × nodes. `reserved`: states × nodes: the MiB that each node
        reserves for failovers off the node for which it reserves most.
        """
        view = NodeView(list(columns.swapaxes(0, 1)), list(self._fixed), reserved)
        return scores_of_states(view, self._counts, reserved.shape)


class PlacementScores(StateScores):
    """Scores of placements in the present state, with the penalties of node labels and scores."""

    def __init__(self, builder: PlanBuilder) -> None:
        problem, state = builder.problem, builder.state
        super().__init__(problem)
        scope = problem.scope
        relations = problem.relations
        self._relations = relations if relations is not None and relations.preferring else None
        self._penalty = 0.0  # of all instances where they are
        if self._relations is not None:
            penalty = self._relations.node_penalty
            self._penalty = sum(penalty(name, i) for i in scope for name in state.primaries[i])
        required = () if builder.guard is None else builder.guard.required()
        self._failing = tuple(
            self.position[failure[0]]
            for failure in required
            if len(failure) == 1 and failure[0] in self.position
        )
        self._up = self._fixed[CAPACITIES.index("online")] > 0

    def dependencies(self, choices: Sequence[Sequence[Nodes]]) -> object:
        """Return all that the placements of all instances depend on, and that may change.

        These are the choices, the nodes of which N+1 must tolerate the failure, and the memory and
        disk that nodes lack now.
        """
        lacking = np.minimum(self.columns[[MEMORY, DISK]], 0.0)
        return tuple(frozenset(some) for some in choices), self._failing, lacking.tobytes()

    def below(
        self,
        limit: float,
        instances: Sequence[Instance],
        choices: Sequence[Sequence[Nodes]],
        most: int,
    ) -> Placements:
        """Return at most `most` placements of `instances` with a score below `limit`, lowest first.

        `choices`: for each instance its possible nodes, its present nodes first. Each placement has
        its score and the nodes of each instance.
        """
        placements: Placements = []
        amounts, peers = self._added(instances, choices)
        memory = [-one.as_primary[MEMORY] for one in instances]
        at = [np.array([self.position[nodes[0]] for nodes in some]) for some in choices]
        penalties = [self._added_penalty(*both) for both in zip(instances, choices)]
        total = prod(len(some) for some in choices)
        for start in range(0, total, SCORED_AT_ONCE):
            check()
            numbers = np.arange(start, min(total, start + SCORED_AT_ONCE), dtype=np.intp)
            digits = np.unravel_index(numbers, [len(some) for some in choices])
            columns = self.columns + sum(a[d] for a, d in zip(amounts, digits))
            # A node with free memory or disk may not have less and none after the step
            ok = np.ones(numbers.size, dtype=bool)
            for column in (MEMORY, DISK):
                before, after = self.columns[column], columns[:, column]
                ok &= ((after > 0) | (after >= before)).all(axis=1)
            if not ok.any():
                continue
            rows = [digit[ok] for digit in digits]
            reserved = self.peers + sum(p[d] for p, d in zip(peers, rows))
            if self._failing:
                homes = [homes_[row] for homes_, row in zip(at, rows)]
                # Sums of memory rule out some placements for N+1
                free = columns[ok][:, MEMORY]
                keeps: Truths = np.ones(len(free), dtype=bool)
                for failing in self._failing:
                    others = self._up.copy()
                    others[failing] = False
                    spare = np.maximum(free, 0.0) * others
                    # Each secondary of the failing node must be online and have the memory
                    keeps &= (reserved[:, :, failing] <= spare).all(axis=1)
                    demand, largest = np.zeros(len(free)), np.zeros(len(free))
                    for home, amount in zip(homes, memory):
                        demand += amount * (home == failing)
                        largest = np.maximum(largest, amount * (home == failing))
                    keeps &= (demand <= spare.sum(axis=1)) & (largest <= spare.max(axis=1))
                ok[ok] = keeps
                rows, reserved = [row[keeps] for row in rows], reserved[keeps]
            columns = columns[ok]
            most_reserved = reserved.max(axis=2)  # placements × nodes
            scores = self.scores(columns, most_reserved)
            if self._relations is not None:
                scores += self._penalty + sum(some[row] for some, row in zip(penalties, rows))
            places = np.flatnonzero(scores < limit)
            places = places[np.argsort(scores[places], kind="stable")[:most]]
            limit = limit if len(placements) < most else min(limit, placements[-1][0])
            placements += (
                (
                    float(scores[place]),
                    tuple(some[row[place]] for some, row in zip(choices, rows)),
                )
                for place in places.tolist()
            )
            placements = sorted(placements)[:most]
        return placements

    def _added_penalty(self, instance: Instance, choices: Sequence[Nodes]) -> Floats:
        """Return by how much each choice of nodes changes the penalty of `instance`."""
        if self._relations is None:
            return np.zeros(len(choices))
        name = instance.name
        penalties = [self._relations.node_penalty(name, nodes[0]) for nodes in choices]
        return np.array([penalty - penalties[0] for penalty in penalties])

    def _added(
        self, instances: Sequence[Instance], choices: Sequence[Sequence[Nodes]]
    ) -> tuple[list[Floats], list[Floats]]:
        """Return for each instance two arrays: the changes of amounts, and of reserved memory.

        The first one has choices × columns × nodes, the second one choices × nodes × peers. The
        changes are relative to the present nodes of the instance.
        """
        size = len(self.position)
        amounts: list[Floats] = []
        peers: list[Floats] = []
        for instance, some in zip(instances, choices):
            added: Floats = np.zeros((len(some), len(COLUMNS), size))
            kept: Floats = np.zeros((len(some), size, size + 1))
            memory = instance.memory if instance.reserves else 0
            for row, nodes in enumerate(some):
                at = [self.position[index] for index in nodes]
                added[row, :, at[0]] += instance.as_primary
                for node in at[1:]:
                    added[row, :, node] += instance.as_secondary
                    kept[row, node, at[0]] += memory
            amounts.append(added - added[0])  # relative to the present nodes
            peers.append(kept - kept[0])
        return amounts, peers


class _Ways:
    """Searches for moves that bring the instances of a small problem to new nodes.

    The limits are checked once for each move from each placement, for all searches of a step.
    """

    def __init__(self, builder: PlanBuilder) -> None:
        self._builder = builder
        self._instances = {one.name: one for one in builder.problem.instances}
        self._where = builder.state.where
        self._start = {name: self._where[name] for name in self._instances}
        self._allowed: dict[tuple[tuple[Nodes, ...], str, tuple[str, ...], Nodes], bool] = {}

    def find(self, target: Mapping[str, Nodes], parking: bool) -> list[Move] | None:
        """Return moves to `target`, each legal after the moves before it; None if none are found.

        `target`: name -> nodes; the other instances end on their present nodes. With `parking`,
        every instance may be on other nodes for a time.
        """
        builder = self._builder
        names = list(self._instances)
        ends = self._start | dict(target)
        first: list[Move] = []
        order = count()
        start = tuple(self._start.values())
        queue = [(_away(start, ends), 0, next(order), first, start)]
        seen = {start}
        looked = 0
        while queue:
            away, _, _, made, here = heappop(queue)
            if not away:
                return made
            looked += 1
            if looked > MOST_SEARCH_STATES * (1 if parking else 4):
                return None
            check()
            with builder.state.trial():
                for move in made:
                    move.apply(builder.state)
                for move in self._moves(here, ends, parking):
                    place = names.index(move.instance.name)
                    after = (*here[:place], move.after, *here[place + 1 :])
                    if after in seen:
                        continue
                    seen.add(after)
                    left = _away(after, ends)
                    if len(made) + 1 + left > builder.moves_left():
                        continue
                    if left:
                        with builder.state.trial():
                            move.apply(builder.state)
                            if not builder.keeps_on_the_way():
                                continue
                    heappush(queue, (left, len(made) + 1, next(order), [*made, move], after))
        return None

    def _moves(
        self, here: tuple[Nodes, ...], ends: Mapping[str, Nodes], parking: bool
    ) -> Iterator[Move]:
        """Yield legal moves in the present state: moves to `ends`, and with `parking` all others.

        `here`: the nodes of each instance in that state. `ends`: name of an instance -> its last
        nodes.
        """
        for (name, after), before in zip(ends.items(), here):
            if before == after:
                continue
            instance = self._instances[name]
            move = move_to(instance, before, after, partial(self._allows, here))
            if move is not None:
                yield move
            elif len(after) == 2:
                for move in self._anywhere(here, instance, before):
                    if len({*move.after} & {*after}) > len({*before} & {*after}):
                        yield move
        if parking:
            for instance, before in zip(self._instances.values(), here):
                yield from self._anywhere(here, instance, before)

    def _anywhere(
        self, here: tuple[Nodes, ...], instance: Instance, before: Nodes
    ) -> Iterator[Move]:
        """Yield all legal moves of an instance from its nodes `before`."""
        builder = self._builder
        nodes = builder.state.cluster.nodes
        targets = [i for i in builder.problem.scope if nodes[i].online and i not in before]
        for kind in MOVE_KINDS:
            if kind.drbd != (len(before) > 1):
                continue
            for target in targets if kind.targeted else before[-1:]:
                move = kind.move(instance, before, target)
                if self._allows(here, move):
                    yield move

    def _allows(self, here: tuple[Nodes, ...], move: Move) -> bool:
        """Return whether the limits allow `move` in the present state, with instances on `here`."""
        key = here, move.instance.name, move.letters, move.after
        if key not in self._allowed:
            self._allowed[key] = allowed_move(self._builder, move)
        return self._allowed[key]


def _away(here: Sequence[Nodes], ends: Mapping[str, Nodes]) -> int:
    """Return how many instances are on nodes (`here`) other than their last nodes (`ends`)."""
    return sum(one != other for one, other in zip(here, ends.values()))
