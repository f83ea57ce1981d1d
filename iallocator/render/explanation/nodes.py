"""What every node of a group says, as text for a person."""

from __future__ import annotations

from iallocator.explain.rows import ANSWER, NOT_ASKED, POSSIBLE, VERDICTS, failure_words, node_rows
from iallocator.render.table import Column, Table
from iallocator.render.words import REASONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.explain.facts import GroupReport, Placed
    from iallocator.explain.rows import NodeRow
    from iallocator.render.table import Page

__all__ = ["tell_nodes"]

SHOWN = 12
"""How many nodes of one verdict are listed at most."""

BEST = 2
"""How many placements are told of elsewhere: the best and the runner-up."""

TONES = {ANSWER: "good", POSSIBLE: "", NOT_ASKED: "faint"}


def tell_nodes(page: Page, group: GroupReport, answer: Placed | None, instance: str) -> None:
    """Who could take `instance`, who could not and why, who was not asked."""
    page.heading(f"Nodes of group {group.name}")
    if group.obstacle:
        page.say(f"Out: {group.obstacle}", tone="bad")
    if group.failures:
        page.say(_tally(group))
    rows = node_rows(group, answer, instance)
    if group.obstacle:  # which is said once, for all of them
        rows = [row for row in rows if row.why]
    if rows:
        page.table(_table(rows))
    for rejected in group.unsurvived:
        if len(rejected.nodes) > 1:  # of one node its row says it
            page.say(failure_words(rejected, instance))
    if group.placements[BEST:]:
        more = [f"{placed.where} {placed.rank or placed.scored}" for placed in group.placements]
        page.say(f"Best placements: {', '.join(more)}")


def _table(rows: Iterable[NodeRow]) -> Table:
    """A row for each node, and a line below for each further reason."""
    table = Table(Column("node"), Column("verdict"), Column("why"))
    by_verdict = {verdict: [r for r in rows if r.verdict == verdict] for verdict in VERDICTS}
    for verdict, found in by_verdict.items():
        shown = found if len(found) <= SHOWN else found[: SHOWN - 1]
        tone = TONES.get(verdict, "bad")
        for row in shown:
            table.add(row.name, verdict, *row.why[:1] or [""], tone=tone)
            for more in row.why[1:]:
                table.add("", "", more, tone=tone)
        if len(found) > len(shown):
            table.add("...", verdict, f"and {len(found) - len(shown)} more: --node NAME, --json")
    return table


def _tally(group: GroupReport) -> str:
    """The tally of the response with a word for each reason."""
    told = [
        f"{number} × {reason} ({REASONS.get(reason, '')})"
        for reason, number in sorted(group.failures.items())
    ]
    total = group.successes + sum(group.failures.values())
    noun = "placement" if total == 1 else "placements"
    return f"{total} {noun}, {group.successes} possible, refused: {', '.join(told)}"
