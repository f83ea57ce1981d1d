"""Global N+1 in each mode, and the states of instances that affect it."""

from __future__ import annotations

from collections.abc import Iterator

from tests import builders
from tests.builders import Json
from tests.matrix.worlds import (
    BEST,
    DRBD,
    HELD,
    KEEPER,
    MEMORY,
    NEXT,
    PAIR,
    SHARED,
    SPARE,
    Scene,
)

from .shared import only_best_can_rescue
from .table import FAILS_OVER, HERE, feature


def _mode(scene: Scene, mode: str, before: str) -> Iterator[None]:
    """Change the mode from `before` to `mode`, where only `best` can restart an instance."""
    only_best_can_rescue(scene)
    scene.options.append(f"--n1={before}")
    yield
    scene.options[-1] = f"--n1={mode}"


@feature("N+1 no-new")
def n1_no_new(scene: Scene) -> Iterator[None]:
    """Set the mode `no-new`; on `best`, a failure would no longer be tolerated."""
    yield from _mode(scene, "no-new", before="off")


@feature("N+1 no-worse")
def n1_no_worse(scene: Scene) -> Iterator[None]:
    """Set the mode `no-worse`; on `best`, a failure would lose more instances."""
    yield from _mode(scene, "no-worse", before="off")


@feature("N+1 off", expect=HERE)
def n1_off(scene: Scene) -> Iterator[None]:
    """Set the mode `off`, so that N+1 is not checked."""
    yield from _mode(scene, "off", before="no-new")


@feature("N+1 strict", nowhere=True)
def n1_strict(scene: Scene) -> Iterator[None]:
    """Set the mode `strict`; the failure of some other node is not tolerated."""
    if scene.request:
        scene.document["nodegroups"]["uuid-doomed"] = builders.group(
            "doomed", alloc_policy="unallocable"
        )
        scene.document["nodes"]["doomed"] = builders.node("doomed")
        scene.add("lost", "doomed", disk_template="plain")
    else:
        home = scene.node(BEST)["group"].removeprefix("uuid-")
        scene.document["nodes"]["doomed"] = builders.node(home, memory=40000)
        scene.add("lost", "doomed", disk_template="plain", memory=39000, auto_balance=False)
    scene.options.append("--n1=no-new")
    yield
    scene.options[-1] = "--n1=strict"


def _reserved_on_best(scene: Scene) -> Json:
    """Make the secondary of a large instance reserve all that `best` has free."""
    scene.disable_n1()
    size = MEMORY[BEST] - HELD[BEST] - 256
    near = scene.kind != DRBD and scene.group_of(NEXT) is scene.group_of(BEST)
    home, other = (NEXT, KEEPER) if near else (KEEPER, NEXT)
    if SPARE in scene.document["nodes"]:
        scene.node(SPARE)["drained"] = scene.kind != PAIR
    scene.node(home)["total_memory"] += size
    for number in range(1 if near else 2):
        scene.add(f"another-{number}", home, other, disk_template="drbd", memory=0)
    return scene.add("mirrored", home, BEST, disk_template="drbd", memory=size)


@feature("auto_balance off", expect=HERE)
def auto_balance_off(scene: Scene) -> Iterator[None]:
    """Clear auto-balancing of an instance, so that no memory is reserved for it."""
    held = _reserved_on_best(scene)
    yield
    held["auto_balance"] = False


@feature("admin_state offline", expect=HERE)
def admin_offline(scene: Scene) -> Iterator[None]:
    """Mark an instance offline, so that no memory is reserved for it."""
    held = _reserved_on_best(scene)
    yield
    held["admin_state"] = "offline"


@feature("not running", (SHARED, PAIR), expect=FAILS_OVER)
def not_running(scene: Scene) -> Iterator[None]:
    """Stop the subject, so that it cannot be migrated."""
    yield
    scene.subject["admin_state"] = "down"
