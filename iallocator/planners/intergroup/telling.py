"""Plans between groups as plain data, as lines for people, and as commands."""

from __future__ import annotations

from iallocator.ganeti.commands import transition_script
from iallocator.ganeti.job_sets import job_sets
from iallocator.render.steps import lines
from iallocator.transition.assemble import transition_of_moves
from iallocator.transition.resources import room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.planners.intergroup.result import SuperPlan
    from iallocator.transition.requirements import Demands
    from iallocator.transition.transition import Transition

    Json = dict[str, object]

__all__ = ["command_lines", "plan_document", "plan_lines", "transition_of"]


def transition_of(done: SuperPlan, demands: Demands | None = None) -> Transition:
    """The steps of the moves, and what each waits for."""
    moves = [(move.instance, move.before, move.steps) for move in done.moves]
    orders = demands.orders if demands else ()
    return transition_of_moves(done.cluster, room(done.before), moves, orders=orders)


def plan_document(done: SuperPlan, transition: Transition) -> Json:
    """The plan as plain data; see ``schemas/plan.schema.json``."""
    return {
        "command": done.plan.command,
        "scores": {"before": done.plan.before, "after": done.plan.after},
        "reason": done.plan.reason,
        "moves": [move.document(done.cluster) for move in done.moves],
        "job_sets": job_sets([move.nodes for move in done.moves]),
        "groups": [row.document() for row in done.groups],
        **done.members,
        "transition": transition.document(),
    }


def command_lines(transition: Transition) -> list[str]:
    """The commands that carry the plan out: jobs that may run side by side in one set."""
    return transition_script(transition)


def plan_lines(done: SuperPlan, transition: Transition) -> Iterator[str]:
    """The plan for people: the groups, the moves, what they come to, and the steps."""
    heads = ("group", *done.heads, "")
    rows = [(row.group.name, *row.cells, row.reason) for row in done.groups]
    yield from _aligned([heads, *rows], range(0))
    if done.moves:
        yield from _aligned(list(_moves(done)), (0, 5, 6))
        count = len(done.moves)
        yield f"{count} move{'s' * (count > 1)}, {done.plan.copied / 1024:.1f} GiB traffic"
        yield f"Score ({done.score}): {done.plan.before:.8g} -> {done.plan.after:.8g}"
    yield f"The plan ends here: {done.plan.reason}"
    if done.moves:
        yield from lines(transition.document())


def _moves(done: SuperPlan) -> Iterator[tuple[str, ...]]:
    cluster = done.cluster
    for number, move in enumerate(done.moves, start=1):
        groups = [cluster.nodes[nodes[0]].group.name for nodes in (move.before, move.after)]
        yield (
            f"{number}.",
            move.instance.name,
            f"{':'.join(cluster.node_names(move.before))} ({groups[0]})",
            "=>",
            f"{':'.join(cluster.node_names(move.after))} ({groups[1]})",
            f"{move.score:.8g}",
            f"{move.copied / 1024:.1f} GiB",
            f"a={move.notation}" + "".join(f"; should be {one}" for one in move.broken),
        )


def _aligned(rows: Sequence[Sequence[str]], right: Sequence[int]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        cells = (
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths))
        )
        yield "  " + " ".join(cells).rstrip()
