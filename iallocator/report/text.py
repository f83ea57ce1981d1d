"""Explanations as text for a person."""

from __future__ import annotations

from iallocator.report.contributions import differences
from iallocator.report.table import Column, Page, Table
from iallocator.report.text_nodes import tell_nodes
from iallocator.report.words import STATISTICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.report.contributions import Difference
    from iallocator.report.explanation import Decision, Explanation, GroupReport
    from iallocator.report.facts import Placed

__all__ = ["render"]

TELLING = 0.1
"""A statistic is named in a sentence if it makes this share of the difference, or more."""


def render(explanation: Explanation, colour: bool = False) -> str:
    """The explanation as lines of text, with terminal colours if `colour`."""
    domain = _common_domain(explanation)
    page = Page(colour, domain=domain)
    for decision in explanation.decisions:
        _decision(page, decision, explanation.kind)
    for remark in explanation.remarks:
        page.say(remark, indent=0)
    end = Page(colour)
    if domain:
        end.say(f"(Names above without {domain})", tone="faint", indent=0)
    end.heading("Response")
    end.say(explanation.response["info"])
    return f"{page.text()}\n{end.text()}"


def _common_domain(explanation: Explanation) -> str:
    """What the names of all nodes end with from the first dot on, or ""."""
    domains = {
        node.name.partition(".")[2]
        for decision in explanation.decisions
        for group in decision.groups
        for node in group.nodes
    }
    return "." + domains.pop() if len(domains) == 1 and "" not in domains else ""


def _decision(page: Page, decision: Decision, kind: str) -> None:
    page.heading(f"{kind} {decision.instance}")
    page.say(decision.subject)
    for note in decision.notes:
        page.say(note)
    page.blank()
    _answer(page, decision)
    _groups(page, decision)
    for label, rival in decision.rivals:
        if decision.answer is not None:
            _comparison(page, decision.answer, rival, label)
    for group in decision.groups:
        tell_nodes(page, group, decision.instance)


def _answer(page: Page, decision: Decision) -> None:
    answer = decision.answer
    if answer is None:
        page.say("Answer: no place", tone="bad", indent=0)
        for group in decision.groups:
            if group.closest:
                page.say(f"Closest in group {group.name}: {group.closest}")
        return
    roles = [answer.nodes[0], *(f"{name} as secondary" for name in answer.nodes[1:])]
    page.say(f"Answer: {' with '.join(roles)}, in group {answer.group}", tone="good", indent=0)
    before = sum(term.contribution_before for term in answer.terms)
    page.say(f"Score {answer.score:.8f}, {before:.8f} before; lower is better.")


def _groups(page: Page, decision: Decision) -> None:
    """One line for every group: what it offers and why it is where it is."""
    page.heading("Groups")
    titles = ("group", "policy", "best placement", "score", "possible", "refused", "verdict")
    numbers = ("score", "possible", "refused")
    table = Table(*(Column(title, title in numbers) for title in titles))
    for group in decision.groups:
        _group_row(table, group, decision.answer)
    page.table(table)


def _group_row(table: Table, group: GroupReport, answer: Placed | None) -> None:
    best = group.placements[0] if group.placements else None
    chosen = best is not None and best is answer
    table.add(
        group.name,
        group.alloc_policy,
        best.where if best else "-",
        f"{best.score:.8f}" if best else "-",
        str(group.successes),
        str(sum(group.failures.values())),
        "the answer" if chosen else _standing(group),
        tone="good" if chosen else "" if best else "bad",
    )


def _standing(group: GroupReport) -> str:
    """Why a group is not the answer."""
    return group.obstacle or group.verdict or ("" if group.placements else "nothing fits")


def _comparison(page: Page, answer: Placed, rival: Placed, label: str) -> None:
    """What speaks for the answer and against `rival`."""
    page.heading(f"Answer {answer.where} and {label} {rival.where}")
    found = differences(answer, rival)
    page.say(_sentence(answer, rival, found))
    if answer.rank and rival.rank:
        page.say(_rank_sentence(answer.rank, rival.rank))
    page.table(_statistics(found, label.removeprefix("group ")))
    zero = [one.mine.name for one in found if one.nothing]
    if zero:
        page.say(f"0 everywhere: {', '.join(zero)}", tone="faint")


def _rank_sentence(mine: str, other: str) -> str:
    """What decides where storage is exclusive."""
    outcome = f"{mine} comes before {other}"
    if mine == other:
        outcome = f"both {mine}, and of equals the first is taken"
    return (
        "Exclusive storage, so what counts is allocations lost (per interval of the policy, "
        f"largest disks first), then free disk left, not the score: {outcome}."
    )


def _sentence(answer: Placed, rival: Placed, found: Sequence[Difference]) -> str:
    """By how much, and mainly because of what."""
    gap = rival.score - answer.score
    if not any(round(one.amount, 10) for one in found):
        return "The scores are equal, statistic by statistic; of equals the first is taken."
    told = f"Score {rival.score:.8f}, {abs(gap):.8f} {'more' if gap >= 0 else 'less'}."
    against = _named([one for one in found if one.amount > 0])
    if against:
        told += f" Against it: {against}."
    favour = _named([one for one in found if one.amount < 0])
    if favour:
        told += f" In its favour: {favour}."
    return told


def _named(found: Sequence[Difference]) -> str:
    """The statistics that make most of the sum, in words."""
    total = sum(abs(one.amount) for one in found)
    telling = [one for one in found if abs(one.amount) >= TELLING * total][:3]
    return "; ".join(
        f"{one.mine.name} {_number(abs(one.amount))} ({STATISTICS.get(one.mine.name, '')})"
        for one in telling
    )


def _statistics(found: Sequence[Difference], label: str) -> Table:
    value, share = "value", "contribution = weight × value"
    table = Table(
        Column("statistic"),
        Column("weight", number=True),
        *(Column(title, True, value) for title in ("before", "answer", label)),
        *(Column(title, True, share) for title in ("before", "answer", label)),
        Column("difference", number=True),
    )
    for one in found:
        if not one.nothing:
            table.add(*_cells(one), tone="" if round(one.amount, 10) else "faint")
    table.add(*_sums(found), tone="head")
    return table


def _cells(one: Difference) -> Iterator[str]:
    mine, other = one.mine, one.other
    yield mine.name
    yield f"{mine.weight:g}"
    yield from map(_number, (mine.before, mine.after, other.after))
    yield from map(
        _number, (mine.contribution_before, mine.contribution_after, other.contribution_after)
    )
    yield _signed(one.amount)


def _sums(found: Sequence[Difference]) -> Iterator[str]:
    """The last row: contributions added up."""
    answer = sum(one.mine.contribution_after for one in found)
    other = sum(one.other.contribution_after for one in found)
    yield from ("score", "", "", "", "")
    yield _number(sum(one.mine.contribution_before for one in found))
    yield from (_number(answer), _number(other), _signed(other - answer))


def _number(value: float) -> str:
    if not round(value, 10):
        return "0"
    return f"{value:.6f}" if abs(value) >= 1e-6 else f"{value:.1e}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{_number(value)}" if round(value, 10) else "0"
