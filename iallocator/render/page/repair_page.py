"""The page of repairs: who is broken, what is done or why nothing is, and what comes of it."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.drawing import drawing
from iallocator.render.page.health import health_sections, survival_tile
from iallocator.render.page.nodes import nodes_section
from iallocator.render.page.transitions import timeline
from iallocator.render.page.view import (
    Cell,
    Column,
    Grid,
    Section,
    Tile,
    page_of,
    row_of,
    short_names,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = ["repair_page"]

TONES = {"Healthy": "good", "Failure": "bad", "Needs repair": "bad"}
"""State of an instance -> how it is meant, where it matters."""

COLUMNS = (
    Column("Instance"), Column("State", hint="By its tags, these repairs included"),
    Column("Repair"), Column("From"), Column("To"), Column("Why"), Column("How"),
)  # fmt: skip


def repair_page(document: Json, facts: Json) -> PageView:
    """The repairs that ``--json`` writes, and the cluster before and after them in `facts`."""
    now, then, where = facts["before"], facts["after"], facts["where"]
    transition = {**facts["transition"], "left": [], "remarks": []}
    page = page_of("repair", facts["cluster"], *_verdict(document, facts["status"]))
    short = short_names(facts["cluster"], page.domain)
    page.tiles = _tiles(document, now, then)
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
        nodes_section(facts["moments"], page.domain),
    ]
    if transition["steps"]:
        view = timeline(transition, short, drawing(transition, short))
        page.sections.append(Section("transition", "transition", "Transition", view))
    page.sections += health_sections(now, then, short)
    return page


def _verdict(document: Json, status: int) -> tuple[str, str]:
    """The sentence at the top, and how it is meant."""
    repaired = sum("to" in one for one in document["instances"])
    noted = len(document["instances"])
    if not noted:
        return "Nothing is broken", "good"
    what = f"{repaired} repair{'s' * (repaired != 1)} of {noted} instance{'s' * (noted != 1)}"
    return what + (": something takes a hand" if status else ""), "bad" if status else "good"


def _tiles(document: Json, before: Json, after: Json) -> list[Tile]:
    """How many instances are in each state, then what failures would do."""
    counts = [
        Tile(name, str(count), "", TONES.get(name, ""))
        for name, count in document["counts"].items()
    ]
    if document["broken"]:
        counts.append(Tile("Broken, not repaired", str(document["broken"]), "", "bad"))
    return [*counts, survival_tile(before, after)]
