"""The pages of the present cluster, with or without the effect of balancing."""

from __future__ import annotations

from iallocator.errors import MOST_NAMES, many, printable
from iallocator.render.checkup import health_sentence
from iallocator.render.page.health import add_health, tolerance_tile
from iallocator.render.page.nodes import add_nodes
from iallocator.render.page.plan_page import plan
from iallocator.render.page.topology import add_topology
from iallocator.render.page.view import (
    Cell,
    Grid,
    Tile,
    decimals,
    number_cell,
    size_cell,
)
from iallocator.render.table import numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = ["check", "constraints", "report"]


def check(document: Json, facts: Json, page: PageView) -> None:
    """Add to `page` the findings about a cluster, and the effect of balancing."""
    if document["rebalancing"]["moves"]:
        plan(facts["plan"], facts, page)
    else:
        _cluster(facts, page)
    page.command = "check"
    page.details.insert(0, health_sentence(document, facts))
    page.headline, page.tone = _headline(document["problems"], len(document["not_analysed"]), facts)
    _failures(facts["failures"], page)
    if facts["tag_findings"]:
        grid = Grid("Kind", "What")
        for texts in facts["tag_findings"]:
            grid.add(*texts)
        page.table("tags", "Tags", grid, count=str(len(grid.rows)))
    first = {"topology": 0, "problems": 1, "failures": 2, "joint": 3, "domains": 4}
    page.sections.sort(key=lambda section: first.get(section.key, len(first)))


def report(document: Json, facts: Json, page: PageView) -> None:
    """Add the present cluster to `page`: bars, findings, failures, score, groups, instances."""
    _cluster(facts, page)
    now = facts["before"]
    page.command = "show"
    page.headline, page.tone = _headline(now["counts"], now["late"], facts)
    if facts["master"]:
        page.details.append(f"Master: {printable(facts['master'])}")
    if page.late:
        page.leave_out("instances", "Instances")
        return
    grid = Grid(
        "Instance", "Primary", "Secondary", "Group", "State", "Template", numeric("Memory"),
        numeric("Disk"), numeric("Virtual cpus"), empty="There are no instances.",
    )  # fmt: skip
    for one in facts["instances"]:
        nodes = [*map(page.short, one["nodes"]), ""]
        words = one["group"], one["admin_state"], one["disk_template"]
        sizes = size_cell(one["memory"]), size_cell(one["disk"]), number_cell(one["vcpus"])
        grid.add(page.strong(one["name"]), *nodes[:2], *words, *sizes)
    page.table("instances", "Instances", grid, count=str(len(grid.rows)))


def constraints(document: Json, facts: Json, page: PageView) -> None:
    """Add to `page` the constraints of all instances, and the tags that cannot be used."""
    if page.late:
        page.leave_out("rules", "Rules")
        return
    grid = Grid(
        "Instance", "Kind", "Strength", numeric("Weight"), "What", "From",
        intro="; ".join(map(printable, document["unusable"])), empty="There are no constraints.",
    )  # fmt: skip
    for one in document["constraints"]:
        names = [one["instance"]] if "instance" in one else one["members"]
        some = ", ".join(map(page.short, names[:MOST_NAMES]))
        more = len(names) - MOST_NAMES
        weight = Cell(f"{one['weight']:g}", sort=one["weight"]) if "weight" in one else Cell("")
        grid.add(
            Cell(printable(some), f"and {more} more" if more > 0 else "", "strong"),
            one["kind"], one["strength"], weight, one["what"], one["origin"],
        )  # fmt: skip
    page.table("rules", "Rules", grid, count=str(len(grid.rows)))


def _headline(counts: Mapping[str, int], late: int, facts: Json) -> tuple[str, str]:
    """Return the sentence at the top of the page (the most frequent problems), and its tone.

    `late`: how many nodes were not analysed because the check ended early.
    """
    wrong = sorted(((count, kind) for kind, count in counts.items() if count), reverse=True)
    if not wrong:
        return (
            (_of_kind(late, facts["not_analysed"]), "")
            if late
            else ("Healthy: nothing is wrong", "good")
        )
    largest = [_of_kind(count, facts["kinds"][kind]) for count, kind in wrong[:2]]
    more = f", and {many(len(wrong) - 2, 'other problem')}" if len(wrong) > 2 else ""
    return ", ".join(largest) + more, "bad"


SINGULAR_WORDS = {
    "nodes and instances": "node or instance",
    "nodes": "node",
    "instances": "instance",
}
"""Plural at the beginning of a description of findings -> its singular."""


def _of_kind(count: int, words: str) -> str:
    """Return a count and its findings: ``2 nodes with ...``, or ``1 node with ...``."""
    for several, one in SINGULAR_WORDS.items():
        if count == 1 and words.startswith(several):
            rest = words.removeprefix(several).replace(" that violate ", " that violates ")
            return f"1 {one}{rest}"
    return f"{count} {words}"


def _cluster(facts: Json, page: PageView) -> None:
    """Add to `page` the sections that show the cluster: tiles, topology, nodes and health."""
    now = facts["before"]
    nodes, instances = facts["states"][0]["nodes"], facts["cluster"]["instances"]
    away = sum(not node["online"] for node in nodes)
    problems = sum(len(group["findings"]) for group in now["health"])
    page.tiles = [
        Tile("Nodes", str(len(nodes)), f"{away} not online" if away else "all online"),
        Tile("Instances", str(len(instances)), f"{facts['running']} running"),
        Tile("Problems", str(problems), "", "bad" if problems else "" if now["late"] else "good"),
        tolerance_tile(now, None),
        Tile("Score", decimals(sum(one["term"] for one in now["terms"])), "lower is better"),
    ]
    add_topology(page, facts, (now,), {})
    add_nodes(page, facts["states"])
    add_health(page, now, None)


def _failures(failures: Json | None, page: PageView) -> None:
    """Add to `page` the instances that cannot be restarted if several nodes or a domain fail."""
    if failures is None:
        return
    sets, domains = failures["sets"], failures["domains"]
    if sets is not None:
        title = "If two nodes fail" if failures["size"] == 2 else "If one node fails"
        unknown = sets["unknown"]
        late = f"{unknown} were not analysed because the check ended early" if unknown else ""
        intro = f"{sets['survived']} of {sets['count']} sets are tolerated; the others:"
        empty = "No set that is not tolerated was found." if late else "Every set is tolerated."
        grid = Grid(*LOSS_COLUMNS, intro=f"{late}; {intro}" if late else intro, empty=empty)
        for one in sets["losing"]:
            grid.add(*_lost(", ".join(one["nodes"]), one, page))
        page.table("joint", title, grid)
    if domains is not None:
        grid = Grid(*LOSS_COLUMNS, intro="All nodes of a domain fail at once.")
        for one in domains:
            grid.add(*_lost(one["domain"], one, page))
        page.table("domains", "If a failure domain fails", grid)


LOSS_COLUMNS = "What fails", "Result", "Instances that cannot be restarted", numeric("Their memory")


def _lost(name: str, one: Json, page: PageView) -> tuple[Cell | str, ...]:
    """Return the cells of a table row for the failure of a node, set of nodes or failure domain."""
    title = Cell(printable(name), tone="strong")
    if one["survived"] is None:
        return title, Cell("not analysed", tone="faint"), "", ""
    result = (
        Cell("tolerated", tone="good") if one["survived"] else Cell("not tolerated", tone="bad")
    )
    return title, result, ", ".join(map(page.short, one["lost"])), size_cell(one["lost_memory"])
