"""Show a cluster as tiles: nodes by group and rack, with their instances as blocks.

The width of a block is the share of the memory of its node that its instance needs.  Moves are
arrows, which the script of the page draws: only the browser knows where the tiles are.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, groupby
from math import inf

from iallocator.errors import many, printable
from iallocator.render.page.health import effects
from iallocator.render.page.nodes import METER_TITLES, load_of, marks_of
from iallocator.render.page.view import Section, escaped, gib, natural

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from markupsafe import Markup

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = ["Block", "NodeTile", "Rack", "TopologyView", "add_topology"]

DENSE_NODES = 60
"""The number of nodes above which tiles are small and blocks have no names."""

STRIP_NODES = 100
"""The number of nodes from which on a strip shows the load of each node as a colour."""

LEGIBLE_WIDTH = 14
"""The least width of a block with a name, in percent of the width of its tile."""


COMMON_PREFIX_LENGTH = 5
"""The number of letters from which on a common beginning of names is left out in small tiles."""


def tails(names: Sequence[str]) -> dict[str, str]:
    """Return each name without the common beginning of all `names`, if this beginning is long.

    The end distinguishes the nodes of most clusters, and a small tile shows only a few letters.
    """
    first, last = min(names, default=""), max(names, default="")
    alike = next((k for k, (one, other) in enumerate(zip(first, last)) if one != other), 0)
    if alike < COMMON_PREFIX_LENGTH:
        return {name: name for name in names}
    return {name: f"\N{HORIZONTAL ELLIPSIS}{name[alike:]}" for name in names}


def tails_in_groups(nodes: Iterable[Json], page: PageView) -> dict[str, str]:
    """Return the labels of small tiles: the tails of the names in each group.

    A tile is under the title of its group, so the label need not distinguish the groups.
    """
    members: dict[str, list[str]] = {}
    for node in nodes:
        members.setdefault(node["group"], []).append(page.short(node["name"]))
    return dict(chain.from_iterable(tails(names).items() for names in members.values()))


@dataclass(slots=True)  # frozen objects take three times as long to make
class Block:
    """An instance on a node as a block in the tile of the node.

    Attributes
    ----------
    index:
        The position of the instance in the data of the page.
    width:
        The width of the block in percent of the width of the tile.
    kind:
        Classes of CSS: ``x`` (the instance cannot be restarted after the failure of its primary),
        ``v`` (the instance moves, or is new).
    name:
        The name of the instance; "" if the block is too narrow.
    """

    index: int
    width: float
    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class NodeTile:
    """A node: its load in percent in each state, and its primaries and secondaries.

    If the node is equal in all states, `loads` and `blocks` have one item. In a small tile, `name`
    is the end of the node's name.
    """

    index: int
    name: str
    title: str
    marks: Sequence[str]
    loads: Sequence[int]
    blocks: Sequence[tuple[Sequence[Block], Sequence[Block]]]

    def heat(self, state: int = 0) -> int:
        """Return the number of the colour for the load: 1 to 5 in steps of 20 %, 6 above 100 %."""
        load = self.loads[state]
        return 6 if load > 100 else min(max(load, 0) // 20 + 1, 5)

    def blocks_as_html(self) -> Markup:
        """Return the instances in each state as HTML; a template takes several times as long."""
        from markupsafe import Markup

        parts: list[str] = []
        for state, rows in enumerate(self.blocks):
            parts.append(f'<span class="rows m m{state}">' if len(self.blocks) > 1
                         else '<span class="rows">')  # fmt: skip
            for letter, row in zip("ps", rows):
                parts.append(f'<span class="{letter}">')
                for one in row:
                    kind = f' class="{one.kind}"' if one.kind else ""
                    style = f' style="width:{one.width}%" data-i={one.index}'
                    parts.append(f"<i{kind}{style}>{escaped(one.name)}</i>")
                parts.append("</span>")
            parts.append("</span>")
        return Markup("".join(parts))


@dataclass(frozen=True, slots=True)
class Rack:
    """The tiles of the nodes of one group with equal location tags."""

    group: str
    title: str
    tiles: Sequence[NodeTile]


@dataclass(frozen=True, slots=True)
class TopologyView:
    """All tiles by group and rack, and the data that the script of the page shows.

    Attributes
    ----------
    strip:
        The tiles in the order of their load; empty for small clusters.
    data:
        Nodes, instances, moves and failures as plain data.
    """

    states: Sequence[str]
    racks: Sequence[Rack]
    strip: Sequence[NodeTile]
    dense: bool
    moves: int
    analysed: bool
    data: Json


def add_topology(
    page: PageView, facts: Json, healths: Sequence[Json | None], marks: Mapping[str, str]
) -> None:
    """Add the cluster of `facts` to `page` as tiles, unless the time is up.

    Parameters
    ----------
    page:
        The page.
    facts:
        Has the inventory of the cluster, and the nodes in each state.
    healths:
        The health in each state, as `iallocator.documents.cluster_facts.health_at` returns it; None
        if unknown.
    marks:
        Name of a node -> a word that is shown beside it.
    """
    if page.late:
        page.leave_out("topology", "Topology")
        return
    states, inventory = facts["states"], facts["cluster"]
    sizes = dict(inventory["instances"])
    for state in states:
        sizes |= state["created"]
    index_of = {name: k for k, name in enumerate(sizes)}
    position = {node["name"]: k for k, node in enumerate(states[0]["nodes"])}
    lost = [
        {name for one in (health or {"failures": ()})["failures"] for name in one["unrestarted"]}
        for health in healths
    ]
    moving = _moving(states) if len(states) == 2 else {}

    # The tiles; the blocks of a node that does not change are made once
    kinds = [_kinds(lost_instances, moving) for lost_instances in lost]
    marked = {name for one in kinds for name, _ in one.items() ^ kinds[0].items()}
    small = len(position) <= DENSE_NODES
    labels = tails([*map(page.short, sizes)]) if small else {}
    node_labels = {} if small else tails_in_groups(states[0]["nodes"], page)
    tiles: dict[str, NodeTile] = {}
    for k, node_states in enumerate(zip(*(state["nodes"] for state in states))):
        name = node_states[0]["name"]
        blocks: list[tuple[list[Block], list[Block]]] = []
        for at, node in enumerate(node_states):
            total = node["resources"][0][2]
            if (
                at
                and node["held"] == node_states[0]["held"]
                and total == node_states[0]["resources"][0][2]
                and marked.isdisjoint(chain(*node["held"]))
            ):
                blocks.append(blocks[0])
                continue
            rows = []
            for names in node["held"]:
                memory = [sizes[one]["memory"] for one in names]
                whole = max(total if total < inf else 0, sum(memory), 1)
                row = []
                for one, mib in zip(names, memory):
                    width = round(100 * mib / whole, 1)
                    text = (
                        printable(labels[page.short(one)])
                        if small and width >= LEGIBLE_WIDTH
                        else ""
                    )
                    row.append(Block(index_of[one], width, kinds[at].get(one, ""), text))
                rows.append(row)
            blocks.append((rows[0], rows[1]))
        loads = [round(100 * load_of(node)) for node in node_states]
        if all(one == blocks[0] for one in blocks) and len(set(loads)) == 1:
            blocks, loads = blocks[:1], loads[:1]
        present_marks = [*marks_of(node_states[0]), *([marks[name]] if name in marks else [])]
        primaries, secondaries = (round(count) for count in node_states[0]["counts"])
        held = (
            many(primaries, "primary", "primaries"),
            many(secondaries, "secondary", "secondaries"),
        )
        title = ", ".join((f"{page.short(name)}: {loads[0]} % used", *held))
        label = node_labels.get(page.short(name), page.short(name))
        tiles[name] = NodeTile(k, printable(label), printable(title), present_marks, loads, blocks)

    # Groups and racks
    def place(node: Json) -> tuple[str, str]:
        return node["group"], ", ".join(inventory["nodes"][node["name"]]["locations"])

    racks = []
    order = sorted(
        states[0]["nodes"], key=lambda node: (natural(place(node)[0]), natural(place(node)[1]),
                                               natural(node["name"])))  # fmt: skip
    for (group, rack), some in groupby(order, key=place):
        here = [tiles[node["name"]] for node in some]
        racks.append(Rack(printable(group), printable(rack), here))
    by_load = sorted(tiles.values(), key=lambda tile: -tile.loads[0])

    data = {
        "states": [state["title"] for state in states],
        "nodes": [
            {
                "name": printable(page.short(node["name"])),
                "group": printable(node["group"]),
                "marks": [*tiles[node["name"]].marks],
                "tags": [*map(printable, inventory["nodes"][node["name"]]["tags"])],
                "amounts": [_amounts(state["nodes"][k]) for state in states],
                "held": [
                    [[index_of[name] for name in names] for names in state["nodes"][k]["held"]]
                    for state in states
                ],
            }
            for k, node in enumerate(states[0]["nodes"])
        ],
        "instances": [
            [printable(page.short(name)), gib(one["memory"]), gib(one["disk"]), one["vcpus"],
             one["disk_template"], printable(", ".join(one["tags"]))]
            for name, one in sizes.items()
        ],
        "failures": [
            None if health is None else _failures(health, position, page)
            for health in healths
        ],
        "lost": [[index_of[name] for name in sorted(names)] for names in lost],
        "moves": [[index_of[name], *ways] for name, ways in moving.items() if ways[0]],
    }  # fmt: skip
    analysed = any(health and health["analysed"] for health in healths)
    view = TopologyView(
        data["states"], racks, by_load if len(tiles) >= STRIP_NODES else [], not small,
        len(data["moves"]), analysed, data,
    )  # fmt: skip
    page.sections.append(Section("topology", "topology", "Topology", view, count=str(len(tiles))))


def _moving(states: Sequence[Json]) -> dict[str, tuple[list[int], list[int]]]:
    """Return instance that moves or is new -> the positions of its nodes before and after.

    Such an instance is marked on all of these nodes.
    """
    ends: list[dict[str, list[int]]] = []
    for state in states:
        where: dict[str, list[int]] = {}
        for role in (0, 1):
            for k, node in enumerate(state["nodes"]):
                for name in node["held"][role]:
                    where.setdefault(name, []).append(k)
        ends.append(where)
    before, after = ends
    return {
        name: (before.get(name, []), nodes)
        for name, nodes in after.items()
        if before.get(name) != nodes
    }


def _kinds(lost: Collection[str], moving: Collection[str]) -> dict[str, str]:
    """Return instance -> the classes of its block, for instances in `lost` and `moving`."""
    kinds = dict.fromkeys(lost, "x")
    kinds.update((name, "x v" if name in kinds else "v") for name in moving)
    return kinds


def _amounts(node: Json) -> list[str]:
    """Return the use of each resource of a node in words."""
    amounts = []
    for name, (used, _, total, unit) in zip(METER_TITLES, node["resources"]):
        if 0 < total < inf:
            show = gib if unit else "{:.4g}".format
            amounts.append(f"{name}: {100 * used / total:.0f} %, {show(used)} of {show(total)}")
    return amounts


def _failures(health: Json, position: Mapping[str, int], page: PageView) -> list[Json]:
    """Return the effect of each node's failure, in the order of nodes, for the page's script."""
    failures: list[Json] = [{} for _ in position]
    for one in health["failures"]:
        failures[position[one["node"]]] = {
            "tolerated": one["survived"] if one["analysed"] else None,
            "effects": [*map(printable, effects(one, page))],
        }
    return failures
