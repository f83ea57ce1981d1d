"""The lists of nodes and instances in the form of htools."""

from __future__ import annotations

from iallocator.compat.htools.formats import domain, table
from iallocator.documents.lists import LEFT_ALIGNED, NODE_FIELDS, USUAL, instance_table, node_rows
from iallocator.model.columns import CPUS, MEMORY
from iallocator.model.state import LAST_ORDER, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from iallocator.model.cluster import Group, Node

__all__ = ["instance_list", "node_list"]

QUOTIENTS: dict[str, tuple[int, Callable[[Node], float]]] = {
    "pfmem": (MEMORY, lambda node: node.total_memory),
    "rcpu": (CPUS, lambda node: node.total_cpus),
}
"""Field of a node -> the column with its dividend, and its divisor, which may be 0."""


OWN_FIELDS = ("group",)
"""Fields of nodes that htools do not have."""

INSTANCE_LIST_FIELDS = frozenset(("plist", "slist"))
NUMBERED_FIELDS = INSTANCE_LIST_FIELDS | {"peermap"}
"""Fields of nodes in which instances or nodes are numbers: their positions in the source."""


def _peers(state: State, node: Node) -> list[tuple[int, int]]:
    """Return the primaries of the secondaries on `node`, with the memory reserved for each.

    The largest amount is first. Of equal amounts, the last one that has changed is first.
    """
    last = len(state.cluster.nodes) - 1
    held = [one for one in state.secondaries[node.index].values() if not one.forthcoming]
    moved = {one.name for one in held if one.nodes != state.where[one.name]}
    settled = [one for one in held if one.name not in moved]
    arrived = [one for one in held if one.name in moved and one.auto_balance]
    pairs: list[tuple[int, int]] = []
    for one in (*sorted(settled, key=lambda one: -one.order), *arrived):
        number, memory = last - state.where[one.name][0], one.takeover_memory
        memory += sum(before for index, before in pairs if index == number)
        larger = [pair for pair in pairs if pair[0] != number and pair[1] > memory]
        smaller = [pair for pair in pairs if pair[0] != number and pair[1] <= memory]
        pairs = [*larger, (number, memory), *smaller]
    left = {  # when an instance leaves, an amount of 0 is removed
        last - one.nodes[0]
        for one in state.cluster.instances
        if one.nodes[1:2] == (node.index,) and state.where.get(one.name) != one.nodes
    }
    return [(number, memory) for number, memory in pairs if memory or number not in left]


def _numbers(state: State, node: Node, name: str) -> str:
    """Return the field `name` of `NUMBERED_FIELDS` as a list in the syntax of Haskell.

    As in htools, instances that have moved to the node come first, the latest before earlier ones.
    An instance with `LAST_ORDER` has the number -1.
    """
    cluster = state.cluster
    if name == "peermap":
        return f"[{','.join(f'({index},{memory})' for index, memory in _peers(state, node))}]"
    new = [one for some in state.primaries for one in some.values() if one.order != LAST_ORDER]
    ordered = sorted([*cluster.instances, *new], key=lambda one: one.order, reverse=True)
    names = dict.fromkeys(one.name for one in ordered)
    numbers = {one: number for number, one in enumerate(names)}
    role, held = (0, state.primaries) if name == "plist" else (1, state.secondaries)
    settled: list[int] = []
    arrived: list[int] = []
    for one in held[node.index].values():
        if one.forthcoming:
            continue
        # A failover puts the instance anew among the secondaries of a node
        stays = one.nodes == state.where[one.name] if role else one.nodes[:1] == (node.index,)
        number = -1 if one.order == LAST_ORDER else numbers[one.name]
        (settled if stays else arrived).append(number)
    return f"[{','.join(map(str, [*reversed(arrived), *settled]))}]"


def node_list(state: State, fields: str | bool, group: Group | None = None) -> str:
    """Return the list of nodes in `state` as text; `fields`: the value of ``-p``."""
    wanted = "" if fields is True else str(fields)
    more = wanted.removeprefix("+")
    names = more.split(",") if more else []
    chosen = [*USUAL, *names] if wanted.startswith("+") or not names else names
    unknown = [name for name in chosen if name not in NODE_FIELDS or name in OWN_FIELDS]
    known = [name for name in chosen if name not in unknown]
    rows = node_rows(state, known, True, group, domain(state.cluster))
    nodes = (node for node in state.cluster.nodes[::-1] if group in (None, node.group))
    for node, row in zip(nodes, rows):
        for name, (column, whole) in QUOTIENTS.items():
            if name in known and not whole(node):  # htools divide by zero
                part = state.columns[column][node.index]
                quotient = f"{'-' if part < 0 else ''}Infinity" if part else "NaN"
                row[known.index(name)] = quotient
        for name in NUMBERED_FIELDS.intersection(known):
            row[known.index(name)] = _numbers(state, node, name)
    lines = [
        [NODE_FIELDS[name][0] for name in known],
        *([str(cell) for cell in row] for row in rows),
    ]
    if unknown:
        positions = [chosen.index(name) for name in known]
        full = []
        for line in lines:
            cells = ["<unknown field>"] * len(chosen)
            for position, cell in zip(positions, line):
                cells[position] = cell
            full.append(cells)
        lines = full
    return "".join(
        f" {line}\n"
        for line in table(
            lines, [name in LEFT_ALIGNED and name not in INSTANCE_LIST_FIELDS for name in chosen]
        )
    )


def instance_list(state: State, group: Group | None = None) -> str:
    """Return the list of instances in `state` as text."""
    listed = instance_table(state, True, group)
    rows = [listed["titles"], *listed["rows"]]
    return "".join(f" {line}\n" for line in table(rows, listed["left"]))
