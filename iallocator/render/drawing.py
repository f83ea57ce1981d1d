"""Draw a transition as SVG, or as DOT for graphviz."""

from __future__ import annotations

from iallocator.errors import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from iallocator.aliases import Json

__all__ = [
    "dot",
    "drawing",
    "graph",
    "label",
    "subject",
    "svg",
    "waves",
    "way",
]

ARROW = "\N{RIGHTWARDS ARROW}"

WIDTH = 232
HEIGHT = 74
ACROSS = 5
GAP = 16
BETWEEN = 34
HEAD = 24
MARGIN = 16
"""The margin of the drawing. All sizes are in pixels; `ACROSS` is the number of boxes in a row."""

LETTERS = 27
"""The most characters of a line in a box; the tooltip of the box has the whole text."""

STYLE = """
.wave{font:600 13px system-ui,"DejaVu Sans",sans-serif;fill:#5b6470}
.step text{font:12px system-ui,"DejaVu Sans",sans-serif;fill:#1c2024}
.step .what{font-weight:600}.step .after{fill:#5b6470;font-size:11px}
.step rect{stroke:#8a949f;fill:#eceff2}.band{fill:#f6f7f8}
.migrate rect,.failover rect{fill:#dfeaf6}.replace-disks rect{fill:#e9e3f5}
.create rect,.start rect,.power-on rect,.online rect{fill:#dff0e4}
.stop rect,.fence rect,.power-off rect,.offline rect{fill:#f8e0e0}
.hand rect{stroke-dasharray:5 3}.wait{fill:none;stroke:#0b5cad;stroke-opacity:.4}
.step:hover rect{stroke:#0b5cad;stroke-width:2}.wait:hover{stroke-opacity:1;stroke-width:2.5}
.sheet{fill:#fff}
@media (prefers-color-scheme:dark){
.sheet{fill:#1b1f24}.band{fill:#232930}.wave,.step .after{fill:#a2abb6}.step text{fill:#e7eaee}
.step rect{fill:#2b3138;stroke:#67717c}.wait{stroke:#7db8f2}
.migrate rect,.failover rect{fill:#1d3046}.replace-disks rect{fill:#302b4c}
.create rect,.start rect,.power-on rect,.online rect{fill:#1c3a29}
.stop rect,.fence rect,.power-off rect,.offline rect{fill:#431d26}}
"""


def svg(transition: Json) -> str:
    """Return a drawing of the transition as an SVG document; every box and curve has a tooltip."""
    return drawing(transition, {}) + "\n"


def drawing(transition: Json, short: Mapping[str, str]) -> str:
    """Return a drawing of the transition as an SVG element of a page.

    All text in it is escaped. `short`: name of a node or an instance -> the name that is shown.
    """
    # Place the boxes of each wave in rows, and a band behind each wave
    steps, wave_of = transition["steps"], waves(transition)
    members: list[list[Json]] = [[] for _ in range(max(wave_of.values(), default=0))]
    for step in steps:
        members[wave_of[step["number"]] - 1].append(step)
    boxes: dict[int, tuple[float, float]] = {}  # number of a step -> left and top of its box
    bands: list[tuple[float, float]] = []  # top and height
    top = float(MARGIN)
    across = min(ACROSS, max(map(len, members), default=1))
    for band in members:
        start = top
        top += HEAD
        for position, step in enumerate(band):
            row, column = divmod(position, across)
            left = MARGIN + GAP + column * (WIDTH + GAP)
            boxes[step["number"]] = (left, top + row * (HEIGHT + GAP))
        top += -(-len(band) // across) * (HEIGHT + GAP)
        bands.append((start, top - start))
        top += BETWEEN
    width = 2 * MARGIN + GAP + across * (WIDTH + GAP)
    height = max(top - BETWEEN, 0) + MARGIN

    # Draw the bands, then a curve for each dependency, then the boxes above the curves
    size = f"{width:.0f}", f"{height:.0f}"
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="Steps by wave">',
        f"<style>{STYLE}</style>",
        f'<rect class="sheet" width="{size[0]}" height="{size[1]}"/>',
    ]
    for wave, (top, tall) in enumerate(bands, start=1):
        rows.append(
            f'<rect class="band" x="{MARGIN}" y="{top:.0f}" rx="8" '
            f'width="{width - 2 * MARGIN:.0f}" height="{tall:.0f}"/>'
            f'<text class="wave" x="{MARGIN + GAP}" y="{top + 17:.0f}">Wave {wave}</text>'
        )
    for step in steps:
        for number, why in zip(step["after"], step["because"]):
            (from_left, from_top), (to_left, to_top) = boxes[number], boxes[step["number"]]
            x, y, to_x = from_left + WIDTH / 2, from_top + HEIGHT, to_left + WIDTH / 2
            bend = max(24.0, (to_top - y) / 2)
            rows.append(
                f'<path class="wait" d="M{x:.0f},{y:.0f} C{x:.0f},{y + bend:.0f} {to_x:.0f},'
                f'{to_top - bend:.0f} {to_x:.0f},{to_top:.0f}">'
                f"<title>{number} before {step['number']}: {_escaped(why)}</title></path>"
            )
    rows += (_box(step, boxes[step["number"]], short) for step in steps)
    return "\n".join([*rows, "</svg>"])


