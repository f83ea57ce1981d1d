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
