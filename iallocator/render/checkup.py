"""Show the findings of ``check`` as plain text."""

from __future__ import annotations

from iallocator.errors import FEW_NAMES, MOST_NAMES
from iallocator.render.table import Page, Table, numeric, options_for_more
from iallocator.render.words import STATISTIC_WORDS
from iallocator.reply import MOST_WARNINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Json

__all__ = ["check", "health_sentence"]

DETAILED_GROUPS = 3
"""The number of groups up to which each has its own table of findings on a terminal."""

COLUMN_GROUPS = 4
"""The number of groups up to which each has its own column in the table of counts."""

STATES = {True: "Healthy", False: "Something is wrong", None: "Not analysed"}
"""The health of the cluster in words."""

DATA_FINDINGS = "inconsistent"
"""The kind of findings about the data, not about placement."""

SEVERITY = (
    "offline_primary", "global_n1", "n1", "musts", "conflicts", "split", "policy", "location",
    "offline_secondary", DATA_FINDINGS,
)  # fmt: skip
"""The kinds of findings, the most important kind first."""


def check(document: Json, facts: Json, page: Page) -> None:
    """Add all findings to `page`.

    `document` is the health as ``--json`` writes it; `facts` has further data for the text.
    """
    page.leave_out(facts["domains"])
    page.heading(health_sentence(document, facts, page))
    _counts(document, facts, page)
    groups = document["groups"]
    if page.rows and len(groups) > DETAILED_GROUPS:
        _groups(page, groups)
        findings = [one for group in groups for one in group["findings"]]
        page.heading("What is wrong, the worst first")
        _findings(page, findings, facts)
    else:
        for group in groups:
            _group(page, group, facts)
    if facts["tag_findings"]:
        page.heading("Tags")
    for kind, words in facts["tag_findings"]:
        page.say(f"{kind}: {words}", tone="bad")
    if facts["failures"] is not None:
        _show_failures(facts["failures"], page)


def health_sentence(document: Json, facts: Json, page: Page | None = None) -> str:
    """Return the health and the effect of balancing in one sentence.

    `document` is the health as ``--json`` writes it; `facts` has further data for the text. `page`
    determines the decimals of scores; None: as by default.
    """
    page = Page() if page is None else page
    state, rebalancing = STATES[document["healthy"]], document["rebalancing"]
    kinds: Mapping[str, str] = facts["kinds"]
    if document["healthy"] and facts["failures"] and not facts["failures"]["complete"]:
        state = "Nothing wrong was found, but not all failures of several nodes were analysed"
    present = {kind for kind, count in document["problems"].items() if count}
    if document["healthy"] is False and present == {DATA_FINDINGS}:
        state = "The data are inconsistent; nothing else is wrong"
    if not rebalancing["tried"]:
        return f"{state}; balancing was not tried"
    count = rebalancing["moves"]
    if not count:
        early = rebalancing.get("reason")
        if early:
            return f"{state}; balancing found nothing to move before it ended early ({early})"
        return f"{state}; balancing finds nothing to move"
    fewer = {k: n - document["problems_after"][k] for k, n in document["problems"].items()}
    changes = [
        f"{kinds[kind]}: {abs(less)} {'fewer' if less > 0 else 'more'}"
        for kind, less in fewer.items()
        if less
    ]
    moves = f"{count} move{'s' * (count > 1)}"
    if not rebalancing["helps"]:
        return f"{state}; balancing would not help ({'; '.join([moves, *changes])})"
    if changes:
        return f"{state}; balancing would help ({'; '.join([moves, *changes])})"
    before, after = (
        sum(group[key] for group in document["groups"]) for key in ("score", "score_after")
    )
    scores = page.scores(before, after)
    what = "the sum of the groups' scores" if len(document["groups"]) > 1 else "the score"
    return f"{state}; balancing could lower {what} from {scores[0]} to {scores[1]} ({moves})"


def _counts(document: Json, facts: Json, page: Page) -> None:
    """Add to `page` a table with the number of nodes or instances for each problem that exists."""
    now, then, late = document["problems"], document["problems_after"], document["not_analysed"]
    present = [kind for kind in now if now[kind] or then[kind]]
    if not (present or late):
        return
    groups = document["groups"]
    several = groups if 1 < len(groups) <= COLUMN_GROUPS else ()
    columns = [numeric(group["group"]) for group in several]
    moves = bool(document["rebalancing"]["moves"])
    balanced = [numeric("once balanced")] * moves
    table = Table("what is wrong", *columns, numeric("now"), *balanced)
    for kind in present:
        cells = [str(group["problems"][kind]) for group in several] + [str(now[kind])]
        cells += [str(then[kind])] * moves
        table.add(facts["kinds"][kind], *cells, tone="bad" if now[kind] else "")
    if late:
        cells = [str(len(group["not_analysed"])) for group in several]
        cells += [str(len(late))] + ["0"] * moves
        table.add(facts["not_analysed"], *cells)
    page.table(table)


def _groups(page: Page, groups: Sequence[Json]) -> None:
    """Add to `page` a table with a row for each group, the group with the most findings first."""
    page.heading("Groups")
    balanced = any(group["score_after"] != group["score"] for group in groups)
    table = Table(
        "group", numeric("findings"), numeric("score"), "level",
        *[numeric("once balanced")] * balanced, "largest statistic",
    )  # fmt: skip
    for group in sorted(groups, key=lambda group: (-len(group["findings"]), -group["score"])):
        before, after = page.scores(group["score"], group["score_after"])
        largest = _largest(group)
        table.add(
            group["group"],
            str(len(group["findings"])),
            before,
            group["score_level"],
            *[after] * balanced,
            f"{largest[0]}: {largest[1]}" if largest else "-",
            tone="bad" if group["findings"] else "",
        )
    page.table(table)


