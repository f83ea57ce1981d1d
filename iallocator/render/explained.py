"""Explanations as plain text."""

from __future__ import annotations

from iallocator.compat import OURS
from iallocator.explain.explanation import (
    ANSWER,
    NOT_ASKED,
    POSSIBLE,
    RESULTS,
    differences,
    failure_words,
    sorted_rows,
)
from iallocator.explain.facts import PENALTY
from iallocator.names import domain_of
from iallocator.render.plan import tell_transition
from iallocator.render.table import ALL_DIGITS, Column, Table, numeric, words_for_more
from iallocator.render.words import REASONS, RESULT_WORDS, STATISTICS
from iallocator.reply import few_details
from iallocator.tolerances import DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.explain.explanation import Decision, Difference, Explanation, NodeRow
    from iallocator.explain.facts import GroupReport, Placed
    from iallocator.render.table import Page

__all__ = ["explanation", "tell_comparison", "tell_nodes"]


def explanation(document: Json, facts: Json, page: Page) -> None:
    """Add an explanation: each decision with its reasons, remarks, steps, and the response.

    `facts` has the `Explanation` itself, from which the text is made; whether to be ``brief``, and
    the ``node`` to which the text is confined.
    """
    result: Explanation = facts["explanation"]
    brief, node = facts["brief"], facts["node"]
    names = {
        name
        for decision in result.decisions
        for part in decision.parts()
        for name in [*part.present, *(n.name for group in part.groups for n in group.nodes)]
    }
    domain = domain_of(names)
    page.leave_out([domain] if domain else [])
    if not page.hail:
        remarks = result.remarks
        for remark in remarks if page.verbose else few_details(remarks):
            page.say(remark, indent=0)
    decisions = result.decisions
    if page.rows and len(decisions) > DETAILED and not node:
        _summary(page, result)
        decisions = []
    for decision in decisions:
        page.heading(f"{result.kind} {decision.instance}")
        page.say(decision.subject)
        if decision.present:
            page.say(f"Now on {_roles(decision.present)}.")
        if not (brief or node):
            _body(page, decision, "Answer")
            continue
        _answer(page, decision, "Answer")
        for part in decision.parts() if node else ():
            for group in part.groups:  # which have only that node left
                tell_nodes(page, group, part.answer, part.instance)
                if group.comparison:
                    page.say(f"Its group comes later: {group.comparison}.")
    if page.hail and result.remarks:
        page.blank()
        for remark in result.remarks:
            page.say(remark, indent=0)
    if "transition" in result.response and not (brief or node):
        tell_transition(page, result.response["transition"])
    page.heading("Response")
    page.say(result.response["info"])


COMPARED = 1
"""On a terminal, the answer is compared with so many other placements, the best first."""

DETAILED = 3
"""On a terminal, the decisions about more instances than these are listed without details."""


def _summary(page: Page, result: Explanation) -> None:
    """Add a table of the decisions, those without a place first, and how to see the details."""
    decisions = sorted(result.decisions, key=lambda one: one.answer is not None)
    placed = sum(one.answer is not None for one in decisions)
    page.heading(f"{result.kind}: {placed} of {len(decisions)} instances have a place")
    table = Table("instance", "now", "answer", "why")
    for one in decisions:
        answer = one.answer
        why = one.reason or next((group.closest for group in one.groups if group.closest), "")
        if answer is not None:
            why = f"score {page.score(answer.score)}" if one.by_score else answer.rank
        table.add(
            one.instance,
            ":".join(one.present) or "-",
            "no place" if answer is None else ":".join(answer.nodes),
            why,
            tone="bad" if answer is None else "",
        )
    page.table(table)
    page.say(f"Details: --instance NAME, or {page.option} for all instances.", tone="faint")


