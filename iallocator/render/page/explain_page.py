"""The page of an answer: where instances go and why, and what spoke against other nodes."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.drawing import drawing
from iallocator.render.page.nodes import nodes_section
from iallocator.render.page.transitions import timeline
from iallocator.render.page.view import (
    Cell,
    Column,
    Grid,
    Section,
    Tile,
    decimals,
    page_of,
    row_of,
    short_names,
    signed,
)
from iallocator.render.words import STATISTICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView


__all__ = ["explanation_view"]

TONES = {"answer": "good", "refused": "bad", "not asked": "faint"}
"""Verdict of a node -> how it is meant."""


def explanation_view(document: Json, facts: Json) -> PageView:
    """The page of an explanation; `facts` has the cluster, and the nodes around the answer."""
    response = document["response"]
    tone = "good" if response["success"] else "bad"
    page = page_of(f"explain {document['type']}", facts["cluster"], "", tone)
    short = short_names(facts["cluster"], page.domain)
    page.verdict = _verdict(document, short)
    page.details = [shown(text) for text in (response["info"], *document["remarks"])]
    page.tiles = _tiles(document, short)
    for number, one in enumerate(document["decisions"], start=1):
        grids = []
        for part in _parts(one):
            grids += [_comparison(other, short) for other in part["comparisons"]]
            grids += [_nodes(group, short) for group in part["groups"]]

        # What is asked, where the instance is, and where it goes, in one line
        said = [one["subject"]]
        if one["present"]:
            said.append(f"now on {_where(one['present'], short)}")
        if one["answer"]:
            said.append(f"goes to {_where(one['answer']['nodes'], short)}")
        said += [step["words"] for step in one["steps"]]
        said += [one["reason"]] if one["reason"] else []
        said += one["notes"]
        about = shown(". ".join(text[:1].upper() + text[1:] for text in said))
        title = shown(short.get(one["instance"], one["instance"]))
        page.sections.append(Section("grids", f"decision-{number}", title, grids, about))
    page.sections.append(nodes_section(facts["moments"], page.domain))
    transition = response.get("transition")
    if transition and (transition["steps"] or transition["left"]):
        view = timeline(transition, short, drawing(transition, short))
        count = str(len(transition["steps"]))
        page.sections.append(
            Section("transition", "transition", "Transition", view, count=f"{count} steps")
        )
    return page


def _verdict(document: Json, short: Mapping[str, str]) -> str:
    """The sentence at the top: who goes where."""
    decisions = document["decisions"]
    placed = [one for one in decisions if one["answer"]]
    if len(decisions) != 1:
        return f"{len(placed)} of {len(decisions)} instances have a place"
    name = shown(short.get(decisions[0]["instance"], decisions[0]["instance"]))
    if not placed:
        return f"{name} finds no place"
    return f"{name} goes to {_where(placed[0]['answer']['nodes'], short)}"


def _tiles(document: Json, short: Mapping[str, str]) -> list[Tile]:
    """The answer to one instance; of several, how many there are."""
    decisions = document["decisions"]
    settings = document["settings"]
    tiles = [Tile("Strategy", settings["strategy"], f"N+1: {settings['n1']}")]
    if len(decisions) == 1 and decisions[0]["answer"]:
        answer = decisions[0]["answer"]
        tiles.insert(0, Tile("Answer", _where(answer["nodes"], short), f"group {answer['group']}"))
        if answer.get("score") is not None:
            tiles.append(Tile("Score", decimals(answer["score"]), "lower is better"))
        if answer.get("penalty"):
            tiles.append(Tile("Penalty", decimals(answer["penalty"]), "soft constraints violated"))
    elif decisions:
        placed = sum(one["answer"] is not None for one in decisions)
        tiles.insert(0, Tile("Instances", f"{placed} of {len(decisions)}", "have a place"))
    return tiles


def _where(nodes: list[str], short: Mapping[str, str]) -> str:
    return shown(" : ".join(short.get(name, name) for name in nodes))


def _parts(decision: Json) -> Iterator[Json]:
    yield decision
    for name in ("choice", "elsewhere"):
        if decision[name]:
            yield from _parts(decision[name])


def _comparison(other: Json, short: Mapping[str, str]) -> Grid:
    """The answer beside another placement, by what made the difference."""
    title = f"Answer against {other['with']} {_where(other['nodes'], short)}"
    if "statistics" not in other:
        return Grid(shown(title), (), (), "", shown(f"Decided: {other['decided_by']}."))
    columns = (
        Column("Statistic"), Column("Weight", number=True), Column("Before", number=True),
        Column("Answer", number=True), Column("Other", number=True),
        Column("Speaks for the answer", number=True),
    )  # fmt: skip
    rows = []
    for one in sorted(other["statistics"], key=lambda one: -abs(one["difference"])):
        tone = "good" if one["difference"] > 0 else "bad" if one["difference"] < 0 else ""
        rows.append(
            row_of(
                (
                    Cell(STATISTICS[one["name"]], one["name"]),
                    f"\N{MULTIPLICATION SIGN}{one['weight']:g}",
                    *(
                        Cell(decimals(one[f"contribution_{at}"]), sort=one[f"contribution_{at}"])
                        for at in ("before", "answer", "other")
                    ),
                    Cell(signed(one["difference"]) or "0", tone=tone, sort=one["difference"]),
                )
            )
        )
    penalised = any(one["name"] == "penalty" for one in other["statistics"])
    what = "The sum of score and penalty" if penalised else "The score"
    gap = f"{what} is lower by {decimals(other['difference'])}; contribution: weight × value."
    return Grid(shown(title), columns, rows, gap, "All statistics are alike.")


def _nodes(group: Json, short: Mapping[str, str]) -> Grid:
    """A row per node of the group: its verdict, and why."""
    columns = [Column("Node"), Column("Verdict"), Column("Why")]
    scored = any("score" in node for node in group["nodes"])
    if scored:
        columns.append(Column("Score", number=True))
    rows = []
    for node in group["nodes"]:
        cells = [
            Cell(shown(short.get(node["name"], node["name"])), tone="strong"),
            Cell(node["verdict"], tone=TONES.get(node["verdict"], "")),
            Cell(shown("; ".join(node["why"]))),
        ]
        if scored:
            score = node.get("score")
            penalty = node.get("penalty", 0.0)
            text = "" if score is None else decimals(score)
            text += f" + {decimals(penalty)}" if penalty else ""
            cells.append(Cell("") if score is None else Cell(text, sort=score + penalty))
        rows.append(row_of(cells))
    intro = ". ".join(text for text in (group["obstacle"], group["verdict"]) if text)
    title = f"Nodes of group {group['group']}"
    return Grid(shown(title), columns, rows, shown(intro), "No node was asked.")
