"""Show a transition as a timeline: which instances leave and reach each node in which wave.

The duration of a step is estimated as the time to copy its MiB at the bandwidth of `PageView`, and
a fixed time for its kind. Steps that share a node follow each other, because each of them may use
the whole bandwidth of the node.
"""

from __future__ import annotations

from dataclasses import dataclass

from iallocator.errors import printable
from iallocator.render.drawing import ARROW, drawing, subject, waves, way
from iallocator.render.page.view import (
    Bar,
    Cell,
    Grid,
    Link,
    Section,
    natural,
    number_cell,
)
from iallocator.render.table import numeric
from iallocator.render.words import duration_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.render.page.view import PageView


FIXED = {"failover": 60, "start": 30, "stop": 60, "power-on": 300, "power-off": 60, "fence": 60}
"""Kind of a step -> estimated seconds besides copying; other kinds take `OTHER_STEP_SECONDS`."""

OTHER_STEP_SECONDS = 10
"""The estimated seconds, besides copying, of a step of a kind that is not in `FIXED`."""

COPIES = {"migrate": "memory", "replace-disks": "disk", "move": "disk", "create": "disk"}
"""Kind of a step -> the resource of the instance that it copies."""

MOST_LATE = 200
"""The most steps that a page shows although the time is up."""

__all__ = ["Chip", "Lane", "TimelineView", "add_transition", "estimate"]


@dataclass(frozen=True, slots=True)
class Chip:
    """A step in the row of one node.

    `side`: ``in`` (the instance arrives), ``out`` (it leaves), ``role`` (it stays in another role)
    or ``here`` (it stays, or the step is about the node).
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
    """The timeline, the table of the steps, and the drawing as SVG ("" for none).

    `waves`: the time at which the first step of each wave begins, in words.
    """

    waves: Sequence[str]
    lanes: Sequence[Lane]
    steps: Grid
    remarks: Sequence[str]
    drawing: str


def estimate(transition: Json, page: PageView) -> dict[int, tuple[float, float]]:
    """Return number of a step -> its begin and end, estimated in seconds after the plan's begin."""
    times: dict[int, tuple[float, float]] = {}
    free: dict[str, float] = {}  # node -> when its last step ends
    for step in transition["steps"]:
        kind, sizes = step["kind"], page.sizes.get(step.get("instance", ""), {})
        seconds = (
            FIXED.get(kind, OTHER_STEP_SECONDS)
            + sizes.get(COPIES.get(kind, ""), 0) / page.bandwidth
        )
        nodes = {step["node"]} if "node" in step else {*step["from"], *step["to"]}
        begin = max(
            [0.0, *(times[one][1] for one in step["after"]), *(free.get(one, 0.0) for one in nodes)]
        )
        times[step["number"]] = begin, begin + seconds
        free.update(dict.fromkeys(nodes, begin + seconds))
    return times


def add_transition(page: PageView, transition: Json, intro: str = "", count: str = "") -> None:
    """Add the steps of a transition to `page`: by node and wave, as a table, and as a drawing.

    If the time is up, a transition of many steps is left out.
    """
    if page.late and len(transition["steps"]) > MOST_LATE:
        page.leave_out("transition", "Transition")
        return
    times = estimate(transition, page)
    end = max((last for _, last in times.values()), default=0.0)
    wave_of = waves(transition)
    last = max(wave_of.values(), default=0)
    lanes: dict[str, list[list[Chip]]] = {}
    for step in transition["steps"]:
        number, name = step["number"], subject(step)
        waits = ", ".join(f"{n} ({why})" for n, why in zip(step["after"], step["because"]))
        hint = f"Step {number}: {step['kind']} {name} {way(step, page.names, ARROW)}"
        hint += f"; waits for {waits or 'nothing'}"
        for node, side in _ends(step):
            chip = Chip(number, step["kind"], printable(page.short(name)), side, printable(hint))
            cells = lanes.setdefault(node, [[] for _ in range(last)])
            cells[wave_of[number] - 1].append(chip)
    ordered = [
        Lane(printable(page.short(name)), lanes[name]) for name in sorted(lanes, key=natural)
    ]
    remarks = [
        *(f"Not done: {one['name']}: {one['reason']}" for one in transition["left"]),
        *transition["remarks"],
    ]
    if transition["steps"]:
        remarks.insert(
            0,
            f"Estimated duration: {duration_words(end)}, at {page.bandwidth:g} MiB/s "
            "(--bandwidth). Steps that share a node follow each other.",
        )
    begins = [
        min(times[number][0] for number, wave in wave_of.items() if wave == k)
        for k in range(1, last + 1)
    ]
    end = max((last for _, last in times.values()), default=1.0) or 1.0
    steps = Grid(
        numeric("Step"), numeric("Wave"), "What", "Of", "Way", "Waits for", numeric("Takes"),
        "When", title="Steps", empty="Nothing is to be done.",
    )  # fmt: skip
    for step in transition["steps"]:
        position = step["number"]
        links = [
            Link(str(other), f"step-{other}", printable(why))
            for other, why in zip(step["after"], step["because"])
        ]
        why = "; ".join(dict.fromkeys(step["because"]))
        first, done = times[position]
        left = round(100 * first / end, 1)
        bar = Bar(left, max(round(100 * done / end, 1) - left, 1.0), "span")
        steps.add(
            number_cell(position),
            number_cell(wave_of[position]),
            Cell(step["kind"], "" if step["opcodes"] else "by hand"),
            page.strong(subject(step)),
            way(step, page.names, ARROW),
            Cell("" if links else "nothing", printable(why), "" if links else "faint", links=links),
            Cell(duration_words(done - first), sort=done - first),
            Cell(sort=first, bar=bar),
            anchor=f"step-{position}",
        )  # fmt: skip
    picture = drawing(transition, page.names)
    view = TimelineView(
        [*map(duration_words, begins)], ordered, steps, [*map(printable, remarks)], picture
    )
    page.sections.append(Section("transition", "transition", "Transition", view, intro, count))


def _ends(step: Json) -> list[tuple[str, str]]:
    """Return the nodes of a step, each with its value of `Chip.side`."""
    if "node" in step:
        return [(step["node"], "here")]
    before, after = step["from"], step["to"]
    ends = [(name, "out") for name in before if name not in after]
    ends += [(name, "in") for name in after if name not in before]
    if not ends and before != after:
        ends = [(name, "role") for name in after]
    return ends or [(name, "here") for name in after[:1]]
