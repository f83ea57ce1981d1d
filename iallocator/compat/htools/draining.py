"""Plan for hroller how to drain nodes if hroller moves secondaries, or instances with tags."""

from __future__ import annotations

from iallocator.compat.htools.errors import NO_CAPACITY, ProgramError
from iallocator.deadline import Deadline
from iallocator.model.moves import Move
from iallocator.planners.reboot.drain_plan import DrainPlanner, RebootContext
from iallocator.planners.reboot.options import IGNORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.planners.reboot.options import RebootOptions

    Part = tuple[list[int], list[Move]]
    """Nodes that are drained together, and the moves off them."""

__all__ = ["drained", "evacuated"]


def drained(
    cluster: Cluster, classes: Iterable[Sequence[int]], settings: Settings, options: RebootOptions
) -> list[Part]:
    """Divide each class of nodes into parts, so that all instances without a secondary fit.

    Raises
    ------
    ProgramError
        If the instances of a single node do not fit on other nodes.
    """
    context = RebootContext(cluster, settings, Deadline(None))
    planner = DrainPlanner(context, options.replace(evacuate=False))
    parts = [
        part for nodes in classes for part in _drainable(planner, nodes, "non-redundant instances")
    ]
    return [(part, planner.plan(part).moves) for part in parts]


def evacuated(
    cluster: Cluster,
    parts: Iterable[Part],
    settings: Settings,
    options: RebootOptions,
    with_moves: bool,
) -> list[Part]:
    """Divide each of `parts`, so that its secondaries fit on other nodes, too.

    The moves are [] unless `with_moves`.

    Raises
    ------
    ProgramError
        If the secondaries of a single node do not fit on other nodes.
    """
    emptied = [
        _emptied(RebootContext(cluster, settings, Deadline(None)), part, moves)
        for part, moves in parts
    ]
    smaller: list[Part] = []
    for context, (part, moves) in zip(emptied, parts):
        planner = DrainPlanner(context, options.replace(single=IGNORED))
        for some in _drainable(planner, part, "secondaries"):
            listed = [*moves, *planner.plan(some).moves] if with_moves else []
            smaller.append((some, listed))
    return smaller


def _emptied(
    context: RebootContext, nodes: Collection[int], moves: Iterable[Move]
) -> RebootContext:
    """Make `moves`, fail over the instances with a primary among `nodes`, and return `context`.

    Instances also fail over to secondaries among `nodes`.

    Raises
    ------
    ProgramError
        If a secondary lacks capacity.
    """
    cluster, state = context.cluster, context.state
    for move in moves:
        move.apply(state)
    for instance in cluster.instances:
        present = instance.nodes
        if len(present) < 2 or present[0] not in nodes or instance.forthcoming:
            continue
        failover = Move(instance, present, present[::-1])
        evaluator = context.evaluator(cluster.nodes[present[1]].group).for_steps()
        if evaluator.check(failover, n1=False) is not None:
            raise ProgramError("Error: Failed to migrate instances off nodes")
        failover.apply(state)
    return context


def _drainable(planner: DrainPlanner, nodes: Sequence[int], kind: str) -> list[list[int]]:
    """Divide `nodes` into parts that `planner` can drain; each node is in the first possible part.

    Raises
    ------
    ProgramError
        If a node cannot be drained alone; `kind` names the instances that do not fit.
    """
    parts: list[list[int]] = []
    rest = list(nodes)
    while rest:
        part: list[int] = []
        for index in rest:
            if not planner.plan([*part, index]).reason:
                part.append(index)
        if not part:
            raise ProgramError(NO_CAPACITY.format(kind))
        parts.append(part)
        rest = [index for index in rest if index not in part]
    return parts
