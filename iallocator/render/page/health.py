"""Show problems, failures of nodes, statistics and groups, before and after a plan."""

from __future__ import annotations

from iallocator.errors import many, printable
from iallocator.render.page.view import (
    SMALLEST_SEEN,
    Bar,
    Cell,
    Grid,
    Tile,
    decimals,
    gib,
    natural,
    number_cell,
    score_cell,
    signed,
)
from iallocator.render.table import numeric
from iallocator.render.words import STATISTIC_WORDS
from iallocator.tolerances import LEAST_SCORE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = ["add_health", "effects", "tolerance_tile"]


def tolerance_tile(before: Json, after: Json | None) -> Tile:
    """Return a tile with the number of node failures that are tolerated."""
    then = after or before
    tolerated, checked, late = then["survived"], then["analysed"], then["late"]
    if not checked:
        value = "not analysed" if late else "not checked"
        return Tile("Node failures tolerated", value)
    notes = [f"before: {before['survived']} of {before['analysed']}"] if after else []
    notes += [f"{late} not analysed"] if late else []
    tone = "bad" if tolerated < checked else "" if late else "good"
    return Tile("Node failures tolerated", f"{tolerated} of {checked}", ", ".join(notes), tone)


def add_health(page: PageView, before: Json, after: Json | None, said: Sequence[Json] = ()) -> None:
    """Add problems, failures, statistics and groups to `page`, before and after a plan.

    `after` is None without a plan. `said`: the facts of the planner about groups.
    """
    then = after or before
    examined = all(group["examined"] for group in (*before["health"], *then["health"]))
    late = "" if examined else "Not analysed: time was up."
    one = "Impact of a single node failure, with every other node unchanged."
    if late or before["n1"] == "off":
        one = late or "Not checked: --n1=off."
    problems = sum(len(group["findings"]) for group in before["health"])
    page.table(
        "problems",
        "Problems",
        finding_grid(before, after, page),
        late,
        "" if late else str(problems),
    )
    failing = [failure_grid(before["failures"], after["failures"] if after else None, page)]
    failing += [matrix_grid(then["failures"], page)]
    count = f"{then['survived']} of {then['analysed']} tolerated"
    page.table("failures", "If a node fails", [one for one in failing if one.rows], one, count)
    page.table(
        "score",
        "Score",
        statistic_grid(before["terms"], after["terms"] if after else None),
        "Cluster score by statistic (weight × value; lower is better).",
    )
    groups = group_grid(before["groups"], after["groups"] if after else None, said)
    page.table("groups", "Groups", groups, count=str(len(before["groups"])))


WRONG = {
    "n1": "lacks the memory for a failover to it",
    "global_n1": "its failure is not tolerated",
    "conflicts": "has instances that exclude each other",
    "offline_primary": "its primary is not online",
    "offline_secondary": "its secondary is not online",
    "policy": "is outside the policy",
    "split": "has nodes in two groups",
    "location": "is badly placed by location",
    "musts": "violates a hard constraint",
    "inconsistent": "has less free memory or disk than its instances explain",
}
"""Kind of a finding -> the problem of one node or instance, in words."""


def finding_grid(before: Json, after: Json | None, page: PageView) -> Grid:
    """Return a table of the problems of nodes and instances, sorted by node.

    `before` and `after` are documents of the cluster without and with a plan. With `after`, the
    table shows the problems that the plan leaves, and the problems that it causes.
    """
    kinds, now = before["kinds"], _findings(before["health"])
    then = now if after is None else _findings(after["health"])
    fate = [] if after is None else ["With the plan"]
    grid = Grid(*fate, "Node", "Instance", "What is wrong", "Detail")
    still, before_about = {key[:3] for key in then}, {key[:3] for key in now}
    ends = [*before["health"], *(after["health"] if after else ())]
    late = {name for group in ends[len(before["health"]) :] for name in group["not_analysed"]}
    examined = all(group["examined"] for group in ends[len(before["health"]) :])
    for key in sorted({**now, **then}, key=lambda key: (key[1], key[2], key[0])):
        kind, node, instance, text = key
        if key not in now and key[:3] in before_about:
            continue  # a present problem, with other numbers in its text
        known = examined and not (kind == "global_n1" and node in late)
        fates = []
        if after is not None and not known:
            fates = [Cell("not analysed", tone="faint")]
        elif after is not None and key not in now:
            fates = [Cell("new", tone="bad")]
        elif after is not None:
            stays = key[:3] in still
            fates = [Cell("stays", tone="bad") if stays else Cell("fixed", tone="good")]
        wrong = WRONG.get(kind, kinds[kind])
        about = page.short(instance), wrong, page.without_domain(text)
        grid.add(*fates, page.strong(node), *about)
    complete = not any(group["not_analysed"] for group in ends)
    grid.empty = "Nothing is wrong." if complete else "Nothing wrong was found."
    return grid


def _findings(health: Sequence[Json]) -> dict[tuple[str, str, str, str], None]:
    findings = [one for group in health for one in group["findings"]]
    return {
        (one["kind"], one["node"] or "", one["instance"] or "", printable(one["text"])): None
        for one in findings
    }


def failure_grid(before: Sequence[Json], after: Sequence[Json] | None, page: PageView) -> Grid:
    """Return a table with a row per node: whether its failure is tolerated, and the effects."""
    columns = ["If it fails"] if after is None else ["Before", "After"]
    grid = Grid("Node", *columns, "What would happen")
    for was, then in zip(before, before if after is None else after):
        results = [_result(was)] if after is None else [_result(was), _result(then)]
        grid.add(page.strong(was["node"]), *results, "; ".join(effects(then, page)))
    return grid


