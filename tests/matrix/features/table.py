"""Define the table of features: facts that can decide the placement of an instance.

Each feature is a generator over a scenario. Before its ``yield``, it prepares common facts. After
the ``yield``, it sets the deciding fact. The scenario with the preparation alone is the control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.builders import Json
from tests.matrix.scenarios import (
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
"""Expectation: only with the feature, the tested instance is not on the node `best`."""

HERE = "here"
"""Expectation: only with the feature, the tested instance is on the node `best`."""

WAITS = "waits"
"""Expectation: only with the feature, the tested instance's step depends on that of its rival."""

FAILS_OVER = "fails over"
"""Expectation: the tested instance fails over with the feature, else it is migrated."""

STAYS = "stays"
"""Expectation: the tested instance is not stopped with the feature, else it is."""

EVERY = (SHARED, PLAIN, DRBD, PAIR)
PRIMARIES = (SHARED, PLAIN, PAIR)
ON_DISK = (PLAIN, DRBD, PAIR)

Build = Callable[[Scenario], Iterator[None]]


@dataclass(frozen=True)
class Feature:
    """A row of the matrix: a fact that decides the placement of the tested instance.

    Attributes
    ----------
    name:
        The name in the table.
    kinds:
        The kinds of tested instances for which the fact can decide.
    split:
        Whether the fact is a property of groups: then `best` and `next` are in different groups.
    rival:
        Whether the fact decides between two instances of a request.
    expect:
        The effect of the fact: `AWAY`, `HERE`, `WAITS`, `FAILS_OVER` or `STAYS`.
    nowhere:
        Whether the fact excludes the node `next`, in addition to `best`.
    build:
        Returns a generator: its first step prepares a scenario, the second one adds the fact.
    """

    name: str
    kinds: tuple[str, ...]
    split: bool
    rival: bool
    expect: str
    nowhere: bool
    build: Build

    def leaves_nothing(self, scenario: Scenario) -> bool:
        """Return whether the feature excludes both nodes, `best` and `next`."""
        return self.nowhere or scenario.node(NEXT)["drained"]

    def applied(self, scenario: Scenario) -> Scenario:
        """Return a copy of the scenario with the deciding fact of the feature."""
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