def _group(page: Page, group: Json, facts: Json) -> None:
    before, after = page.scores(group["score"], group["score_after"])
    balanced = f", {after} once balanced" if group["score_after"] != group["score"] else ""
    page.heading(f"Group {group['group']}: score {before}{balanced}")
    if not page.hail:
        page.say(score_words(group, page))
    late = group["not_analysed"]
    if late:
        page.say(f"{facts['not_analysed']}: {page.some(late, MOST_NAMES, 'nodes')}")
    if not group["findings"]:
        page.say("nothing wrong was found" if late else "nothing is wrong")
        return
    _findings(page, group["findings"], facts)


def _findings(page: Page, listed: Sequence[Json], facts: Json) -> None:
    """Add to `page` a table of findings by node, the worst nodes first."""
    table = Table("node", "what is wrong")
    by_node: dict[str, list[Json]] = {}
    data = [one for one in listed if one["kind"] == DATA_FINDINGS]
    few = data if page.everything or page.verbose else data[:MOST_WARNINGS]
    for one in listed:
        if one["kind"] == DATA_FINDINGS and one not in few:
            continue
        by_node.setdefault(one["node"] or "", []).append(one)
    worst = {
        node: min(SEVERITY.index(one["kind"]) for one in findings)
        for node, findings in by_node.items()
    }
    order = sorted(by_node, key=lambda node: (not page.hail and worst[node], node))
    for node in order:
        findings = by_node[node]
        holders: dict[tuple[str, str], list[str]] = {}  # a problem -> the instances that have it
        for one in findings:
            about = holders.setdefault((one["kind"], one["text"]), [])
            if one["instance"] and one["kind"] not in facts["of_nodes"]:
                about.append(one["instance"])
        for number, ((_, text), names) in enumerate(holders.items()):
            line = f"{page.some(names, MOST_NAMES, 'instances')}: {text}" if names else text
            table.add("" if number else node or "-", line, tone="bad")
    page.table(table)
    if len(data) > len(few):
        left = len(data) - len(few)
        page.say(
            f"{facts['kinds'][DATA_FINDINGS]}: {left} more (-v, {page.option} or --json)",
            tone="bad",
        )


def score_words(group: Json, page: Page) -> str:
    """Return sentences about the score of `group`: how high it is, and its largest statistic."""
    reference = group["score_reference"]
    text = f"The score is {group['score_level']} for this cluster: "
    text += f"if nodes differed by one instance at most, it would be about {page.score(reference)}."
    largest = _largest(group)
    if largest:
        text += f" {largest[0]} is {largest[1]} of it: {STATISTIC_WORDS[largest[0]]}."
    return text


def _largest(group: Json) -> tuple[str, str] | None:
    """Return the largest statistic in the score of `group`, and its share; None if it is 0."""
    largest = max(group["score_terms"], key=lambda term: float(term["term"]), default=None)
    if largest is None or group["score"] <= 0:
        return None
    return largest["name"], f"{100 * largest['term'] / group['score']:.0f} %"


MOST_WORST_SETS = 10
"""The most sets of nodes in the text; the JSON document has all."""

SET_WORDS = {1: "node", 2: "pair of nodes"}


def _show_failures(failures: Json, page: Page) -> None:
    """Add the failures of domains and of sets of nodes to `page`, with the worst sets."""
    sets, domains, size = failures["sets"], failures["domains"], failures["size"]
    if domains is not None:
        page.heading("Failure domains")
        inside = sets is not None and size > 1
        pairs = [numeric("pairs within"), numeric("not tolerated")] * inside
        table = Table(
            "domain", numeric("nodes"), "tolerated", numeric("instances"), numeric("MiB"), *pairs,
            "cannot be restarted",
        )  # fmt: skip
        for one in domains:
            survived = {True: "yes", False: "no", None: "not analysed"}[one["survived"]]
            cells = [one["domain"], str(len(one["nodes"])), survived, *_amounts(one)]
            cells += [str(one["pairs"]), str(one["losing"])] * inside
            names = page.some(one["lost"] or (), FEW_NAMES)
            table.add(*cells, names, tone="" if one["survived"] else "bad")
        page.table(table)
    if sets is None:
        return

    page.heading(f"Every {SET_WORDS[size]} at once")
    text = f"{sets['count']} in all: {sets['survived']} tolerated, {sets['lose']} not tolerated"
    late = sets["unknown"]
    page.say(f"{text}, {late} not analysed because the check ended early" if late else text)
    if not sets["lose"]:
        return
    table = Table("nodes", numeric("instances"), numeric("MiB"), "cannot be restarted")
    worst = sets["worst"][: page.most(MOST_WORST_SETS, sets["lose"])]
    for one in worst:
        names = page.some(one["lost"] or (), FEW_NAMES)
        table.add(" ".join(one["nodes"]), *_amounts(one), names, tone="bad")
    page.table(table)
    left = sets["lose"] - len(worst)
    if left:
        options = "" if page.hail else f" ({options_for_more(page.option)})"
        page.say(f"and {left} more sets, with at most as many instances or as much memory{options}")


def _amounts(failure: Json) -> tuple[str, str]:
    if failure["lost"] is None:
        return "?", "?"
    return str(len(failure["lost"])), str(failure["lost_memory"])
