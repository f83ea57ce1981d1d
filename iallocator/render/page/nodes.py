"""Show nodes as bars, at several moments: before and after a plan, or after each filling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from iallocator.errors import shown
from iallocator.render.page.view import Bar, Section, gib, natural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = ["RESOURCES", "Meter", "NodeLine", "NodesView", "add_nodes"]

T = TypeVar("T")

RESOURCES = ("Memory", "Disk", "Virtual cpus", "Spindles")


@dataclass(frozen=True, slots=True)
class Meter:
    """One resource of a node at one moment: a bar, and its numbers in words."""

    bar: Bar
    text: str
    words: str


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node: for each resource one meter per moment, or only one if nothing changes.

    A resource that the node does not have, or with an unknown total, has no meter.
    """

    name: str
    group: str
    marks: Sequence[str]
    counts: Sequence[str]
    meters: Sequence[Sequence[Meter]]
    changed: bool


@dataclass(frozen=True, slots=True)
class NodesView:
    """All nodes; `moments` are titles, `changed` counts the nodes that change."""

    moments: Sequence[str]
    resources: Sequence[str]
    lines: Sequence[NodeLine]
    changed: int


def add_nodes(
    page: PageView, moments: Sequence[Json], marks: Mapping[str, str] | None = None
) -> None:
    """Add the nodes of the cluster at `moments`.

    `marks`: name of a node -> a word that is shown beside it.
    """
    rows = sorted(
        zip(*(moment["nodes"] for moment in moments)), key=lambda row: natural(row[0]["name"])
    )
    lines = [_line(row, (marks or {}).get(row[0]["name"], ""), page) for row in rows]
    used = [k for k in range(len(RESOURCES)) if any(line.meters[k] for line in lines)]
    lines = [
        NodeLine(one.name, one.group, one.marks, one.counts, [one.meters[k] for k in used],
                 one.changed)
        for one in lines
    ]  # fmt: skip
    titles = [RESOURCES[k] for k in used]
    changed = sum(line.changed for line in lines)
    view = NodesView([moment["title"] for moment in moments], titles, lines, changed)
    page.sections.append(Section("nodes", "nodes", "Nodes", view, count=str(len(lines))))


def _line(moments: Sequence[Json], mark: str, page: PageView) -> NodeLine:
    """Return the line of one node; `moments` has its facts before and after the plan."""
    node = moments[0]
    meters = [
        _once([_meter(*one["resources"][k]) for one in moments]) for k in range(len(RESOURCES))
    ]
    counts = _once([" + ".join(f"{count:.0f}" for count in one["counts"]) for one in moments])
    changed = any(one["held"] != node["held"] for one in moments)
    marks = ["offline"] if node["offline"] else ["drained"] if node["drained"] else []
    if not (node["offline"] or node["vm_capable"]):
        marks.append("holds no instances")
    return NodeLine(
        shown(page.short(node["name"])),
        shown(node["group"]),
        [*marks, *([mark] if mark else [])],
        counts,
        [[meter for meter in found if meter] for found in meters],
        changed,
    )


def _once(values: list[T]) -> list[T]:
    """Return the values; only one if all are equal."""
    return values[:1] if all(value == values[0] for value in values) else values


def _meter(used: float, reserved: float, total: float, unit: str) -> Meter | None:
    """Return the meter of `used` and `reserved`; None if the total is unknown."""
    if not 0 < total < float("inf"):
        return None
    short = used + reserved > total
    show = gib if unit == "MiB" else "{:.4g}".format
    text = f"{_plain(used, unit)} / {_plain(total, unit)}"
    words = f"{show(used)} of {show(total)} used"
    if reserved:
        words += f", {show(reserved)} reserved for failovers"
    words += f", {show(max(total - used - reserved, 0))} free"
    bar = Bar(round(100 * max(used, 0) / total, 1), round(100 * reserved / total, 1), "bad" * short)
    return Meter(bar, text, words + (": more than there is" if short else ""))


def _plain(amount: float, unit: str) -> str:
    """Return a number without its unit; amounts in MiB as GiB."""
    return f"{amount / 1024:.1f}" if unit == "MiB" else f"{amount:.4g}"
