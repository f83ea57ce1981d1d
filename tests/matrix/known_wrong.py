"""Cells that are red, until what they show is mended."""

from __future__ import annotations

_WRONG: dict[str, list[str]] = {
    "maintenance tag": [
        "allocate-secondary",
        "evacuate secondary-only",
        "multi-evacuate",
        "allocate-secondary, affinity",
        "evacuate secondary-only, affinity",
        "multi-evacuate, affinity",
        "capacity",
        "detours",
    ],
    "cpu ratio": [
        "detours",
    ],
    "group setting: soft errors": [
        "balance",
        "lookahead",
        "--cost",
        "place",
    ],
    "group setting: n1": [
        "balance",
        "lookahead",
        "--cost",
        "squeeze up",
        "capacity",
        "place",
    ],
    "exclusion tags": [
        "detours",
    ],
    "apart (node)": [
        "detours",
    ],
    "should with a price": [
        "allocate, pacemaker-balanced",
        "multi-allocate, pacemaker-balanced",
        "relocate, pacemaker-balanced",
        "evacuate primary-only, pacemaker-balanced",
        "evacuate all, pacemaker-balanced",
        "change-group, pacemaker-balanced",
        "allocate, affinity",
        "multi-allocate, affinity",
        "relocate, affinity",
        "evacuate primary-only, affinity",
        "evacuate all, affinity",
        "change-group, affinity",
        "--optimal",
        "place",
    ],
    "keep-running": [
        "place",
    ],
    "hard location score": [
        "detours",
    ],
    "hard node score": [
        "capacity",
        "detours",
    ],
    "N+1 no-new": [
        "balance",
        "lookahead",
        "--cost",
        "squeeze up",
    ],
    "N+1 off": [
        "balance",
        "lookahead",
        "--cost",
        "squeeze up",
    ],
    "N+1 strict": [
        "balance",
        "lookahead",
        "--cost",
        "squeeze down",
        "squeeze up",
        "redistribute",
        "compress",
        "balance-groups",
    ],
}
"""Feature -> paths."""

KNOWN_WRONG = [(feature, path) for feature, paths in _WRONG.items() for path in paths]
