"""Transitions drawn: as lines for people and as a graph in the DOT language.

Both draw the plain data that responses and plans hold.
"""

from __future__ import annotations

from iallocator.errors import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Json = dict[str, Any]

__all__ = ["dot", "label", "lines", "subject", "way"]


def subject(step: Json) -> str:
    """What the step is about: the instance, or the node."""
    return str(step.get("instance", step.get("node", "")))


def way(step: Json) -> str:
    """``node1:node2 -> node3:node2``."""
    before, after = step.get("from", []), step.get("to", [])
    if before == after:
        return "on " + ":".join(after) if after else " ".join(step.get("tags", ()))
    return " -> ".join(":".join(nodes) for nodes in (before, after) if nodes)


def label(step: Json) -> str:
    """All of a step in one line, without what it waits for."""
    return shown(" ".join(word for word in (step["kind"], subject(step), way(step)) if word))


def lines(transition: Json) -> Iterator[str]:
    """A line per step, with what it waits for and why; what is left out; remarks."""
    steps = transition["steps"]
    if not steps and not transition["left"]:
        return
    yield (
        f"Transition: {_count(len(steps), 'step')}, {_count(transition['waits'], 'wait')}, "
        f"at most {transition['longest']} one after the other"
    )
    rows = [
        (f"{step['number']}.", step["kind"], shown(subject(step)), shown(way(step)))
        for step in steps
    ]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row, step in zip(rows, steps):
        cells = [row[0].rjust(widths[0])]
        cells += (cell.ljust(width) for cell, width in zip(row[1:], widths[1:]))
        waits = ", ".join(
            f"{number} ({why})" for number, why in zip(step["after"], step["because"])
        )
        hand = "" if step["opcodes"] else "  by hand"
        yield ("  " + " ".join(cells) + hand + (f"  after {waits}" if waits else "")).rstrip()
    for entry in transition["left"]:
        yield f"  not done: {entry['name']}: {entry['reason']}"
    for remark in transition["remarks"]:
        yield f"  note: {remark}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def dot(transition: Json) -> str:
    """A directed graph: a box per step, an arrow to each from what it waits for."""
    rows = ["digraph transition {", "  rankdir=LR;", "  node [shape=box];"]
    for step in transition["steps"]:
        style = "" if step["opcodes"] else ", style=dashed"
        rows.append(f"  s{step['number']} [label={_quoted(label(step), step['number'])}{style}];")
    for step in transition["steps"]:
        for number, why in zip(step["after"], step["because"]):
            rows.append(f"  s{number} -> s{step['number']} [label={_quoted(why)}];")
    return "\n".join([*rows, "}", ""])


def _quoted(text: str, number: int | None = None) -> str:
    escaped = shown(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if number is None else f'"{number}. {escaped}"'
