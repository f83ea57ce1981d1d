"""A plot of time against nodes as a small SVG: log axes, one line per program and template."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["draw"]

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 400, 70, 20, 150, 50
X = (5, 1280)
Y = (5, 300_000)
STYLES = {
    ("ours", "drbd"): ("#1f77b4", ""),
    ("ours", "rbd"): ("#1f77b4", "6 4"),
    ("hail", "drbd"): ("#d62728", ""),
    ("hail", "rbd"): ("#d62728", "6 4"),
}


def draw(rows: list[dict[str, Any]]) -> str:
    """The SVG of all rows that have a number of nodes."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        *_axes(),
    ]
    for (program, template), (colour, dash) in STYLES.items():
        points = [
            (row["nodes"], row[f"{program}_ms"])
            for row in rows
            if row["template"] == template and f"{program}_ms" in row
        ]
        parts += _curve(f"{program}, {template}", sorted(points), colour, dash)
    return "\n".join([*parts, "</svg>", ""])


def _x(nodes: float) -> float:
    share = math.log(nodes / X[0]) / math.log(X[1] / X[0])
    return LEFT + share * (WIDTH - LEFT - RIGHT)


def _y(milliseconds: float) -> float:
    share = math.log(milliseconds / Y[0]) / math.log(Y[1] / Y[0])
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


def _curve(name: str, points: list[tuple[float, float]], colour: str, dash: str) -> list[str]:
    if not points:
        return []
    path = " ".join(f"{_x(x):.1f},{_y(y):.1f}" for x, y in points)
    last_x, last_y = points[-1]
    return [
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" '
        f'stroke-dasharray="{dash}"/>',
        f'<text x="{_x(last_x) + 8:.0f}" y="{_y(last_y) + 4:.0f}" fill="{colour}">{name}</text>',
    ]
