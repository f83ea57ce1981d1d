"""The findings of ``check`` as text for people."""

from __future__ import annotations

from math import comb

from iallocator.planners.check.findings import KINDS, NOT_ANALYSED, OF_NODES
from iallocator.render.table import Column, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.planners.check.findings import Finding, GroupHealth
    from iallocator.planners.check.joint_failures import Failure, FailuresFound
    from iallocator.render.checkup import Checkup
    from iallocator.render.table import Page

__all__ = [
    "show_checkup",
    "show_failures",
    "verdict_of",
]

SHOWN = 5
"""How many instances with one problem on one node are named, and how many nodes."""

GROUPS = 4
"""More groups have no columns of their own in the table of counts."""

STATES = {True: "Healthy", False: "Something is wrong", None: "Not analysed"}
"""`Checkup.healthy` in words."""

DECIMALS = range(2, 9)
"""Digits behind the point of a score in a sentence: the fewest that show the difference."""


def show_checkup(found: Checkup, page: Page) -> None:
    """Put everything that was found on `page`."""
    page.heading(verdict_of(found))
    _counts(found, page)
    for before, after in zip(found.before, found.after):
        _group(page, before, after)
    if found.tag_findings:
        page.heading("Tags")
    for one in found.tag_findings:
        page.say(f"{one.kind}: {one}", tone="bad")
    if found.failures is not None:
        show_failures(found.failures, page)


def verdict_of(found: Checkup) -> str:
    """One sentence: how it is, and what balancing would do."""
    state = STATES[found.healthy]
    if not found.tried:
        return f"{state}; balancing was not tried"
    if not found.moves:
        return f"{state}; balancing finds nothing to move"
    told = [
        f"{KINDS[kind]}: {abs(count)} {'fewer' if count > 0 else 'more'}"
        for kind, count in found.mended.items()
        if count
    ]
    moves = f"{found.moves} move{'s' * (found.moves > 1)}"
    if not found.helps:
        return f"{state}; balancing would not help ({'; '.join([moves, *told])})"
    if told:
        return f"{state}; balancing would help ({'; '.join([moves, *told])})"
    before, after = (sum(g.score for g in one) for one in (found.before, found.after))
    for digits in DECIMALS:
        scores = f"{before:.{digits}f}", f"{after:.{digits}f}"
        if scores[0] != scores[1]:
            break
    return f"{state}; balancing could lower the score from {scores[0]} to {scores[1]} ({moves})"


def _counts(found: Checkup, page: Page) -> None:
    """How many nodes and instances there are of each trouble; nothing of troubles without any."""
    now, then = ({k: sum(g.counts[k] for g in of) for k in KINDS}
                 for of in (found.before, found.after))  # fmt: skip
    present = [kind for kind in KINDS if now[kind] or then[kind]]
    if not (present or found.not_analysed):
        return
    several = found.before if 1 < len(found.before) <= GROUPS else ()
    columns = [Column(health.group.name, True) for health in several]
    balanced = [Column("once balanced", True)] * bool(found.moves)
    table = Table(Column("what is wrong"), *columns, Column("now", True), *balanced)
    for kind in present:
        cells = [str(health.counts[kind]) for health in several] + [str(now[kind])]
        cells += [str(then[kind])] * bool(found.moves)
        table.add(KINDS[kind], *cells, tone="bad" if now[kind] else "")
    if found.not_analysed:
        cells = [str(len(health.not_analysed)) for health in several]
        cells += [str(len(found.not_analysed))] + ["0"] * bool(found.moves)
        table.add(NOT_ANALYSED, *cells)
    page.table(table)


def _group(page: Page, before: GroupHealth, after: GroupHealth) -> None:
    balanced = f", {after.score:.8f} once balanced" if after.score != before.score else ""
    page.heading(f"Group {before.group.name}: score {before.score:.8f}{balanced}")
    if before.not_analysed:
        page.say(f"{NOT_ANALYSED}: {_some(before.not_analysed, 'nodes')}")
    if not before.findings:
        page.say("nothing wrong was found" if before.not_analysed else "nothing is wrong")
        return
    table = Table(Column("node"), Column("what is wrong"))
    by_node: dict[str, list[Finding]] = {}
    for one in before.findings:
        by_node.setdefault(one.node, []).append(one)
    for node, findings in sorted(by_node.items()):
        holders: dict[tuple[str, str], list[str]] = {}  # a problem -> the instances that have it
        for one in findings:
            about = holders.setdefault((one.kind, one.text), [])
            if one.instance and one.kind not in OF_NODES:
                about.append(one.instance)
        for number, ((_, text), names) in enumerate(holders.items()):
            line = f"{_some(names)}: {text}" if names else text
            table.add("" if number else node or "-", line, tone="bad")
    page.table(table)


def _some(names: Sequence[str], noun: str = "instances") -> str:
    """Return `names` in a line; of many, the first and how many `noun` there are."""
    if len(names) <= SHOWN:
        return ", ".join(names)
    return f"{len(names)} {noun}, {', '.join(names[:SHOWN])}, ..."


WORST = 10
"""How many sets are listed; the JSON document has all."""

NAMED = 3
"""How many of those that are lost are named."""

WORDS = {1: "node", 2: "pair of nodes"}


def show_failures(found: FailuresFound, page: Page) -> None:
    """For people: one line per domain, then all sets in numbers, the worst of them named."""
    sets = found.sets
    if found.domains is not None:
        page.heading("Failure domains")
        columns = [Column("domain"), Column("nodes", True), Column("survived")]
        columns += [Column("lost", True), Column("MiB", True)]
        inside = sets is not None and found.size > 1
        columns += [Column("pairs within", True), Column("that lose", True)] * inside
        table = Table(*columns, Column("who is lost"))
        for domain in found.domains:
            failure = domain.failure
            survived = "yes" if failure.survived else "no"
            if failure.lost is None:
                survived = "not analysed"
            cells = [domain.name, str(len(failure.nodes)), survived, *_amounts(failure)]
            if sets is not None and inside:
                losing = sets.within(failure.nodes)
                cells += [str(comb(len(failure.nodes), found.size)), str(losing)]
            table.add(*cells, _names(failure), tone="" if failure.survived else "bad")
        page.table(table)
    if sets is None:
        return

    page.heading(f"Every {WORDS[found.size]} at once")
    text = f"{sets.count} in all: {sets.survived} survived, {sets.lose} lose something"
    page.say(f"{text}, {sets.unknown} not analysed for lack of time" if sets.unknown else text)
    if not sets.lose:
        return
    table = Table(Column("nodes"), Column("lost", True), Column("MiB", True), Column("who is lost"))
    worst = sets.worst(WORST)
    for one in worst:
        names = " ".join(found.cluster.nodes[index].name for index in one.nodes)
        table.add(names, *_amounts(one), _names(one), tone="bad")
    page.table(table)
    if sets.lose > len(worst):
        page.say(f"and {sets.lose - len(worst)} more, which lose no more than these")


def _amounts(failure: Failure) -> tuple[str, str]:
    if failure.lost is None:
        return "?", "?"
    return str(len(failure.lost)), str(failure.memory)


def _names(failure: Failure) -> str:
    names = [one.name for one in failure.lost or ()]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
