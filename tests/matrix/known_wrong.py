"""Cells that are red, until what they show is mended."""

from __future__ import annotations

_WRONG: dict[str, list[tuple[str, str]]] = {
    "maintenance tag": [
        ("capacity", "shared"),
        ("capacity", "plain"),
        ("detours", "shared"),
    ],
    "cpu ratio": [
        ("detours", "shared"),
    ],
    "group setting: n1": [
        ("capacity", "shared"),
        ("capacity", "plain"),
    ],
    "exclusion tags": [
        ("detours", "shared"),
    ],
    "apart (node)": [
        ("detours", "shared"),
    ],
    "should with a price": [
        ("allocate, pacemaker-balanced", "shared"),
        ("allocate, pacemaker-balanced", "plain"),
        ("allocate, pacemaker-balanced", "pair"),
        ("multi-allocate, pacemaker-balanced", "shared"),
        ("multi-allocate, pacemaker-balanced", "plain"),
        ("multi-allocate, pacemaker-balanced", "pair"),
        ("relocate, pacemaker-balanced", "shared"),
        ("evacuate primary-only, pacemaker-balanced", "shared"),
        ("evacuate all, pacemaker-balanced", "shared"),
        ("evacuate all, pacemaker-balanced", "pair"),
        ("change-group, pacemaker-balanced", "shared"),
        ("change-group, pacemaker-balanced", "pair"),
        ("allocate, affinity", "shared"),
        ("allocate, affinity", "plain"),
        ("allocate, affinity", "pair"),
        ("multi-allocate, affinity", "shared"),
        ("multi-allocate, affinity", "plain"),
        ("multi-allocate, affinity", "pair"),
        ("relocate, affinity", "shared"),
        ("evacuate primary-only, affinity", "shared"),
        ("evacuate all, affinity", "shared"),
        ("evacuate all, affinity", "pair"),
        ("change-group, affinity", "shared"),
        ("change-group, affinity", "pair"),
        ("place", "shared"),
    ],
    "hard location score": [
        ("detours", "shared"),
    ],
    "hard node score": [
        ("capacity", "shared"),
        ("capacity", "plain"),
        ("detours", "shared"),
    ],
}
"""Feature -> paths and kinds of subject."""

KNOWN_WRONG = [(feature, *cell) for feature, cells in _WRONG.items() for cell in cells]