def effects(failure: Json, page: PageView) -> list[str]:
    """Return the effects of the failure of a node in words."""
    others = [page.short(name) for name in failure["together"] if name != failure["node"]]
    texts = [f"fails together with {', '.join(others)}"] if others else []
    texts += [failure["lost"]] if failure["lost"] else []
    for name, share in sorted(failure["failovers"].items()):
        texts.append(
            f"{_share(share)} fail{'s' * (share[0] == 1)} over to {page.short(name)}"
            if name
            else f"{_share(share)} without a secondary"
        )
    for key, what in (("moved", "started on other nodes"), ("recreated", "created again")):
        if failure[key][0]:
            texts.append(f"{_share(failure[key])} {what}")
    return texts or ["no instance runs on it"]


MOST_MATRIX_NODES = 40
"""The largest number of rows and of columns of the matrix of failures."""


def matrix_grid(failures: Sequence[Json], page: PageView) -> Grid:
    """Return a table: the memory that each node (columns) takes over from each failing node (rows).

    If there are many nodes, only those with the most memory in failovers are shown.
    """
    elsewhere = "any other node"
    rows = []
    for one in failures:
        row = {page.short(name): share for name, share in one["failovers"].items() if name}
        others = [one[key] for key in ("moved", "recreated")]
        row[elsewhere] = sum(count for count, _ in others), sum(mib for _, mib in others)
        rows.append((one, row))
    rows.sort(key=lambda pair: (pair[0]["survived"], -sum(mib for _, mib in pair[1].values())))
    rows = [pair for pair in rows if any(count for count, _ in pair[1].values())]
    kept = rows[:MOST_MATRIX_NODES]
    memory_taken: dict[str, float] = {}
    for _, row in kept:
        for name, (count, mib) in row.items():
            if count:
                memory_taken[name] = memory_taken.get(name, 0) + mib
    names = sorted(
        sorted(memory_taken, key=lambda name: -memory_taken[name])[:MOST_MATRIX_NODES], key=natural
    )
    if elsewhere in names:
        names = [*(name for name in names if name != elsewhere), elsewhere]
    grid = Grid(
        "If this node fails", *map(numeric, map(printable, names)),
        title="Which node takes over how much",
        intro="Memory of the instances that restart on each node.",
    )  # fmt: skip
    if len(kept) < len(rows) or len(names) < len(memory_taken):
        grid.intro += (
            f" {len(kept)} of {len(rows)} nodes, {len(names)} of {len(memory_taken)} targets: "
            "those with failures that are not tolerated, then those with most memory. "
            "The table above has all."
        )
    most = max((mib for _, row in kept for _, mib in row.values()), default=1) or 1
    for one, row in kept:
        cells = [
            Cell(gib(mib), many(count, "instance"), f"heat h{1 + min(int(4 * mib / most), 4)}", mib)
            if count
            else Cell("", sort=0)
            for count, mib in (row.get(name, (0, 0)) for name in names)
        ]
        grid.add(page.strong(one["node"]), *cells)
    return grid


def _result(one: Json) -> Cell:
    if not one["analysed"]:
        return Cell("not analysed" if one["late"] else "not checked", tone="faint")
    if one["survived"]:
        return Cell("tolerated", tone="good")
    return Cell("not tolerated", many(len(one["unrestarted"]), "instance") + " lost", "bad")


def _share(share: tuple[int, int]) -> str:
    return f"{many(share[0], 'instance')} ({gib(share[1])})"


def statistic_grid(before: Sequence[Json], after: Sequence[Json] | None) -> Grid:
    """Return a table of the statistics that are not 0, the greatest improvement first."""
    then = before if after is None else after
    largest = max([LEAST_SCORE, *(one["term"] for one in (*before, *then))])
    columns = ["Adds to the score"] if after is None else ["Before", "After", "Change"]
    grid = Grid(
        "Statistic", numeric("Weight"), *map(numeric, columns), "Share",
        empty="All statistics are 0.",
    )  # fmt: skip
    pairs = [(was, now) for was, now in zip(before, then) if was["term"] or now["term"]]
    for was, now in sorted(pairs, key=lambda pair: (pair[1]["term"] - pair[0]["term"],
                                                   -pair[0]["term"])):  # fmt: skip
        change = now["term"] - was["term"]
        tone = "good" if change < -SMALLEST_SEEN else "bad" if change > SMALLEST_SEEN else "faint"
        cells = [
            Cell(STATISTIC_WORDS[was["name"]], was["name"]),
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
"""Key of a planner's fact about a group -> its title; other facts are not shown."""


def group_grid(
    before: Sequence[Json], after: Sequence[Json] | None, said: Sequence[Json] = ()
) -> Grid:
    """Return a table with a row per group; `said`: the facts of the planner about groups."""
    remarks = {one["group"]: one for one in said}
    grid = Grid(
        "Group", "Policy", numeric("Nodes"), numeric("Instances"), numeric("Nodes that fail N+1"),
        numeric("Score"), *(["Notes"] if remarks else []),
    )  # fmt: skip
    for was, now in zip(before, before if after is None else after):
        bad = len(now["bad_nodes"])
        grid.add(
            Cell(printable(was["name"]), tone="strong"),
            was["alloc_policy"],
            number_cell(was["nodes"]),
            Cell(_change(was["instances"], now["instances"]), sort=now["instances"]),
            Cell(_change(len(was["bad_nodes"]), bad), tone="bad" if bad else "", sort=bad),
            Cell(_change(decimals(was["score"]), decimals(now["score"])), sort=now["score"]),
            *([_said(remarks.get(was["name"]))] if remarks else []),
        )
    return grid


def _change(before: object, after: object) -> str:
    """Return both values as text, or one if they are equal."""
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
    return Cell(printable(row["reason"]), printable(", ".join(parts)))
