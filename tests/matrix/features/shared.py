"""Prepare facts that several features use."""

from __future__ import annotations

from tests.matrix.worlds import BEST, HELD, KEEPER, MEMORY, NEXT, SPARE, Scene

__all__ = ["excluded_from_best", "only_best_can_rescue"]


def excluded_from_best(scene: Scene) -> None:
    """Give the instance on `best` the exclusion tag of the subject."""
    scene.tag(None, "htools:iextags:service")
    scene.tag(scene.subject, "service:dns")
    scene.tag(scene.instance("at-best"), "service:dns")


def only_best_can_rescue(scene: Scene) -> None:
    """Let the instances of `keeper` fit on `best` only, and only without the subject."""
    size = MEMORY[BEST] - HELD[BEST] - 256
    home = KEEPER
    if scene.group_of(KEEPER) is not scene.group_of(BEST):
        home = SPARE
        scene.instance("at-spare")["memory"] = 100
    scene.node(home)["total_memory"] += size
    scene.add("large", home, memory=size, auto_balance=False)
    if scene.request.get("type") == "change-group":  # N+1 counts where the group is chosen
        scene.node(NEXT)["drained"] = True
