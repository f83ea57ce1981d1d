"""Plot time against the number of nodes as SVG: a panel for each command or request type.

Both axes are logarithmic. Each program and disk template has a line.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = ["draw"]

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 480, 320, 60, 40, 110, 50
COLUMNS = 3
X = (5, 1280)
Y = (5, 300_000)
WORKS = (
    "allocate", "balance", "balance-groups", "capacity",
    "capacity with tiers", "check", "compress", "make-room", "place", "reboot",
    "redistribute", "repair", "squeeze",
)  # fmt: skip
COLOURS = {"ours": "#1f77b4", "hail": "#d62728"}
DASHES = {"drbd": "", "rbd": "6 4", "plain": "2 3"}
NAMES = {"ours": "ours", "hail": "peer"}


def draw(rows: list[dict[str, Any]]) -> str:
    """Return an SVG plot of all rows that belong to a panel."""
    high = HEIGHT * math.ceil(len(WORKS) / COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * COLUMNS}" height="{high}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH * COLUMNS}" height="{high}" fill="white"/>',
    ]
    for number, work in enumerate(WORKS):
        across, down = number % COLUMNS * WIDTH, number // COLUMNS * HEIGHT
        parts.append(f'<g transform="translate({across} {down})">')
        parts += _panel(work, [row for row in rows if row.get("work") == work])
        parts.append("</g>")
    return "\n".join([*parts, "</svg>", ""])


def _panel(work: str, rows: list[dict[str, Any]]) -> list[str]:
    """Return the curves of one panel; a hollow point is a run stopped at its time limit."""
    alone = "" if any("hail_ms" in row for row in rows) else ": no peer"
    parts = [f'<text x="{LEFT}" y="{TOP - 14}" font-weight="bold">{work}{alone}</text>', *_axes()]
    for program, colour in COLOURS.items():
        for template, dash in DASHES.items():
            points = [
                (row["nodes"], row[f"{program}_ms"], bool(row.get(f"{program}_stopped")))
                for row in rows
                if row["template"] == template and f"{program}_ms" in row
            ]
            parts += _curve(f"{NAMES[program]}, {template}", sorted(points), colour, dash)
    return parts


def _x(nodes: float) -> float:
    share = math.log(nodes / X[0]) / math.log(X[1] / X[0])
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(milliseconds: float) -> float:
    share = math.log(max(milliseconds, Y[0]) / Y[0]) / math.log(Y[1] / Y[0])
    return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _axes() -> list[str]:
    parts = []
    for nodes in (5, 20, 80, 320, 1280):
        parts += [
            f'<line x1="{_x(nodes):.0f}" x2="{_x(nodes):.0f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" '
            'stroke="#ddd"/>',
            f'<text x="{_x(nodes):.0f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">'
            f"{nodes}</text>",
        ]
    times = ((10, "10 ms"), (100, "0.1 s"), (1000, "1 s"), (10_000, "10 s"), (100_000, "100 s"))
    for time, label in times:
        parts += [
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{_y(time):.0f}" y2="{_y(time):.0f}" '
            'stroke="#ddd"/>',
            f'<text x="{LEFT - 8}" y="{_y(time) + 4:.0f}" text-anchor="end">{label}</text>',
        ]
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 10}" text-anchor="middle">nodes</text>')
    return parts


def _curve(name: str, points: list[tuple[int, float, bool]], colour: str, dash: str) -> list[str]:
    if not points:
        return []
    path = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y, _ in points)
    dots = [
        f'<circle cx="{_x(x):.1f}" cy="{_y(y):.1f}" r="3" stroke="{colour}" '
        f'fill="{"white" if stopped else colour}"/>'
        for x, y, stopped in points
    ]
    last_x, last_y, _ = points[-1]
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
        f'stroke-dasharray="{dash}"/>',
        *dots,
        f'<text x="{_x(last_x) + 8:.0f}" y="{_y(last_y) + 4:.0f}" fill="{colour}">{name}</text>',
    ]
