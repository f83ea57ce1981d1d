"""The steps of a transition as a table for people."""

from __future__ import annotations

from iallocator.render.steps import subject, way
from iallocator.render.table import Column, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.render.table import Page

    Json = dict[str, Any]

__all__ = ["tell_transition"]


def tell_transition(page: Page, transition: Json) -> None:
    """Number, kind, instance or node, way and waits of every step; `transition` is plain data."""
    steps = transition["steps"]
    if not steps:
        return
    page.heading("Transition")
    table = Table(
        Column("step", True), Column("what"), Column("of"), Column("way"), Column("waits for")
    )
    for step in steps:
        waits = (f"{number} ({why})" for number, why in zip(step["after"], step["because"]))
        kind = step["kind"] if step["opcodes"] else f"{step['kind']} (by hand)"
        table.add(str(step["number"]), kind, subject(step), way(step), ", ".join(waits) or "-")
    page.table(table)
    for remark in transition["remarks"]:
        page.say(remark)
