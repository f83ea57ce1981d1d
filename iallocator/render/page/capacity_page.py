"""The page of a cluster's capacity: how much more fits, and the nodes when it is full."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.page.health import health_sections, survival_tile
from iallocator.render.page.nodes import nodes_section
from iallocator.render.page.view import (
    Cell,
    Column,
    Grid,
    Section,
    Tile,
    gib,
    page_of,
    row_of,
    short_names,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView, Row

__all__ = ["capacity_view"]

RUNS = (("tiered", "In tiers"), ("standard", "Of the standard size"))
"""Member of the document -> what that filling is called."""


def capacity_view(document: Json, facts: Json) -> PageView:
    """The page of what ``--json`` writes; `facts` are those of its page.

    Failures, score and groups are compared with those of the cluster full of standard
    instances.
    """
    page = page_of("capacity", facts["cluster"], *_verdict(document))
    runs = [(title, document[kind]) for kind, title in RUNS if kind in document]
    for title, run in runs:  # why it ended
        closest = f"; closest to one more: {shown(run['closest'])}" if run["closest"] else ""
        page.details.append(f"{title}, the end: {shown(run['end'])}{closest}")
    sums, now = document["cluster"], document["before"]
    page.tiles = [
        Tile("Instances now", str(now["instances"]), f"on {sums['nodes']} nodes"),
        *(Tile(title, f"+{run['count']}", "instances") for title, run in runs),
    ]
    for name, title in (("memory", "Memory free"), ("disk", "Disk free")):
        page.tiles.append(Tile(title, gib(now[name]["free"]), f"of {gib(sums[name])}"))
    page.sections = [
        Section("grids", "sizes", "What fits", [_sizes(document)]),
        Section("grids", "sums", "Sums", [_sums(document)]),
        nodes_section(facts["moments"], page.domain),
    ]
    if "forecast" in document:
        forecast = document["forecast"]
        columns = Column("Order", number=True), Column("Fitted", number=True), Column("Refused for")
        orders = enumerate(zip(forecast["counts"], forecast["reasons"]), start=1)
        rows = [
            row_of((str(number), Cell(str(count), sort=count, tone="strong"), shown(reason)))
            for number, (count, reason) in orders
        ]
        note = ""
        if forecast["median"] is not None:
            note = (
                f"Median {forecast['median']:g}, from {forecast['lowest']} to "
                f"{forecast['highest']}, until the first refusal. "
            )
        if forecast["hopeless"]:
            note += (
                f"{forecast['hopeless']} orders ended with one that has no place as things are. "
            )
        note += f"Asked for before: {forecast['asked']}. {shown(forecast['end'])}"
        grid = Grid("", columns, rows)
        page.sections.insert(1, Section("grids", "forecast", "Forecast", [grid], note.rstrip()))
    full = facts["after"]
    if full is not None:
        page.details.append("Before: now; after: full of instances of the standard size")
    page.tiles.append(survival_tile(facts["before"], full))
    short = short_names(facts["cluster"], page.domain)
    page.sections += health_sections(facts["before"], full, short)
    return page


def _verdict(document: Json) -> tuple[str, str]:
    if "standard" not in document:
        return "Interrupted before the answer was known", "bad"
    run = document["standard"]
    size = f"{gib(run['start']['memory'])} memory, {gib(run['start']['disk'])} disk"
    if not run["count"]:
        return f"No instance of the standard size fits ({size})", "bad"
    many = f"{run['count']} more instance{'s' * (run['count'] != 1)}"
    return f"{many} of the standard size fit{'s' * (run['count'] == 1)} ({size})", "good"


def _sizes(document: Json) -> Grid:
    """A row per size that was placed."""
    columns = (
        Column("Filling"), Column("Instances", number=True), Column("Memory", number=True),
        Column("Disk", number=True), Column("Virtual cpus", number=True), Column("Template"),
    )  # fmt: skip
    rows: list[Row] = []
    for kind, title in RUNS:
        for size in document[kind]["sizes"] if kind in document else ():
            cells: Sequence[Cell | str] = (
                title,
                Cell(str(size["count"]), sort=size["count"], tone="strong"),
                Cell(gib(size["memory"]), sort=size["memory"]),
                Cell(gib(size["disk"]), sort=size["disk"]),
                Cell(str(size["vcpus"]), sort=size["vcpus"]),
                size["disk_template"],
            )
            rows.append(row_of(cells))
    return Grid("", columns, rows, empty="Nothing fits.")


def _sums(document: Json) -> Grid:
    """Used, free and available before and after each filling.

    Available is what is free and not reserved.
    """
    columns = (
        Column("When"), Column("Instances", number=True), Column("Memory used", number=True),
        Column("free", number=True), Column("available", number=True),
        Column("Disk used", number=True), Column("free", number=True),
        Column("Virtual cpus used", number=True), Column("free", number=True),
    )  # fmt: skip
    moments = [("Now", document["before"])]
    moments += [(title, document[kind]["after"]) for kind, title in RUNS if kind in document]
    rows = []
    for title, figures in moments:
        memory, disk, cpu = figures["memory"], figures["disk"], figures["cpu"]
        rows.append(
            row_of(
                (
                    Cell(title, tone="strong"),
                    str(figures["instances"]),
                    *(gib(memory[name]) for name in ("used", "free", "available")),
                    *(gib(disk[name]) for name in ("used", "free")),
                    *(f"{cpu[name]:g}" for name in ("used", "free")),
                )
            )
        )
    return Grid("", columns, rows, "Available: free, and not reserved.")
