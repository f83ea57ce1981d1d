"""The page of a plan: what changes, why, in which order, and what it is good for."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.drawing import drawing
from iallocator.render.page.health import health_sections, survival_tile
from iallocator.render.page.moves import by_instance, by_node
from iallocator.render.page.nodes import nodes_section
from iallocator.render.page.transitions import timeline
from iallocator.render.page.view import Section, Tile, decimals, gib, page_of, short_names
from iallocator.render.plan import ACTIONS, SUMS, switched_nodes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = ["plan_page"]


def plan_page(plan: Json, facts: Json) -> PageView:
    """The page of the plan that ``--json`` writes; `facts` are those of its page."""
    before, after = facts["before"], facts["after"]
    page = page_of(plan["command"], facts["cluster"], *_verdict(plan, before, after))
    short = short_names(facts["cluster"], page.domain)
    details = [*facts["remarks"]]
    if "action" in plan:
        names = ", ".join(switched_nodes(plan))
        details.append(ACTIONS[plan["action"]] + (f": {names}" if names else ""))
    if "strategy" in plan:
        details.append(f"Strategy {plan['strategy']}")
    if plan.get("reason"):
        details.append(f"The plan ends here: {plan['reason']}")
    details += (f"{one['node']} is left as it is: {one['reason']}" for one in plan.get("kept", ()))
    page.details = [*map(shown, details)]
    page.tiles = _tiles(plan, before, after)
    marks = dict.fromkeys(facts["leaving"], "to be powered down")
    marks |= dict.fromkeys(facts["coming"], "to be powered on")
    grids = [by_instance(plan, facts, short), by_node(plan, short)]
    page.sections = [
        nodes_section(facts["moments"], page.domain, marks),
        Section("grids", "moves", "Moves", grids, count=str(len(plan["moves"]))),
    ]
    transition = plan["transition"]
    if transition["steps"] or transition["left"]:
        steps = len(transition["steps"])
        page.sections.append(
            Section(
                "transition",
                "transition",
                "Transition",
                timeline(transition, short, drawing(transition, short)),
                "Steps of one wave need nothing of each other; each begins when those that it "
                "waits for are done. Point at a step to see what it waits for.",
                f"{steps} step{'s' * (steps != 1)}",
            )
        )
    page.sections += health_sections(before, after, short, plan.get("groups", ()))
    return page


def _verdict(plan: Json, before: Json, after: Json) -> tuple[str, str]:
    """The sentence at the top, and how it is meant."""
    moves = len(plan["moves"])
    what = f"{moves} move{'s' * (moves != 1)}" if moves else "Nothing to move"
    switched = len(plan.get("nodes", ()))
    if switched:
        verbs = {"offline": "power down", "online": "power on", "both": "power on or down"}
        verb = verbs[plan["action"]]
        what = f"{what}, {verb} {switched} node{'s' * (switched != 1)}"
    first, last = plan["scores"]["before"], plan["scores"]["after"]
    if plan["command"] == "compress" and plan.get("chosen"):
        what += f": group {shown(plan['chosen'])} becomes empty"
    elif moves and last < first:
        what += f": the score falls from {decimals(first)} to {decimals(last)}"
    worse = after["survived"] < before["survived"] and after["judged"] >= before["judged"]
    return what, "bad" if worse else "good"


def _tiles(plan: Json, before: Json, after: Json) -> list[Tile]:
    transition = plan["transition"]
    first, last = plan["scores"]["before"], plan["scores"]["after"]
    copied = sum(move["copied_mib"] for move in plan["moves"])
    touched = {name for move in plan["moves"] for name in (*move["from"], *move["to"])}
    tone = "good" if last < first else "bad" if last > first else ""
    arrow = "\N{RIGHTWARDS ARROW}"
    return [
        Tile("Moves", str(len(plan["moves"])), f"on {len(touched)} nodes"),
        Tile("Copied between nodes", gib(copied)),
        Tile(
            "Score", f"{first:.3f} {arrow} {last:.3f}",
            SUMS.get(plan["command"], "lower is better"), tone,
        ),
        survival_tile(before, after),
        Tile(
            "Steps", str(len(transition["steps"])),
            f"in {transition['longest']} wave{'s' * (transition['longest'] != 1)}",
        ),
    ]  # fmt: skip
