"""Steps of balancing that need several moves, of which the first one may raise the score.

`Swaps` exchanges two instances, and `Rotations` moves three in a cycle. `Chains` makes single moves
through states with a higher score, by tabu search (Glover, 1986): it makes the best of the moves to
states that were not visited, and an instance may not return soon to the nodes that it left. If
there is no such move, the search returns to the previous state. If a state has a lower score than
the first one, the plan moves the instances directly to their nodes in that state.

The limits must allow each move after the moves before it. If they allow a swap in neither order,
one of its instances is moved to a third node for a time.

Cost of `Swaps`: see `scan/swaps.py`. Cost of `Chains`: one scan for each visited state; on larger
clusters, fewer states are visited.
"""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING

from iallocator.deadline import check
from iallocator.planners.balance.move_kinds import BY_NAME, MOVE_KINDS, ScoredMoves, possible
from iallocator.planners.balance.plan_builder import PlanBuilder, Step
from iallocator.planners.balance.scan.swaps import SwapTable
from iallocator.planners.search import Neighbourhood
from iallocator.scoring.arrays import ArrayKernel, capacity_matrix

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.planners.balance.scan.swaps import Swap
    from iallocator.planners.search import Objective

    Allows = Callable[[Step], bool]

    Visit = tuple[Instance, int, int]
    """An instance, the node that it leaves, and the node to which it moves."""

__all__ = ["Chains", "EverySwap", "Rotations", "Swaps", "allowed_move", "move_to"]

ROTATIONS_TRIED = 20
"""The number of rotations of which the moves are tried, those with the largest gains first."""

THIRD_NODES_TRIED = 3
"""The number of third nodes that are tried for a swap, those with most free memory first."""

MOST_VISITED_STATES = 60
"""The largest number of states that a tabu search visits."""

VISITED_CELLS = 60_000
"""The largest number of moves that a tabu search scans: states × instances × nodes."""

FEW_STATES, MOVES_OF_FEW_STATES = 8, 320_000
"""On large clusters, a tabu search scans up to the second number of moves for so many states.

Moves of all kinds count here. On 32 and 40 nodes with 12 instances each, scores on shared storage
are 15 % lower than without chains; those with drbd are 0.2 % lower.
"""

FIRST_MOVES_TRIED = 40
"""The number of moves from one state that a tabu search considers, the best ones first."""

MOST_COMPOUND_NODES = 500
"""Groups with more nodes have no compound moves: the size of a table is nodes squared."""

TABU_TENURE = 3
"""The least number of states during which an instance may not return to nodes that it left."""


