"""Features of groups: policies, networks, group settings."""

from __future__ import annotations

from collections.abc import Iterator

from tests import builders
from tests.matrix.worlds import (
    BEST,
    KEEPER,
    NEXT,
    PLAIN,
    SHARED,
    SPARE,
    Scene,
)

from .shared import excluded_from_best, only_best_can_rescue
from .table import HERE, PRIMARIES, feature


@feature("policy", split=True)
def policy(scene: Scene) -> Iterator[None]:
    """Set a policy of the group that allows only smaller instances."""
    yield
    high = builders.spec(scene.subject["memory"] - 1, 64, 16777216, 16, 64)
    scene.group_of(BEST)["ipolicy"] = builders.policy(high=high)


@feature("networks", split=True)
def networks(scene: Scene) -> Iterator[None]:
    """Remove a network of the instance from the group."""
    scene.subject["nics"] = [{"mac": "aa:00:00:11:22:33", "ip": None, "network": "net1"}]
    for group in scene.document["nodegroups"].values():
        group["networks"] = ["net1"]
    yield
    scene.group_of(BEST)["networks"] = ["net2"]


@feature("unallocable group", split=True)
def unallocable(scene: Scene) -> Iterator[None]:
    """Make the group unallocable, so that no instance is placed in it."""
    yield
    scene.group_of(BEST)["alloc_policy"] = "unallocable"


@feature("group setting: soft errors", PRIMARIES, expect=HERE)
def group_soft_errors(scene: Scene) -> Iterator[None]:
    """Let the group ignore soft errors; each placement of the subject violates a soft limit."""
    _unwelcome(scene)
    yield
    scene.tag(scene.group_of(BEST), "iallocator:ignore-soft-errors:yes")


@feature("setting of another group: soft errors", PRIMARIES, split=True)
def other_group_soft_errors(scene: Scene) -> Iterator[None]:
    """Let the other group ignore soft errors; in both groups, the subject violates a soft limit."""
    _unwelcome(scene)
    untagged = scene.group_of(BEST)["tags"]
    scene.tag(scene.group_of(BEST), "iallocator:ignore-soft-errors:yes")
    yield
    scene.group_of(BEST)["tags"] = untagged
    scene.tag(scene.group_of(NEXT), "iallocator:ignore-soft-errors:yes")


def _unwelcome(scene: Scene) -> None:
    """Let the subject violate a soft limit everywhere: of tags, or of cpus if it has none."""
    if scene.wanted is not None:
        scene.wanted["vcpus"] = 5
        for name in (BEST, NEXT, SPARE):
            scene.node(name)["total_cpus"] = 1
        return
    excluded_from_best(scene)
    for name, one in scene.document["instances"].items():
        if name in ("at-next", "at-keeper", "at-spare"):
            scene.tag(one, "service:dns")


@feature("group setting: memory ratio", (SHARED, PLAIN), expect=HERE)
def group_memory_ratio(scene: Scene) -> Iterator[None]:
    """Set a memory ratio of the group; without it, `best` lacks one MiB."""
    scene.disable_n1()
    instances = scene.document["instances"].values()
    for name, short in ((BEST, 0), (NEXT, 400), (KEEPER, 300), (SPARE, 400)):
        if name in scene.document["nodes"]:
            held = sum(one["memory"] for one in instances if one["nodes"][0] == name)
            size = held + scene.subject["memory"] - short
            scene.node(name)["total_memory"] = min(scene.node(name)["total_memory"], size)
    yield
    scene.tag(scene.group_of(BEST), "iallocator:memory-ratio:1.01")


@feature("group setting: n1", expect=HERE)
def group_n1(scene: Scene) -> Iterator[None]:
    """Disable the N+1 check of the group."""
    only_best_can_rescue(scene)
    scene.options[:] = [option for option in scene.options if not option.startswith("--n1")]
    yield
    scene.tag(scene.group_of(BEST), "iallocator:n1:off")


@feature("group setting: strategy")
def group_strategy(scene: Scene) -> Iterator[None]:
    """Set a strategy of Pacemaker for the group, with which an infinite score of a node decides."""
    scene.tag(scene.node(NEXT), "iallocator:score:INFINITY")
    yield
    scene.tag(scene.group_of(NEXT), "iallocator:strategy:pacemaker-default")
