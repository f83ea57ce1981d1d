"""Evacuate several instances from a group: all of them, or none.

Instances are placed one after the other.  If that fails, they are packed. If packing fails, an
exact search places all of them at once.
"""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.errors import many
from iallocator.placement.several.moves import move_together
from iallocator.placement.several.sequence import RequiredMove, in_turn
from iallocator.planners.intergroup.context import (
    GROUP_FOUND,
    GROUP_IMPOSSIBLE,
    OUT_OF_TIME,
    UNDECIDED,
)
from iallocator.planners.intergroup.packing import pack
from iallocator.planners.intergroup.relocation import Relocation
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

MOST_SEARCHED_PLACEMENTS = 1_000_000
"""The largest number of placements of all instances for which an exact search can end in time."""


class Evacuation:
    """The result of an attempt to move several instances to other groups.

    Attributes
    ----------
    entries:
        The moves in an order in which they can be made; [] if not all instances can be moved.
    failed:
        The instance that cannot be placed; None if all can be placed.
    reason:
        Why `failed` cannot be placed. If all were placed by packing or exact search, the name
        of this method; else "".
    status:
        The status of the group, such as `iallocator.planners.intergroup.context.GROUP_FOUND`.
    doubtful:
        Whether the status `GROUP_IMPOSSIBLE` is not proved for other orders of moves, see
        `Mover.doubtful`.
    """

    __slots__ = ("doubtful", "entries", "failed", "reason", "status")

    def __init__(self) -> None:
        self.entries: list[PlanEntry] = []
        self.failed: Instance | None = None
        self.reason = ""
        self.status = GROUP_FOUND
        self.doubtful = False

    def give_up(self, reason: str, status: str) -> None:
        """Append `reason`, why no other method is tried, and set the status."""
        self.reason += reason
        self.status = status


def evacuate(
    mover: Mover,
    instances: Sequence[Instance],
    targets: Targets,
    search: bool = True,
    proofs: Proofs | None = None,
) -> Evacuation:
    """Find moves of all `instances`, each to one of the groups that `targets` has for it.

    The state of `mover` is restored.  First, instances are placed one after the other, each on the
    best nodes.  If that fails, all instances are packed.  If packing fails too, an exact search
    places all of them at once.  Without `search`, or if `proofs` show that not all instances can be
    placed, only the first method is used.

    Raises
    ------
    Stopped
        If the run must end.
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
                done.failed, done.reason, done.status = instance, outcome.message, UNDECIDED
                made = []
                break
            made.append(outcome.best)
            outcome.best.apply(context.state)
    if done.failed is not None and search:
        proof = proofs.against(instances, targets) if proofs is not None else ""
        if proof:
            done.give_up(f"; the set of leaving instances {proof}", GROUP_IMPOSSIBLE)
            return done
        made = _at_once(mover, instances, targets, done, done.failed)
        done.doubtful = mover.doubtful
    if done.failed is not None and context.effort.undecided > undecided:
        done.give_up("; not all failures were analysed, because that takes too long", OUT_OF_TIME)
    unproved = done.status != GROUP_IMPOSSIBLE or done.doubtful
    if done.failed is not None and search and unproved and context.settings.optimal:
        made = _by_program(mover, instances, targets, done)
    return _planned(mover, done, made)


def _by_program(
    mover: Mover, instances: Sequence[Instance], targets: Targets, done: Evacuation
) -> list[Move]:
    """Return moves of all `instances` from an integer program with N+1; [] if none were found.

    The status, and the reason if there are no moves, are stored in `done`.
    """
    context = mover.context
    if not context.searches_for([context.cluster.group_of(one) for one in instances]):
        return []
    moves = Relocation(mover, instances, targets).find(context.search_budget)
    if moves.moves is not None:
        done.failed, done.reason, done.status = None, "placed together by exact search", GROUP_FOUND
        return moves.moves
    if moves.proved:
        done.give_up("; exact search proved that no placement of all exists", GROUP_IMPOSSIBLE)
        done.doubtful = False
    elif done.status == OUT_OF_TIME:
        done.give_up("; exact search found no answer", OUT_OF_TIME)
    return []


def packed(mover: Mover, instances: Sequence[Instance], targets: Targets) -> Evacuation | None:
    """Return moves of all `instances` found by packing alone; None if packing finds none.

    The state of `mover` is restored.
    """
    made = pack(mover, instances, targets, careful=False)
    return None if made is None else _planned(mover, Evacuation(), made)


def _planned(mover: Mover, done: Evacuation, made: Sequence[Move]) -> Evacuation:
    """Make `made` the moves of the plan `done`; return `done`."""
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
    """Return moves of all instances by packing or exact search; [] if none were found.

    `failed` is the instance that could not be placed after the others. The status, and the reason
    if there are no moves, are stored in `done`.
    """
    context = mover.context
    if mover.immovable(failed):
        done.status = GROUP_IMPOSSIBLE
        return []
    mover.doubtful = False
    first = mover.relocate(failed, targets(failed)).best
    unknown = first is None and mover.gave_up_early
    if first is None and not unknown:
        # The instance may have to follow other instances
        alone = GROUP_IMPOSSIBLE if context.plain else UNDECIDED
        done.give_up("; it has no place even if it comes first", alone)
        return []
    made = pack(mover, instances, targets, careful=not unknown)
    if made is not None:
        done.failed, done.reason, done.status = None, "placed by free capacity", GROUP_FOUND
        return made
    if unknown:
        done.status = OUT_OF_TIME
        return []
    if not context.searches_for([context.cluster.group_of(failed)]):
        done.give_up("; no exact search was made", UNDECIDED)
        return []
    if context.settings.optimal and context.plain:
        done.status = OUT_OF_TIME  # `_by_program` follows
        return []
    choices = sum(
        len(group.nodes) ** one.required_nodes for one in instances for group in targets(one)
    )
    if choices > MOST_SEARCHED_PLACEMENTS:
        why = f"; {choices} possible places are too many for an exact search"
        done.give_up(why, OUT_OF_TIME)
        return []
    if context.search_budget.must_end:
        done.give_up("; the budget of exact searches is spent", OUT_OF_TIME)
        return []
    context.progress(f"searching places for {many(len(instances), 'instance')} at once")

    def task(instance: Instance) -> RequiredMove:
        groups = targets(instance)

        def exactly(nodes: tuple[int, ...]) -> MoveResult:
            check()
            return mover.only(instance, nodes)

        return RequiredMove(
            instance,
            lambda: mover.relocate(instance, groups),
            lambda: mover.places(instance, groups),
            exactly,
        )

    tasks = [task(instance) for instance in instances]
    mover.doubtful = False
    joint_moves = move_together(context, tasks, [failed], context.search_budget)
    unschedulable = [one.name for one in instances if one.name in joint_moves.unschedulable]
    note = (
        f"; {unschedulable[0]} has no place even if it comes first"
        if unschedulable
        else joint_moves.note()
    )
    moves = [outcome.best for _, outcome in joint_moves.moves if outcome.best]
    status = PROVED if joint_moves.unschedulable else joint_moves.status
    if status != SOLVED or len(moves) < len(instances):
        done.give_up(note, GROUP_IMPOSSIBLE if status == PROVED else OUT_OF_TIME)
        return []
    done.failed, done.reason, done.status = None, "placed together by exact search", GROUP_FOUND
    return moves
