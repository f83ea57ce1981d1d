"""The pages of a cluster as it is: with what balancing would do, or without."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.checkup import verdict_of
from iallocator.render.page.health import health_sections, survival_tile
from iallocator.render.page.nodes import nodes_section
from iallocator.render.page.plan_page import plan_page
from iallocator.render.page.view import (
    Cell,
    Column,
    Grid,
    Section,
    Tile,
    decimals,
    gib,
    page_of,
    row_of,
    short_names,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView, Row

__all__ = ["check_page", "report_page"]


def check_page(document: Json, facts: Json) -> PageView:
    """What is wrong, and what balancing would change; `document` is what ``--json`` writes."""
    if document["rebalancing"]["moves"]:
        page = plan_page(facts["plan"], facts)
    else:
        page = _cluster_page("check", facts)
    page.command = "check"
    page.details.insert(0, verdict_of(document, facts["kinds"]))
    wrong = _judgement(document["problems"], len(document["not_analysed"]), facts)
    page.verdict, page.tone = wrong
    short = short_names(facts["cluster"], page.domain)
    page.sections += _joint(facts["failures"], short)
    if facts["tag_findings"]:
        rows = [row_of(texts) for texts in facts["tag_findings"]]
        grid = Grid("", (Column("Kind"), Column("What")), rows)
        page.sections.append(Section("grids", "tags", "Tags", [grid], count=str(len(rows))))
    first = {"problems": 0, "failures": 1, "joint": 2, "domains": 3}
    page.sections.sort(key=lambda section: first.get(section.key, len(first)))
    return page


def report_page(facts: Json) -> PageView:
    """The cluster as it is: bars, what is wrong, failures, score, groups, all instances."""
    page = _cluster_page("report", facts)
    now = facts["before"]
    page.verdict, page.tone = _judgement(now["counts"], now["late"], facts)
    if facts["master"]:
        page.details.append(f"Master: {shown(facts['master'])}")
    page.sections.append(_instances(facts, short_names(facts["cluster"], page.domain)))
    return page


def _judgement(counts: Mapping[str, int], late: int, facts: Json) -> tuple[str, str]:
    """Return the sentence at the top, and its tone: the greatest problems, or that there is none.

    `late`: how many nodes were not analysed for lack of time.
    """
    wrong = sorted(((count, kind) for kind, count in counts.items() if count), reverse=True)
    if not wrong:
        return (
            (f"{late} {facts['not_analysed']}", "")
            if late
            else ("Healthy: nothing is wrong", "good")
        )
    told = [f"{count} {facts['kinds'][kind]}" for count, kind in wrong[:2]]
    more = f", and {len(wrong) - 2} more kinds of problems" if len(wrong) > 2 else ""
    return ", ".join(told) + more, "bad"


def _cluster_page(command: str, facts: Json) -> PageView:
    """The sections that there are for every cluster."""
    page, now = page_of(command, facts["cluster"], ""), facts["before"]
    nodes, instances = facts["moments"][0]["nodes"], facts["cluster"]["instances"]
    away = sum(not node["online"] for node in nodes)
    problems = sum(len(group["findings"]) for group in now["health"])
    page.tiles = [
        Tile("Nodes", str(len(nodes)), f"{away} not online" if away else "all online"),
        Tile("Instances", str(len(instances)), f"{facts['running']} running"),
        Tile("Problems", str(problems), "", "bad" if problems else "" if now["late"] else "good"),
        survival_tile(now, None),
        Tile("Score", decimals(sum(one["term"] for one in now["terms"])), "lower is better"),
    ]
    page.sections = [
        nodes_section(facts["moments"], page.domain),
        *health_sections(now, None, short_names(facts["cluster"], page.domain)),
    ]
    return page


def _instances(facts: Json, short: Mapping[str, str]) -> Section:
    columns = (
        Column("Instance"), Column("Primary"), Column("Secondary"), Column("Group"),
        Column("State"), Column("Template"), Column("Memory", number=True),
        Column("Disk", number=True), Column("Virtual cpus", number=True),
    )  # fmt: skip
    rows = []
    for one in facts["instances"]:
        names = [short.get(name, name) for name in one["nodes"]]
        cells: Sequence[Cell | str] = (
            Cell(shown(short.get(one["name"], one["name"])), tone="strong"),
            names[0],
            names[1] if len(names) > 1 else "",
            one["group"],
            one["admin_state"],
            one["disk_template"],
            Cell(gib(one["memory"]), sort=one["memory"]),
            Cell(gib(one["disk"]), sort=one["disk"]),
            Cell(str(one["vcpus"]), sort=one["vcpus"]),
        )
        rows.append(row_of(cells))
    grid = Grid("", columns, rows, empty="There are no instances.")
    return Section("grids", "instances", "Instances", [grid], count=str(len(rows)))


def _joint(found: Json | None, short: Mapping[str, str]) -> list[Section]:
    """What several failures at once, and those of failure domains, would lose."""
    sections: list[Section] = []
    if found is None:
        return sections
    sets, domains = found["sets"], found["domains"]
    if sets is not None:
        title = "If two nodes fail" if found["size"] == 2 else "If one node fails"
        rows = [_lost(", ".join(one["nodes"]), one, short) for one in sets["losing"]]
        late = f"{sets['unknown']} were not analysed for lack of time" if sets["unknown"] else ""
        intro = f"{sets['survived']} of {sets['count']} are survived; those that are not:"
        empty = "No losing one was found." if late else "Every one is survived."
        grid = Grid("", LOST, rows, f"{late}; {intro}" if late else intro, empty)
        sections.append(Section("grids", "joint", title, [grid]))
    if domains is not None:
        rows = [_lost(one["domain"], one, short) for one in domains]
        grid = Grid("", LOST, rows, "All nodes of a domain fail at once.")
        sections.append(Section("grids", "domains", "If a failure domain fails", [grid]))
    return sections


LOST = (
    Column("What fails"), Column("Verdict"), Column("Who is lost"),
    Column("Their memory", number=True),
)  # fmt: skip


def _lost(name: str, one: Json, short: Mapping[str, str]) -> Row:
    if one["survived"] is None:
        return row_of(
            (Cell(shown(name), tone="strong"), Cell("not analysed", tone="faint"), "", "")
        )
    verdict = Cell("survived", tone="good") if one["survived"] else Cell("not survived", tone="bad")
    names = ", ".join(short.get(lost, lost) for lost in one["lost"])
    memory = Cell(gib(one["lost_memory"]), sort=one["lost_memory"])
    return row_of((Cell(shown(name), tone="strong"), verdict, names, memory))
