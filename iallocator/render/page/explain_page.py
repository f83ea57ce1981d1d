"""The page of an answer: the nodes of each instance, and the reasons for and against each node."""

from __future__ import annotations

from iallocator.errors import many, printable
from iallocator.render.explained import parts_of
from iallocator.render.page.nodes import add_nodes
from iallocator.render.page.topology import add_topology
from iallocator.render.page.transitions import add_transition
from iallocator.render.page.view import (
    Cell,
    Grid,
    Tile,
    decimals,
    score_cell,
    signed,
)
from iallocator.render.table import Page, numeric
from iallocator.render.words import RESULT_WORDS, STATISTIC_WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView

__all__ = ["explanation"]

COMPARED_STATES = ("before", "answer", "other")
"""Keys of the placements with compared contributions to the score: present, answer, another."""

NODE_TONES = {"answer": "good", "refused": "bad", "not asked": "faint"}
"""Result for a node -> the tone of its cell."""


def explanation(document: Json, facts: Json, page: PageView) -> None:
    """Add an explanation to `page`.

    `facts` has the cluster, and the nodes before and after the answer.
    """
    response = document["response"]
    page.command = f"explain {document['request_type']}"
    page.tone = "good" if response["success"] else "bad"
    page.details = [printable(text) for text in (response["info"], *document["remarks"])]
    decisions = document["decisions"]
    placed = [one for one in decisions if one["answer"]]
    page.headline = f"{len(placed)} of {len(decisions)} instances have a place"
    if len(decisions) == 1:
        name = printable(page.short(decisions[0]["instance"]))
        page.headline = f"{name} cannot be placed"
        if placed:
            page.headline = f"{name} goes to {_where(placed[0]['answer']['nodes'], page)}"
    settings = document["request_settings"]
    tiles = [Tile("Strategy", settings["strategy"], f"N+1: {settings['n1']}")]
    if len(decisions) == 1 and placed:
        answer = decisions[0]["answer"]
        tiles.insert(0, Tile("Answer", _where(answer["nodes"], page), f"group {answer['group']}"))
        if answer.get("score") is not None:
            tiles.append(Tile("Score", decimals(answer["score"]), "lower is better"))
        if answer.get("penalty"):
            tiles.append(Tile("Penalty", decimals(answer["penalty"]), "soft constraints violated"))
    elif decisions:
        count = f"{len(placed)} of {len(decisions)}"
        tiles.insert(0, Tile("Instances", count, "have a place"))
    page.tiles = tiles
    for number, one in enumerate(document["decisions"], start=1):
        grids = []
        for part in parts_of(one):
            grids += [_nodes(group, page) for group in part["groups"]]
            grids += [_comparison(other, page) for other in part["comparisons"]]

        # The question, the place of the instance now, and its target, in one line
        said = [one["subject"]]
        if one["present"]:
            said.append(f"now on {_where(one['present'], page)}")
        if one["answer"]:
            said.append(f"goes to {_where(one['answer']['nodes'], page)}")
        said += [step["text"] for step in one["steps"]]
        said += [one["reason"]] if one["reason"] else []
        said += one["notes"]
        about = printable(". ".join(text[:1].upper() + text[1:] for text in said))
        about = page.without_domain(about)
        title = printable(page.short(one["instance"]))
        page.table(f"decision-{number}", title, grids, about)
    add_topology(page, facts, (None, None), {})
    add_nodes(page, facts["states"])
    transition = response.get("transition")
    if transition and (transition["steps"] or transition["left"]):
        add_transition(page, transition, count=many(len(transition["steps"]), "step"))


def _where(nodes: list[str], page: PageView) -> str:
    return printable(page.placement(nodes))


def _comparison(other: Json, page: PageView) -> Grid:
    """Return a table that compares the answer with another placement by their statistics."""
    title = f"Answer against {other['with']} {_where(other['nodes'], page)}"
    if "statistics" not in other:
        return Grid(title=printable(title), empty=printable(f"Decided: {other['decided_by']}."))
    grid = Grid(
        "Statistic", numeric("Weight"), numeric("Before"), numeric("Answer"), numeric("Other"),
        numeric("Advantage of the answer"), title=printable(title),
        empty="All statistics are alike.",
    )  # fmt: skip
    for one in sorted(other["statistics"], key=lambda one: -abs(one["difference"])):
        tone = "good" if one["difference"] > 0 else "bad" if one["difference"] < 0 else ""
        grid.add(
            Cell(STATISTIC_WORDS[one["name"]], one["name"]),
            f"\N{MULTIPLICATION SIGN}{one['weight']:g}",
            *(score_cell(one[f"contribution_{at}"]) for at in COMPARED_STATES),
            Cell(signed(one["difference"]) or "0", tone=tone, sort=one["difference"]),
        )
    penalised = any(one["name"] == "penalty" for one in other["statistics"])
    what = "The sum of score and penalty" if penalised else "The score"
    grid.intro = (
        f"{what} is lower by {decimals(other['difference'])}; contribution: weight × value."
    )
    return grid


def _nodes(group: Json, page: PageView) -> Grid:
    """Return a table with a row for each node of the group: its result, and the reasons."""
    scored = any("score" in node for node in group["candidates"])
    intro = ". ".join(text for text in (group["obstacle"], group["comparison"]) if text)
    text_page = Page()  # rounds scores in sentences, as the text does
    grid = Grid(
        "Node", "Result", "Why", *[numeric("Score")] * scored,
        title=printable(f"Nodes of group {group['group']}"),
        intro=printable(text_page.rounded(intro)),
        empty="No node was checked.",
    )  # fmt: skip
    for node in group["candidates"]:
        cells = [
            page.strong(node["node"]),
            Cell(
                RESULT_WORDS.get(node["result"], node["result"]),
                tone=NODE_TONES.get(node["result"], ""),
            ),
            Cell(page.without_domain(printable(text_page.rounded("; ".join(node["reasons"]))))),
        ]
        if scored:
            score = node.get("score")
            penalty = node.get("penalty", 0.0)
            text = "" if score is None else decimals(score)
            text += f" + {decimals(penalty)}" if penalty else ""
            cells.append(Cell("") if score is None else Cell(text, sort=score + penalty))
        grid.add(*cells)
    return grid
