"""The moves of a plan by instance and by node, each with its reason."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.page.view import (
    SHOWN,
    Cell,
    Column,
    Grid,
    Row,
    decimals,
    gib,
    natural,
    row_of,
    signed,
)
from iallocator.render.words import GAINS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Json


__all__ = ["by_instance", "by_node"]

HOW = {
    "migrate": "migrate to",
    "failover": "fail over to",
    "move": "move to",
    "replace-disks": "replace its secondary by",
}
"""Kind of a step -> what it does, before the name of a node."""

AIMS = {
    "redistribute": "so that every group is healthy",
    "balance-groups": "so that groups carry their share",
}
"""Command -> what its moves are for, where it is not the score of nodes."""


class Reasons:
    """Why each move of a plan is made; what is asked is the plan as plain data.

    Parameters
    ----------
    plan:
        As ``--json`` writes it.
    facts:
        As of `iallocator.documents.plan.plan_facts`.
    """

    def __init__(self, plan: Json, facts: Json) -> None:
        self._plan = plan
        self._leaving = facts["leaving"]
        self._moves = facts["moves"]
        self._away = {
            node["name"]: "offline"
            if node["offline"]
            else "drained"
            if node["drained"]
            else "not vm_capable"
            for node in facts["moments"][0]["nodes"]
            if not node["online"]
        }
        self._why = {one["instance"]: one["why"] for one in plan.get("instances", ())}

    def of(self, position: int) -> str:
        """Why the move at `position` is made."""
        move = self._plan["moves"][position]
        told = [self._cause(position, move)]
        if "unit" in move:
            others = [name for name in move["unit"] if name != move["instance"]]
            told.append(f"moves together with {', '.join(others)}")
        told += [f"should be {text}" for text in move.get("broken", ())]
        return "; ".join(text for text in told if text)

    def _cause(self, position: int, move: Json) -> str:
        if move["instance"] in self._why:
            return str(self._why[move["instance"]])
        for name in move["from"]:
            if name in self._leaving and name not in move["to"]:
                return f"{name} is to be powered down"
        if self._plan.get("chosen") and self._plan["command"] == "compress":
            return f"group {self._plan['chosen']} is emptied"
        for name in move["from"]:
            if name in self._away:
                return f"{name} is {self._away[name]}"
        if self._moves[position]["repairs"]:
            return "mends a must that is broken"
        if self._plan["command"] in AIMS:
            return AIMS[self._plan["command"]]
        return gain_words(self._moves[position]["changes"]) or "makes room for others"


def by_instance(plan: Json, facts: Json, short: Mapping[str, str]) -> Grid:
    """Return the moves, one a row, in their order; `plan` is what ``--json`` writes of them."""
    reasons = Reasons(plan, facts)
    columns = (
        Column("#", number=True), Column("Instance"), Column("From"), Column("To"),
        Column("Why"), Column("How"), Column("Copied", number=True),
        Column("Score then", number=True),
    )  # fmt: skip
    rows = []
    for position, move in enumerate(plan["moves"]):
        name = move["instance"]
        before, after = (
            " : ".join(short.get(node, node) for node in move[end]) for end in ("from", "to")
        )
        how = ", ".join(
            f"{HOW[kind]} {target or 'its secondary'}"
            for kind, target in facts["moves"][position]["steps"]
        )
        rows.append(
            row_of(
                (
                    Cell(str(position + 1), sort=position),
                    Cell(shown(short.get(name, name)), tone="strong"),
                    before,
                    Cell(shown(after), tone="strong"),
                    reasons.of(position),
                    Cell(shown(how), tone="faint"),
                    Cell(gib(move["copied_mib"]), sort=move["copied_mib"]),
                    Cell(decimals(move["score"]), sort=move["score"]),
                ),
                f"move-{position + 1}",
            )
        )
    return Grid(
        "By instance", columns, rows, "Nodes stand as primary : secondary.", "Nothing moves."
    )


def by_node(plan: Json, short: Mapping[str, str]) -> Grid:
    """A row per node that something leaves or comes to."""
    coming: dict[str, list[str]] = {}
    leaving: dict[str, list[str]] = {}
    for move in plan["moves"]:
        for role, ends in (("primary", slice(0, 1)), ("secondary", slice(1, None))):
            before, after = move["from"][ends], move["to"][ends]
            for name in set(before) - set(after):
                leaving.setdefault(name, []).append(_as(move["instance"], role, short))
            for name in set(after) - set(before):
                coming.setdefault(name, []).append(_as(move["instance"], role, short))
    columns = (Column("Node"), Column("Leaves it"), Column("Comes to it"))
    rows: list[Row] = [
        row_of(
            (
                Cell(shown(short.get(name, name)), tone="strong"),
                ", ".join(leaving.get(name, ())),
                ", ".join(coming.get(name, ())),
            )
        )
        for name in sorted({*coming, *leaving}, key=natural)
    ]
    return Grid("By node", columns, rows, empty="Nothing moves.")


def _as(instance: str, role: str, short: Mapping[str, str]) -> str:
    name = short.get(instance, instance)
    return name if role == "primary" else f"{name} (secondary)"


def gain_words(changes: Sequence[tuple[str, float]]) -> str:
    """The two statistics that become smaller most by a move, in words; "" if none does."""
    gains = sorted((change, name) for name, change in changes if change < -SHOWN)
    return "; ".join(f"{GAINS[name]} {signed(change)}" for change, name in gains[:2])
