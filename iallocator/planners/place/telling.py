"""A cluster placed anew as plain data, as lines for people, and as commands."""

from __future__ import annotations

from iallocator.ganeti.commands import transition_script
from iallocator.ganeti.job_sets import job_sets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from iallocator.planners.place.result import Placed
    from iallocator.planners.place.scheduler import ScheduleResult

    Json = dict[str, Any]

__all__ = ["command_lines", "placed_document", "placed_lines"]


def placed_document(placed: Placed) -> Json:
    """Everything; see ``schemas/plan.schema.json``."""
    before, after = placed.scores
    by_name = {place.instance.name: place for place in placed.places}
    return {
        "command": "place",
        "strategy": placed.strategy,
        "scores": {"before": before, "after": after},
        "placement": {name: _node(placed, by_name[name]) for name in placed.names},
        "instances": [_entry(placed, place) for place in placed.places],
        "moves": [move.document(placed.cluster) for move in placed.moves],
        "job_sets": job_sets([move.nodes for move in placed.moves]),
        "transition": placed.transition.document(),
    }


def _node(placed: Placed, place: ScheduleResult) -> str | None:
    return None if place.node is None else placed.cluster.nodes[place.node].name


def _entry(placed: Placed, place: ScheduleResult) -> Json:
    names = placed.cluster.node_names
    return {
        "instance": place.instance.name,
        "from": names(place.before),
        "to": names(place.nodes or ()),
        "runs": place.runs,
        "why": place.why,
        **({"broken": place.broken} if place.broken else {}),
    }


def placed_lines(placed: Placed) -> Iterator[str]:
    """For people: a line per instance in the order in which they chose, then the steps."""
    names = placed.cluster.node_names
    yield f"Strategy {placed.strategy}: {len(placed.places)} instances, in the order they chose"
    rows = [
        (
            place.instance.name,
            ":".join(names(place.before)) + ("" if place.runs else " (not running)"),
            "=>",
            ":".join(names(place.nodes)) if place.nodes else "out",
            place.why,
        )
        for place in placed.places
    ]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        yield "  " + " ".join(cell.ljust(w) for cell, w in zip(row, widths)).rstrip()
    for place in placed.places:
        yield from (f"  {place.instance.name} should be {text}" for text in place.broken)
    before, after = placed.scores
    out = sum(1 for place in placed.places if place.nodes is None)
    yield f"{len(placed.moves)} instances move, {out} stay out"
    yield f"Score {before:.8f} -> {after:.8f}"
    yield from _steps(placed)


def _steps(placed: Placed) -> Iterator[str]:
    transition = placed.transition
    if transition.steps:
        yield "Steps:"
    for step in transition.steps:
        entry = step.document(placed.cluster)
        where = " -> ".join(":".join(entry[key]) for key in ("from", "to") if entry.get(key))
        waits = f" after {', '.join(map(str, step.after))}" if step.after else ""
        subject = entry.get("instance") or entry.get("node", "")
        yield f"  {step.number}. {step.task.kind} {subject} {where}".rstrip() + waits
    for name, reason in transition.left:
        yield f"  cannot be done: {name}: {reason}"
    yield from (f"  {remark}" for remark in transition.remarks)


def command_lines(placed: Placed) -> list[str]:
    """The commands that carry out the steps, those that wait for the same side by side."""
    return transition_script(placed.transition)
