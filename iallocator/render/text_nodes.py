"""What every node of a group says, as text for a person."""

from __future__ import annotations

from iallocator.explain.strategy import tell_strategy
from iallocator.render.words import REASONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iallocator.explain.explanation import GroupReport
    from iallocator.explain.facts import NodeReport, RoleReport, Unsurvived
    from iallocator.render.table import Page

__all__ = ["tell_nodes"]

SHOWN = 12
"""How many nodes that have room are listed at most."""

BEST = 2
"""How many placements are told of elsewhere: the best and the runner-up."""


def tell_nodes(page: Page, group: GroupReport, instance: str) -> None:
    """Who could take `instance`, who could not and why, who was not asked."""
    page.heading(f"Nodes of group {group.name}")
    if group.obstacle:
        page.say(f"Out: {group.obstacle}", tone="bad")
    if group.failures:
        page.say(_tally(group))
    tell_strategy(page, group)
    for text in _possible(group.nodes):
        page.say(text)
    for text in _refusals(group.nodes):
        page.say(text)
    for refused in group.unsurvived:
        page.say(_failure(refused, instance))
    for text in _excluded(group.nodes):
        page.say(text, tone="faint")
    if group.placements[BEST:]:
        more = [f"{placed.where} {placed.score:.8f}" for placed in group.placements]
        page.say(f"Best placements: {', '.join(more)}")


def _tally(group: GroupReport) -> str:
    """The tally of the response with a word for each reason."""
    told = [
        f"{number} × {reason} ({REASONS.get(reason, '')})"
        for reason, number in sorted(group.failures.items())
    ]
    total = group.successes + sum(group.failures.values())
    noun = "placement" if total == 1 else "placements"
    return f"{total} {noun}, {group.successes} possible, refused: {', '.join(told)}"


def _possible(nodes: Iterable[NodeReport]) -> Iterator[str]:
    """Who has room, role by role."""
    by_role: dict[str, list[str]] = {}
    for node in nodes:
        for role in node.roles:
            if role.placements:
                by_role.setdefault(role.role, []).append(node.name)
    for name, names in by_role.items():
        words = "" if name == "only" else f" as {name}"
        yield f"room for it{words}: {_some(names)}"


def _some(names: list[str]) -> str:
    """The first few of `names`, and how many more there are."""
    shown = names if len(names) <= SHOWN else names[: SHOWN - 1]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _refusals(nodes: Iterable[NodeReport]) -> Iterator[str]:
    """One line for each reason, with the nodes and the role that it is about."""
    told = [(node.name, text) for node in nodes for role in node.roles for text in _told(role)]
    yield from _together(told)


def _told(role: RoleReport) -> Iterator[str]:
    words = "" if role.role == "only" else f" as {role.role}"
    for refusal in role.refusals:
        beside = f" of {refusal.beside}" if refusal.beside else ""
        where = f" {refusal.step}" if refusal.step else words + beside
        yield f"{refusal.reason}{where}: {refusal.text}"
    if role.lonely:
        other = "secondary" if role.role == "primary" else "primary"
        yield f"could be {role.role}, but no other node can be {other} beside it"


def _excluded(nodes: Iterable[NodeReport]) -> Iterator[str]:
    told = [(node.name, ", ".join(node.excluded)) for node in nodes if node.excluded]
    yield from _together([(name, f"not considered: {why}") for name, why in told])


def _together(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """``names: text`` for every text, in the order of their first names."""
    names: dict[str, list[str]] = {}
    for name, text in pairs:
        names.setdefault(text, []).append(name)
    for text, found in names.items():
        yield f"{', '.join(found)}: {text}"


def _failure(refused: Unsurvived, instance: str) -> str:
    """The failure that a placement could not survive."""
    who = f"{refused.instance} ({refused.memory} MiB memory)"
    if refused.instance == instance:
        who = "the new instance itself"
    already = ""
    if refused.already:
        already = "; so it is without the new instance, too (--n1 no-new would not count it)"
    return (
        f"{'/'.join(refused.nodes)} (score {refused.score:.8f}): FailN1: "
        f"if {refused.failing} failed, {who} would have no place: {refused.why}{already}"
    )
