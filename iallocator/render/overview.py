"""A cluster as it is, as text: what hinfo shows, and the networks."""

from __future__ import annotations

from iallocator.render.table import Column, Page, Table
from iallocator.render.words import STATISTICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json


__all__ = ["overview_page"]


def overview_page(document: Json, colour: bool) -> str:
    """Groups, networks and statistics for a person."""
    page = Page(colour)
    numbers = ((len(document[f"{noun}s"]), noun) for noun in ("group", "node", "instance"))
    counts = ", ".join(f"{number} {noun}{'s' * (number != 1)}" for number, noun in numbers)
    page.say(f"Cluster {document['name']}: {counts}" if document["name"] else counts, indent=0)
    if document["master"]:
        page.say(f"Master: {document['master']}", indent=0)
    if document["tags"]:
        page.say(f"Tags: {', '.join(document['tags'])}", indent=0)
    page.blank()

    table = Table(
        Column("group"), Column("policy"), Column("nodes", number=True),
        Column("instances", number=True), Column("bad nodes", number=True),
        Column("bad instances", number=True), Column("N+1"), Column("score", number=True),
        Column("networks"),
    )  # fmt: skip
    for group in document["groups"]:
        table.add(
            group["name"], group["alloc_policy"], str(group["nodes"]), str(group["instances"]),
            str(len(group["bad_nodes"])), str(len(group["bad_instances"])),
            "yes" if group["n1"] else "no", f"{group['score']:.8f}",
            ", ".join(group["networks"]),
        )  # fmt: skip
    page.table(table, indent=0)
    page.blank()

    # The statistics, each with what it adds to the score
    table = Table(
        Column("statistic"), Column("value", number=True), Column("weight", number=True),
        Column("adds", number=True), Column("what it is"),
    )  # fmt: skip
    for term in document["terms"]:
        value = term["term"] / term["weight"]
        weight, adds = f"x{term['weight']:g}", f"{term['term']:.8f}"
        table.add(term["name"], f"{value:.8f}", weight, adds, STATISTICS.get(term["name"], ""))
    page.table(table, indent=0)
    page.say(f"Score: {document['score']:.8f}; lower is better", indent=0)
    return page.text()