def _box(step: Json, at: tuple[float, float], short: Mapping[str, str]) -> str:
    left, top = at
    codes = ", ".join(opcode["OP_ID"] for opcode in step["opcodes"]) or "by hand"
    waits = "; ".join(f"after {n}: {why}" for n, why in zip(step["after"], step["because"]))
    tooltip = "\n".join(text for text in (f"{step['number']}. {label(step)}", codes, waits) if text)
    name = short.get(subject(step), subject(step))
    after = f"after {', '.join(map(str, step['after']))}" if step["after"] else ""
    lines = (
        ("what", 18, f"{step['number']}. {name}"),
        ("kind", 34, step["kind"]),
        ("way", 50, way(step, short, ARROW)),
        ("after", 66, after),
    )
    return (
        f'<g class="step {step["kind"]}{"" if step["opcodes"] else " hand"}">'
        f"<title>{_escaped(tooltip)}</title>"
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="6"/>'
        + "".join(
            f'<text class="{kind}" x="{left + 10:.0f}" y="{top + down:.0f}">{_cut(text)}</text>'
            for kind, down, text in lines
            if text
        )
        + "</g>"
    )


def _cut(text: str) -> str:
    """Return `text`, cut to the length of a line and escaped."""
    text = printable(text)
    if len(text) > LETTERS:
        text = f"{text[: LETTERS - 1]}\N{HORIZONTAL ELLIPSIS}"
    return _escaped(text)


def _escaped(text: str) -> str:
    return "\n".join(
        printable(line).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        for line in text.split("\n")
    )


def subject(step: Json) -> str:
    """Return the subject of a step: an instance, or a node."""
    return str(step.get("instance", step.get("node", "")))


def way(step: Json, short: Mapping[str, str] | None = None, arrow: str = "->") -> str:
    """Return the move of a step as text: ``node1:node2 -> node3:node2``.

    `short`: name of a node -> the name that is shown; other names are shown unchanged.
    """
    known = short or {}
    before, after = (
        ":".join(known.get(name, name) for name in step.get(end, ())) for end in ("from", "to")
    )
    if before == after:
        return f"on {after}" if after else " ".join(step.get("tags", ()))
    return f" {arrow} ".join(nodes for nodes in (before, after) if nodes)


def label(step: Json) -> str:
    """Return a step in one line, without its dependencies."""
    return printable(" ".join(word for word in (step["kind"], subject(step), way(step)) if word))


def dot(transition: Json) -> str:
    """Return the transition as a graph in DOT: a box per step, and an arrow per dependency."""
    rows = ["digraph transition {", "  rankdir=LR;", "  node [shape=box];"]
    for step in transition["steps"]:
        style = "" if step["opcodes"] else ", style=dashed"
        rows.append(f"  s{step['number']} [label={_quoted(label(step), step['number'])}{style}];")
    for step in transition["steps"]:
        for number, why in zip(step["after"], step["because"]):
            rows.append(f"  s{number} -> s{step['number']} [label={_quoted(why)}];")
    return "\n".join([*rows, "}", ""])


def _quoted(text: str, number: int | None = None) -> str:
    escaped = printable(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if number is None else f'"{number}. {escaped}"'


def waves(transition: Json) -> dict[int, int]:
    """Return number of a step -> number of its wave; steps without dependencies are in wave 1."""
    by_step: dict[int, int] = {}
    for step in transition["steps"]:
        by_step[step["number"]] = 1 + max((by_step[one] for one in step["after"]), default=0)
    return by_step


def graph(transition: dict[str, Any], path: str) -> str:
    """Return a drawing of the transition: SVG if `path` ends with ``.svg``, otherwise DOT."""
    if path.lower().endswith(".svg"):
        return svg(transition)

    return dot(transition)
