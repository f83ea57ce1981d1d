"""Transitions as graphs in the DOT language, drawn from the plain data of responses and plans."""

from __future__ import annotations

from iallocator.errors import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

__all__ = ["dot", "label", "subject", "way"]


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