def _body(page: Page, decision: Decision, word: str) -> None:
    """Add a decision without the name of its instance; the answer is called `word`."""
    for note in decision.notes:
        page.say(note)
    page.blank()
    _answer(page, decision, word)
    if decision.choice is not None:
        page.heading(f"Choice of the group for {decision.instance}")
        _body(page, decision.choice, "Best")
        if decision.groups:
            page.heading(f"Move of {decision.instance} to group {decision.groups[0].name}")
    if not decision.present:
        page.heading("Groups")
        scored = decision.by_score
        titles = ["group", "policy", "best placement", "score", "possible", "rejected", "result"]
        numbers = ("score", "possible", "rejected")
        shown = [title for title in titles if scored or title != "score"]
        table = Table(*(Column(title, title in numbers) for title in shown))
        for group in decision.groups:
            best = group.placements[0] if group.placements else None
            chosen = best is not None and best is decision.answer
            score = page.rounded(best.scored) if best and group.ranked_by == "score" else "-"
            result = group.obstacle or page.rounded(group.comparison)
            result = result or ("" if best else "nothing fits")
            table.add(
                group.name,
                group.alloc_policy,
                best.where if best else "-",
                *([score] if scored else []),
                str(group.successes),
                str(sum(group.failures.values())),
                "the answer" if chosen else result,
                tone="good" if chosen else "" if best else "bad",
            )
        page.table(table)
    rivals = decision.rivals if decision.answer is not None and decision.groups else ()
    few = rivals[:COMPARED] if page.rows else rivals
    for label, rival in few:
        assert decision.answer is not None
        tell_comparison(page, decision.answer, rival, label)
    if len(rivals) > len(few):
        page.blank()
        page.say(
            f"Comparisons with the best placements of other groups: "
            f"{words_for_more(len(rivals) - len(few), page.option)}",
            tone="faint",
        )
    # On a terminal: the nodes of the group with the answer, or of the first one
    groups = list(decision.groups)
    if page.rows:
        groups = [one for one in groups if decision.answer in one.placements][:1] or groups[:1]
    for group in groups:
        tell_nodes(page, group, decision.answer, decision.instance)
    left = len(decision.groups) - len(groups)
    if left:
        page.blank()
        page.say(f"Nodes of other groups: {words_for_more(left, page.option)}", tone="faint")
    if decision.elsewhere is not None:
        page.heading(f"Other groups for {decision.instance}")
        _body(page, decision.elsewhere, "Offer")


def _roles(nodes: Sequence[str]) -> str:
    """Return the nodes in words: ``node1 with node2 as secondary``."""
    return " with ".join([nodes[0], *(f"{name} as secondary" for name in nodes[1:])])


def _answer(page: Page, decision: Decision, word: str) -> None:
    answer = decision.answer
    if answer is None:
        failure = "it cannot be moved" if decision.present and word == "Answer" else "no place"
        why = f": {decision.reason}" if decision.reason else ""
        page.say(f"{word}: {failure}{why}", tone="bad", indent=0)
        for group in decision.groups:
            if group.closest:
                page.say(f"Closest in group {group.name}: {group.closest}")
        return
    where = f"{_roles(answer.nodes)}, in group {answer.group}"
    page.say(f"{word}: {where}", tone="good", indent=0)
    if decision.steps:
        steps = [f"{k}. {step.words}" for k, step in enumerate(decision.steps, start=1)]
        page.say(f"Steps: {'; '.join(steps)}" if len(steps) > 1 else f"Step: {steps[0][3:]}")
    if not decision.by_score:
        return
    before = sum(t.contribution_before for t in answer.terms if t.name != PENALTY)
    over = f" of group {answer.group}" if decision.steps else ""
    scores = page.scores(answer.score, before)
    page.say(f"Score{over} {scores[0]}, {scores[1]} before; lower is better.")
    if answer.penalty:
        page.say(f"Penalty of violated soft constraints: {answer.penalty:.12g}.")
    for _, rival in decision.rivals:
        if rival.score < answer.score and rival.penalty > answer.penalty:
            page.say(
                f"{rival.where} has a lower score, {page.score(rival.score)}, but a penalty of "
                f"{rival.penalty:.12g} for violated soft constraints."
            )


