"""The page of repairs: who is broken, what is done or why nothing is, and what comes of it."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.drawing import drawing
from iallocator.render.page.nodes import Moment, nodes_view
from iallocator.render.page.standing import (
    health_sections,
    short_names,
    standing,
    survival_tile,
)
from iallocator.render.page.transitions import timeline
from iallocator.render.page.view import Cell, Column, Grid, PageView, Section, Tile, row_of
from iallocator.render.states.listing import common_domain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.planners.repair.round import RepairRound
    from iallocator.render.page.standing import Judging, Standing


__all__ = ["repair_page"]

TONES = {"Healthy": "good", "Failure": "bad", "Needs repair": "bad"}
"""State of an instance -> how it is meant, where it matters."""

COLUMNS = (
    Column("Instance"), Column("State", hint="By its tags, these repairs included"),
    Column("Repair"), Column("From"), Column("To"), Column("Why"), Column("How"),
)  # fmt: skip


def repair_page(work: RepairRound, judging: Judging) -> PageView:
    """What `work` found and does, and the cluster before and after it."""
    before, after = work.before, work.after
    cluster = before.cluster
    document, short = work.document(), short_names(cluster)
    transition = {**work.transition(), "left": [], "remarks": []}
    now, then = standing(before, judging), standing(after, judging)
    page = PageView("repair", shown(cluster.name), *_verdict(document, work.status()))
    page.domain = common_domain(cluster)
    page.tiles = _tiles(document, now, then)
    nodes = nodes_view([Moment("Before", before), Moment("After", after)], None, page.domain)
    where = {one.name: cluster.node_names(one.nodes) for one in cluster.instances}
    rows = []
    for entry in document["instances"]:
        name = entry["instance"]
        ends = (where[name], entry.get("to", ()))
        codes = [code["OP_ID"].removeprefix("OP_") for code in entry.get("opcodes", ())]
        cells: Sequence[Cell | str] = (
            Cell(shown(short.get(name, name)), tone="strong"),
            Cell(entry["state"], tone=TONES.get(entry["state"], "")),
            entry.get("repair", ""),
            *(" : ".join(short.get(node, node) for node in nodes) for nodes in ends),
            entry["note"] or entry["state"],
            Cell(shown(", ".join(code.lower().replace("_", " ") for code in codes)), tone="faint"),
        )
        rows.append(row_of(cells))
    grid = Grid("", COLUMNS, rows, empty="Nothing is broken.")
    page.sections = [
        Section("grids", "repairs", "Repairs", [grid], count=str(len(rows))),
        Section("nodes", "nodes", "Nodes", nodes, count=str(len(cluster.nodes))),
    ]
    if transition["steps"]:
        view = timeline(transition, short, drawing(transition, short))
        page.sections.append(Section("transition", "transition", "Transition", view))
    page.sections += health_sections(now, then, judging, short)
    return page


def _verdict(document: Json, status: int) -> tuple[str, str]:
    """The sentence at the top, and how it is meant."""
    repaired = sum("to" in one for one in document["instances"])
    noted = len(document["instances"])
    if not noted:
        return "Nothing is broken", "good"
    what = f"{repaired} repair{'s' * (repaired != 1)} of {noted} instance{'s' * (noted != 1)}"
    return what + (": something takes a hand" if status else ""), "bad" if status else "good"


def _tiles(document: Json, before: Standing, after: Standing) -> list[Tile]:
    """How many instances are in each state, then what failures would do."""
    counts = [
        Tile(name, str(count), "", TONES.get(name, ""))
        for name, count in document["counts"].items()
    ]
    if document["broken"]:
        counts.append(Tile("Broken, not repaired", str(document["broken"]), "", "bad"))
    return [*counts, survival_tile(before, after)]
