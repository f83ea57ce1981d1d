"""The pages of a plan and of repairs: the moves with their reasons, their order, their effect."""

from __future__ import annotations

from iallocator.errors import many, printable
from iallocator.render.campaign import campaign_lines
from iallocator.render.page.health import add_health, tolerance_tile
from iallocator.render.page.nodes import add_nodes
from iallocator.render.page.topology import add_topology
from iallocator.render.page.transitions import add_transition, estimate
from iallocator.render.page.view import (
    SMALLEST_SEEN,
    Cell,
    Grid,
    Tile,
    decimals,
    gib,
    natural,
    score_cell,
    signed,
    size_cell,
)
from iallocator.render.plan import (
    ACTIONS,
    COUNTED_COMMANDS,
    HBAL,
    MOVE_COLUMNS,
    OBJECTIVE_SUMS,
    SUM_OF_GROUPS,
    switched_nodes,
)
from iallocator.render.quality import quality_words
from iallocator.render.table import Column, numeric
from iallocator.render.words import GAINS, duration_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = ["plan", "repairs"]

HOW = {
    "migrate": "migrate to",
    "failover": "fail over to",
    "move": "move to",
    "replace-disks": "replace its secondary by",
}
"""Kind of a step -> its verb, which precedes the name of a node."""

AIMS = {
    "redistribute": "so that every group is healthy",
    "balance-groups": "so that groups are used equally",
}
"""Command -> the aim of its moves, if that is not the score of nodes."""


STATE_TONES = {"Healthy": "good", "Failure": "bad", "Needs repair": "bad"}
"""State of an instance in `repair` -> the tone of its cell; other states have none."""


def plan(plan: Json, facts: Json, page: PageView) -> None:
    """Add to `page` the plan that ``--json`` writes.

    `facts` has the health and the nodes before and after the plan.
    """
    before, after = facts["before"], facts["after"]
    page.command = plan["command"]
    moves = len(plan["moves"])
    what = many(moves, "move") if moves else "Nothing to move"
    switched = len(plan.get("nodes", ()))
    if switched:
        verbs = {"offline": "power down", "online": "power on", "both": "power on or down"}
        verb = verbs[plan["action"]]
        what = f"{what}, {verb} {many(switched, 'node')}"
    first, last = plan["scores"]["before"], plan["scores"]["after"]
    score = SUM_OF_GROUPS if len(plan.get("groups", ())) > 1 else "Score"
    if plan["command"] == "compress" and plan.get("chosen"):
        what += f": group {printable(plan['chosen'])} becomes empty"
    elif moves and last < first and plan["command"] not in OBJECTIVE_SUMS:
        what += f": the {score.lower()} falls from {decimals(first)} to {decimals(last)}"
    worse = after["survived"] < before["survived"] and after["analysed"] >= before["analysed"]
    page.headline, page.tone = what, "bad" if worse else "good"
    details = [*facts["remarks"]]
    if "action" in plan:
        names = ", ".join(switched_nodes(plan))
        details.append(ACTIONS[plan["action"]] + (f": {names}" if names else ""))
    if "strategy" in plan:
        details.append(f"Strategy {plan['strategy']}")
    if "campaign" in plan:
        details += campaign_lines(plan)
    details += filter(None, [quality_words(plan, decimals)])
    if plan.get("reason"):
        details.append(f"The plan ends here: {plan['reason']}")
    details += (f"{one['node']} is left as it is: {one['reason']}" for one in plan.get("kept", ()))
    page.details = [*map(printable, details)]
    transition = plan["transition"]
    first, last = plan["scores"]["before"], plan["scores"]["after"]
    copied = sum(move["copied_mib"] for move in plan["moves"])
    touched = {name for move in plan["moves"] for name in (*move["from"], *move["to"])}
    tone = "good" if last < first else "bad" if last > first else ""
    end = max((last for _, last in estimate(transition, page).values()), default=0.0)
    arrow = "\N{RIGHTWARDS ARROW}"
    page.tiles = [
        Tile("Moves", str(len(plan["moves"])), f"on {many(len(touched), 'node')}"),
        Tile("Copied between nodes", gib(copied)),
        Tile(
            "Objective" if plan["command"] in OBJECTIVE_SUMS else score,
            f"{first:.0f} {arrow} {last:.0f}"
            if plan["command"] in COUNTED_COMMANDS
            else f"{decimals(first)} {arrow} {decimals(last)}",
            OBJECTIVE_SUMS.get(plan["command"], "lower is better"),
            tone,
        ),
        tolerance_tile(before, after),
        Tile(
            "Steps",
            str(len(transition["steps"])),
            f"in {many(transition['longest'], 'wave')}, about {duration_words(end)}",
        ),
    ]
    marks = dict.fromkeys(facts["leaving"], "to be powered down")
    marks |= dict.fromkeys(facts["coming"], "to be powered on")
    add_topology(page, facts, (before, after), marks)
    add_nodes(page, facts["states"], marks)
    count = str(len(plan["moves"]))
    page.table("moves", "Moves", [by_instance(plan, facts, page), by_node(plan, page)], "", count)
    transition = plan["transition"]
    if transition["steps"] or transition["left"]:
        steps = len(transition["steps"])
        add_transition(
            page,
            transition,
            "Steps of one wave do not depend on each other. A step begins when the steps that it "
            "waits for are done. Point at a step to see its dependencies.",
            many(steps, "step"),
        )
    add_health(page, before, after, plan.get("groups", ()))


