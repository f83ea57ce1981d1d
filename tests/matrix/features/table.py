"""The table of features: facts that may decide the placement of an instance.

Each feature is a generator over a `Scenario`. Before its ``yield``, the feature prepares the common
facts. After the ``yield``, it sets the one deciding fact. The preparation alone is the control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.builders import Json
from tests.matrix.worlds import (
    DRBD,
    NEXT,
    PAIR,
    PLAIN,
    SHARED,
    Scenario,
)

__all__ = [
    "AWAY", "EVERY", "FAILS_OVER", "FEATURES", "HERE", "ON_DISK", "PRIMARIES", "STAYS", "WAITS",
    "Feature", "Json", "feature",
]  # fmt: skip

AWAY = "away"
"""With the feature the subject goes to `next`, or is not placed; without it to `best`."""

HERE = "here"
"""With the feature the subject goes to `best`; without it, elsewhere."""

WAITS = "waits"
"""With the feature the step of the subject comes after that of its rival; otherwise not."""

FAILS_OVER = "fails over"
"""With the feature the subject fails over; otherwise it is migrated."""

STAYS = "stays"
"""With the feature the subject is not stopped; otherwise it is stopped."""

EVERY = (SHARED, PLAIN, DRBD, PAIR)
PRIMARIES = (SHARED, PLAIN, PAIR)
ON_DISK = (PLAIN, DRBD, PAIR)

Build = Callable[[Scenario], Iterator[None]]


@dataclass(frozen=True)
class Feature:
    """Represent one row of the matrix.

    Attributes
    ----------
    name
        As in the table.
    kinds
        The kinds of subject that it can decide for.
    split
        Whether it is a property of groups: `best` and `next` are then of different ones.
    rival
        Whether it decides between two instances of a request.
    expect
        `AWAY`, `HERE`, `WAITS`, `FAILS_OVER` or `STAYS`.
    nowhere
        Whether not even `next` is left.
    build
        The generator.
    """

    name: str
    kinds: tuple[str, ...]
    split: bool
    rival: bool
    expect: str
    nowhere: bool
    build: Build

    def leaves_nothing(self, scenario: Scenario) -> bool:
        """Return whether the feature also excludes `next`."""
        return self.nowhere or scenario.node(NEXT)["drained"]

    def applied(self, scenario: Scenario) -> Scenario:
        """Return the test case `scenario` with the feature added."""
        for _ in self.build(scenario):
            pass
        return scenario

    def prepared(self, scenario: Scenario) -> Scenario:
        """Return the test case `scenario` prepared for the feature, but without it."""
        next(self.build(scenario))
        return scenario


FEATURES: dict[str, Feature] = {}
"""Name -> feature, in the order of the table."""


def feature(
    name: str,
    kinds: tuple[str, ...] = EVERY,
    *,
    split: bool = False,
    rival: bool = False,
    expect: str = AWAY,
    nowhere: bool = False,
) -> Callable[[Build], Build]:
    """Return a decorator that adds a feature to the table."""

    def put(build: Build) -> Build:
        assert name not in FEATURES
        FEATURES[name] = Feature(name, kinds, split, rival, expect, nowhere, build)
        return build

    return put
