"""Show nodes as bars in several states: before and after a plan, or full of new instances."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TypeVar

from iallocator.errors import many, printable
from iallocator.render.page.view import Bar, Section, gib, natural
from iallocator.units import GIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = [
    "METER_TITLES", "Meter", "NodeLine", "NodesView", "add_nodes", "load_of", "marks_of",
]  # fmt: skip

T = TypeVar("T")

METER_TITLES = ("Memory", "Disk", "Virtual cpus", "Spindles")


@dataclass(frozen=True, slots=True)
class Meter:
    """One resource of a node in one state: a bar, and its numbers in words."""

    bar: Bar
    text: str
    words: str


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node: for each resource one meter per state, or one meter if nothing changes.

    A resource that the node does not have, or with an unknown total, has no meter.
    """

    index: int
    name: str
    group: str
    marks: Sequence[str]
    loads: Sequence[int]
    counts: Sequence[str]
    meters: Sequence[Sequence[Meter]]
    changed: bool


@dataclass(frozen=True, slots=True)
class Histogram:
    """The distribution of nodes by the used share of a resource, in each state.

    Each of the first ten bins counts the nodes in one tenth. The last bin counts the nodes that use
    more than they have. `highest` is the largest count.
    """

    title: str
    bins: Sequence[Sequence[int]]
    highest: int
    words: str


BINS = [*(f"{10 * k}–{10 * k + 10} %" for k in range(10)), "over 100 %"]


@dataclass(frozen=True, slots=True)
class NodesView:
    """All nodes; `states` are titles, `changed` counts the nodes that change."""

    states: Sequence[str]
    resources: Sequence[str]
    lines: Sequence[NodeLine]
    changed: int
    charts: Sequence[Histogram]


def add_nodes(
    page: PageView, states: Sequence[Json], marks: Mapping[str, str] | None = None
) -> None:
    """Add to `page` the nodes of the cluster in `states`, the most loaded node first.

    `marks`: name of a node -> a word that is shown beside it.
    """
    rows = sorted(
        enumerate(zip(*(state["nodes"] for state in states))),
        key=lambda row: (-load_of(row[1][0]), natural(row[1][0]["name"])),
    )
    lines = [_line(k, row, (marks or {}).get(row[0]["name"], ""), page) for k, row in rows]
    used = [k for k in range(len(METER_TITLES)) if any(line.meters[k] for line in lines)]
    lines = [
        NodeLine(one.index, one.name, one.group, one.marks, one.loads, one.counts,
                 [one.meters[k] for k in used], one.changed)
        for one in lines
    ]  # fmt: skip
    titles = [METER_TITLES[k] for k in used]
    changed = sum(line.changed for line in lines)
    charts = [_chart(METER_TITLES[k], k, states) for k in used]
    view = NodesView([state["title"] for state in states], titles, lines, changed, charts)
    page.sections.append(Section("nodes", "nodes", "Nodes", view, count=str(len(lines))))


def load_of(node: Json) -> float:
    """Return the largest of the used shares of memory, disk and cpus; 0 if none is known."""
    load = 0.0
    for used, _, total, _ in node["resources"][:3]:
        if 0 < total < inf:
            load = max(load, used / total)
    return load


def marks_of(node: Json) -> list[str]:
    """Return the flags of a node in words."""
    if node["offline"]:
        return ["offline"]
    marks = ["drained"] if node["drained"] else []
    return marks if node["vm_capable"] else [*marks, "holds no instances"]


def _chart(title: str, resource: int, states: Sequence[Json]) -> Histogram:
    """Return the histogram of one resource in all states."""
    bins = []
    for state in states:
        counts = [0] * len(BINS)
        for node in state["nodes"]:
            used, _, total, _ = node["resources"][resource]
            if 0 < total < inf:
                counts[10 if used > total else min(int(10 * max(used, 0) / total), 9)] += 1
        bins.append(counts)
    if all(one == bins[0] for one in bins):
        bins = bins[:1]
    words = "; ".join(
        (f"{state['title']}: " if len(bins) > 1 else "")
        + ", ".join(f"{many(count, 'node')} {name}" for name, count in zip(BINS, counts) if count)
        for state, counts in zip(states, bins)
    )
    return Histogram(title, bins, max([1, *(max(counts) for counts in bins)]), words)


def _line(index: int, states: Sequence[Json], mark: str, page: PageView) -> NodeLine:
    """Return the line of one node; `states` has its facts in each state."""
    node = states[0]
    meters = [
        _once([_meter(*one["resources"][k]) for one in states]) for k in range(len(METER_TITLES))
    ]
    counts = _once([" + ".join(f"{count:.0f}" for count in one["counts"]) for one in states])
    changed = any(one["held"] != node["held"] for one in states)
    return NodeLine(
        index,
        printable(page.short(node["name"])),
        printable(node["group"]),
        [*marks_of(node), *([mark] if mark else [])],
        _once([round(100 * load_of(one)) for one in states]),
        counts,
        [[meter for meter in row if meter] for row in meters],
        changed,
    )


def _once(values: list[T]) -> list[T]:
    """Return `values`, or only the first one if all are equal."""
    return values[:1] if all(value == values[0] for value in values) else values


def _meter(used: float, reserved: float, total: float, unit: str) -> Meter | None:
    """Return the meter of `used` and `reserved`; None if the total is unknown."""
    if not 0 < total < inf:
        return None
    short = used + reserved > total
    show = gib if unit == "MiB" else "{:.4g}".format
    text = f"{100 * used / total:.0f} %  {_plain(used, unit)} / {_plain(total, unit)}"
    words = f"{show(used)} of {show(total)} used"
    if reserved:
        words += f", {show(reserved)} reserved for failovers"
    words += f", {show(max(total - used - reserved, 0))} free"
    bar = Bar(round(100 * max(used, 0) / total, 1), round(100 * reserved / total, 1), "bad" * short)
    return Meter(bar, text, words + (": overcommitted" if short else ""))


def _plain(amount: float, unit: str) -> str:
    """Return an amount as text without its unit; amounts in MiB are converted to GiB."""
    return f"{amount / GIB:.1f}" if unit == "MiB" else f"{amount:.4g}"
