"""The pages of a cluster as it is: with what balancing would do, or without."""

from __future__ import annotations

from itertools import islice

from iallocator.errors import shown
from iallocator.planners.check.findings import KINDS, NOT_ANALYSED
from iallocator.render.check_page import verdict_of
from iallocator.render.page.nodes import Moment, nodes_view
from iallocator.render.page.plan_page import plan_page
from iallocator.render.page.standing import (
    health_sections,
    short_names,
    standing,
    survival_tile,
)
from iallocator.render.page.view import (
    Cell,
    Column,
    Grid,
    PageView,
    Section,
    Tile,
    decimals,
    gib,
    row_of,
)
from iallocator.render.states.listing import common_domain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.model.state import State
    from iallocator.planners.check.joint_failures import FailuresFound
    from iallocator.planners.result import PlanResult
    from iallocator.render.checkup import Checkup
    from iallocator.render.page.standing import Judging, Standing


__all__ = ["check_page", "report_page"]

MOST = 500
"""Pairs of nodes that a page lists."""


def check_page(done: PlanResult, found: Checkup, plan: Json, judging: Judging) -> PageView:
    """What `found` tells: what is wrong, and what balancing by `plan` would change."""
    health = (found.before, found.after)
    if found.moves:
        page = plan_page(done, plan, judging, health=health)
        page.details.insert(0, verdict_of(found))
    else:
        page = _cluster_page(done.before, standing(done.before, judging, found.before), judging)
        page.details = [verdict_of(found)]
    page.command = "check"
    page.verdict, page.tone = _judgement(standing_counts(found), len(found.not_analysed))
    page.sections += _joint(found.failures, short_names(done.cluster))
    if found.tag_findings:
        rows = [row_of((one.kind, str(one))) for one in found.tag_findings]
        grid = Grid("", (Column("Kind"), Column("What")), rows)
        page.sections.append(Section("grids", "tags", "Tags", [grid], count=str(len(rows))))
    first = {"problems": 0, "failures": 1, "joint": 2, "domains": 3}
    page.sections.sort(key=lambda section: first.get(section.key, len(first)))
    return page


def report_page(state: State, judging: Judging, master: str = "") -> PageView:
    """The cluster as it is: bars, what is wrong, failures, score, groups, all instances."""
    now = standing(state, judging)
    page = _cluster_page(state, now, judging)
    page.command = "report"
    counts: dict[str, int] = {}
    for group in now.health:
        for kind, count in group.counts.items():
            counts[kind] = counts.get(kind, 0) + count
    page.verdict, page.tone = _judgement(counts, now.late)
    if master:
        page.details.append(f"Master: {shown(master)}")
    page.sections.append(_instances(state, short_names(state.cluster)))
    return page


def standing_counts(found: Checkup) -> dict[str, int]:
    """Per kind how many nodes or instances there is something wrong with now."""
    return {kind: sum(group.counts[kind] for group in found.before) for kind in KINDS}


def _judgement(counts: Mapping[str, int], late: int) -> tuple[str, str]:
    """Return the sentence at the top, and its tone: the greatest problems, or that there is none.

    `late`: how many nodes were not analysed for lack of time.
    """
    wrong = sorted(((count, kind) for kind, count in counts.items() if count), reverse=True)
    if not wrong:
        return (f"{late} {NOT_ANALYSED}", "") if late else ("Healthy: nothing is wrong", "good")
    told = [f"{count} {KINDS[kind]}" for count, kind in wrong[:2]]
    more = f", and {len(wrong) - 2} more kinds of problems" if len(wrong) > 2 else ""
    return ", ".join(told) + more, "bad"


