"""Format explanations of decisions as plain text."""

from __future__ import annotations

from iallocator.compat import OURS
from iallocator.explain.explanation import (
    BY_LOSSES,
    DESCRIBED_PLACEMENTS,
    NODE_ANSWER,
    NODE_NOT_ASKED,
    NODE_POSSIBLE,
    NODE_RESULTS,
    failure_words,
)
from iallocator.explain.facts import PENALTY, scored
from iallocator.names import domain_of
from iallocator.render.plan import add_transition
from iallocator.render.table import ALL_DIGITS, Column, Table, numeric, words_for_more
from iallocator.render.words import REASON_WORDS, RESULT_WORDS, STATISTIC_WORDS
from iallocator.reply import few_details
from iallocator.tolerances import SCORE_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.aliases import Json
    from iallocator.render.table import Page

__all__ = ["add_comparison", "add_nodes", "explanation", "parts_of"]


def explanation(document: Json, facts: Json, page: Page) -> None:
    """Add an explanation to `page`: each decision with reasons, remarks, steps, and the response.

    `facts` has ``brief`` (whether details are left out), and ``node``, the only node to show.
    """
    brief, node = facts["brief"], facts["node"]
    decisions, remarks, response = (
        document["decisions"], document["remarks"], document["response"],
    )  # fmt: skip
    names = {
        name
        for decision in decisions
        for part in parts_of(decision)
        for name in [
            *part["present"],
            *(row["node"] for group in part["groups"] for row in group["candidates"]),
        ]
    }
    domain = domain_of(names)
    page.leave_out([domain] if domain else [])
    if not page.hail:
        for remark in remarks if page.verbose else few_details(remarks):
            page.say(remark, indent=0)
    if page.rows and len(decisions) > DETAILED_DECISIONS and not node:
        _summary(page, document)
        decisions = []
    for decision in decisions:
        page.heading(f"{document['request_type']} {decision['instance']}")
        page.say(decision["subject"])
        if decision["present"]:
            page.say(f"Now on {_roles(decision['present'])}.")
        if not (brief or node):
            _body(page, decision, "Answer")
            continue
        _answer(page, decision, "Answer")
        for part in parts_of(decision) if node else ():
            for group in part["groups"]:  # these groups contain only `node`
                add_nodes(page, group, part["instance"])
                if group["comparison"]:
                    page.say(f"Its group comes later: {group['comparison']}.")
    if page.hail and remarks:
        page.blank()
        for remark in remarks:
            page.say(remark, indent=0)
    if "transition" in response and not (brief or node):
        add_transition(page, response["transition"])
    page.heading("Response")
    page.say(response["info"])


def parts_of(decision: Json) -> Iterator[Json]:
    """Yield `decision`, and the decisions that are parts of it."""
    yield decision
    for name in ("choice", "elsewhere"):
        if decision[name]:
            yield from parts_of(decision[name])


def _where(placement: Json) -> str:
    """Return the nodes of a placement in one word, primary first: ``node1/node2``."""
    return "/".join(placement["nodes"])


def _scored(placement: Json) -> str:
    """Return the score of a placement as text, with its penalty."""
    return scored(placement["score"], placement.get("penalty", 0.0))


def _rival(decision: Json, comparison: Json) -> Json:
    """Return the placement in `decision` with which `comparison` compares the answer."""
    rival: Json = next(
        placement
        for group in decision["groups"]
        for placement in group["placements"]
        if placement["nodes"] == comparison["nodes"]
    )
    return rival


COMPARED_PLACEMENTS = 1
"""The number of other placements with which the answer is compared on a terminal, best first."""

DETAILED_DECISIONS = 3
"""The number of instances up to which a terminal shows the details of their decisions."""


def _summary(page: Page, document: Json) -> None:
    """Add a table of the decisions, those without a placement first, and how to see the details."""
    decisions = sorted(document["decisions"], key=lambda one: one["answer"] is not None)
    placed = sum(one["answer"] is not None for one in decisions)
    page.heading(f"{document['request_type']}: {placed} of {len(decisions)} instances have a place")
    table = Table("instance", "now", "answer", "why")
    for one in decisions:
        answer, closest = one["answer"], (group["closest"] for group in one["groups"])
        why = one["reason"] or next(filter(None, closest), "")
        if answer is not None:
            by_score = "score" in answer
            why = f"score {page.score(answer['score'])}" if by_score else answer.get("rank", "")
        table.add(
            one["instance"],
            ":".join(one["present"]) or "-",
            "no place" if answer is None else ":".join(answer["nodes"]),
            why,
            tone="bad" if answer is None else "",
        )
    page.table(table)
    page.say(f"Details: --instance NAME, or {page.option} for all instances.", tone="faint")


