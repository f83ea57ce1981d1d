"""Define features of htools' tags: exclusion, location, migration."""

from __future__ import annotations

from collections.abc import Iterator

from tests.matrix.scenarios import (
    BEST,
    KEEPER,
    NEXT,
    PAIR,
    SHARED,
    Scenario,
)

from .shared import excluded_from_best
from .table import PRIMARIES, feature


@feature("exclusion tags", PRIMARIES)
def exclusion_tags(scenario: Scenario) -> Iterator[None]:
    """Give the tested instance the exclusion tag of the instance on the node `best`."""
    excluded_from_best(scenario)
    tags = scenario.instance("at-best")["tags"]
    scenario.instance("at-best")["tags"] = []
    yield
    scenario.instance("at-best")["tags"] = tags


@feature("location tags")
def location_tags(scenario: Scenario) -> Iterator[None]:
    """Set the desired location of a primary; for a secondary, a location unlike the primary's."""
    scenario.tag(None, "htools:nlocation:site", "htools:desiredlocation:site")
    scenario.tag(scenario.node(NEXT), "site:a")
    scenario.tag(scenario.node(KEEPER), "site:b")
    if scenario.role == 0:
        scenario.tag(scenario.subject, "site:a")
    untagged = scenario.node(BEST)["tags"]
    scenario.tag(scenario.node(BEST), "site:a")
    yield
    scenario.node(BEST)["tags"] = [*untagged, "site:b"]


@feature("migration tags", (SHARED, PAIR))
def migration_tags(scenario: Scenario) -> Iterator[None]:
    """Set migration tags with which node `best` cannot receive instances from node `source`."""
    scenario.disable_n1()  # from `next` it could fail over to `best` only
    scenario.tag(None, "htools:migration:hv")
    for name, node in scenario.document["nodes"].items():
        if name != BEST:
            scenario.tag(node, "hv:new")
    untagged = scenario.node(BEST)["tags"]
    scenario.tag(scenario.node(BEST), "hv:new")
    yield
    scenario.node(BEST)["tags"] = [*untagged, "hv:old"]
