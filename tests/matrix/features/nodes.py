"""Features of nodes: their states, what they have, where their disks may be."""

from __future__ import annotations

from collections.abc import Iterator

from tests.matrix.worlds import (
    BEST,
    DRBD,
    NEXT,
    PAIR,
    SHARED,
    Scene,
)

from .table import ON_DISK, PRIMARIES, feature


@feature("offline")
def offline(scene: Scene) -> Iterator[None]:
    """An offline node takes nothing, whatever it says it has."""
    _empty_best(scene)
    scene.asleep = True
    yield
    scene.node(BEST)["offline"] = True


@feature("drained")
def drained(scene: Scene) -> Iterator[None]:
    """A drained node takes nothing new."""
    _empty_best(scene)
    yield
    scene.node(BEST)["drained"] = True


@feature("not vm_capable")
def not_vm_capable(scene: Scene) -> Iterator[None]:
    """A node that cannot run instances takes none, whatever it says it has."""
    _empty_best(scene)
    scene.asleep = True
    yield
    scene.node(BEST)["vm_capable"] = False


def _empty_best(scene: Scene) -> None:
    """Leave nothing on `best` that would be stranded there, nor that it could take over."""
    scene.forgo_n1()
    del scene.document["instances"]["at-best"]


@feature("maintenance tag")
def maintenance(scene: Scene) -> Iterator[None]:
    """Nothing new comes to a node in maintenance."""
    yield
    scene.tag(scene.node(BEST), "iallocator:maintenance")


@feature("cpu ratio", PRIMARIES)
def cpu_ratio(scene: Scene) -> Iterator[None]:
    """Five virtual cpus on one: more than the ratio of 4."""
    scene.subject["vcpus"] = 5
    yield
    scene.node(BEST)["total_cpus"] = 1


@feature("spindle ratio", ON_DISK)
def spindle_ratio(scene: Scene) -> Iterator[None]:
    """40 of one spindle's 32."""
    scene.subject["spindle_use"] = 40
    for node in scene.document["nodes"].values():
        node["ndparams"]["spindle_count"] = 4
    yield
    scene.node(BEST)["ndparams"]["spindle_count"] = 1


@feature("exclusive storage", ON_DISK)
def exclusive_storage(scene: Scene) -> Iterator[None]:
    """One spindle, which ``at-best`` has."""
    scene.forgo_n1()  # from `next` it could go to `best` only
    for name in (BEST, NEXT):
        scene.node(name)["ndparams"]["exclusive_storage"] = True
        scene.node(name)["total_spindles"] = 9
    yield
    scene.node(BEST)["total_spindles"] = 1


@feature("pools", (SHARED, DRBD, PAIR))
def pools(scene: Scene) -> Iterator[None]:
    """A node that does not reach the storage pool of the instance."""
    where = "external" if scene.kind == SHARED else "internal"
    tag = f"iallocator:pool:{where}:fast"
    scene.forgo_n1()  # from `next` it could fail over to `best` only
    scene.tag(scene.subject, tag)
    for name, node in scene.document["nodes"].items():
        if name != BEST:
            scene.tag(node, tag)
    control = scene.node(BEST)["tags"]
    scene.tag(scene.node(BEST), tag)
    yield
    scene.node(BEST)["tags"] = [*control, f"iallocator:pool:{where}:slow"]


@feature("restricted nodes")
def restricted_nodes(scene: Scene) -> Iterator[None]:
    """The request allows some nodes only."""
    scene.subject["restrict-to-nodes"] = [BEST, NEXT, *_more(scene)]
    yield
    scene.subject["restrict-to-nodes"] = [NEXT, *_more(scene)]


def _more(scene: Scene) -> list[str]:
    """The nodes that only pairs need."""
    return ["spare"] if scene.kind == PAIR else []
