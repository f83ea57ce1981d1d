"""Transitions as graphs in the DOT language, drawn from the plain data of responses and plans."""

from __future__ import annotations

from iallocator.errors import shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iallocator.aliases import Json


__all__ = ["dot", "label", "subject", "waves", "way"]


def subject(step: Json) -> str:
    """What the step is about: the instance, or the node."""
    return str(step.get("instance", step.get("node", "")))


def way(step: Json, short: Mapping[str, str] | None = None, arrow: str = "->") -> str:
    """``node1:node2 -> node3:node2``; `short`: names as they are to be shown."""
    known = short or {}
    before, after = (
        ":".join(known.get(name, name) for name in step.get(end, ())) for end in ("from", "to")
    )
    if before == after:
        return f"on {after}" if after else " ".join(step.get("tags", ()))
    return f" {arrow} ".join(nodes for nodes in (before, after) if nodes)


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


def waves(transition: Json) -> dict[int, int]:
    """Number of each step -> its wave, from 1: one after the last that it waits for."""
    found: dict[int, int] = {}
    for step in transition["steps"]:
        found[step["number"]] = 1 + max((found[one] for one in step["after"]), default=0)
    return found
