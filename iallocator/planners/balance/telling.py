"""Balancing plans as plain data, as lines for people, and as commands."""

from __future__ import annotations

from iallocator.ganeti.commands import script
from iallocator.ganeti.job_sets import job_sets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.state import State
    from iallocator.planners.balance.balance import GroupPlan
    from iallocator.planners.plan import PlannedMove
    from iallocator.transition.requirements import Demands
    from iallocator.transition.transition import Transition

    Json = dict[str, object]

__all__ = ["command_lines", "plan_document", "plan_lines", "transition_of"]


def _moves(plans: Sequence[GroupPlan]) -> list[PlannedMove]:
    return [move for one in plans for move in one.plan.moves]


def plan_document(cluster: Cluster, plans: Sequence[GroupPlan], command: str = "balance") -> Json:
    """All plans of `command` as one; see ``schemas/plan.schema.json``.

    The scores of several groups are added up; the score of a move is its group's.
    """
    moves = _moves(plans)
    return {
        "command": command,
        "scores": {
            "before": sum(one.plan.before for one in plans),
            "after": sum(one.plan.after for one in plans),
        },
        "moves": [move.document(cluster) for move in moves],
        "job_sets": job_sets([move.nodes for move in moves]),
        "groups": [
            {
                "group": one.group.name,
                "before": one.plan.before,
                "after": one.plan.after,
                "moves": len(one.plan.moves),
                "copied_mib": one.plan.copied,
                "reason": one.plan.reason,
            }
            for one in plans
        ],
    }


def transition_of(
    before: State, plans: Sequence[GroupPlan], demands: Demands | None = None
) -> Transition:
    """The steps of all moves and what they wait for; the plans begin at the state `before`."""
    from iallocator.transition.assemble import transition_of_moves
    from iallocator.transition.resources import room

    moves = [(move.instance, move.before, move.steps) for move in _moves(plans)]
    orders = demands.orders if demands else ()
    return transition_of_moves(before.cluster, room(before), moves, orders=orders)


def command_lines(cluster: Cluster, plans: Sequence[GroupPlan]) -> list[str]:
    """The commands that carry out the plans, in job sets."""
    moves = _moves(plans)
    sets = job_sets([move.nodes for move in moves])
    return script(cluster, [(move.instance, move.steps) for move in moves], sets)


def plan_lines(cluster: Cluster, plans: Sequence[GroupPlan]) -> Iterator[str]:
    """The plans for people: a line per move, then what they come to."""
    for one in plans:
        plan = one.plan
        yield f"Group {one.group.name}: {len(one.group.nodes)} nodes, score {plan.before:.8f}"
        yield from _table(cluster, plan.moves)
        if plan.moves:
            yield f"Score {plan.before:.8f} -> {plan.after:.8f} in {len(plan.moves)} moves"
            yield f"Traffic: {plan.copied / 1024:.1f} GiB"
        yield f"The plan ends here: {plan.reason}"


def _table(cluster: Cluster, moves: Sequence[PlannedMove]) -> Iterator[str]:
    rows = [
        (
            f"{number}.",
            move.instance.name,
            ":".join(cluster.node_names(move.before)),
            "=>",
            ":".join(cluster.node_names(move.after)),
            f"{move.score:.8f}",
            f"{move.copied / 1024:.1f} GiB",
            f"a={move.notation}",
        )
        for number, move in enumerate(moves, start=1)
    ]
    widths = [max(map(len, column)) for column in zip(*rows)]
    right = {0, 5, 6}
    for row, move in zip(rows, moves):
        cells = (
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths))
        )
        yield "  " + " ".join(cells).rstrip()
        yield from (f"       should be {broken}" for broken in move.broken)
