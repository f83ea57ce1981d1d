"""What statistics made the difference, as text for a person."""

from __future__ import annotations

from iallocator.explain.contributions import differences
from iallocator.explain.facts import PENALTY
from iallocator.render.table import Column, Page, Table
from iallocator.render.words import STATISTICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.explain.contributions import Difference
    from iallocator.explain.facts import Placed

__all__ = ["tell_comparison"]

TELLING = 0.1
"""A statistic is named in a sentence if it makes this share of the difference, or more."""

SMALLEST = 1e-6
"""Smaller numbers are printed with an exponent."""

SHARE = "contribution = weight × value"


def tell_comparison(page: Page, answer: Placed, rival: Placed, label: str) -> None:
    """What speaks for the answer and against `rival`."""
    page.heading(f"Answer {answer.where} and {label} {rival.where}")
    decided = answer.over.get(rival.where)
    if decided:
        page.say(f"Decided: {decided}.")
        return
    if answer.rank and rival.rank:
        page.say(_rank_sentence(answer.rank, rival.rank))
        return
    found = differences(answer, rival)
    page.say(_sentence(answer, rival, found))
    page.table(_statistics(found, label.removeprefix("group ")))
    _zeros(page, found)


def _zeros(page: Page, found: Sequence[Difference]) -> None:
    zero = [one.mine.name for one in found if one.nothing]
    if zero:
        page.say(f"0 everywhere: {', '.join(zero)}", tone="faint")


def _rank_sentence(mine: str, other: str) -> str:
    """What decides where storage is exclusive."""
    outcome = f"{mine} comes before {other}"
    if mine == other:
        outcome = f"both {mine}, and of equals the first is taken"
    return (
        "Where lost allocations decide, what counts is allocations lost (per interval of the "
        f"policy, largest disks first), then free disk left, not the score: {outcome}."
    )


def _sentence(answer: Placed, rival: Placed, found: Sequence[Difference]) -> str:
    """By how much, and mainly because of what."""
    gap = rival.total - answer.total
    if not any(round(one.amount, 10) for one in found):
        return "The scores are equal, statistic by statistic; of equals the first is taken."
    what = "Score and penalty" if answer.penalty or rival.penalty else "Score"
    told = f"{what} {rival.scored}, {abs(gap):.8f} {'more' if gap >= 0 else 'less'}."
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
    table = Table(
        Column("statistic"),
        Column("weight", number=True),
        *(Column(title, True, "value") for title in ("before", "answer", label)),
        *(Column(title, True, SHARE) for title in ("before", "answer", label)),
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
    penalty = any(one.mine.name == PENALTY for one in found)
    yield from ("total" if penalty else "score", "", "", "", "")
    yield _number(sum(one.mine.contribution_before for one in found))
    yield from (_number(answer), _number(other), _signed(other - answer))


def _number(value: float) -> str:
    if not round(value, 10):
        return "0"
    return f"{value:.6f}" if abs(value) >= SMALLEST else f"{value:.1e}"


def _signed(value: float) -> str:
    return f"{'+' if value > 0 else ''}{_number(value)}" if round(value, 10) else "0"
