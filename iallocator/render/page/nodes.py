"""Nodes as bars, at several moments: before and after a plan, or after each filling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from iallocator.errors import shown
from iallocator.model.columns import (
    CPUS,
    DISK,
    FREE_SPINDLES,
    MEMORY,
    PRIMARIES,
    SECONDARIES,
    SPINDLES,
)
from iallocator.render.page.view import Bar, gib, natural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.model.cluster import Node
    from iallocator.model.state import State

__all__ = ["RESOURCES", "Meter", "Moment", "NodeLine", "NodesView", "nodes_view"]

T = TypeVar("T")

RESOURCES = ("Memory", "Disk", "Virtual cpus", "Spindles")


@dataclass(frozen=True, slots=True)
class Moment:
    """When nodes are looked at: a title, and the state then."""

    title: str
    state: State


@dataclass(frozen=True, slots=True)
class Meter:
    """One resource of a node at one moment: a bar, and the same in words."""

    bar: Bar
    text: str
    words: str


@dataclass(frozen=True, slots=True)
class NodeLine:
    """A node: for each resource its meters, one per moment, or one alone where nothing changes.

    A resource that the node does not have, or of which nobody knows, has none.
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


def nodes_view(
    moments: Sequence[Moment], marks: Mapping[int, str] | None = None, domain: str = ""
) -> NodesView:
    """The nodes of the cluster at `moments`.

    `marks`: what is to be said of nodes besides, by index; `domain`: the end of names that is
    left out.
    """
    nodes = sorted(moments[0].state.cluster.nodes, key=lambda node: natural(node.name))
    lines = [_line(node, moments, (marks or {}).get(node.index, ""), domain) for node in nodes]
    used = [k for k in range(len(RESOURCES)) if any(line.meters[k] for line in lines)]
    lines = [
        NodeLine(one.name, one.group, one.marks, one.counts, [one.meters[k] for k in used],
                 one.changed)
        for one in lines
    ]  # fmt: skip
    titles = [RESOURCES[k] for k in used]
    changed = sum(line.changed for line in lines)
    return NodesView([moment.title for moment in moments], titles, lines, changed)


def _line(node: Node, moments: Sequence[Moment], mark: str, domain: str) -> NodeLine:
    states = [moment.state for moment in moments]
    meters = [_once([read(state, node) for state in states]) for read in READERS]
    counts = _once([
        " + ".join(f"{state.columns[role][node.index]:.0f}" for role in (PRIMARIES, SECONDARIES))
        for state in states
    ])  # fmt: skip
    held = [(s.primaries[node.index].keys(), s.secondaries[node.index].keys()) for s in states]
    changed = any(one != held[0] for one in held)
    marks = ["offline"] if node.offline else ["drained"] if node.drained else []
    if not (node.offline or node.vm_capable):
        marks.append("holds no instances")
    return NodeLine(
        shown(node.name.removesuffix(domain)),
        shown(node.group.name),
        [*marks, *([mark] if mark else [])],
        counts,
        [[meter for meter in found if meter] for found in meters],
        changed,
    )


def _once(values: list[T]) -> list[T]:
    """One alone where all are the same."""
    return values[:1] if all(value == values[0] for value in values) else values


def _meter(used: float, reserved: float, total: float, unit: str) -> Meter | None:
    """`used` and `reserved` of `total`; None if nothing is known of the total."""
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
    """A number without its unit: GiB of amounts in MiB."""
    return f"{amount / 1024:.1f}" if unit == "MiB" else f"{amount:.4g}"


def _memory(state: State, node: Node) -> Meter | None:
    total = node.total_memory * node.memory_ratio
    free = state.columns[MEMORY][node.index]
    return _meter(total - free, state.reserved[node.index], total, "MiB")


def _disk(state: State, node: Node) -> Meter | None:
    return _meter(node.total_disk - state.columns[DISK][node.index], 0, node.total_disk, "MiB")


def _cpus(state: State, node: Node) -> Meter | None:
    return _meter(state.columns[CPUS][node.index], 0, node.total_cpus * node.vcpu_ratio, "")


def _spindles(state: State, node: Node) -> Meter | None:
    if node.exclusive_storage:
        total = node.total_spindles
        return _meter(total - state.columns[FREE_SPINDLES][node.index], 0, total, "")
    return _meter(state.columns[SPINDLES][node.index], 0, node.high_spindles, "")


READERS = (_memory, _disk, _cpus, _spindles)
"""In the order of `RESOURCES`."""
