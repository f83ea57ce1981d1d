"""Test features × features: each one decides also if the tags for another one are there.

The features are the constraints that users set, new ones and older ones. The other feature is
prepared: its tags are there, and exclude nothing.
"""

from __future__ import annotations

from collections.abc import Collection

import pytest

from .features import FEATURES, HERE
from .paths import PATHS
from .planners import RejectedError
from .reasons import reason
from .scenarios import BEST, Scenario
from .test_matrix import _home, _kinds

NEW = (
    "required label", "excluded label", "preferred label", "disk reserve", "volume groups",
    "group setting: memory ratio", "apart (group)", "infinite stickiness",
)  # fmt: skip
OLD = (
    "exclusion tags", "location tags", "migration tags", "apart (node)", "apart (domain)",
    "together", "should with a penalty", "hard location score", "soft location score", "pools",
    "cpu ratio", "maintenance tag",
)  # fmt: skip
ASKED = (
    "allocate", "multi-allocate", "relocate", "evacuate all", "change-group", "balance",
    "squeeze down",
)  # fmt: skip

SOFT = ("preferred label", "location tags", "should with a penalty", "soft location score")

Rule = tuple[Collection[str], Collection[str], Collection[str], str]

RULES: list[Rule] = [
    (
        ("volume groups",), ("disk reserve", "pools"), ASKED,
        "a disk in a volume group with a name takes nothing of the default volume group",
    ),
    (
        ("group setting: memory ratio",), SOFT, ASKED,
        "only the node `best` has the memory, and a soft constraint excludes no node",
    ),
    (
        ("group setting: memory ratio",), ("together",), ASKED,
        "the other instance does not fit on the node `next` either",
    ),
    (
        ("apart (group)",), SOFT, ("change-group",),
        "the allocation policy of a group decides before soft constraints",
    ),
    (
        ("apart (group)", "apart (domain)"), ("apart (group)", "apart (domain)"), ("change-group",),
        "the tag for the one names the rule of the other one, which then applies to the group, too",
    ),
]  # fmt: skip
"""Prepared features, deciding features, paths, and the reason why they are not combined."""

UNMET = {
    ("disk reserve", "infinite stickiness"): "stickiness concerns a primary, which is not copied",
    ("infinite stickiness", "volume groups"): "stickiness concerns a primary, which is not copied",
    ("apart (group)", "infinite stickiness"): "it has no effect between groups",
}
"""Two features -> why they meet on no path."""

Cell = tuple[str, str, str, str]


def _cells() -> list[Cell]:
    """Return (path, prepared feature, deciding feature, kind of the tested instance)."""
    return [
        (path, other, feature, kind)
        for path in ASKED
        for other in (*NEW, *OLD)
        for feature in (*NEW, *OLD)
        if other != feature and {other, feature} & {*NEW}
        if not reason(other, path) and not reason(feature, path)
        for kind in _kinds(FEATURES[feature], PATHS[path])
        if kind in _kinds(FEATURES[other], PATHS[path])
    ]


def _rule(path: str, other: str, feature: str) -> str:
    """Return why the two features are not combined; "" if they are."""
    found = (w for one, two, paths, w in RULES if other in one and feature in two and path in paths)
    return next(found, "")


CELLS = [cell for cell in _cells() if not _rule(*cell[:3])]


@pytest.mark.parametrize("path", ASKED)
def test_feature_decides_beside_the_tags_for_another_one(path: str) -> None:
    """With the tags for another feature, each feature changes the placement as it does alone."""
    column = PATHS[path]
    for cell in CELLS:
        if cell[0] != path:
            continue
        _, other, feature, kind = cell
        row, beside = FEATURES[feature], FEATURES[other]

        def scenario() -> Scenario:
            found = column.scenario(kind, row.split or beside.split)  # noqa: B023
            # A ratio by which the instance fits is in force; anything else excludes nothing
            return beside.applied(found) if beside.expect == HERE else beside.prepared(found)  # noqa: B023

        without = _home(column, row.prepared(scenario()))
        try:
            found = _home(column, row.applied(scenario()))
        except RejectedError:
            found = ""
        expected = (False, True) if row.expect == HERE else (True, False)
        assert (without == BEST, found == BEST) == expected, (*cell, without, found)


def test_pairs_are_tested_or_have_a_reason() -> None:
    """Each two features meet on some path, or have a reason; each reason applies somewhere."""
    used = {_rule(*cell[:3]) for cell in _cells()} - {""}
    assert used == {words for *_, words in RULES}
    met = {frozenset(cell[1:3]) for cell in CELLS}
    every = {frozenset((one, two)) for one in NEW for two in (*NEW, *OLD) if one != two}
    assert {tuple(sorted(pair)) for pair in every - met} == UNMET.keys()
