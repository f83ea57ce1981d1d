"""Explanations as text for a person."""

from __future__ import annotations

from iallocator.explain.facts import PENALTY
from iallocator.names import domain_of
from iallocator.render.explanation.nodes import tell_nodes
from iallocator.render.explanation.statistics import tell_comparison
from iallocator.render.table import Column, Page, Table
from iallocator.render.transition.table import tell_transition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.explain.explanation import Decision, Explanation
    from iallocator.explain.facts import GroupReport, Placed

__all__ = ["render"]


def render(
    explanation: Explanation, colour: bool = False, brief: bool = False, node: str = ""
) -> str:
    """The explanation as lines of text, with terminal colours if `colour`.

    `brief`: only what was decided; `node`: only that, and what this node says.
    """
    domain = _common_domain(explanation)
    page = Page(colour, domains=[domain] if domain else [])
    for decision in explanation.decisions:
        _decision(page, decision, explanation.kind, brief, node)
    if explanation.remarks:
        page.blank()
    for remark in explanation.remarks:
        page.say(remark, indent=0)
    if "transition" in explanation.response and not (brief or node):
        tell_transition(page, explanation.response["transition"])
    page.heading("Response")
    page.say(explanation.response["info"])
    if not domain:
        return page.text()
    end = Page(colour)
    end.say(f"(Names above without {domain})", tone="faint", indent=0)
    return f"{page.text()}\n{end.text()}"


def _common_domain(explanation: Explanation) -> str:
    """What the names of all nodes end with from the first dot on, or ""."""
    names = {
        name
        for decision in explanation.decisions
        for part in decision.parts()
        for name in [*part.present, *(n.name for group in part.groups for n in group.nodes)]
    }
    return domain_of(names)


def _decision(page: Page, decision: Decision, kind: str, brief: bool, node: str) -> None:
    page.heading(f"{kind} {decision.instance}")
    page.say(decision.subject)
    if decision.present:
        page.say(f"Now on {_roles(decision.present)}.")
    if brief or node:
        _answer(page, decision, "Answer")
        for part in decision.parts() if node else ():
            _one_node(page, part)
    else:
        _body(page, decision, "Answer")


def _one_node(page: Page, decision: Decision) -> None:
    """What the only node says that is left in the groups."""
    for group in decision.groups:
        tell_nodes(page, group, decision.answer, decision.instance)
        if group.verdict:
            page.say(f"Its group comes later: {group.verdict}.")


def _body(page: Page, decision: Decision, word: str) -> None:
    """All but the name; the answer is called `word`."""
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
        _groups(page, decision)
    _comparisons(page, decision)
    for group in decision.groups:
        tell_nodes(page, group, decision.answer, decision.instance)
    if decision.elsewhere is not None:
        page.heading(f"Other groups for {decision.instance}")
        _body(page, decision.elsewhere, "Offer")


def _comparisons(page: Page, decision: Decision) -> None:
    """The answer beside its rivals."""
    if decision.answer is None or not decision.groups:
        return
    for label, rival in decision.rivals:
        tell_comparison(page, decision.answer, rival, label)


def _roles(nodes: Sequence[str]) -> str:
    """``node1 with node2 as secondary``."""
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
    page.say(f"Score{over} {answer.score:.8f}, {before:.8f} before; lower is better.")
    if answer.penalty:
        page.say(f"Penalty of violated soft constraints: {answer.penalty:.12g}.")
    for _, rival in decision.rivals:
        if rival.score < answer.score and rival.penalty > answer.penalty:
            page.say(
                f"{rival.where} has a lower score, {rival.score:.8f}, but a penalty of "
                f"{rival.penalty:.12g} for violated soft constraints."
            )


def _groups(page: Page, decision: Decision) -> None:
    """One line for every group: what it offers and why it is where it is."""
    page.heading("Groups")
    scored = decision.by_score
    titles = ["group", "policy", "best placement", "score", "possible", "refused", "verdict"]
    numbers = ("score", "possible", "refused")
    shown = [title for title in titles if scored or title != "score"]
    table = Table(*(Column(title, title in numbers) for title in shown))
    for group in decision.groups:
        _group_row(table, group, decision.answer, scored)
    page.table(table)


def _group_row(table: Table, group: GroupReport, answer: Placed | None, scored: bool) -> None:
    best = group.placements[0] if group.placements else None
    chosen = best is not None and best is answer
    score = best.scored if best and group.ranked_by == "score" else "-"
    table.add(
        group.name,
        group.alloc_policy,
        best.where if best else "-",
        *([score] if scored else []),
        str(group.successes),
        str(sum(group.failures.values())),
        "the answer" if chosen else _standing(group),
        tone="good" if chosen else "" if best else "bad",
    )


def _standing(group: GroupReport) -> str:
    """Why a group is not the answer."""
    return group.obstacle or group.verdict or ("" if group.placements else "nothing fits")