class Reasons:
    """Finds the reasons of the moves of a plan.

    Parameters
    ----------
    plan:
        The plan as ``--json`` writes it.
    facts:
        The result of `iallocator.documents.plan.plan_facts`.
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
            for node in facts["states"][0]["nodes"]
            if not node["online"]
        }
        self._why = {one["instance"]: one["why"] for one in plan.get("instances", ())}

    def of(self, position: int) -> str:
        """Return the reason of the move at `position`."""
        move = self._plan["moves"][position]
        reasons = [self._cause(position, move)]
        if "unit" in move:
            others = [name for name in move["unit"] if name != move["instance"]]
            reasons.append(f"moves together with {', '.join(others)}")
        reasons += [f"should be {text}" for text in move.get("broken", ())]
        return "; ".join(text for text in reasons if text)

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
            return "repairs a violated hard constraint"
        if self._plan["command"] in AIMS:
            return AIMS[self._plan["command"]]
        changes = self._moves[position]["changes"]
        if changes is None:
            return "not analysed: time was up"
        return gain_words(changes) or "frees capacity for other moves"


OWN_CELLS = {"move", "instance", "from", "to", "score then", "GiB copied", "steps", HBAL}
"""Titles of `MOVE_COLUMNS` that the page shows in its own way."""


def by_instance(plan: Json, facts: Json, page: PageView) -> Grid:
    """Return a table of the moves in their order; `plan` is the document that ``--json`` writes.

    The last columns are those of `MOVE_COLUMNS` that are not in `OWN_CELLS`.
    """
    reasons = Reasons(plan, facts)
    more = [(column, text) for column, text in MOVE_COLUMNS if column.title not in OWN_CELLS]
    grid = Grid(
        numeric("#"), "Instance", "From", "To", "Why", "How", numeric("Copied"),
        numeric("Score then"),
        *(Column(one.title.capitalize(), number=one.number) for one, _ in more),
        title="By instance",
        intro="Nodes are written as primary : secondary.", empty="Nothing moves.",
    )  # fmt: skip
    for position, move in enumerate(plan["moves"]):
        before, after = (page.placement(move[end]) for end in ("from", "to"))
        how = ", ".join(
            f"{HOW[kind]} {target or 'its secondary'}"
            for kind, target in facts["moves"][position]["steps"]
        )
        grid.add(
            Cell(str(position + 1), sort=position),
            page.strong(move["instance"]),
            Cell(two_lines(before), tone="where"),
            Cell(two_lines(after), tone="strong"),
            reasons.of(position),
            Cell(page.without_domain(printable(how)), tone="faint"),
            size_cell(move["copied_mib"]),
            score_cell(move["score"]),
            *(printable(text({**move, "number": position + 1})) for _, text in more),
            anchor=f"move-{position + 1}",
        )
    return grid


def two_lines(placement: str) -> str:
    """Return the nodes of `placement` as text on two lines, the secondary below the primary."""
    return printable(placement).replace(" : ", " :\n")


def by_node(plan: Json, page: PageView) -> Grid:
    """Return a table with a row for each node that an instance leaves or moves to."""
    coming: dict[str, list[str]] = {}
    leaving: dict[str, list[str]] = {}
    for move in plan["moves"]:
        for role, ends in (("primary", slice(0, 1)), ("secondary", slice(1, None))):
            before, after = move["from"][ends], move["to"][ends]
            for name in set(before) - set(after):
                leaving.setdefault(name, []).append(_as(move["instance"], role, page))
            for name in set(after) - set(before):
                coming.setdefault(name, []).append(_as(move["instance"], role, page))
    grid = Grid("Node", "Leaves it", "Arrives", title="By node", empty="Nothing moves.")
    for name in sorted({*coming, *leaving}, key=natural):
        left, reached = (", ".join(some.get(name, ())) for some in (leaving, coming))
        grid.add(page.strong(name), left, reached)
    return grid


def _as(instance: str, role: str, page: PageView) -> str:
    name = page.short(instance)
    return name if role == "primary" else f"{name} (secondary)"


def gain_words(changes: Sequence[tuple[str, float]]) -> str:
    """Return the two statistics that a move lowers most, in words; "" if there is none."""
    gains = sorted((change, name) for name, change in changes if change < -SMALLEST_SEEN)
    return "; ".join(f"{GAINS[name]} {signed(change)}" for change, name in gains[:2])


def repairs(document: Json, facts: Json, page: PageView) -> None:
    """Add to `page` the repairs in `document`, and the cluster before and after, from `facts`."""
    now, then, where = facts["before"], facts["after"], facts["where"]
    transition = {**facts["transition"], "left": [], "remarks": []}
    page.command = "repair"
    repaired = sum("to" in one for one in document["instances"])
    noted = len(document["instances"])
    page.headline, page.tone = "Nothing is broken", "good"
    if noted:
        page.headline = f"{many(repaired, 'repair')} of {many(noted, 'instance')}"
    if noted and facts["status"]:
        page.headline, page.tone = f"{page.headline}: some need manual work", "bad"

    # How many instances are in each state, then what failures would do
    for name, count in document["counts"].items():
        page.tiles.append(Tile(name, str(count), "", STATE_TONES.get(name, "")))
    if document["broken"]:
        page.tiles.append(Tile("Broken, not repaired", str(document["broken"]), "", "bad"))
    page.tiles.append(tolerance_tile(now, then))
    grid = Grid(
        "Instance", Column("State", hint="By its tags, these repairs included"), "Repair", "From",
        "To", "Why", "How", empty="Nothing is broken.",
    )  # fmt: skip
    for entry in document["instances"]:
        name = entry["instance"]
        ends = (where[name], entry.get("to", ()))
        codes = [code["OP_ID"].removeprefix("OP_") for code in entry.get("opcodes", ())]
        cells: Sequence[Cell | str] = (
            page.strong(name),
            Cell(entry["state"], tone=STATE_TONES.get(entry["state"], "")),
            entry.get("repair", ""),
            *map(page.placement, ends),
            entry["note"] or entry["state"],
            Cell(
                printable(", ".join(code.lower().replace("_", " ") for code in codes)), tone="faint"
            ),
        )
        grid.add(*cells)
    add_topology(page, facts, (now, then), {})
    page.table("repairs", "Repairs", grid, count=str(len(grid.rows)))
    add_nodes(page, facts["states"])
    if transition["steps"]:
        add_transition(page, transition)
    add_health(page, now, then)