class Swaps(Neighbourhood[PlanBuilder, Step]):
    """Swaps of two instances; the one that lowers the score most is used.

    After a step, only the swaps of the changed nodes are evaluated again. Which swap of two nodes
    is best also depends on the other nodes, so `EverySwap` evaluates all of them again.
    """

    name = "swap"

    def __init__(self, builder: PlanBuilder) -> None:
        problem = builder.problem
        self._kernel = ArrayKernel(
            problem.state, problem.scope, capacity_matrix(problem.fixed.all())
        )
        self._affinity = problem.affinity
        self._table: SwapTable | None = None
        self._scan = builder.scan
        self._all_evaluated = False

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the kept swap that lowers the score most and that limits and `allows` accept.

        None if no kept swap lowers the score enough.
        """
        self._all_evaluated = True  # without swaps, `best_of_all` has nothing to do
        if state.moves_left() < 2 or not _can_be_compound(state):
            return None
        rules = state.problem.rules

        def can_be_replaced(instance: Instance, role: int) -> bool:
            kind = "r" if role else "f r f" if instance.needs_secondary else "fa"
            return instance.kind.planners_move and rules.allows(BY_NAME[kind], True, True, True)

        self._all_evaluated = self._table is None or self._scan is not state.scan
        if self._table is None or self._all_evaluated:
            self._scan = state.scan
            self._table = state.scan.swaps(state.problem.instances, can_be_replaced)
        else:
            self._table.refresh(state.scan.table.position[index] for index in state.swap_nodes)
        state.swap_nodes.clear()
        return self._lowest(state, self._table, allows)

    def best_of_all(self, state: PlanBuilder, allows: Allows) -> Step | None:
        """Return the swap that lowers the score most, after `best` found none in this state.

        All swaps are evaluated again. None if no swap lowers the score enough.
        """
        if self._table is None or self._all_evaluated:
            return None
        self._all_evaluated = True
        self._table.permit_all()
        return self._lowest(state, self._table, allows)

    def best_rotation(self, builder: PlanBuilder, allows: Allows) -> Step | None:
        """Return the rotation of three instances that lowers the score most, by estimates.

        Call it after `best` found no swap in this state. None if no rotation lowers the score
        enough.
        """
        if self._table is None or builder.moves_left() < 3:
            return None
        limit = builder.limit_of_compounds()
        for rotation in self._table.rotations(ROTATIONS_TRIED):
            check()
            if builder.limits.deadline.over():
                break
            made = (self._carried_out(builder, order) for order in permutations(rotation))
            moves = next(filter(None, made), None)
            if (
                moves is not None
                and moves[-1].score < limit
                and sum(one.copied for one in moves) <= builder.budget()
            ):
                step = Step(*moves)
                if allows(step):
                    return step
        return None

    def _lowest(self, builder: PlanBuilder, table: SwapTable, allows: Allows) -> Step | None:
        limit = builder.limit_of_compounds()
        while not builder.limits.deadline.over():
            check()
            swap = table.lowest()
            if swap is None or builder.score - swap.gain >= limit:
                return None
            moves = self._moves(builder, swap)
            if moves is not None:
                less = swap.gain - builder.gain(moves[-1])  # than the kept gain
                if less > builder.rounding() and table.evaluate_again(swap):
                    continue
            if (
                moves is not None
                and moves[-1].score < limit
                and sum(one.copied for one in moves) <= builder.budget()
            ):
                step = Step(*moves)
                if allows(step):
                    return step
            table.bar(swap)
        return None

    def _moves(self, builder: PlanBuilder, swap: Swap) -> list[ScoredMoves] | None:
        """Return the moves of `swap` in an order that the limits allow; None without one."""
        first = swap.first, swap.one, swap.other
        second = swap.second, swap.other, swap.one
        for order in ((first, second), (second, first)):
            if made := self._carried_out(builder, order):
                return made
        if builder.moves_left() < 3:
            return None
        state = builder.state
        nodes = state.cluster.nodes
        parks = [
            index
            for index in builder.problem.scope
            if nodes[index].online and index not in (swap.one, swap.other)
        ]
        parks.sort(key=lambda index: -state.row(index)[0])
        for one, other in ((first, second), (second, first)):
            instance, at, to = one
            for park in parks[:THIRD_NODES_TRIED]:
                if park in state.where[instance.name]:
                    continue
                parked = ((instance, at, park), other, (instance, park, to))
                if made := self._carried_out(builder, parked):
                    return made
        return None

    def _carried_out(
        self, builder: PlanBuilder, order: Iterable[Visit]
    ) -> list[ScoredMoves] | None:
        """Return the moves of `order` with their scores; None if the limits forbid one of them."""
        made: list[ScoredMoves] = []
        with builder.state.trial():
            for instance, at, to in order:
                before = builder.state.where[instance.name]
                kind = BY_NAME["fa" if len(before) == 1 else "f r f" if before[0] == at else "r"]
                move = kind.move(instance, before, to)
                if not _make(builder, move):
                    return None
                self._kernel.follow()
                score = self._kernel.score()
                if self._affinity is not None:
                    score += self._affinity.penalty(builder.scan.table.position)
                made.append(ScoredMoves([move], score))
        return made


class Rotations(Neighbourhood[PlanBuilder, Step]):
    """Rotations of three instances without secondaries, each to the node of the next one."""

    name = "rotation"

    def __init__(self, swaps: Swaps) -> None:
        self._swaps = swaps

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the rotation that lowers the score most; None if no rotation lowers it enough."""
        return self._swaps.best_rotation(state, allows)