SHOWN = 12
"""How many nodes with one result are listed at most."""

FEWEST = 4
"""How many of them are listed at least, however many results there are."""

BEST = 2
"""How many placements are described elsewhere: the best and the runner-up."""

TONES = {ANSWER: "good", POSSIBLE: "", NOT_ASKED: "faint"}


def tell_nodes(page: Page, group: GroupReport, answer: Placed | None, instance: str) -> None:
    """Add the nodes that accept `instance`, those that do not and why, and those not tried."""
    page.heading(f"Nodes of group {group.name}")
    if group.obstacle:
        page.say(f"Out: {group.obstacle}", tone="bad")
    if group.failures:
        counts = [
            f"{number} × {reason} ({REASONS.get(reason, '')})"
            for reason, number in sorted(group.failures.items())
        ]
        total = group.successes + sum(group.failures.values())
        noun = "placement" if total == 1 else "placements"
        page.say(f"{total} {noun}, {group.successes} possible, rejected: {', '.join(counts)}")
    # What rejects the whole group is stated once
    rows = [(row, row.why) for row in sorted_rows(group, answer, instance)]
    if not page.hail:
        rows = _without_policy(page, rows)
    if group.obstacle:
        rows = [(row, why) for row, why in rows if why]
    if rows:
        # A row for each node, and a line below it for each further reason
        table = Table("node", "result", "why")
        present = {row.result for row, _ in rows}
        for result in RESULTS:
            found = [(row, why) for row, why in rows if row.result == result]
            usual = min(SHOWN, max(FEWEST, page.rows // len(present))) if page.rows else SHOWN
            most = page.most(usual, len(found))
            shown = found if len(found) <= most else found[: most - 1]
            tone = TONES.get(result, "bad")
            word = RESULT_WORDS.get(result, result)
            for row, why in shown:
                table.add(row.name, word, *map(page.rounded, why[:1] or [""]), tone=tone)
                for more in why[1:]:
                    table.add("", "", page.rounded(more), tone=tone)
            if len(found) > len(shown):
                left = len(found) - len(shown)
                options = "--node NAME" if page.hail else f"--node NAME, {page.option}"
                table.add("...", word, f"and {left} more: {options}, --json")
        page.table(table)
    for rejected in group.n1_rejections:
        if len(rejected.nodes) > 1:  # of one node its row says it
            page.say(failure_words(rejected, instance))
    if group.placements[BEST:]:
        best = [f"{one.where} {one.rank or page.rounded(one.scored)}" for one in group.placements]
        page.say(f"Best placements: {', '.join(best)}")


def _without_policy(
    page: Page, rows: Sequence[tuple[NodeRow, list[str]]]
) -> list[tuple[NodeRow, list[str]]]:
    """Return `rows` without rejections by the policy of the group, which are stated here once.

    A node that is rejected for nothing else has no row.
    """
    texts = {text: text.partition(": ")[2] for _, why in rows for text in why if _by_policy(text)}
    if not texts:
        return list(rows)
    number = sum(any(map(_by_policy, why)) for _, why in rows)
    for text in dict.fromkeys(texts.values()):
        page.say(f"{OURS.policy_reason} on {number} of {len(rows)} nodes: {text}", tone="bad")
    found = []
    for row, why in rows:
        others = [text for text in why if text not in texts]
        alone = len(others) < len(why) and all(text.startswith(UNPAIRED) for text in others)
        if not alone:
            found.append((row, others))
    return found


def _by_policy(text: str) -> bool:
    """Return whether `text` is a rejection by the policy of the group."""
    return text.partition(": ")[0].split()[0] == OURS.policy_reason if text else False


UNPAIRED = "could be "
"""The beginning of the reason of a node that has no partner."""

TELLING = 0.1
"""A statistic is named in a sentence if it makes this share of the difference, or more."""

SMALLEST = 1e-6
"""Smaller numbers are printed with an exponent."""

SHARE = "contribution = weight × value"


def tell_comparison(page: Page, answer: Placed, rival: Placed, label: str) -> None:
    """Add why the answer is better than `rival`."""
    page.heading(f"Answer {answer.where} and {label} {rival.where}")
    decided = answer.over.get(rival.where)
    if decided:
        page.say(f"Decided: {decided}.")
        return
    if answer.rank and rival.rank:  # storage is exclusive
        outcome = f"{answer.rank} comes before {rival.rank}"
        if answer.rank == rival.rank:
            outcome = f"both {answer.rank}, and of equals the first is taken"
        page.say(
            "Lost allocations decide, not the score: the allocations lost (per interval of the "
            f"policy, largest disks first), then the remaining free disk: {outcome}."
        )
        return

    # By how much the scores differ, and mainly because of which statistics
    terms = differences(answer, rival)
    result = "The scores are equal, statistic by statistic; of equals the first is taken."
    if any(round(one.amount, DECIMALS) for one in terms):
        gap = rival.total - answer.total
        what = "Score and penalty" if answer.penalty or rival.penalty else "Score"
        more = "more" if gap >= 0 else "less"
        result = f"{what} {page.rounded(rival.scored)}, {page.score(abs(gap))} {more}."
        against = _named(page, [one for one in terms if one.amount > 0])
        if against:
            result += f" Against it: {against}."
        favour = _named(page, [one for one in terms if one.amount < 0])
        if favour:
            result += f" In its favour: {favour}."
    page.say(result)

    # The statistics in numbers, and their sums
    titles = ("before", "answer", label.removeprefix("group "))
    table = Table(
        "statistic",
        numeric("weight"),
        *(Column(title, True, "value") for title in titles),
        *(Column(title, True, SHARE) for title in titles),
        numeric("difference"),
    )
    equal = []
    for one in terms:
        if one.nothing:
            continue
        if not (round(one.amount, DECIMALS) or page.verbose or page.hail):
            equal.append(one.mine.name)
            continue
        mine, other = one.mine, one.other
        values = (mine.before, mine.after, other.after)
        shares = (mine.contribution_before, mine.contribution_after, other.contribution_after)
        table.add(
            mine.name,
            f"{mine.weight:g}",
            *(_number(page, value) for value in (*values, *shares)),
            _signed(page, one.amount),
            tone="" if round(one.amount, DECIMALS) else "faint",
        )
    before = sum(one.mine.contribution_before for one in terms)
    after = sum(one.mine.contribution_after for one in terms)
    others = sum(one.other.contribution_after for one in terms)
    penalty = any(one.mine.name == PENALTY for one in terms)
    table.add(
        "total" if penalty else "score",
        *[""] * 4,
        *(_number(page, value) for value in (before, after, others)),
        _signed(page, others - after),
        tone="head",
    )
    page.table(table)
    if equal:
        page.say(f"equal in both, shown with -v: {', '.join(equal)}", tone="faint")
    zero = [one.mine.name for one in terms if one.nothing]
    if zero:
        page.say(f"0 everywhere: {', '.join(zero)}", tone="faint")


def _named(page: Page, found: Sequence[Difference]) -> str:
    """Return the statistics that make most of the sum, in words."""
    total = sum(abs(one.amount) for one in found)
    telling = [one for one in found if abs(one.amount) >= TELLING * total][:3]
    return "; ".join(
        f"{one.mine.name} {_number(page, abs(one.amount))} ({STATISTICS.get(one.mine.name, '')})"
        for one in telling
    )


def _number(page: Page, value: float) -> str:
    if not round(value, DECIMALS):
        return "0"
    if page.digits < ALL_DIGITS:
        return page.score(value)
    return f"{value:.6f}" if abs(value) >= SMALLEST else f"{value:.1e}"


def _signed(page: Page, value: float) -> str:
    return f"{'+' if value > 0 else ''}{_number(page, value)}" if round(value, DECIMALS) else "0"