def _body(page: Page, decision: Json, word: str) -> None:
    """Add a decision to `page` without the name of its instance; `word` is the answer's title."""
    instance, answer, every_group = decision["instance"], decision["answer"], decision["groups"]
    for note in decision["notes"]:
        page.say(note)
    page.blank()
    _answer(page, decision, word)
    if decision["choice"]:
        page.heading(f"Choice of the group for {instance}")
        _body(page, decision["choice"], "Best")
        if every_group:
            page.heading(f"Move of {instance} to group {every_group[0]['group']}")
    if not decision["present"]:
        page.heading("Groups")
        page.table(_groups(page, decision))
    comparisons = decision["comparisons"]
    few = comparisons[:COMPARED_PLACEMENTS] if page.rows else comparisons
    for comparison in few:
        add_comparison(page, answer, _rival(decision, comparison), comparison)
    if len(comparisons) > len(few):
        page.blank()
        page.say(
            f"Comparisons with the best placements of other groups: "
            f"{words_for_more(len(comparisons) - len(few), page.option)}",
            tone="faint",
        )
    # On a terminal: the nodes of the group with the answer, or of the first one
    groups = every_group
    if page.rows:
        groups = [one for one in groups if _has(one, answer)][:1] or groups[:1]
    for group in groups:
        add_nodes(page, group, instance)
    left = len(every_group) - len(groups)
    if left:
        page.blank()
        page.say(f"Nodes of other groups: {words_for_more(left, page.option)}", tone="faint")
    if decision["elsewhere"]:
        page.heading(f"Other groups for {instance}")
        _body(page, decision["elsewhere"], "Offer")


def _has(group: Json, answer: Json | None) -> bool:
    """Return whether the answer is one of the best placements of `group`."""
    nodes = answer and answer["nodes"]
    return any(placement["nodes"] == nodes for placement in group["placements"])


def _groups(page: Page, decision: Json) -> Table:
    """Return a table of the groups: the best placement of each, and why it is not the answer."""
    answer = decision["answer"]
    by_score = answer is not None and "score" in answer
    titles = ["group", "policy", "best placement", "score", "possible", "rejected", "result"]
    numbers = ("score", "possible", "rejected")
    columns = [title for title in titles if by_score or title != "score"]
    table = Table(*(Column(title, title in numbers) for title in columns))
    for group in decision["groups"]:
        best = group["placements"][0] if group["placements"] else None
        chosen = best is not None and answer is not None and best["nodes"] == answer["nodes"]
        score = page.rounded(_scored(best)) if best and "score" in best else "-"
        result = group["obstacle"] or page.rounded(group["comparison"])
        result = result or ("" if best else "nothing fits")
        table.add(
            group["group"],
            group["alloc_policy"],
            _where(best) if best else "-",
            *([score] if by_score else []),
            str(group["successes"]),
            str(sum(group["failures"].values())),
            "the answer" if chosen else result,
            tone="good" if chosen else "" if best else "bad",
        )
    return table


def _roles(nodes: Sequence[str]) -> str:
    """Return the nodes in words: ``node1 with node2 as secondary``."""
    return " with ".join([nodes[0], *(f"{name} as secondary" for name in nodes[1:])])


def _answer(page: Page, decision: Json, word: str) -> None:
    answer, steps = decision["answer"], decision["steps"]
    if answer is None:
        failure = "it cannot be moved" if decision["present"] and word == "Answer" else "no place"
        why = f": {decision['reason']}" if decision["reason"] else ""
        page.say(f"{word}: {failure}{why}", tone="bad", indent=0)
        for group in decision["groups"]:
            if group["closest"]:
                page.say(f"Closest in group {group['group']}: {group['closest']}")
        return
    where = f"{_roles(answer['nodes'])}, in group {answer['group']}"
    page.say(f"{word}: {where}", tone="good", indent=0)
    if steps:
        words = [f"{k}. {step['text']}" for k, step in enumerate(steps, start=1)]
        page.say(f"Steps: {'; '.join(words)}" if len(words) > 1 else f"Step: {words[0][3:]}")
    if "score" not in answer:
        return
    score, penalty = answer["score"], answer.get("penalty", 0.0)
    before = sum(t["contribution_before"] for t in answer["terms"] if t["name"] != PENALTY)
    over = f" of group {answer['group']}" if steps else ""
    scores = page.scores(score, before)
    page.say(f"Score{over} {scores[0]}, {scores[1]} before; lower is better.")
    if penalty:
        page.say(f"Penalty of violated soft constraints: {penalty:.12g}.")
    for comparison in decision["comparisons"]:
        rival = _rival(decision, comparison)
        if rival.get("score", score) < score and rival.get("penalty", 0.0) > penalty:
            page.say(
                f"{_where(rival)} has a lower score, {page.score(rival['score'])}, but a penalty "
                f"of {rival['penalty']:.12g} for violated soft constraints."
            )


