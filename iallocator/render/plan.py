"""Plans as lines for people; what is drawn is the plain data that ``--json`` writes."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.steps import lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    Json = dict[str, Any]

__all__ = ["plan_lines"]

SCORES = {
    "redistribute": "instances on offline nodes and nodes that fail N+1",
    "compress": "instances in the chosen group",
    "balance-groups": "standard deviations of the groups' relative load, added up",
}
"""Command -> what its scores are, where they are no scores of nodes."""

ACTIONS = {"offline": "Nodes to offline", "online": "Nodes to online", "none": "No action"}


def plan_lines(plan: Json, group_of: Mapping[str, str]) -> Iterator[str]:
    """A plan for people: what is special about it, groups, moves, what they come to, steps.

    `group_of`: the name of every node's group.
    """
    yield from map(shown, _lines(plan, group_of))


def _lines(plan: Json, group_of: Mapping[str, str]) -> Iterator[str]:
    yield from _nodes(plan)
    yield from _places(plan)
    yield from _groups(plan)
    yield from _moves(plan, group_of)
    yield from _sums(plan)
    if plan.get("kept"):
        yield "Left as they are:"
        yield from _aligned([(one["node"], one["reason"]) for one in plan["kept"]])
    yield from lines(plan["transition"])


def _nodes(plan: Json) -> Iterator[str]:
    """The nodes to switch."""
    if "action" in plan:
        yield ACTIONS[plan["action"]] + (":" if plan["nodes"] else "")
        yield from (f"  {name}" for name in plan["nodes"])


def _places(plan: Json) -> Iterator[str]:
    """Where every instance goes, and why."""
    if "instances" not in plan:
        return
    count = len(plan["instances"])
    yield f"Strategy {plan['strategy']}: {count} instances, in the order they chose"
    yield from _aligned(
        [
            (
                one["instance"],
                ":".join(one["from"]) + ("" if one["runs"] else " (not running)"),
                "=>",
                ":".join(one["to"]) or "out",
                one["why"],
            )
            for one in plan["instances"]
        ]
    )
    for one in plan["instances"]:
        yield from (f"  {one['instance']} should be {text}" for text in one.get("broken", ()))


def _amount(value: float) -> str:
    return f"{value:.8f}"


def _load(value: float | dict[str, float] | None) -> str:
    """A score, or the load of a group; ``-`` where it has none that counts."""
    if value is None:
        return "-"
    return (
        "/".join(f"{v:.3f}" for v in value.values()) if isinstance(value, dict) else _amount(value)
    )


def _resources(value: dict[str, float]) -> str:
    return f"{value['memory'] / 1024:.1f}G/{value['disk'] / 1024:.1f}G/{value['cpu']:.12g}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("state", "state", str),
    ("repaired", "repaired", _yes),
    ("used", "used", _resources),
    ("free", "free", _resources),
    ("share_free", "share free", lambda value: f"{value:.4f}"),
    ("evacuable", "evacuable", _yes),
    ("before", "before", _load),
    ("after", "after", _load),
    ("moves", "moves", str),
    ("out", "out", str),
    ("in", "in", str),
)
"""Members of groups that are shown, if they are there: name, heading, value to text."""


def _groups(plan: Json) -> Iterator[str]:
    groups = plan.get("groups", [])
    if not groups:
        return
    shown = [column for column in COLUMNS if column[0] in groups[0]]
    rows = [("group", *(head for _, head, _ in shown), "")]
    for one in groups:
        cells = (text(one[name]) for name, _, text in shown)
        rows.append((one["group"], *cells, one["reason"]))
    yield from _aligned(rows)


def _moves(plan: Json, group_of: Mapping[str, str]) -> Iterator[str]:
    """A line per move, with the groups where it changes the group; then the wishes it breaks."""
    moves = plan["moves"]
    rows = []
    for number, move in enumerate(moves, start=1):
        before, after = (group_of[move[end][0]] for end in ("from", "to"))
        told = [f" ({name})" if before != after else "" for name in (before, after)]
        rows.append(
            (
                f"{number}.",
                move["instance"],
                ":".join(move["from"]) + told[0],
                "=>",
                ":".join(move["to"]) + told[1],
                _amount(move["score"]),
                f"{move['copied_mib'] / 1024:.1f} GiB",
                f"a={move['move']}",
            )
        )
    for row, move in zip(_aligned(rows, right={0, 5, 6}), moves):
        yield row
        yield from (f"       should be {broken}" for broken in move.get("broken", ()))


def _sums(plan: Json) -> Iterator[str]:
    moves = plan["moves"]
    copied = sum(move["copied_mib"] for move in moves)
    if moves:
        yield f"{len(moves)} move{'s' * (len(moves) > 1)}, {copied / 1024:.1f} GiB traffic"
    if "instances" in plan:
        out = sum(1 for one in plan["instances"] if not one["to"])
        yield f"{out} instance{'s' * (out != 1)} stay{'s' * (out == 1)} out"
    if moves or "instances" in plan:
        of = SCORES.get(plan["command"])
        before, after = (_amount(plan["scores"][moment]) for moment in ("before", "after"))
        yield f"Score{f' ({of})' if of else ''}: {before} -> {after}"
    if "reason" in plan:
        yield f"The plan ends here: {plan['reason']}"


def _aligned(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Rows as lines with columns below each other, those in `right` aligned there."""
    rows = [[*map(shown, row)] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        cells = (
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths))
        )
        yield "  " + " ".join(cells).rstrip()
