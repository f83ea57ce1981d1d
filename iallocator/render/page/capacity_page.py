"""The page of a cluster's capacity: how much more fits, and the nodes when it is full."""

from __future__ import annotations

from iallocator.errors import many, printable
from iallocator.render.capacity import (
    LASTING,
    TREND,
    TREND_NOTE,
    gain_of,
    gained_in,
    lasting_of,
    trend_remarks,
    trend_rows,
    trend_title,
)
from iallocator.render.page.health import add_health, tolerance_tile
from iallocator.render.page.nodes import add_nodes
from iallocator.render.page.topology import add_topology
from iallocator.render.page.view import (
    Cell,
    Grid,
    Tile,
    gib,
    number_cell,
    size_cell,
)
from iallocator.render.quality import quality_words
from iallocator.render.table import numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = ["capacity"]

RUNS = (("tiered", "In tiers"), ("standard", "Of the standard size"))
"""Key of a count of instances in the document -> the title of this count on the page."""


def capacity(document: Json, facts: Json, page: PageView) -> None:
    """Add to `page` the capacity in `document`.

    `facts` has the health of the present cluster and of the full one.

    The page compares failures, score and groups of the present cluster with those of the cluster
    that is full of standard instances.
    """
    page.command = "capacity"
    page.headline, page.tone = _headline(document)
    runs = [(title, document[kind]) for kind, title in RUNS if kind in document]
    for title, run in runs:  # why it ended
        closest = f"; closest candidate: {printable(run['closest'])}" if run["closest"] else ""
        page.details.append(f"{title}, ended by: {printable(run['end'])}{closest}")
        page.details += filter(None, [printable(quality_words(run, str))])
    sums, now = document["cluster"], document["before"]
    page.tiles = [
        Tile("Instances now", str(now["instances"]), f"on {many(sums['nodes'], 'node')}"),
        *(Tile(title, f"+{run['count']}", "instances") for title, run in runs),
    ]
    for name, title in (("memory", "Memory free"), ("disk", "Disk free")):
        page.tiles.append(Tile(title, gib(now[name]["free"]), f"of {gib(sums[name])}"))
    full = facts["after"]
    titles = {"Now": facts["before"], "Standard": full}
    healths = [titles.get(state["title"]) for state in facts["states"]]
    add_topology(page, facts, healths, {})
    page.table("sizes", "What fits", _sizes(document))
    if "forecast" in document:
        forecast = document["forecast"]
        grid = Grid(numeric("Order"), numeric("Fitted"), "Rejected for")
        for order, (count, reason) in enumerate(
            zip(forecast["counts"], forecast["reasons"]), start=1
        ):
            grid.add(str(order), number_cell(count, "strong"), reason)
        note = ""
        if forecast["median"] is not None:
            note = (
                f"Median {forecast['median']:g}, from {forecast['lowest']} to "
                f"{forecast['highest']}, until the first rejection. "
            )
        if forecast["hopeless"]:
            note += (
                f"{many(forecast['hopeless'], 'order')} ended with an instance that does not fit "
                "on the present cluster either. "
            )
        note += f"Earlier requests: {forecast['asked']}. {printable(forecast['end'])}"
        page.table("forecast", "Forecast", grid, note.rstrip())
    if "trend" in document:
        _trend(document["trend"], page)
    if "purchases" in document:
        _purchases(document["purchases"], page)
    page.table("sums", "Sums", _sums(document))
    if full is not None:
        page.details.append("Before: now; after: full of instances of the standard size")
    page.tiles.append(tolerance_tile(facts["before"], full))
    add_nodes(page, facts["states"])
    add_health(page, facts["before"], full)


def _purchases(purchases: list[Json], page: PageView) -> None:
    """Add to `page` a table with the standard instances that fit after each purchase."""
    lasting = "days_gained" in purchases[0]
    grid = Grid(
        "Purchase", numeric("Cost"), numeric("Fit then"), numeric("Gained"),
        numeric("Per unit of cost"),
        *(numeric(name.capitalize()) for name in (LASTING if lasting else ())), "Where", "The end",
    )  # fmt: skip
    for one in purchases:
        gain, rate = gain_of(one)
        grid.add(
            one["purchase"], f"{one['cost']:.12g}", number_cell(one["count"]),
            Cell(gain, tone="strong"), rate, *(lasting_of(one) if lasting else ()),
            gained_in(one), one["reason"],
        )  # fmt: skip
    what = "that lasts longest" if lasting else "with the highest gain"
    page.table("purchases", "Purchases", grid, f"The one {what} per unit of cost is first.")


def _trend(trend: Json, page: PageView) -> None:
    """Add to `page` a table with the day on which each group is full."""
    titles = [name.capitalize() for name in TREND]
    grid = Grid(
        titles[0], numeric(titles[1]), titles[2], *map(numeric, titles[3:6]), *titles[6:],
        intro=TREND_NOTE,
    )  # fmt: skip
    for row in trend_rows(trend):
        grid.add(*row)
    remarks = map(printable, trend_remarks(trend))
    page.table("trend", trend_title(trend), grid, "; ".join(remarks))


def _headline(document: Json) -> tuple[str, str]:
    if "standard" not in document:
        return "Interrupted before the answer was known", "bad"
    run = document["standard"]
    size = f"{gib(run['start']['memory'])} memory, {gib(run['start']['disk'])} disk"
    if not run["count"]:
        return f"No instance of the standard size fits ({size})", "bad"
    more = many(run["count"], "more instance")
    return f"{more} of the standard size fit{'s' * (run['count'] == 1)} ({size})", "good"


def _sizes(document: Json) -> Grid:
    """Return a table with a row for each size of placed instances."""
    grid = Grid(
        "Filling", numeric("Instances"), numeric("Memory"), numeric("Disk"),
        numeric("Virtual cpus"), "Template", empty="Nothing fits.",
    )  # fmt: skip
    for kind, title in RUNS:
        for size in document[kind]["sizes"] if kind in document else ():
            sizes = size_cell(size["memory"]), size_cell(size["disk"])
            count, cpus = number_cell(size["count"], "strong"), number_cell(size["vcpus"])
            grid.add(title, count, *sizes, cpus, size["disk_template"])
    return grid


def _sums(document: Json) -> Grid:
    """Return a table of the amounts used, free and available, now and when the cluster is full."""
    grid = Grid(
        "When", numeric("Instances"), numeric("Memory used"), numeric("free"), numeric("available"),
        numeric("Disk used"), numeric("free"), numeric("Virtual cpus used"), numeric("free"),
        intro="Available: free, and not reserved.",
    )  # fmt: skip
    states = [("Now", document["before"])]
    states += [(title, document[kind]["after"]) for kind, title in RUNS if kind in document]
    for title, figures in states:
        memory, disk, cpu = figures["memory"], figures["disk"], figures["cpu"]
        amounts = [gib(memory[name]) for name in ("used", "free", "available")]
        amounts += [gib(disk[name]) for name in ("used", "free")]
        amounts += [f"{cpu[name]:g}" for name in ("used", "free")]
        grid.add(Cell(title, tone="strong"), str(figures["instances"]), *amounts)
    return grid
