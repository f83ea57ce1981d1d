"""Transitions as SVG: a column per level, a box per step, a curve per wait."""

from __future__ import annotations

from iallocator.errors import shown
from iallocator.render.steps import label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

__all__ = ["svg"]

HEIGHT = 30
GAP = 14
BETWEEN = 70
MARGIN = 12
CHARACTER = 7.2
"""All in pixels; a character of the monospaced font that is asked for is that wide."""

COLOURS = {
    "migrate": "#d6e6f5", "failover": "#f5e2d0", "replace-disks": "#e4dcf0",
    "create": "#d9efd9", "start": "#d9efd9", "stop": "#f5d6d6", "fence": "#f0b8b8",
}  # fmt: skip
OTHERS = "#eeeeee"


def svg(transition: Json) -> str:
    """The drawing as a document by itself; every box and curve has a tooltip."""
    steps = transition["steps"]
    level: dict[int, int] = {}
    for step in steps:
        level[step["number"]] = 1 + max((level[one] for one in step["after"]), default=0)
    columns: dict[int, list[Json]] = {}
    for step in steps:
        columns.setdefault(level[step["number"]], []).append(step)
    place: dict[int, tuple[float, float, float]] = {}
    left, height = float(MARGIN), 0.0
    for number in sorted(columns):
        column = _ordered(columns[number], place)
        width = max(len(_text(step)) for step in column) * CHARACTER + 16
        top = float(MARGIN)
        for step in column:
            place[step["number"]] = (left, top, width)
            top += HEIGHT + GAP
        height = max(height, top)
        left += width + BETWEEN
    across, down = max(left - BETWEEN + MARGIN, 1), max(height - GAP + MARGIN, 1)
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across:.0f}" height="{down:.0f}" '
        f'viewBox="0 0 {across:.0f} {down:.0f}" font-family="monospace" font-size="12">',
        '<defs><marker id="arrow" markerWidth="8" markerHeight="8" refX="7" refY="4" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
    ]
    rows += (_curve(number, step, place) for step in steps for number in step["after"])
    rows += (_box(step, place[step["number"]]) for step in steps)
    return "\n".join([*rows, "</svg>", ""])


def _text(step: Json) -> str:
    return f"{step['number']}. {label(step)}"


def _ordered(column: list[Json], place: dict[int, tuple[float, float, float]]) -> list[Json]:
    """Each as near as can be to what it waits for, so that few curves cross."""

    def middle(step: Json) -> tuple[float, int]:
        tops = [place[number][1] for number in step["after"]]
        return (sum(tops) / len(tops) if tops else 0.0), step["number"]

    return sorted(column, key=middle)


def _box(step: Json, at: tuple[float, float, float]) -> str:
    left, top, width = at
    dashes = "" if step["opcodes"] else ' stroke-dasharray="4 3"'
    codes = ", ".join(opcode["OP_ID"] for opcode in step["opcodes"]) or "by hand"
    return (
        f'<g class="step"><title>{_escaped(codes)}</title>'
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{HEIGHT}" rx="4" '
        f'fill="{COLOURS.get(step["kind"], OTHERS)}" stroke="#555"{dashes}/>'
        f'<text x="{left + 8:.1f}" y="{top + 19:.1f}">{_escaped(_text(step))}</text></g>'
    )


def _curve(number: int, step: Json, place: dict[int, tuple[float, float, float]]) -> str:
    left, top, width = place[number]
    x, y = left + width, top + HEIGHT / 2
    to_x, to_y = place[step["number"]][0], place[step["number"]][1] + HEIGHT / 2
    bend = BETWEEN / 2
    why = step["because"][step["after"].index(number)]
    return (
        f'<path class="wait" d="M{x:.1f},{y:.1f} C{x + bend:.1f},{y:.1f} {to_x - bend:.1f},'
        f'{to_y:.1f} {to_x:.1f},{to_y:.1f}" fill="none" stroke="#555" '
        f'marker-end="url(#arrow)"><title>{_escaped(why)}</title></path>'
    )


def _escaped(text: str) -> str:
    return shown(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
