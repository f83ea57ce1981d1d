"""Constraints between instances, and between instances and nodes."""

from __future__ import annotations

from collections.abc import Iterator

from tests.matrix.worlds import (
    BEST,
    DRBD,
    KEEPER,
    NEXT,
    PLAIN,
    SHARED,
    SOURCE,
    Scene,
)

from .table import HERE, PRIMARIES, STAYS, WAITS, feature


@feature("together", PRIMARIES)
def together(scene: Scene) -> Iterator[None]:
    """Require that the subject shares a node with a partner, which is on `next`."""
    partner = scene.add("partner", NEXT, memory=256, auto_balance=False)
    scene.tag(scene.subject, "iallocator:colocate:must:pair")
    yield
    scene.tag(partner, "iallocator:colocate:must:pair")


@feature("together, as one", (SHARED,), rival=True)
def together_as_one(scene: Scene) -> Iterator[None]:
    """Require one node for the subject and a partner; only `next` fits both."""
    scene.disable_n1()
    scene.subject["memory"] = 12000
    if SOURCE in scene.document["nodes"]:
        scene.node(SOURCE)["total_memory"] += 12000
    scene.node(BEST)["total_memory"] = 21000
    rival = scene.add_rival()
    rival["memory"] = 10000
    scene.tag(scene.subject, "iallocator:priority:1")
    yield
    scene.tag(scene.subject, "iallocator:colocate:must:pair")
    scene.tag(rival, "iallocator:colocate:must:pair")


@feature("apart (node)", PRIMARIES)
def apart_node(scene: Scene) -> Iterator[None]:
    """Forbid that ``at-best`` and the subject share a node."""
    scene.tag(scene.subject, "iallocator:separate:must:web")
    yield
    scene.tag(scene.instance("at-best"), "iallocator:separate:must:web")


@feature("apart (domain)", PRIMARIES)
def apart_domain(scene: Scene) -> Iterator[None]:
    """Forbid that the subject shares a rack with an instance on `keeper`."""
    scene.tag(scene.subject, "iallocator:separate:must:web:rack")
    scene.tag(scene.instance("at-keeper"), "iallocator:separate:must:web:rack")
    scene.tag(scene.node(KEEPER), "rack:1")
    scene.tag(scene.node(NEXT), "rack:2")
    untagged = scene.node(BEST)["tags"]
    scene.tag(scene.node(BEST), "rack:3")
    yield
    scene.node(BEST)["tags"] = [*untagged, "rack:1"]


@feature("apart (group)", PRIMARIES, split=True)
def apart_group(scene: Scene) -> Iterator[None]:
    """Forbid that ``at-best`` and the subject share a node group."""
    scene.tag(scene.subject, "iallocator:separate:must:web:group")
    yield
    scene.tag(scene.instance("at-best"), "iallocator:separate:must:web:group")


@feature("should with a price", PRIMARIES)
def should(scene: Scene) -> Iterator[None]:
    """Set a penalty for sharing a node with ``at-best``, higher than the advantage of `best`."""
    scene.tag(scene.subject, "iallocator:separate:should:web:1000")
    yield
    scene.tag(scene.instance("at-best"), "iallocator:separate:should:web:1000")


@feature("priority", rival=True, expect=HERE)
def priority(scene: Scene) -> Iterator[None]:
    """Let two instances compete for one slot on `best`; the one with higher priority gets it."""
    if scene.kind == DRBD:
        scene.subject["disk_space_total"] = 70000
        for name in (KEEPER, SOURCE):
            scene.node(name)["total_disk"] = 200000
            scene.node(name)["total_memory"] += 1024
    else:
        scene.subject["memory"] = 20000
        if SOURCE in scene.document["nodes"]:
            scene.node(SOURCE)["total_memory"] += 20000
    scene.add_rival()
    yield
    scene.tag(scene.subject, "iallocator:priority:10")


@feature("order", rival=True, expect=WAITS)
def order(scene: Scene) -> Iterator[None]:
    """Require that the subject starts after its rival."""
    scene.add_rival()
    yield
    scene.tag(scene.subject, "iallocator:order:after:rival")


@feature("order after what fails", rival=True, nowhere=True)
def order_broken(scene: Scene) -> Iterator[None]:
    """Require that the subject starts after an instance that cannot be placed."""
    scene.add_rival()["memory"] = 2**19
    yield
    scene.tag(scene.subject, "iallocator:order:after:rival")


@feature("keep-running", (SHARED,), expect=STAYS)
def keep_running(scene: Scene) -> Iterator[None]:
    """Forbid that the subject is stopped to make room for another instance."""
    for name in (BEST, NEXT):
        scene.node(name)["drained"] = True
    if "rival" not in scene.document["instances"]:
        rival = scene.add("rival", NEXT, memory=2000)
        scene.tag(rival, "iallocator:score:source:10", "iallocator:priority:10")
    yield
    scene.tag(scene.subject, "iallocator:keep-running")


@feature("hard location score", PRIMARIES)
def hard_score(scene: Scene) -> Iterator[None]:
    """Set a score of minus infinity for the subject on `best`."""
    yield
    scene.tag(scene.subject, "iallocator:score:best:-INFINITY")


@feature("hard node score", PRIMARIES)
def hard_node_score(scene: Scene) -> Iterator[None]:
    """Set a score of minus infinity for all instances on `best`."""
    yield
    scene.tag(scene.node(BEST), "iallocator:score:-INFINITY")


@feature("required location score", PRIMARIES)
def required_score(scene: Scene) -> Iterator[None]:
    """Set a score of plus infinity for the subject on `next`."""
    scene.disable_n1()
    yield
    scene.tag(scene.subject, "iallocator:score:next:INFINITY")


@feature("infinite stickiness", (SHARED, PLAIN), nowhere=True)
def infinite_stickiness(scene: Scene) -> Iterator[None]:
    """Set an infinite stickiness, so that the subject stays on its node."""
    yield
    scene.tag(scene.subject, "iallocator:stickiness:INFINITY")


@feature("soft location score", PRIMARIES)
def soft_score(scene: Scene) -> Iterator[None]:
    """Set a score for `next` that outweighs the advantage of `best`."""
    yield
    scene.tag(scene.subject, "iallocator:score:next:10")


@feature("utilization")
def utilization(scene: Scene) -> Iterator[None]:
    """Give every node except `best` a capacity of the attribute that the subject uses."""
    yield
    scene.tag(scene.subject, "iallocator:utilization:slots:1")
    for name in scene.document["nodes"]:
        scene.tag(scene.node(name), f"iallocator:utilization:slots:{9 * (name != BEST)}")
