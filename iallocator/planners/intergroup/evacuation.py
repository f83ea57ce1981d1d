"""All or nothing: several instances out of a group, one after the other or, if need be, at once."""

from __future__ import annotations

from iallocator.placement.several.moves import move_together
from iallocator.placement.several.sequence import MoveTask, in_turn
from iallocator.planners.intergroup.context import FOUND, IMPOSSIBLE, OUT_OF_TIME, UNDECIDED
from iallocator.planners.intergroup.moving import planned
from iallocator.planners.intergroup.packing.packing import pack
from iallocator.planners.intergroup.packing.placing import undo
from iallocator.planners.plan import mark_units
from iallocator.solver.problem import FOUND as SOLVED
from iallocator.solver.problem import IMPOSSIBLE as PROVED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.placement.results import MoveOption, MoveResult
    from iallocator.planners.intergroup.impossible.proof import Proofs
    from iallocator.planners.intergroup.moving import Mover
    from iallocator.planners.intergroup.packing.placing import Made
    from iallocator.planners.plan import PlannedMove

    Targets = Callable[[Instance], Sequence[Group]]

__all__ = ["Evacuation", "evacuate", "packed"]

SEARCHED = 1_000_000
"""Places of all instances together up to which an exact search has a chance to end in time."""


class Evacuation:
    """What came of moving instances away.

    Attributes
    ----------
    moves:
        In the order in which they can be made; none if not all can be moved.
    failed:
        The instance that has no place; None if all have one.
    reason:
        Why it has none; or how places for all were found, if not one after the other.
    verdict:
        See `iallocator.planners.intergroup.context`.
    """

    __slots__ = ("failed", "moves", "reason", "verdict")

    def __init__(self) -> None:
        self.moves: list[PlannedMove] = []
        self.failed: Instance | None = None
        self.reason = ""
        self.verdict = FOUND

    def give_up(self, reason: str, verdict: str) -> None:
        """Say why no more is tried, and what that proves."""
        self.reason += reason
        self.verdict = verdict


def evacuate(
    mover: Mover,
    instances: Sequence[Instance],
    targets: Targets,
    search: bool = True,
    proofs: Proofs | None = None,
) -> Evacuation:
    """Move all `instances`, each to one of the groups that `targets` has for it.

    They are moved on the state if all have a place; else it is left as it is.  One after
    the other takes the best place that is left; where that fails they are packed to where most
    room is, and where that fails an exact search looks for places for all at once: both
    unless `search` says that it shall not, or one of `proofs` that there are none.

    Raises
    ------
    TimeIsUp
        If time is up.  The state may then be anything.
    """
    done = Evacuation()
    undecided = mover.context.effort.undecided
    made = _one_by_one(mover, instances, targets, done)
    if done.failed is not None and search:
        proof = proofs.against(instances, targets) if proofs is not None else ""
        if proof:
            done.give_up(f"; what has to leave {proof}", IMPOSSIBLE)
            return done
        made = _at_once(mover, instances, targets, done)
    if done.failed is not None and mover.context.effort.undecided > undecided:
        done.give_up("; not all failures were judged, for that takes too long", OUT_OF_TIME)
    return _planned(mover, done, made)


def packed(mover: Mover, instances: Sequence[Instance], targets: Targets) -> Evacuation | None:
    """The same where it is only asked whether all can go; None if that was not found quickly."""
    made = pack(mover, instances, targets, careful=False)
    return None if made is None else _planned(mover, Evacuation(), made)


def _planned(mover: Mover, done: Evacuation, made: Made) -> Evacuation:
    """`done` with the moves that were `made`."""
    nodes = mover.context.cluster.nodes
    done.moves = [planned(i, before, move, 0.0, nodes) for i, before, move in made]
    mark_units(done.moves, mover.context.units)
    return done


def _one_by_one(
    mover: Mover, instances: Sequence[Instance], targets: Targets, done: Evacuation
) -> Made:
    """Each in turn to the best place left; nobody moves if one has none, `done` says who."""
    made: Made = []
    state = mover.context.state
    for instance in _in_order(mover, instances):
        mover.context.keep_going()
        outcome = mover.relocate(instance, targets(instance))
        if outcome.best is None:
            done.failed, done.reason, done.verdict = instance, outcome.message, UNDECIDED
            break
        made.append((instance, state.where[instance.name], outcome.best))
        mover.apply(instance, outcome.best)
    if done.failed is None:
        return made
    undo(mover, made)
    return []


def _in_order(mover: Mover, instances: Sequence[Instance]) -> Iterator[Instance]:
    """As they stand; by priority and by what follows what where there are bonds or strategies."""
    if mover.context.plain:
        yield from instances
        return

    yield from (instances[position] for position in in_turn(mover.context, instances))


def _at_once(
    mover: Mover,
    instances: Sequence[Instance],
    targets: Targets,
    done: Evacuation,
) -> Made:
    """The moves for all at once, carried out; none if there is no answer, `done` says why."""
    context, failed = mover.context, done.failed
    assert failed is not None
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
    choices = sum(_choices(instance, targets(instance)) for instance in instances)
    if choices > SEARCHED:
        why = f"; {choices} places in question are too many for an exact search"
        done.give_up(why, OUT_OF_TIME)
        return []
    found = _search(mover, instances, targets, failed)
    if found is None:
        done.give_up("; nothing was left to spend on an exact search", OUT_OF_TIME)
        return []
    status, note, moves = found
    if status != SOLVED or len(moves) < len(instances):
        done.give_up(note, IMPOSSIBLE if status == PROVED else OUT_OF_TIME)
        return []
    made = []
    for instance, move in moves:
        made.append((instance, context.state.where[instance.name], move))
        mover.apply(instance, move)
    done.failed, done.reason, done.verdict = None, "placed together by exact search", FOUND
    return made


def _search(
    mover: Mover, instances: Sequence[Instance], targets: Targets, failed: Instance
) -> tuple[str, str, list[tuple[Instance, MoveOption]]] | None:
    """Status, what to say of it, and the moves; None if there is nothing left to spend on it."""
    context = mover.context
    if context.search_budget.spent:
        return None
    context.tell(f"searching places for {len(instances)} instances at once")
    tasks = [_task(mover, instance, targets(instance)) for instance in instances]
    found = move_together(context, tasks, [failed], context.search_budget)
    note = found.note()
    hopeless = [i.name for i in instances if i.name in found.hopeless]
    if hopeless:
        note = f"; {hopeless[0]} has no place even if it comes first"
    moves = [(instance, outcome.best) for instance, outcome in found.moves if outcome.best]
    status = PROVED if found.hopeless else found.status
    return status, note, moves


def _choices(instance: Instance, groups: Sequence[Group]) -> int:
    """How many places an exact search would have to look at for one instance, at most."""
    return sum(len(group.nodes) ** instance.required_nodes for group in groups)


def _task(mover: Mover, instance: Instance, groups: Sequence[Group]) -> MoveTask:
    """Moving one instance."""

    def exactly(nodes: tuple[int, ...]) -> MoveResult:
        mover.context.keep_going()
        return mover.only(instance, nodes)

    return MoveTask(
        instance,
        lambda: mover.relocate(instance, groups),
        lambda: mover.places(instance, groups),
        exactly,
    )