def _cluster_page(state: State, now: Standing, judging: Judging) -> PageView:
    """The sections that there are for every cluster."""
    cluster = state.cluster
    page = PageView("", shown(cluster.name), "", domain=common_domain(cluster))
    short = short_names(cluster)
    nodes = nodes_view([Moment("Now", state)], None, page.domain)
    away = sum(not node.online for node in cluster.nodes)
    running = sum(one.running for one in cluster.instances)
    problems = now.findings
    page.tiles = [
        Tile("Nodes", str(len(cluster.nodes)), f"{away} not online" if away else "all online"),
        Tile("Instances", str(len(cluster.instances)), f"{running} running"),
        Tile("Problems", str(problems), "", "bad" if problems else "" if now.late else "good"),
        survival_tile(now, None),
        Tile("Score", decimals(sum(one["term"] for one in now.terms)), "lower is better"),
    ]
    page.sections = [
        Section("nodes", "nodes", "Nodes", nodes, count=str(len(cluster.nodes))),
        *health_sections(now, None, judging, short),
    ]
    return page


def _instances(state: State, short: Mapping[str, str]) -> Section:
    columns = (
        Column("Instance"), Column("Primary"), Column("Secondary"), Column("Group"),
        Column("State"), Column("Template"), Column("Memory", number=True),
        Column("Disk", number=True), Column("Virtual cpus", number=True),
    )  # fmt: skip
    rows = []
    for one in state.cluster.instances:
        nodes = [state.cluster.nodes[index] for index in state.where[one.name]]
        names = [short.get(node.name, node.name) for node in nodes]
        cells: Sequence[Cell | str] = (
            Cell(shown(short.get(one.name, one.name)), tone="strong"),
            names[0],
            names[1] if len(names) > 1 else "",
            nodes[0].group.name,
            one.admin_state,
            one.template,
            Cell(gib(one.memory), sort=one.memory),
            Cell(gib(one.disk), sort=one.disk),
            Cell(str(one.vcpus), sort=one.vcpus),
        )
        rows.append(row_of(cells))
    grid = Grid("", columns, rows, empty="There are no instances.")
    return Section("grids", "instances", "Instances", [grid], count=str(len(rows)))


def _joint(found: FailuresFound | None, short: Mapping[str, str]) -> list[Section]:
    """What several failures at once, and those of failure domains, would lose."""
    if found is None:
        return []
    sections = []
    if found.sets is not None:
        title = "If two nodes fail" if found.size == 2 else "If one node fails"
        losing: list[Json] = [
            one.document(found.cluster) for one in islice(found.sets.losing(), MOST)
        ]
        rows = [_lost(", ".join(one["nodes"]), one, short) for one in losing]
        unknown = found.sets.unknown
        late = f"{unknown} were not analysed for lack of time" if unknown else ""
        intro = f"{found.sets.survived} of {found.sets.count} are survived; those that are not:"
        empty = "No losing one was found." if late else "Every one is survived."
        grid = Grid("", LOST, rows, f"{late}; {intro}" if late else intro, empty)
        sections.append(Section("grids", "joint", title, [grid]))
    if found.domains is not None:
        domains: list[Json] = [
            {"domain": one.name, **one.failure.document(found.cluster)} for one in found.domains
        ]
        rows = [_lost(one["domain"], one, short) for one in domains]
        grid = Grid("", LOST, rows, "All nodes of a domain fail at once.")
        sections.append(Section("grids", "domains", "If a failure domain fails", [grid]))
    return sections


LOST = (
    Column("What fails"), Column("Verdict"), Column("Who is lost"),
    Column("Their memory", number=True),
)  # fmt: skip


def _lost(name: str, one: Json, short: Mapping[str, str]) -> Any:
    if one["survived"] is None:
        return row_of(
            (Cell(shown(name), tone="strong"), Cell("not analysed", tone="faint"), "", "")
        )
    verdict = Cell("survived", tone="good") if one["survived"] else Cell("not survived", tone="bad")
    names = ", ".join(short.get(lost, lost) for lost in one["lost"])
    memory = Cell(gib(one["lost_memory"]), sort=one["lost_memory"])
    return row_of((Cell(shown(name), tone="strong"), verdict, names, memory))
