"""Summarize lives in a table with 95 % intervals of paired differences, and in a plot."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import mean, stdev

from benchmarks.life.life import Outcome

__all__ = ["Results", "drawn", "interval", "table"]

Results = dict[str, dict[str, list[Outcome]]]
"""Scenario -> policy -> one result per seed, with the seeds in one order."""

# Quantiles of Student's distribution for 95 % on both sides, by degrees of freedom.
STUDENT = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14,
           2.13, 2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07, 2.07, 2.06, 2.06, 2.06, 2.05, 2.05,
           2.05, 2.04)  # fmt: skip

COLOURS = ("#d62728", "#ff7f0e", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#7f7f7f")


def interval(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Return the mean of the differences between pairs, and half of its 95 % interval."""
    differences = [a - b for a, b in zip(ours, theirs)]
    if len(differences) < 2:
        return mean(differences), float("inf")
    quantile = STUDENT[min(len(differences) - 2, len(STUDENT) - 1)]
    return mean(differences), quantile * stdev(differences) / sqrt(len(differences))


def table(results: Results) -> str:
    """Return a Markdown table by scenario and policy, with differences to the first policy."""
    lines = [
        "| scenario | policy | asked | rejected | difference | not restarted | difference "
        "| not restarted GiB "
        "| N+1 kept | possible | outside repairs | broken by new ones | moved GiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for scenario, by_policy in results.items():
        first = next(iter(by_policy.values()))
        for policy, lives in by_policy.items():
            lines.append(f"| {scenario} | {policy} | {_cells(lives, first)} |")
    return "\n".join(lines) + "\n"


def _cells(lives: Sequence[Outcome], first: Sequence[Outcome]) -> str:
    rejected = [float(one.rejected) for one in lives], [float(one.rejected) for one in first]
    lost = [float(one.lost) for one in lives], [float(one.lost) for one in first]
    return " | ".join(
        (
            f"{mean(one.asked for one in lives):.0f}",
            f"{mean(rejected[0]):.1f}",
            _difference(*rejected) if lives is not first else "",
            f"{mean(lost[0]):.1f}",
            _difference(*lost) if lives is not first else "",
            f"{mean(one.lost_memory for one in lives) / 1024:.1f}",
            f"{mean(one.kept for one in lives):.3f}",
            _share([one.possible for one in lives]),
            f"{mean(one.calm for one in lives):.3f}",
            f"{mean(one.broken for one in lives):.1f}",
            f"{mean(one.moved for one in lives):.0f}",
        )
    )


def _share(found: Sequence[float | None]) -> str:
    """Return the mean; "" if some values are unknown."""
    known = [one for one in found if one is not None]
    return f"{mean(known):.3f}" if len(known) == len(found) else ""


def _difference(ours: Sequence[float], theirs: Sequence[float]) -> str:
    middle, half = interval(ours, theirs)
    return f"{middle:+.1f} ± {half:.1f}" if half < float("inf") else f"{middle:+.1f}"


def drawn(results: Results) -> str:
    """Return an SVG plot with one panel per scenario and one dot per policy.

    Rejected instances increase to the right, lost instances upwards.
    """
    width, height, gap = 300, 260, 60
    total = len(results) * (width + gap) + gap
    policies = list(dict.fromkeys(name for by in results.values() for name in by))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" height="{height + 130}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{total}" height="{height + 130}" fill="white"/>',
    ]
    for k, (scenario, by_policy) in enumerate(results.items()):
        parts += _panel(gap + k * (width + gap), 40, width, height, scenario, by_policy, policies)
    for k, name in enumerate(policies):
        x, y = gap + k * 130, height + 105
        parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{COLOURS[k % len(COLOURS)]}"/>')
        parts.append(f'<text x="{x + 9}" y="{y + 4}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(
    left: int,
    top: int,
    width: int,
    height: int,
    scenario: str,
    by_policy: dict[str, list[Outcome]],
    policies: Sequence[str],
) -> list[str]:
    points = {
        name: (mean(one.rejected for one in lives), mean(one.lost for one in lives))
        for name, lives in by_policy.items()
    }
    most = [max(1.0, *(point[axis] for point in points.values())) * 1.1 for axis in (0, 1)]
    parts = [
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" stroke="#999"/>',
        f'<text x="{left}" y="{top - 8}">{scenario}: not restarted, by rejected</text>',
        f'<text x="{left}" y="{top + height + 16}">0</text>',
        f'<text x="{left + width}" y="{top + height + 16}" text-anchor="end">{most[0]:.0f}</text>',
        f'<text x="{left - 4}" y="{top + 10}" text-anchor="end">{most[1]:.0f}</text>',
    ]
    for name, (rejected, lost) in points.items():
        x = left + width * rejected / most[0]
        y = top + height * (1 - lost / most[1])
        colour = COLOURS[policies.index(name) % len(COLOURS)]
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')
    return parts
