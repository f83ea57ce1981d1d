"""Prepare facts that several features of the matrix use."""

from __future__ import annotations

from tests.matrix.scenarios import BEST, HELD, KEEPER, MEMORY, NEXT, SPARE, Scenario

__all__ = ["excluded_from_best", "only_best_can_rescue"]


def excluded_from_best(scenario: Scenario) -> None:
    """Give the instance on the node `best` the exclusion tag of the tested instance."""
    scenario.tag(None, "htools:iextags:service")
    scenario.tag(scenario.subject, "service:dns")
    scenario.tag(scenario.instance("at-best"), "service:dns")


def only_best_can_rescue(scenario: Scenario) -> None:
    """Let the instances of `keeper` restart on `best` only, without the tested instance there."""
    size = MEMORY[BEST] - HELD[BEST] - 256
    home = KEEPER
    if scenario.group_of(KEEPER) is not scenario.group_of(BEST):
        home = SPARE
        scenario.instance("at-spare")["memory"] = 100
    scenario.node(home)["total_memory"] += size
    scenario.add("large", home, memory=size, auto_balance=False)
    if scenario.request.get("type") == "change-group":  # N+1 counts where the group is chosen
        scenario.node(NEXT)["drained"] = True
