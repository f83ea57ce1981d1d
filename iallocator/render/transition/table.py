"""The steps of a transition as a table for people."""

from __future__ import annotations

from iallocator.render.table import Column, Table
from iallocator.render.transition.dot import subject, way

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.render.table import Page


__all__ = ["tell_transition"]


def tell_transition(page: Page, transition: Json) -> None:
    """Number, kind, instance or node, way and waits of every step; `transition` is plain data."""
    steps = transition["steps"]
    if not steps and not transition["left"]:
        return
    page.heading(
        f"Transition: {_count(len(steps), 'step')}, {_count(transition['waits'], 'wait')}, "
        f"at most {transition['longest']} one after the other"
    )
    table = Table(
        Column("step", True), Column("what"), Column("of"), Column("way"), Column("waits for")
    )
    for step in steps:
        waits = (f"{number} ({why})" for number, why in zip(step["after"], step["because"]))
        kind = step["kind"] if step["opcodes"] else f"{step['kind']} (by hand)"
        table.add(str(step["number"]), kind, subject(step), way(step), ", ".join(waits) or "-")
    if steps:
        page.table(table)
    for entry in transition["left"]:
        page.say(f"not done: {entry['name']}: {entry['reason']}")
    for remark in transition["remarks"]:
        page.say(f"note: {remark}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
