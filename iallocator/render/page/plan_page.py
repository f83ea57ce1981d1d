"""The page of a plan: what changes, why, in which order, and what it is good for."""

from __future__ import annotations

from math import sqrt

from iallocator.errors import shown
from iallocator.render.drawing import drawing
from iallocator.render.page.moves import Reasons, by_instance, by_node, gain_words
from iallocator.render.page.nodes import Moment, nodes_view
from iallocator.render.page.standing import (
    health_sections,
    short_names,
    standing,
    survival_tile,
)
from iallocator.render.page.transitions import timeline
from iallocator.render.page.view import PageView, Section, Tile, decimals, gib
from iallocator.render.plan import ACTIONS, SUMS, switched_nodes
from iallocator.render.states.listing import common_domain
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.scalar import kernel_of
from iallocator.scoring.score_delta import terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.aliases import Json
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.planners.check.findings import GroupHealth
    from iallocator.planners.result import PlanResult
    from iallocator.render.page.standing import Judging, Standing

    Changes = list[tuple[str, float]]
    """(statistic, the change of its contribution to the score)."""


__all__ = ["changes_of_moves", "plan_page"]


def plan_page(
    done: PlanResult,
    plan: Json,
    judging: Judging,
    told: Sequence[str] = (),
    health: tuple[Sequence[GroupHealth] | None, Sequence[GroupHealth] | None] = (None, None),
) -> PageView:
    """The page of the plan `done`; `plan` is what ``--json`` writes of it.

    `told`: what else a person should know; `health`: of both ends, if that is known already.
    """
    cluster, after = done.cluster, done.after()
    before = standing(done.before, judging, health[0])
    then = standing(after, judging, health[1], off=done.leaving, on=done.coming)
    short = short_names(cluster)
    page = PageView(plan["command"], shown(cluster.name), *_verdict(plan, before, then))
    page.domain = common_domain(cluster)
    details = [*told]
    if "action" in plan:
        names = ", ".join(switched_nodes(plan))
        details.append(ACTIONS[plan["action"]] + (f": {names}" if names else ""))
    if "strategy" in plan:
        details.append(f"Strategy {plan['strategy']}")
    if plan.get("reason"):
        details.append(f"The plan ends here: {plan['reason']}")
    details += (f"{one['node']} is left as it is: {one['reason']}" for one in plan.get("kept", ()))
    page.details = [*map(shown, details)]
    page.tiles = _tiles(plan, before, then)
    marks = dict.fromkeys(done.leaving, "to be powered down")
    marks |= dict.fromkeys(done.coming, "to be powered on")
    nodes = nodes_view([Moment("Before", done.before), Moment("After", after)], marks, page.domain)
    gains = [gain_words(one) for one in changes_of_moves(done.before, done.moves)]
    away = {
        node.name: "offline" if node.offline else "drained" if node.drained else "not vm_capable"
        for node in cluster.nodes
        if not node.online
    }
    repairs = {k for k, entry in enumerate(done.entries) if entry.repairs}
    reasons = Reasons(plan, cluster.node_names(sorted(done.leaving)), away, gains, repairs)
    grids = [by_instance(plan, done.moves, cluster, reasons, short), by_node(plan, short)]
    page.sections = [
        Section("nodes", "nodes", "Nodes", nodes, count=str(len(cluster.nodes))),
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
    page.sections += health_sections(before, then, judging, short, plan.get("groups", ()))
    return page


def _verdict(plan: Json, before: Standing, after: Standing) -> tuple[str, str]:
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
    worse = after.survived[0] < before.survived[0] and after.survived[1] >= before.survived[1]
    return what, "bad" if worse else "good"


def _tiles(plan: Json, before: Standing, after: Standing) -> list[Tile]:
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


def changes_of_moves(state: State, moves: Sequence[Move]) -> list[Changes]:
    """Return for each move how it changes the statistics of the groups of its nodes.

    The moves are made one after the other from `state`, which is unchanged in the end. Cost: all
    nodes of the groups once, and then the nodes of each move.
    """
    nodes = state.cluster.nodes
    groups = {nodes[index].group for move in moves for index in move.nodes}

    def terms_now(indices: Iterable[int]) -> list[float]:
        """Return the sums of the terms of the scores of the groups of these nodes."""
        found = []
        for group in {nodes[index].group for index in indices}:
            kernels[group].follow()
            found.append(terms(kernels[group].totals, (), sqrt))
        return [sum(column) for column in zip(*found)]

    found: list[Changes] = []
    with state.trial():
        kernels = {group: kernel_of(state, group.nodes) for group in groups}
        for move in moves:
            before = terms_now(move.nodes)
            move.apply(state)
            after = terms_now(move.nodes)
            found.append([(s.name, new - old) for s, old, new in zip(STATISTICS, before, after)])
    return found
