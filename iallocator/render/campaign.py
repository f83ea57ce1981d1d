"""Show campaigns of maintenance as plain text, from the document that ``--json`` writes."""

from __future__ import annotations

from iallocator.errors import many
from iallocator.names import domains_of
from iallocator.render.plan import MOST_NAMED_NODES, WELL, kept_nodes
from iallocator.render.quality import quality_words
from iallocator.render.table import Table, numeric
from iallocator.render.words import duration_words
from iallocator.units import GIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iallocator.aliases import Json
    from iallocator.render.table import Page

__all__ = ["campaign", "campaign_lines"]

DRAIN_STEP = "drain"
"""The kind of a step that drains a node."""

AFTER_WORDS = {
    "back": "the instances return",
    "stay": "the instances stay where they are",
    "balance": "the node groups are balanced",
}
"""Value of ``--after`` -> what happens after each group."""


def campaign(plan: Json, facts: Json, page: Page) -> None:
    """Add to `page` the groups of nodes of a campaign, their actions, and the nodes left out.

    `facts` has the node group of each node, and whether other orders of the steps were verified.
    """
    groups = plan["reboots"]
    drained = {one["node"] for one in plan["transition"]["steps"] if one["kind"] == DRAIN_STEP}
    names = (move["instance"] for group in groups for move in group["moves"])
    page.leave_out(domains_of(facts["group_of"], names))
    reason = plan.get("reason") or "no node can be maintained"
    summary = [*campaign_lines(plan), quality_words(plan, page.score)]
    for text in filter(None, summary if groups else [reason[:1].upper() + reason[1:]]):
        page.say(text, indent=0)
    if groups:
        page.heading("Groups, one after the other")
        table = Table(
            numeric("group"), numeric("nodes"), numeric("moves away"), numeric("moves after"),
            numeric("GiB copied"), "about", "names",
        )  # fmt: skip
        for number, group in enumerate(groups, start=1):
            counts = (len(group[key]) for key in ("nodes", "moves", "placements_after"))
            nodes = group["nodes"]
            few = page.some(nodes, MOST_NAMED_NODES) if page.rows else ", ".join(nodes)
            copied, time = group["copied_mib"] / GIB, duration_words(group["estimated_seconds"])
            table.add(str(number), *map(str, counts), f"{copied:.1f}", time, few)
        page.table(table)
        listed = 0
        for number, group in enumerate(groups, start=1):
            if page.rows and listed >= page.rows:
                page.heading(f"Groups {number} to {len(groups)}")
                page.say_more(len(groups) - number + 1)
                break
            page.heading(f"Group {number}")
            table = Table("what", "of", "where or how")
            work = [*_work(group, plan["campaign"], drained, page)]
            for row in work:
                table.add(*row)
            listed += len(work)
            page.table(table)
    if plan["kept"]:
        page.heading("Left out")
        kept_nodes(page, plan)
    page.say_left_out()
    if facts["verified"]:
        page.verbatim(WELL)


def campaign_lines(plan: Json) -> list[str]:
    """Return the summary of a campaign: its size, its duration, and the actions after a group."""
    groups, campaign = plan["reboots"], plan["campaign"]
    nodes = sum(len(group["nodes"]) for group in groups)
    away, after = (
        sum(len(group[key]) for group in groups) for key in ("moves", "placements_after")
    )
    copied = campaign["copied_mib"] / GIB
    lines = [
        f"{many(nodes, 'node')} to maintain in {many(len(groups), 'group')}, "
        f"{many(away + after, 'move')}, {copied:.1f} GiB copied, "
        f"about {duration_words(campaign['estimated_seconds'])}",
        f"After each group, {AFTER_WORDS[campaign['after_group']]} "
        f"(--after {campaign['after_group']})",
    ]
    if campaign["until"] is not None:
        fit, until = campaign["groups_until"], campaign["until"]
        part = f"{many(fit, 'group')} of {len(groups)}" if fit < len(groups) else "all groups"
        later = "; the others wait for another run (--resume)" if fit < len(groups) else ""
        lines.append(f"Before {until} (--until), {part} would end{later}")
    return lines if groups else lines[:1]


def _work(
    group: Json, options: Json, drained: Collection[str], page: Page
) -> Iterable[Sequence[str]]:
    """Yield the actions for a group of nodes, in order: kind, node or instance, and details.

    `drained`: the nodes that can be drained. The master node cannot be drained.
    """
    nodes = group["nodes"]
    every, some = (
        page.some(names, MOST_NAMED_NODES) if page.rows else ", ".join(names)
        for names in (nodes, [node for node in nodes if node in drained])
    )
    if some:
        yield DRAIN_STEP, some, ""
    for move in group["moves"]:
        yield "move", move["instance"], f"to {':'.join(move['nodes'])}"
    if group["shell_commands"]:
        for node, command in zip(nodes, group["shell_commands"], strict=True):
            yield "run", node, command
    else:
        yield "by hand", every, "maintain and reboot" if options["reboots_nodes"] else "maintain"
    yield "wait", every, "until they answer and their drbd disks are in sync"
    for node, command in zip(nodes, group["check_commands"]):
        yield "check", node, command
    if some:
        yield "undrain", some, ""
    for move in group["placements_after"]:
        kind = "return" if options["after_group"] == "back" else "balance"
        yield kind, move["instance"], f"to {':'.join(move['nodes'])}"