MOST_EQUAL_NODES = 12
"""The most nodes with one result that are listed."""

FEWEST_LISTED_NODES = 4
"""The fewest nodes with one result that are listed, if there are enough."""

NODE_RESULT_TONES = {NODE_ANSWER: "good", NODE_POSSIBLE: "", NODE_NOT_ASKED: "faint"}


def add_nodes(page: Page, group: Json, instance: str) -> None:
    """Add the nodes of `group` to `page`, with the result for `instance` and the reasons."""
    obstacle, failures, placements = group["obstacle"], group["failures"], group["placements"]
    page.heading(f"Nodes of group {group['group']}")
    if obstacle:
        page.say(f"Out: {obstacle}", tone="bad")
    if failures:
        counts = [
            f"{number} × {reason} ({REASON_WORDS.get(reason, '')})"
            for reason, number in failures.items()
        ]
        total = group["successes"] + sum(failures.values())
        noun = "placement" if total == 1 else "placements"
        page.say(f"{total} {noun}, {group['successes']} possible, rejected: {', '.join(counts)}")
    # What rejects the whole group is stated once
    rows = [(row, row["reasons"]) for row in _sorted_rows(group)]
    if not page.hail:
        rows = _without_policy(page, rows)
    if obstacle:
        rows = [(row, why) for row, why in rows if why]
    if rows:
        # A row for each node, and a line below it for each further reason
        table = Table("node", "result", "why")
        present = {row["result"] for row, _ in rows}
        for result in NODE_RESULTS:
            of_result = [(row, why) for row, why in rows if row["result"] == result]
            usual = (
                min(MOST_EQUAL_NODES, max(FEWEST_LISTED_NODES, page.rows // len(present)))
                if page.rows
                else MOST_EQUAL_NODES
            )
            most = page.most(usual, len(of_result))
            listed = of_result if len(of_result) <= most else of_result[: most - 1]
            tone = NODE_RESULT_TONES.get(result, "bad")
            word = RESULT_WORDS.get(result, result)
            for row, why in listed:
                table.add(row["node"], word, *map(page.rounded, why[:1] or [""]), tone=tone)
                for more in why[1:]:
                    table.add("", "", page.rounded(more), tone=tone)
            if len(of_result) > len(listed):
                left = len(of_result) - len(listed)
                options = "--node NAME" if page.hail else f"--node NAME, {page.option}"
                table.add("...", word, f"and {left} more: {options}, --json")
        page.table(table)
    for rejected in group["n1_refused"]:
        if len(rejected["nodes"]) > 1:  # the row of a single node has it
            page.say(failure_words(rejected, instance))
    if placements[DESCRIBED_PLACEMENTS:]:
        best = [f"{_where(p)} {p.get('rank') or page.rounded(_scored(p))}" for p in placements]
        page.say(f"Best placements: {', '.join(best)}")


def _sorted_rows(group: Json) -> list[Json]:
    """Return the rows of nodes, sorted by result and rank; nodes for the instance come first."""
    place = {row["node"]: k for k, row in enumerate(group.get("order", ()))}
    of_result: dict[str, list[tuple[float, int, int, Json]]] = {
        result: [] for result in NODE_RESULTS
    }
    for k, row in enumerate(group["candidates"]):
        score = row.get("score", 0.0) + row.get("penalty", 0.0)
        ranked = score, place.get(row["node"], len(place)) if place else 0, k, row
        of_result[row["result"]].append(ranked)
    return [row for ranked in of_result.values() for *_, row in sorted(ranked)]


def _without_policy(
    page: Page, rows: Sequence[tuple[Json, list[str]]]
) -> list[tuple[Json, list[str]]]:
    """Return `rows` without rejections by the policy of the group; add these once to `page`.

    A node that only the policy rejects has no row in the result.
    """
    texts = {text: text.partition(": ")[2] for _, why in rows for text in why if _by_policy(text)}
    if not texts:
        return list(rows)
    number = sum(any(map(_by_policy, why)) for _, why in rows)
    for text in dict.fromkeys(texts.values()):
        page.say(f"{OURS.policy_reason} on {number} of {len(rows)} nodes: {text}", tone="bad")
    remaining = []
    for row, why in rows:
        others = [text for text in why if text not in texts]
        alone = len(others) < len(why) and all(text.startswith(UNPAIRED) for text in others)
        if not alone:
            remaining.append((row, others))
    return remaining


def _by_policy(text: str) -> bool:
    """Return whether `text` is a rejection by the policy of the group."""
    return text.partition(": ")[0].split()[0] == OURS.policy_reason if text else False


UNPAIRED = "could be "
"""The beginning of the reason of a node that could be used, if a second node could."""

NAMED_DIFFERENCE_SHARE = 0.1
"""The share of a difference of scores from which on a statistic is named in the sentence on it."""

SMALLEST_FIXED_NUMBER = 1e-6
"""The number below which numbers are printed with an exponent."""

SHARE = "contribution = weight × value"

VALUES = ("before", "with_answer", "with_other")
CONTRIBUTIONS = ("contribution_before", "contribution_answer", "contribution_other")
"""Keys of a statistic in a comparison: contributions to the scores; `VALUES` has keys of values."""


def add_comparison(page: Page, answer: Json, rival: Json, comparison: Json) -> None:
    """Add to `page` the reasons why the answer is better than the placement `rival`."""
    label, statistics = comparison["with"], comparison.get("statistics", ())
    page.heading(f"Answer {_where(answer)} and {label} {_where(rival)}")
    decided = comparison.get("decided_by", "")
    if decided.startswith(BY_LOSSES):  # lost allocations rank only with exclusive storage
        outcome = f"{answer['rank']} comes before {rival['rank']}"
        if answer["rank"] == rival["rank"]:
            outcome = f"both {answer['rank']}, and of equals the first is taken"
        page.say(
            "Lost allocations decide, not the score: the allocations lost (per interval of the "
            f"policy, largest disks first), then the remaining free disk: {outcome}."
        )
        return
    if decided:
        page.say(f"Decided: {decided}.")
        return

    # By how much the scores differ, and mainly because of which statistics
    penalised = any(one["name"] == PENALTY for one in statistics)
    result = "The scores are equal, statistic by statistic; of equals the first is taken."
    if any(one["difference"] for one in statistics):
        gap = comparison["difference"]
        what = "Score and penalty" if penalised else "Score"
        more = "more" if gap >= 0 else "less"
        result = f"{what} {page.rounded(_scored(comparison))}, {page.score(abs(gap))} {more}."
        against = _named(page, [one for one in statistics if one["difference"] > 0])
        if against:
            result += f" Against it: {against}."
        favour = _named(page, [one for one in statistics if one["difference"] < 0])
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
    for one in statistics:
        if not (one["difference"] or page.verbose or page.hail):
            equal.append(one["name"])
            continue
        table.add(
            one["name"],
            f"{one['weight']:g}",
            *(_number(page, one[name]) for name in (*VALUES, *CONTRIBUTIONS)),
            _signed(page, one["difference"]),
            tone="" if one["difference"] else "faint",
        )
    before, after, other = (sum(one[name] for one in statistics) for name in CONTRIBUTIONS)
    table.add(
        "total" if penalised else "score",
        *[""] * 4,
        *(_number(page, value) for value in (before, after, other)),
        _signed(page, other - after),
        tone="head",
    )
    page.table(table)
    if equal:
        page.say(f"equal in both, shown with -v: {', '.join(equal)}", tone="faint")
    zero = sorted(comparison["zero"], key=list(STATISTIC_WORDS).index)
    if zero:
        page.say(f"0 everywhere: {', '.join(zero)}", tone="faint")


def _named(page: Page, statistics: Sequence[Json]) -> str:
    """Return the statistics with the largest parts of a difference of scores, in words."""
    total = sum(abs(one["difference"]) for one in statistics)
    largest = [
        one for one in statistics if abs(one["difference"]) >= NAMED_DIFFERENCE_SHARE * total
    ][:3]
    return "; ".join(
        f"{one['name']} {_number(page, abs(one['difference']))} "
        f"({STATISTIC_WORDS.get(one['name'], '')})"
        for one in largest
    )


def _number(page: Page, value: float) -> str:
    if not round(value, SCORE_DECIMALS):
        return "0"
    if page.digits < ALL_DIGITS:
        return page.score(value)
    return f"{value:.6f}" if abs(value) >= SMALLEST_FIXED_NUMBER else f"{value:.1e}"


def _signed(page: Page, value: float) -> str:
    return (
        f"{'+' if value > 0 else ''}{_number(page, value)}" if round(value, SCORE_DECIMALS) else "0"
    )