class EverySwap(Neighbourhood[PlanBuilder, Step]):
    """All swaps, evaluated again: the last resort after `Swaps` and `Chains`."""

    name = "every swap"

    def __init__(self, swaps: Swaps) -> None:
        self._swaps = swaps

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return the swap that lowers the score most; None if no swap lowers it enough."""
        return self._swaps.best_of_all(state, allows)


def _can_be_compound(builder: PlanBuilder) -> bool:
    """Return whether swaps and chains are tried: two instances can move, on few enough nodes."""
    problem = builder.problem
    movable = sum(one.kind.planners_move for one in problem.instances)
    return movable > 1 and len(problem.scope) <= MOST_COMPOUND_NODES


def _make(builder: PlanBuilder, move: Move) -> bool:
    """Make `move` on the state if rules, limits and hard constraints allow it.

    Return whether they do; if not, the state may have been changed.
    """
    state, problem = builder.state, builder.problem
    instance, before = move.instance, move.before
    nodes = state.cluster.nodes
    kind = next(one for one in MOVE_KINDS if one.letters == move.letters)
    if not problem.rules.allows_of(kind, nodes[before[0]], nodes[before[-1]]):
        return False
    if any(not nodes[index].online for index in move.after if index not in before):
        return False
    affinity = problem.affinity
    if affinity is not None and kind.secondary_leads:
        counts = affinity.rule_counts.now()
        if affinity.relations.rejected_passing(instance.name, before[1:2], counts):
            return False
    if not possible(state, problem.fixed, move, problem.rules):
        return False
    if affinity is None:
        return True
    closed = affinity.relations.forbidden(instance.name)
    if any(index in closed for index in move.after[1:] if index not in before):
        return False
    counts, moved = affinity.rule_counts.now(), {instance.name: before[0]}
    return not any(affinity.relations.newly_broken(moved, state.where, counts))


class Chains(Neighbourhood[PlanBuilder, Step]):
    """Sequences of moves of several instances, found by tabu search."""

    name = "chain"

    def best(self, state: PlanBuilder, objective: Objective, allows: Allows) -> Step | None:
        """Return moves that lower the score enough, found by tabu search; None without any."""
        instances = state.problem.instances
        cells = max(1, len(instances) * len(state.problem.scope))
        few = min(FEW_STATES, MOVES_OF_FEW_STATES // max(1, state.scan.size))
        visits = min(MOST_VISITED_STATES, max(few, VISITED_CELLS // cells))
        if state.moves_left() < 2 or visits < 2 or not _can_be_compound(state):
            return None
        where = state.state.where
        start = {one.name: where[one.name] for one in instances}
        with state.scan.trial(), state.state.trial():
            path = self._path(state, state.limit_of_compounds(), visits)
            end = {one.name: where[one.name] for one in instances}
            score = state.scan.score()
        if path is None:
            return None
        moved = [one for one in instances if end[one.name] != start[one.name]]
        moves = self._direct(state, moved, end) or path
        step = Step(*[ScoredMoves([move], score) for move in moves])
        copied = sum(move.copied for move in moves)
        if len(moves) > state.moves_left() or copied > state.budget():
            return None
        return step if allows(step) else None

    @staticmethod
    def _path(builder: PlanBuilder, limit: float, visits: int) -> list[Move] | None:
        """Make moves on the state until its score is below `limit`, and return them.

        None if `visits` states have been visited without such a score.
        """
        state, names = builder.state, [one.name for one in builder.problem.instances]
        present = [state.where[name] for name in names]
        position = {name: k for k, name in enumerate(names)}
        visited = {tuple(present)}
        tabu: dict[tuple[str, Nodes], int] = {}
        path: list[Move] = []
        for visit in range(visits):
            check()
            if builder.limits.deadline.over():
                return None
            for lowest in builder.scan.lowest(FIRST_MOVES_TRIED, FIRST_MOVES_TRIED):
                move = lowest.moves[0]
                place = position[move.instance.name]
                forbidden = tabu.get((move.instance.name, move.after), -1) >= visit
                after = (*present[:place], move.after, *present[place + 1 :])
                if after not in visited and (lowest.score < limit or not forbidden):
                    break
            else:
                if not path:
                    return None
                last = path.pop()
                state.remove(last.instance, last.after)
                state.place(last.instance, last.before)
                builder.scan.follow(last.nodes)
                present[position[last.instance.name]] = last.before
                continue
            visited.add(after)
            tabu[move.instance.name, move.before] = (
                visit + TABU_TENURE + len(path) % (TABU_TENURE + 1)
            )
            builder.try_out(lowest)
            present[place] = move.after
            path.append(move)
            if builder.scan.score() < limit:
                return path
        return None

    @staticmethod
    def _direct(
        builder: PlanBuilder, moved: Sequence[Instance], end: dict[str, Nodes]
    ) -> list[Move] | None:
        """Return one move of each instance of `moved` to its nodes in `end`, in a legal order.

        None if no legal order is found.
        """
        state, left = builder.state, list(moved)
        moves: list[Move] = []
        with state.trial():
            while left:
                for instance in left:
                    before, after = state.where[instance.name], end[instance.name]
                    move = move_to(instance, before, after, partial(allowed_move, builder))
                    if move is not None:
                        move.apply(state)
                        moves.append(move)
                        left.remove(instance)
                        break
                else:
                    return None
        return moves


def move_to(
    instance: Instance, before: Nodes, after: Nodes, allows: Callable[[Move], bool]
) -> Move | None:
    """Return the move of `instance` from `before` to `after` that `allows` accepts, or None."""
    new = [index for index in after if index not in before]
    for kind in MOVE_KINDS:
        if kind.drbd != (len(before) > 1) or kind.targeted != (len(new) == 1):
            continue
        move = kind.move(instance, before, new[0] if new else before[-1])
        if move.after == after and allows(move):
            return move
    return None


def allowed_move(builder: PlanBuilder, move: Move) -> bool:
    """Return whether rules, limits and hard constraints allow `move` in the present state."""
    with builder.state.trial():
        return _make(builder, move)
