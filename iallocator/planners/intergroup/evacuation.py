"""All or nothing: move several instances out of a group, in turn or, if need be, all at once."""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.placement.several.moves import move_together
from iallocator.placement.several.sequence import MoveTask, in_turn
from iallocator.planners.intergroup.context import FOUND, IMPOSSIBLE, OUT_OF_TIME, UNDECIDED
from iallocator.planners.intergroup.packing import pack
from iallocator.planners.plan import PlanEntry, mark_colocation_groups
from iallocator.solver.problem import FOUND as SOLVED
from iallocator.solver.problem import IMPOSSIBLE as PROVED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.placement.results import MoveResult
    from iallocator.planners.intergroup.infeasibility_proofs import Proofs
    from iallocator.planners.intergroup.moving import Mover
    from iallocator.planners.intergroup.packing import Targets

__all__ = ["Evacuation", "evacuate", "packed"]

SEARCHED = 1_000_000
"""Places of all instances together up to which an exact search can end in time."""


class Evacuation:
    """The result of moving instances away.

    Attributes
    ----------
    entries:
        The moves in an order in which they can be made; none if not all instances can be moved.
    failed:
        The instance that has no place; None if all have one.
    reason:
        Why `failed` has no place; or how places for all were found, if not one after the other.
    verdict:
        See `iallocator.planners.intergroup.context`.
    """

    __slots__ = ("entries", "failed", "reason", "verdict")

    def __init__(self) -> None:
        self.entries: list[PlanEntry] = []
        self.failed: Instance | None = None
        self.reason = ""
        self.verdict = FOUND

    def give_up(self, reason: str, verdict: str) -> None:
        """Add why nothing more is tried, and set what that proves."""
        self.reason += reason
        self.verdict = verdict


def evacuate(
    mover: Mover,
    instances: Sequence[Instance],
    targets: Targets,
    search: bool = True,
    proofs: Proofs | None = None,
) -> Evacuation:
    """Find moves of all `instances`, each to one of the groups that `targets` has for it.

    The state of `mover` is left as it is.  One instance after the other takes the best place that
    is left.  If that fails, the instances are packed, and if that fails too, an exact search looks
    for places for all at once.  Both are left out without `search`, or if `proofs` show that
    there are no such places.

    Raises
    ------
    Stopped
        If the run has to end.
    """
    done, context = Evacuation(), mover.context
    undecided = context.effort.undecided
    made: list[Move] = []
    with context.state.trial():
        # By priority, or by the order of the strategy, if there are constraints or strategies
        order = range(len(instances)) if context.plain else in_turn(context, instances)
        for instance in map(instances.__getitem__, order):
            check()
            outcome = mover.relocate(instance, targets(instance))
            if outcome.best is None:
                done.failed, done.reason, done.verdict = instance, outcome.message, UNDECIDED
                made = []
                break
            made.append(outcome.best)
            outcome.best.apply(context.state)
    if done.failed is not None and search:
        proof = proofs.against(instances, targets) if proofs is not None else ""
        if proof:
            done.give_up(f"; what has to leave {proof}", IMPOSSIBLE)
            return done
        made = _at_once(mover, instances, targets, done, done.failed)
    if done.failed is not None and context.effort.undecided > undecided:
        done.give_up("; not all failures were judged, for that takes too long", OUT_OF_TIME)
    return _planned(mover, done, made)


def packed(mover: Mover, instances: Sequence[Instance], targets: Targets) -> Evacuation | None:
    """Find out quickly whether all `instances` can leave; None if no moves were found quickly.

    The state of `mover` is left as it is.
    """
    made = pack(mover, instances, targets, careful=False)
    return None if made is None else _planned(mover, Evacuation(), made)


def _planned(mover: Mover, done: Evacuation, made: Sequence[Move]) -> Evacuation:
    """Return `done` with the moves in `made`."""
    done.entries = [PlanEntry(move) for move in made]
    mark_colocation_groups(done.entries, mover.context.units)
    return done


def _at_once(
    mover: Mover,
    instances: Sequence[Instance],
    targets: Targets,
    done: Evacuation,
    failed: Instance,
) -> list[Move]:
    """Return moves of all instances at once; none if there is no answer, and `done` says why."""
    context = mover.context
    if mover.immovable(failed):
        done.verdict = IMPOSSIBLE
        return []
    first = mover.relocate(failed, targets(failed)).best
    unknown = first is None and mover.gave_up_early
    if first is None and not unknown:
        alone = IMPOSSIBLE if context.plain else UNDECIDED  # others may have to come first
        done.give_up("; it has no place even if it comes first", alone)
        return []
    made = pack(mover, instances, targets, careful=not unknown)
    if made is not None:
        done.failed, done.reason, done.verdict = None, "placed where most room is", FOUND
        return made
    if unknown:
        done.verdict = OUT_OF_TIME
        return []
    if not context.searches_for([context.cluster.group_of(failed)]):
        done.give_up("; no exact search was made", UNDECIDED)
        return []
    choices = sum(
        len(group.nodes) ** one.required_nodes for one in instances for group in targets(one)
    )
    if choices > SEARCHED:
        why = f"; {choices} places in question are too many for an exact search"
        done.give_up(why, OUT_OF_TIME)
        return []
    if context.search_budget.must_end:
        done.give_up("; nothing was left to spend on an exact search", OUT_OF_TIME)
        return []
    context.tell(f"searching places for {len(instances)} instances at once")

    def task(instance: Instance) -> MoveTask:
        groups = targets(instance)

        def exactly(nodes: tuple[int, ...]) -> MoveResult:
            check()
            return mover.only(instance, nodes)

        return MoveTask(
            instance,
            lambda: mover.relocate(instance, groups),
            lambda: mover.places(instance, groups),
            exactly,
        )

    tasks = [task(instance) for instance in instances]
    found = move_together(context, tasks, [failed], context.search_budget)
    hopeless = [one.name for one in instances if one.name in found.hopeless]
    note = f"; {hopeless[0]} has no place even if it comes first" if hopeless else found.note()
    moves = [outcome.best for _, outcome in found.moves if outcome.best]
    status = PROVED if found.hopeless else found.status
    if status != SOLVED or len(moves) < len(instances):
        done.give_up(note, IMPOSSIBLE if status == PROVED else OUT_OF_TIME)
        return []
    done.failed, done.reason, done.verdict = None, "placed together by exact search", FOUND
    return moves
