"""Plans without detours: who is moved twice goes to its last place at once, where that is allowed.

Balancing makes the move that helps most at the time, and may move an instance on, or back, when
others have gone.  Only the end counts for what was asked; copies on the way are for nothing.
"""

from __future__ import annotations

from iallocator.model.moves import apply_steps
from iallocator.planners.balance.move_kinds import KINDS
from iallocator.planners.balance.unit_steps import possible
from iallocator.planners.plan import PlannedMove, replay, traffic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.balance.move_kinds import MoveKind, MoveRules
    from iallocator.planners.balance.problem import BalanceProblem

    Fixed = Sequence[tuple[float, ...]]
    Moves = list[PlannedMove]

__all__ = ["rescore", "straightened"]

EFFORT = 15_000
"""Moves of plans that are looked at in all."""

TIMES = 6
"""Between its first and its last move, at so many times an instance may go directly."""

BY_NAME = {kind.name: kind for kind in KINDS}


def straightened(
    state: State, moves: Sequence[PlannedMove], fixed: Fixed, rules: MoveRules
) -> Moves:
    """`moves`, which begin at `state`, with the same end and no detour that is not needed.

    Units are left as they are.  The scores of what is new are not known.  Cost: a pass over the
    moves for each way and time that is tried, as long as `EFFORT` lasts.
    """
    plan, left, changed = list(moves), EFFORT, True
    while changed:
        changed = False
        for name in _moved_again(plan):
            for shorter in _shorter(state, plan, name):
                left -= len(shorter)
                if left < 0:
                    return plan
                if _stands(state, shorter, plan, fixed, rules):
                    plan, changed = shorter, True
                    break
    return plan


def rescore(problem: BalanceProblem, moves: Sequence[PlannedMove]) -> float:
    """Note at each of `moves` the score after it, and return the last.

    They are made in the state of `problem`, which needs no instances for that.
    """
    scan, scores = problem.scan(), []
    for move in moves:
        apply_steps(problem.state, move.instance, move.steps)
        scan.refresh(move.nodes)
        scores.append(scan.score())
    for move, score in zip(moves, scores):
        move.score = score
    return scan.score()


def _moved_again(moves: Sequence[PlannedMove]) -> list[str]:
    """Who is moved more than once, by itself."""
    found: dict[str, list[PlannedMove]] = {}
    for move in moves:
        found.setdefault(move.instance.name, []).append(move)
    return [n for n, own in found.items() if len(own) > 1 and not any(m.unit for m in own)]


def _shorter(state: State, plan: Moves, name: str) -> Iterator[Moves]:
    """`plan` with fewer moves of an instance, or fewer copies; those made late come first."""
    places = [k for k, move in enumerate(plan) if move.instance.name == name]
    own = [plan[k] for k in places]
    for direct in _ways(state, own[0].instance, own[0].before, own[-1].after):
        if _effort(direct) < _effort(own):
            for place in _times(places[0], places[-1]):
                yield [
                    one
                    for k, move in enumerate(plan)
                    for one in (
                        *([] if k in places else [move]),
                        *(direct if k == place else []),
                    )
                ]


def _times(first: int, last: int) -> Iterator[int]:
    """Positions after which to move, from `last` down to `first`; some, if they are many."""
    every = max(1, (last - first) // TIMES)
    yield from range(last, first, -every)
    yield first


def _effort(moves: Sequence[PlannedMove]) -> tuple[int, int, int]:
    """Copies of disks, moves, and steps: what is to be saved, in this order."""
    copies = sum(move.notation.count("r:") for move in moves)
    return copies, len(moves), sum(len(move.steps) for move in moves)


def _ways(state: State, instance: Instance, before: Nodes, after: Nodes) -> Iterator[Moves]:
    """Shortest ways from `before` to `after`; none at all where that is the same."""
    if before == after:
        yield []
    elif len(before) == 1:
        yield [_move(state, instance, before, "fa", after[0])]
    elif set(before) == set(after):
        yield [_move(state, instance, before, "f", after[0])]
    else:
        (new, *more) = (index for index in after if index not in before)
        kinds = [kind for kind in KINDS if kind.drbd and kind.targeted]
        if more:  # the new primary takes the mirror first
            kinds = [BY_NAME["r f"], BY_NAME["f r f"]]
        for kind in kinds:
            first = _move(state, instance, before, kind.name, new)
            if first.after == after:
                yield [first]
            elif more and first.after[0] == after[0]:
                yield [first, _move(state, instance, first.after, "r", after[1])]


def _move(state: State, instance: Instance, before: Nodes, name: str, target: int) -> PlannedMove:
    """A move whose score is not known."""
    kind: MoveKind = BY_NAME[name]
    notation = kind.notation(state.cluster.nodes[target].name)
    copied = traffic(instance, kind.letters)
    return PlannedMove(instance, before, kind.steps(before, target), notation, 0.0, copied)


def _stands(state: State, changed: Moves, plan: Moves, fixed: Fixed, rules: MoveRules) -> bool:
    """Whether each move of `changed` is allowed when it is made, from where `plan` differs on."""
    pairs = zip(changed, plan)
    same = next((k for k, (new, old) in enumerate(pairs) if new is not old), len(changed))
    nodes = _otherwise(changed, plan)
    with state.trial():
        replay(state, changed[:same])
        for move in changed[same:]:
            if state.pools is None and nodes.isdisjoint(move.nodes):
                replay(state, [move])
            elif not possible(state, fixed, move.instance, move.steps, rules):
                return False
        return True


def _otherwise(changed: Moves, plan: Moves) -> set[int]:
    """The nodes on which one plan has moves that the other has not.

    To all others everything comes and goes as before, and nothing else matters to their limits,
    but for storage pools, which several nodes may share.
    """
    known = {id(move) for move in plan}, {id(move) for move in changed}
    alone = [m for m in changed if id(m) not in known[0]] + [
        m for m in plan if id(m) not in known[1]
    ]
    return {index for move in alone for index in move.nodes}
