"""Show a transition as a timeline: which instances leave and reach each node in which wave."""

from __future__ import annotations

from dataclasses import dataclass

from iallocator.errors import shown
from iallocator.render.drawing import drawing, subject, waves, way
from iallocator.render.page.view import (
    Cell,
    Grid,
    Link,
    Section,
    natural,
    number_cell,
)
from iallocator.render.table import numeric

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView


ARROW = "\N{RIGHTWARDS ARROW}"

__all__ = ["Chip", "Lane", "TimelineView", "add_transition"]


@dataclass(frozen=True, slots=True)
class Chip:
    """A step as one node sees it.

    `side`: ``in``, ``out``, ``role`` (it stays, in another role) or ``here``.
    """

    number: int
    kind: str
    text: str
    side: str
    hint: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A node, and its steps in each wave."""

    node: str
    cells: Sequence[Sequence[Chip]]


@dataclass(frozen=True, slots=True)
class TimelineView:
    """The timeline, the steps as a table, and the drawing as SVG ("" for none)."""

    waves: int
    lanes: Sequence[Lane]
    steps: Grid
    remarks: Sequence[str]
    drawing: str


def add_transition(page: PageView, transition: Json, intro: str = "", count: str = "") -> None:
    """Add the steps of a transition by node and wave, as a table, and as a drawing."""
    wave_of = waves(transition)
    last = max(wave_of.values(), default=0)
    lanes: dict[str, list[list[Chip]]] = {}
    for step in transition["steps"]:
        number, name = step["number"], subject(step)
        waits = ", ".join(f"{n} ({why})" for n, why in zip(step["after"], step["because"]))
        hint = f"Step {number}: {step['kind']} {name} {way(step, page.names, ARROW)}"
        hint += f"; waits for {waits or 'nothing'}"
        for node, side in _ends(step):
            chip = Chip(number, step["kind"], shown(page.short(name)), side, shown(hint))
            cells = lanes.setdefault(node, [[] for _ in range(last)])
            cells[wave_of[number] - 1].append(chip)
    ordered = [Lane(shown(page.short(name)), lanes[name]) for name in sorted(lanes, key=natural)]
    remarks = [
        *(f"Not done: {one['name']}: {one['reason']}" for one in transition["left"]),
        *transition["remarks"],
    ]
    steps = _steps(transition, wave_of, page)
    picture = drawing(transition, page.names)
    view = TimelineView(last, ordered, steps, [*map(shown, remarks)], picture)
    page.sections.append(Section("transition", "transition", "Transition", view, intro, count))


def _ends(step: Json) -> list[tuple[str, str]]:
    """Return the nodes that a step concerns, each with the `Chip.side`."""
    if "node" in step:
        return [(step["node"], "here")]
    before, after = step["from"], step["to"]
    found = [(name, "out") for name in before if name not in after]
    found += [(name, "in") for name in after if name not in before]
    if not found and before != after:
        found = [(name, "role") for name in after]
    return found or [(name, "here") for name in after[:1]]


def _steps(transition: Json, wave_of: Mapping[int, int], page: PageView) -> Grid:
    grid = Grid(
        numeric("Step"), numeric("Wave"), "What", "Of", "Way", "Waits for", title="Steps",
        empty="Nothing is to be done.",
    )  # fmt: skip
    for step in transition["steps"]:
        position = step["number"]
        links = [
            Link(str(other), f"step-{other}", shown(why))
            for other, why in zip(step["after"], step["because"])
        ]
        why = "; ".join(dict.fromkeys(step["because"]))
        grid.add(
            number_cell(position),
            number_cell(wave_of[position]),
            Cell(step["kind"], "" if step["opcodes"] else "by hand"),
            page.strong(subject(step)),
            way(step, page.names, ARROW),
            Cell("" if links else "nothing", shown(why), "" if links else "faint", links=links),
            anchor=f"step-{position}",
        )
    return grid
