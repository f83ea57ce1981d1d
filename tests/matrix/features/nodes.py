"""Features of nodes: their states, resources, and storage pools."""

from __future__ import annotations

from collections.abc import Iterator

from tests.matrix.worlds import (
    BEST,
    DRBD,
    NEXT,
    PAIR,
    SHARED,
    SOURCE,
    Scene,
)

from .table import ON_DISK, PRIMARIES, feature


@feature("offline")
def offline(scene: Scene) -> Iterator[None]:
    """Set the node offline, so that it accepts nothing, whatever amounts it reports."""
    _empty_best(scene)
    scene.asleep = True
    yield
    scene.node(BEST)["offline"] = True


@feature("drained")
def drained(scene: Scene) -> Iterator[None]:
    """Drain the node, so that it accepts no new instance."""
    _empty_best(scene)
    yield
    scene.node(BEST)["drained"] = True


@feature("not vm_capable")
def not_vm_capable(scene: Scene) -> Iterator[None]:
    """Clear vm_capable of the node, so that it accepts no instance, whatever amounts it reports."""
    _empty_best(scene)
    scene.asleep = True
    yield
    scene.node(BEST)["vm_capable"] = False


def _empty_best(scene: Scene) -> None:
    """Remove the instance on the node `best`, so that N+1 does not depend on that node."""
    scene.disable_n1()
    del scene.document["instances"]["at-best"]


@feature("maintenance tag")
def maintenance(scene: Scene) -> Iterator[None]:
    """Set the node in maintenance, so that it accepts no new instance."""
    yield
    scene.tag(scene.node(BEST), "iallocator:maintenance")


@feature("cpu ratio", PRIMARIES)
def cpu_ratio(scene: Scene) -> Iterator[None]:
    """Exceed the ratio of 4 virtual cpus on one cpu with a fifth one."""
    scene.subject["vcpus"] = 5
    yield
    scene.node(BEST)["total_cpus"] = 1


@feature("disk reserve", ON_DISK)
def disk_reserve(scene: Scene) -> Iterator[None]:
    """Reserve all of the disk of the node, so that it accepts no new disk."""
    yield
    scene.tag(scene.node(BEST), "iallocator:disk-reserve:100%")


@feature("volume groups", ON_DISK)
def volume_groups(scene: Scene) -> Iterator[None]:
    """Fill the volume group of the instance on the node; the other volume group has free space."""
    scene.disable_n1()  # from `next` it could go to `best` only
    for disk in scene.subject["disks"]:
        disk["vg"] = "fast"
    for node in scene.document["nodes"].values():
        node["volume_groups"] = [{"name": name, "free": 500000} for name in ("fast", "lvm")]
    yield
    scene.node(BEST)["volume_groups"][0]["free"] = 0


@feature("spindle ratio", ON_DISK)
def spindle_ratio(scene: Scene) -> Iterator[None]:
    """Exceed the ratio of 32 uses of one spindle with 40."""
    scene.subject["spindle_use"] = 40
    for node in scene.document["nodes"].values():
        node["ndparams"]["spindle_count"] = 4
    yield
    scene.node(BEST)["ndparams"]["spindle_count"] = 1


@feature("exclusive storage", ON_DISK)
def exclusive_storage(scene: Scene) -> Iterator[None]:
    """Give the node exclusive storage with one spindle, which ``at-best`` uses."""
    scene.disable_n1()  # from `next` it could go to `best` only
    for name in (BEST, NEXT):
        scene.node(name)["ndparams"]["exclusive_storage"] = True
        scene.node(name)["total_spindles"] = 9
    yield
    scene.node(BEST)["total_spindles"] = 1


@feature("pools", (SHARED, DRBD, PAIR))
def pools(scene: Scene) -> Iterator[None]:
    """Remove the node's access to the storage pool of the instance."""
    where = "external" if scene.kind == SHARED else "internal"
    tag = f"iallocator:pool:{where}:fast"
    scene.disable_n1()  # from `next` it could fail over to `best` only
    scene.tag(scene.subject, tag)
    for name, node in scene.document["nodes"].items():
        if name != BEST:
            scene.tag(node, tag)
    control = scene.node(BEST)["tags"]
    scene.tag(scene.node(BEST), tag)
    yield
    scene.node(BEST)["tags"] = [*control, f"iallocator:pool:{where}:slow"]


@feature("required label")
def required_label(scene: Scene) -> Iterator[None]:
    """Let the instance require a label that the node does not have."""
    scene.disable_n1()  # from `next` it could fail over to `best` only
    scene.tag(scene.subject, "iallocator:nodes:must:fast")
    for name, node in scene.document["nodes"].items():
        if name != BEST:
            scene.tag(node, "fast")
    control = scene.node(BEST)["tags"]
    scene.tag(scene.node(BEST), "fast")
    yield
    scene.node(BEST)["tags"] = [*control, "slow"]


@feature("excluded label")
def excluded_label(scene: Scene) -> Iterator[None]:
    """Let the instance exclude a label that the node has."""
    scene.disable_n1()
    scene.tag(scene.subject, "iallocator:nodes:never:slow")
    yield
    scene.tag(scene.node(BEST), "slow")


@feature("preferred label", PRIMARIES)
def preferred_label(scene: Scene) -> Iterator[None]:
    """Let the instance prefer, at a high penalty, a label that the node does not have."""
    scene.disable_n1()
    scene.tag(scene.subject, "iallocator:nodes:should:fast:1000")
    for name, node in scene.document["nodes"].items():
        if name not in (BEST, SOURCE):
            scene.tag(node, "fast")
    control = scene.node(BEST)["tags"]
    scene.tag(scene.node(BEST), "fast")
    yield
    scene.node(BEST)["tags"] = [*control, "slow"]


@feature("restricted nodes")
def restricted_nodes(scene: Scene) -> Iterator[None]:
    """Restrict the request to some nodes."""
    scene.subject["restrict-to-nodes"] = [BEST, NEXT, *_more(scene)]
    yield
    scene.subject["restrict-to-nodes"] = [NEXT, *_more(scene)]


def _more(scene: Scene) -> list[str]:
    """Return the nodes that only pairs need."""
    return ["spare"] if scene.kind == PAIR else []
