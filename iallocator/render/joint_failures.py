"""What several failures at once would lose: a table by failure domain, and the worst sets."""

from __future__ import annotations

from math import comb

from iallocator.render.table import Column, Table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.planners.check.joint_failures import Failure, FailuresFound, SetsFound
    from iallocator.render.table import Page

__all__ = ["show_failures"]

WORST = 10
"""How many sets are listed; the JSON document has all."""

NAMED = 3
"""How many of those that are lost are named."""

WORDS = {1: "node", 2: "pair of nodes"}


def show_failures(found: FailuresFound, page: Page) -> None:
    """For people: one line per domain, then all sets in numbers, the worst of them named."""
    if found.domains is not None:
        page.heading("Failure domains")
        page.table(_by_domain(found))
    if found.sets is not None:
        page.heading(f"Every {WORDS[found.size]} at once")
        _show_sets(found, found.sets, page)


def _by_domain(found: FailuresFound) -> Table:
    columns = [Column("domain"), Column("nodes", True), Column("survived")]
    columns += [Column("lost", True), Column("MiB", True)]
    inside = found.sets is not None and found.size > 1
    columns += [Column("pairs within", True), Column("that lose", True)] * inside
    table = Table(*columns, Column("who is lost"))
    for one in found.domains or ():
        failure = one.failure
        cells = [one.name, str(len(failure.nodes)), _survived(failure), *_amounts(failure)]
        if found.sets is not None and inside:
            losing = found.sets.within(failure.nodes)
            cells += [str(comb(len(failure.nodes), found.size)), str(losing)]
        table.add(*cells, _names(failure), tone="" if failure.survived else "bad")
    return table


def _show_sets(found: FailuresFound, sets: SetsFound, page: Page) -> None:
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


def _survived(failure: Failure) -> str:
    if failure.lost is None:
        return "not analysed"
    return "yes" if failure.survived else "no"


def _amounts(failure: Failure) -> tuple[str, str]:
    if failure.lost is None:
        return "?", "?"
    return str(len(failure.lost)), str(failure.memory)


def _names(failure: Failure) -> str:
    names = [one.name for one in failure.lost or ()]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
