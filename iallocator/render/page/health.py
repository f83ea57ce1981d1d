"""Show problems, failures of nodes, statistics and groups, before and after a plan."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.page.view import (
    SHOWN,
    Bar,
    Cell,
    Grid,
    Tile,
    decimals,
    gib,
    number_cell,
    score_cell,
    signed,
)
from iallocator.render.table import numeric
from iallocator.render.words import STATISTICS
from iallocator.tolerances import LEAST_SCORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = ["add_health", "tolerance_tile"]


def tolerance_tile(before: Json, after: Json | None) -> Tile:
    """Return the number of failures of nodes that are tolerated."""
    then = after or before
    tolerated, checked, late = then["survived"], then["judged"], then["late"]
    if not checked:
        value = "not analysed" if late else "not checked"
        return Tile("Node failures tolerated", value)
    notes = [f"before: {before['survived']} of {before['judged']}"] if after else []
    notes += [f"{late} not analysed"] if late else []
    tone = "bad" if tolerated < checked else "" if late else "good"
    return Tile("Node failures tolerated", f"{tolerated} of {checked}", ", ".join(notes), tone)


def add_health(page: PageView, before: Json, after: Json | None, said: Sequence[Json] = ()) -> None:
    """Add what is wrong, failures, statistics, groups; `said`: what a planner says of groups."""
    then = after or before
    examined = all(group["examined"] for group in (*before["health"], *then["health"]))
    late = "" if examined else "Not analysed: time was up."
    one = "Impact of a single node failure, with every other node unchanged."
    if late or before["n1"] == "off":
        one = late or "Not checked: --n1=off."
    problems = sum(len(group["findings"]) for group in before["health"])
    page.table(
        "problems", "Problems", finding_grid(before, after), late, "" if late else str(problems)
    )
    page.table(
        "failures",
        "If a node fails",
        failure_grid(before["failures"], after["failures"] if after else None, page),
        one,
        f"{then['survived']}/{then['judged']} tolerated",
    )
    page.table(
        "score",
        "Score",
        statistic_grid(before["terms"], after["terms"] if after else None),
        "Cluster score by statistic (weight × value; lower is better).",
    )
    groups = group_grid(before["groups"], after["groups"] if after else None, said)
    page.table("groups", "Groups", groups, count=str(len(before["groups"])))


def finding_grid(before: Json, after: Json | None) -> Grid:
    """Return every finding by node; with `after`, whether it stays, and those that are new."""
    kinds, now = before["kinds"], _findings(before["health"])
    then = now if after is None else _findings(after["health"])
    fate = [] if after is None else ["With the plan"]
    grid = Grid(*fate, "Node", "Instance", "What is wrong", "Detail")
    about, before_about = {key[:3] for key in then}, {key[:3] for key in now}
    ends = [*before["health"], *(after["health"] if after else ())]
    late = {name for group in ends[len(before["health"]) :] for name in group["not_analysed"]}
    examined = all(group["examined"] for group in ends[len(before["health"]) :])
    for key in sorted({**now, **then}, key=lambda key: (key[1], key[2], key[0])):
        kind, node, instance, text = key
        if key not in now and key[:3] in before_about:
            continue  # the same with other numbers
        known = examined and not (kind == "global_n1" and node in late)
        fates = [] if after is None else [_fate(key in now, key[:3] in about, known)]
        grid.add(*fates, Cell(shown(node), tone="strong"), instance, kinds[kind], Cell(text))
    complete = not any(group["not_analysed"] for group in ends)
    grid.empty = "Nothing is wrong." if complete else "Nothing wrong was found."
    return grid


def _fate(was: bool, stays: bool, known: bool) -> Cell:
    """Return what happens to a finding; `known`: whether it was analysed after the plan."""
    if not known:
        return Cell("not analysed", tone="faint")
    if not was:
        return Cell("new", tone="bad")
    return Cell("stays", tone="bad") if stays else Cell("fixed", tone="good")


def _findings(health: Sequence[Json]) -> dict[tuple[str, str, str, str], None]:
    found = [one for group in health for one in group["findings"]]
    return {
        (one["kind"], one["node"] or "", one["instance"] or "", shown(one["text"])): None
        for one in found
    }


def failure_grid(before: Sequence[Json], after: Sequence[Json] | None, page: PageView) -> Grid:
    """Return a row per node: whether its failure is tolerated, and its effects."""
    moments = ["If it fails"] if after is None else ["Before", "After"]
    grid = Grid("Node", *moments, "What would happen")
    for was, then in zip(before, before if after is None else after):
        results = [_result(was)] if after is None else [_result(was), _result(then)]
        effects = [then["lost"]] if then["lost"] else []
        for name, share in sorted(then["failovers"].items()):
            effects.append(
                f"{_share(share)} fail{'s' * (share[0] == 1)} over to {page.short(name)}"
                if name
                else f"{_share(share)} without a secondary"
            )
        for key, what in (("moved", "started elsewhere"), ("recreated", "created anew")):
            share = then[key]
            if share[0]:
                effects.append(f"{_share(share)} {what}")
        grid.add(page.strong(was["node"]), *results, "; ".join(effects) or "nothing runs there")
    return grid


def _result(one: Json) -> Cell:
    if not one["judged"]:
        return Cell("not analysed" if one["late"] else "not checked", tone="faint")
    return Cell("tolerated", tone="good") if one["survived"] else Cell("not tolerated", tone="bad")


def _share(share: tuple[int, int]) -> str:
    return f"{share[0]} instance{'s' * (share[0] != 1)} ({gib(share[1])})"


def statistic_grid(before: Sequence[Json], after: Sequence[Json] | None) -> Grid:
    """Return the statistics of the score, the greatest improvement first; without those of 0."""
    then = before if after is None else after
    largest = max([LEAST_SCORE, *(one["term"] for one in (*before, *then))])
    moments = ["Adds to the score"] if after is None else ["Before", "After", "Change"]
    grid = Grid(
        "Statistic", numeric("Weight"), *map(numeric, moments), "Share",
        empty="All statistics are 0.",
    )  # fmt: skip
    pairs = [(was, now) for was, now in zip(before, then) if was["term"] or now["term"]]
    for was, now in sorted(pairs, key=lambda pair: (pair[1]["term"] - pair[0]["term"],
                                                   -pair[0]["term"])):  # fmt: skip
        change = now["term"] - was["term"]
        tone = "good" if change < -SHOWN else "bad" if change > SHOWN else "faint"
        cells = [
            Cell(STATISTICS[was["name"]], was["name"]),
            Cell(f"\N{MULTIPLICATION SIGN}{was['weight']:g}"),
            score_cell(was["term"]),
        ]
        if after is not None:
            cells.append(score_cell(now["term"]))
            cells.append(Cell(signed(change) or "0", tone=tone, sort=change))
        cells.append(Cell(bar=Bar(round(100 * max(now["term"], 0) / largest, 1))))
        grid.add(*cells)
    return grid


GROUP_MEMBERS = {"state": "state", "repaired": "repaired", "evacuable": "could be emptied",
                 "verdict": "result",
                 "moves": "moves", "out": "out", "in": "in"}  # fmt: skip
"""Facts of planners about groups that are shown -> their titles."""


def group_grid(
    before: Sequence[Json], after: Sequence[Json] | None, said: Sequence[Json] = ()
) -> Grid:
    """Return a row per group; `said`: the facts of the planner about groups."""
    told = {one["group"]: one for one in said}
    grid = Grid(
        "Group", "Policy", numeric("Nodes"), numeric("Instances"), numeric("Nodes that fail N+1"),
        numeric("Score"), *(["Said of it"] if told else []),
    )  # fmt: skip
    for was, now in zip(before, before if after is None else after):
        bad = len(now["bad_nodes"])
        grid.add(
            Cell(shown(was["name"]), tone="strong"),
            was["alloc_policy"],
            number_cell(was["nodes"]),
            Cell(_change(was["instances"], now["instances"]), sort=now["instances"]),
            Cell(_change(len(was["bad_nodes"]), bad), tone="bad" if bad else "", sort=bad),
            Cell(_change(decimals(was["score"]), decimals(now["score"])), sort=now["score"]),
            *([_said(told.get(was["name"]))] if told else []),
        )
    return grid


def _change(before: object, after: object) -> str:
    """Return one value, or both if they differ."""
    return str(before) if before == after else f"{before} \N{RIGHTWARDS ARROW} {after}"


def _said(row: Json | None) -> Cell:
    if row is None:
        return Cell("")
    words = {True: "yes", False: "no"}
    parts = [
        f"{title}: {words.get(row[name], row[name]) if isinstance(row[name], bool) else row[name]}"
        for name, title in GROUP_MEMBERS.items()
        if name in row
    ]
    return Cell(shown(row["reason"]), shown(", ".join(parts)))
