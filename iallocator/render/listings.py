"""Show lists as text: the present cluster, settings, constraints, captured calls, replays."""

from __future__ import annotations

import time

from iallocator.errors import FEW_NAMES, many
from iallocator.render.table import Table, numeric
from iallocator.render.words import STATISTIC_WORDS
from iallocator.units import GIB

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.aliases import Json
    from iallocator.render.table import Page

__all__ = ["calls", "cluster", "constraints", "files", "outcomes", "settings"]

LONGEST_ANSWER = 100
"""The most characters of the text of an answer in the table of calls."""


def cluster(document: Json, facts: Json, page: Page) -> None:
    """Add groups, networks and statistics to `page`; then the lists of nodes and instances."""
    numbers = ((len(document[f"{noun}s"]), noun) for noun in ("group", "node", "instance"))
    counts = ", ".join(f"{number} {noun}{'s' * (number != 1)}" for number, noun in numbers)
    page.say(f"Cluster {document['name']}: {counts}" if document["name"] else counts, indent=0)
    if document["master"]:
        page.say(f"Master: {document['master']}", indent=0)
    if document["tags"]:
        page.say(f"Tags: {', '.join(document['tags'])}", indent=0)
    page.blank()

    table = Table(
        "group", "policy", numeric("nodes"),
        numeric("instances"), numeric("bad nodes"),
        numeric("bad instances"), "N+1", numeric("score"),
        "networks",
    )  # fmt: skip
    for group in document["groups"]:
        table.add(
            group["name"], group["alloc_policy"], str(group["nodes"]), str(group["instances"]),
            str(len(group["bad_nodes"])), str(len(group["bad_instances"])),
            "yes" if group["n1"] else "no", page.score(group["score"]),
            ", ".join(group["networks"]),
        )  # fmt: skip
    page.table(table, indent=0)
    page.blank()

    # The statistics, each with what it adds to the score
    table = Table(
        "statistic", numeric("value"), numeric("weight"),
        numeric("adds"), "what it is",
    )  # fmt: skip
    for term in document["terms"]:
        value = term["term"] / term["weight"]
        weight, adds = f"x{term['weight']:g}", page.score(term["term"])
        table.add(
            term["name"], page.score(value), weight, adds, STATISTIC_WORDS.get(term["name"], "")
        )
    page.table(table, indent=0)
    score = page.score(document["score"])
    if page.hail or len(document["groups"]) < 2:
        page.say(f"Score: {score}; lower is better", indent=0)
    else:
        total = page.score(sum(group["score"] for group in document["groups"]))
        page.say(f"Cluster score, of all nodes together: {score}; lower is better", indent=0)
        page.say(f"Sum of the groups' scores: {total}", indent=0)
    for text in facts["lists"]:
        page.verbatim(f"\n{text}")


def settings(document: Json, facts: Json, page: Page) -> None:
    """Add tables of settings to `page`: of all groups, of single groups, and of commands."""
    table = Table("setting", "value", "from")
    for row in document["settings"]:
        table.add(row["name"], _value(row["value"]), row["from"])
    for row in document["groups"]:
        name = f"{row['name']}, in group {row['group']}"
        table.add(name, _value(row["value"]), row["from"])
    for row in document["commands"]:
        table.add(f"{row['command']} --{row['name']}", _value(row["value"]), row["from"])
    page.table(table, indent=0)


def _value(value: Any) -> str:
    """Return the value of a setting as it is written on the command line."""
    if value is True or value is False:
        return "yes" if value else "no"
    if value is None or (not value and value != 0):
        return "-"
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def constraints(document: Json, facts: Json, page: Page) -> None:
    """Add to `page` a table of the constraints, and the tags that are invalid or doubtful."""
    page.leave_out(facts["domains"])
    table = Table(
        "instance", "kind", "strength", numeric("weight"),
        "what", "from",
    )  # fmt: skip
    for one in document["constraints"]:
        weight = f"{one['weight']:g}" if "weight" in one else ""
        members = one.get("members", ())
        bound = one.get("instance") or page.some(members, FEW_NAMES)
        table.add(bound, one["kind"], one["strength"], weight, one["what"], one["origin"])
    page.table(table, indent=0)
    for tag in document["unusable"]:
        page.say(f"not usable: {tag}", "bad", indent=0)
    for kind, text in facts["tag_findings"]:
        page.say(f"{kind}: {text}", "bad", indent=0)


def calls(document: Json, facts: Json, page: Page) -> None:
    """Add a table of captured calls, or of moves in a history of loads; add no empty table."""
    if "moves" in document:
        _made_moves(document, page)
        return
    if not document["calls"]:
        return
    table = Table(
        numeric("call"), "time", "request", "asked",
        "outcome", numeric("seconds"), "why",
    )  # fmt: skip
    for call in document["calls"]:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(call["time"]))
        seconds = call.get("seconds")
        why = "" if call["outcome"] == "success" else call.get("info") or call.get("error") or ""
        table.add(
            str(call["number"]), when, str(call.get("type", "")), str(call.get("asked", "")),
            call["outcome"], "" if seconds is None else f"{seconds:.3f}",
            str(why)[: page.most(LONGEST_ANSWER, len(str(why)))],
        )  # fmt: skip
    page.table(table, indent=0)


def _made_moves(document: Json, page: Page) -> None:
    """Add to `page` a table of the moves in a history of loads, and their sums."""
    moves = document["moves"]
    if not moves:
        return
    table = Table(
        "time", "instance", "from", "to", "planned", numeric("gain"), numeric("GiB copied"),
        "taken back",
    )  # fmt: skip
    for move in moves:
        when, back = (
            "" if moment is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(moment))
            for moment in (move["unix_time"], move["returned"])
        )
        figures = (f"{move['gain']:.2f}", f"{move['copied_mib'] / GIB:.1f}")
        table.add(
            when, move["instance"], ":".join(move["from"]), ":".join(move["to"]),
            *(("yes", *figures) if move["planned"] else ("no", "", "")), back,
        )  # fmt: skip
    page.table(table, indent=0)
    page.say(
        f"{many(document['rounds'], 'round')}, {many(len(moves), 'move')} "
        f"({document['planned_moves']} planned), gain {document['gain']:.2f} % of a node, "
        f"{document['copied_mib'] / GIB:.1f} GiB copied, "
        f"{many(document['regrets'], 'regret')} (moves taken back within a week)",
        indent=0,
    )


def outcomes(document: Json, facts: Json, page: Page) -> None:
    """Add to `page` how many cases passed and failed, and how many answers were stored."""
    changed = [f"{count} {status}" for status, count in document["changed"].items() if count]
    stored = f" ({', '.join(changed)})" if changed else ""
    ended = ", interrupted" if document["interrupted"] else ""
    page.verbatim(f"{document['passed']} passed, {document['failed']} failed{stored}{ended}")


def files(document: Json, facts: Json, page: Page) -> None:
    """Add to `page` the text of a single cluster, or a line about each of several clusters."""
    page.verbatim(facts["text"].removesuffix("\n"))
