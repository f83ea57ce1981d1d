"""Features of htools' tags: exclusion, location, migration."""

from __future__ import annotations

from collections.abc import Iterator

from tests.matrix.worlds import (
    BEST,
    KEEPER,
    NEXT,
    PAIR,
    SHARED,
    Scene,
)

from .shared import excluded_from_best
from .table import PRIMARIES, feature


@feature("exclusion tags", PRIMARIES)
def exclusion_tags(scene: Scene) -> Iterator[None]:
    """Give ``at-best`` and the subject the same exclusion tag."""
    excluded_from_best(scene)
    tags = scene.instance("at-best")["tags"]
    scene.instance("at-best")["tags"] = []
    yield
    scene.instance("at-best")["tags"] = tags


@feature("location tags")
def location_tags(scene: Scene) -> Iterator[None]:
    """Set the desired location of a primary; for a secondary, one other than its primary's."""
    scene.tag(None, "htools:nlocation:site", "htools:desiredlocation:site")
    scene.tag(scene.node(NEXT), "site:a")
    scene.tag(scene.node(KEEPER), "site:b")
    if scene.role == 0:
        scene.tag(scene.subject, "site:a")
    untagged = scene.node(BEST)["tags"]
    scene.tag(scene.node(BEST), "site:a")
    yield
    scene.node(BEST)["tags"] = [*untagged, "site:b"]


@feature("migration tags", (SHARED, PAIR))
def migration_tags(scene: Scene) -> Iterator[None]:
    """Set migration tags with which `best` cannot receive instances from `source`."""
    scene.disable_n1()  # from `next` it could fail over to `best` only
    scene.tag(None, "htools:migration:hv")
    for name, node in scene.document["nodes"].items():
        if name != BEST:
            scene.tag(node, "hv:new")
    untagged = scene.node(BEST)["tags"]
    scene.tag(scene.node(BEST), "hv:new")
    yield
    scene.node(BEST)["tags"] = [*untagged, "hv:old"]
