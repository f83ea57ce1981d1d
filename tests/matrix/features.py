"""The features of the matrix: what may decide where an instance goes.

Each is a generator over a `Scene`: up to its ``yield`` it prepares what holds anyway, after
it it sets the one fact that decides.  The preparation alone is the control.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests import builders

from .worlds import (
    BEST,
    HELD,
    KEEPER,
    MEMORY,
    MIRROR,
    NEXT,
    PAIR,
    PLAIN,
    SHARED,
    SOURCE,
    SPARE,
    Scene,
)

__all__ = ["FEATURES", "Feature"]

AWAY = "away"
"""With the feature the subject goes to `next`, or nowhere; without it to `best`."""

HERE = "here"
"""With the feature the subject goes to `best`; without it not."""

WAITS = "waits"
"""With the feature the step of the subject comes after that of its rival; without it not."""

FAILS_OVER = "fails over"
"""With the feature the subject fails over; without it it is migrated."""

STAYS = "stays"
"""With the feature the subject is not stopped; without it it is."""

EVERY = (SHARED, PLAIN, MIRROR, PAIR)
PRIMARIES = (SHARED, PLAIN, PAIR)
ON_DISK = (PLAIN, MIRROR, PAIR)

Json = dict[str, Any]
Build = Callable[[Scene], Iterator[None]]


@dataclass(frozen=True)
class Feature:
    """One row of the matrix.

    Attributes
    ----------
    name
        As in the table.
    kinds
        The kinds of subject that it can decide for.
    split
        Whether it is a property of groups: `best` and `next` are then of different ones.
    rival
        Whether it decides between two instances of a request.
    expect
        `AWAY`, `HERE`, `WAITS`, `FAILS_OVER` or `STAYS`.
    nowhere
        Whether not even `next` is left.
    build
        The generator.
    """

    name: str
    kinds: tuple[str, ...]
    split: bool
    rival: bool
    expect: str
    nowhere: bool
    build: Build

    def leaves_nothing(self, scene: Scene) -> bool:
        """Whether not even `next` is left."""
        return self.nowhere or scene.node(NEXT)["drained"]

    def applied(self, scene: Scene) -> Scene:
        """`scene` with the feature."""
        for _ in self.build(scene):
            pass
        return scene

    def prepared(self, scene: Scene) -> Scene:
        """`scene` with all but the deciding fact."""
        next(self.build(scene))
        return scene


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
    """Put what is decorated into the table."""

    def put(build: Build) -> Build:
        assert name not in FEATURES
        FEATURES[name] = Feature(name, kinds, split, rival, expect, nowhere, build)
        return build

    return put


# Nodes.


@feature("offline")
def offline(scene: Scene) -> Iterator[None]:
    """An offline node takes nothing."""
    _empty_best(scene)
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
    """A node that cannot run instances takes none."""
    _empty_best(scene)
    yield
    scene.node(BEST)["vm_capable"] = False


def _empty_best(scene: Scene) -> None:
    """Leave nothing on `best` that would be stranded there."""
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
    for name in (BEST, NEXT):
        scene.node(name)["ndparams"]["exclusive_storage"] = True
        scene.node(name)["total_spindles"] = 9
    yield
    scene.node(BEST)["total_spindles"] = 1


@feature("pools", (SHARED, MIRROR, PAIR))
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


# Groups.


@feature("policy", split=True)
def policy(scene: Scene) -> Iterator[None]:
    """The group's policy wants smaller instances."""
    yield
    high = builders.spec(scene.subject["memory"] - 1, 64, 16777216, 16, 64)
    scene.group_of(BEST)["ipolicy"] = builders.policy(high=high)


@feature("networks", split=True)
def networks(scene: Scene) -> Iterator[None]:
    """The group lacks a network of the instance."""
    scene.subject["nics"] = [{"mac": "aa:00:00:11:22:33", "ip": None, "network": "net1"}]
    for group in scene.document["nodegroups"].values():
        group["networks"] = ["net1"]
    yield
    scene.group_of(BEST)["networks"] = ["net2"]


@feature("unallocable group", split=True)
def unallocable(scene: Scene) -> Iterator[None]:
    """Nothing goes to a group that is not to be allocated to."""
    yield
    scene.group_of(BEST)["alloc_policy"] = "unallocable"


@feature("group setting: soft errors", PRIMARIES, expect=HERE)
def group_soft_errors(scene: Scene) -> Iterator[None]:
    """The group minds no soft errors; wherever the subject goes breaks one."""
    _unwelcome(scene)
    yield
    scene.tag(scene.group_of(BEST), "iallocator:ignore-soft-errors:yes")


@feature("setting of another group: soft errors", PRIMARIES, split=True)
def other_group_soft_errors(scene: Scene) -> Iterator[None]:
    """The other group minds no soft errors; in both the subject breaks one."""
    _unwelcome(scene)
    untagged = scene.group_of(BEST)["tags"]
    scene.tag(scene.group_of(BEST), "iallocator:ignore-soft-errors:yes")
    yield
    scene.group_of(BEST)["tags"] = untagged
    scene.tag(scene.group_of(NEXT), "iallocator:ignore-soft-errors:yes")


def _unwelcome(scene: Scene) -> None:
    """Let the subject break a soft limit wherever it goes: of tags, or of cpus if it has none."""
    if scene.wanted is not None:
        scene.wanted["vcpus"] = 5
        for name in (BEST, NEXT, SPARE):
            scene.node(name)["total_cpus"] = 1
        return
    _excluded_from_best(scene)
    for name, one in scene.document["instances"].items():
        if name in ("at-next", "at-keeper", "at-spare"):
            scene.tag(one, "service:dns")


def _excluded_from_best(scene: Scene) -> None:
    """What is on `best` has the exclusion tag of the subject."""
    scene.tag(None, "htools:iextags:service")
    scene.tag(scene.subject, "service:dns")
    scene.tag(scene.instance("at-best"), "service:dns")


@feature("group setting: n1", expect=HERE)
def group_n1(scene: Scene) -> Iterator[None]:
    """The group is not judged by N+1."""
    _only_best_can_rescue(scene)
    scene.options[:] = [option for option in scene.options if not option.startswith("--n1")]
    yield
    scene.tag(scene.group_of(BEST), "iallocator:n1:off")


@feature("group setting: strategy")
def group_strategy(scene: Scene) -> Iterator[None]:
    """The group ranks by scores of nodes."""
    scene.tag(scene.node(NEXT), "iallocator:score:10")
    yield
    scene.tag(scene.group_of(NEXT), "iallocator:strategy:pacemaker-default")


# Tags of htools.


@feature("exclusion tags", PRIMARIES)
def exclusion_tags(scene: Scene) -> Iterator[None]:
    """``at-best`` has the same exclusion tag."""
    _excluded_from_best(scene)
    tags = scene.instance("at-best")["tags"]
    scene.instance("at-best")["tags"] = []
    yield
    scene.instance("at-best")["tags"] = tags


@feature("location tags")
def location_tags(scene: Scene) -> Iterator[None]:
    """The location that a primary wants; for a secondary, another one than its primary's."""
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
    """`best` cannot receive from `source`."""
    scene.forgo_n1()  # from `next` it could fail over to `best` only
    scene.tag(None, "htools:migration:hv")
    for name, node in scene.document["nodes"].items():
        if name != BEST:
            scene.tag(node, "hv:new")
    untagged = scene.node(BEST)["tags"]
    scene.tag(scene.node(BEST), "hv:new")
    yield
    scene.node(BEST)["tags"] = [*untagged, "hv:old"]


# Constraints between instances.


@feature("together", PRIMARIES)
def together(scene: Scene) -> Iterator[None]:
    """A partner lives on `next`."""
    partner = scene.add("partner", NEXT, memory=256, auto_balance=False)
    scene.tag(scene.subject, "iallocator:colocate:must:pair")
    yield
    scene.tag(partner, "iallocator:colocate:must:pair")


@feature("together, as one", (SHARED,), rival=True)
def together_as_one(scene: Scene) -> Iterator[None]:
    """There is room for both on `next` only, and they go together."""
    scene.forgo_n1()
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
    """``at-best`` and the subject must not share a node."""
    scene.tag(scene.subject, "iallocator:separate:must:web")
    yield
    scene.tag(scene.instance("at-best"), "iallocator:separate:must:web")


@feature("apart (domain)", PRIMARIES)
def apart_domain(scene: Scene) -> Iterator[None]:
    """What is on `keeper` and the subject must not share a rack."""
    scene.tag(scene.subject, "iallocator:separate:must:web:rack")
    scene.tag(scene.instance("at-keeper"), "iallocator:separate:must:web:rack")
    scene.tag(scene.node(KEEPER), "rack:1")
    scene.tag(scene.node(NEXT), "rack:2")
    untagged = scene.node(BEST)["tags"]
    scene.tag(scene.node(BEST), "rack:3")
    yield
    scene.node(BEST)["tags"] = [*untagged, "rack:1"]


@feature("should with a price", PRIMARIES)
def should(scene: Scene) -> Iterator[None]:
    """To share a node with ``at-best`` costs more than `best` is better."""
    scene.tag(scene.subject, "iallocator:separate:should:web:1000")
    yield
    scene.tag(scene.instance("at-best"), "iallocator:separate:should:web:1000")


@feature("priority", rival=True, expect=HERE)
def priority(scene: Scene) -> Iterator[None]:
    """Of two for whom there is one place on `best`, the one with the higher priority."""
    if scene.kind == MIRROR:
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
    """The subject starts only when its rival runs."""
    scene.add_rival()
    yield
    scene.tag(scene.subject, "iallocator:order:after:rival")


@feature("order after what fails", rival=True, nowhere=True)
def order_broken(scene: Scene) -> Iterator[None]:
    """The subject starts only when one runs that has no place."""
    scene.add_rival()["memory"] = 2**19
    yield
    scene.tag(scene.subject, "iallocator:order:after:rival")


@feature("keep-running", (SHARED,), expect=STAYS)
def keep_running(scene: Scene) -> Iterator[None]:
    """The subject is not stopped to make room for another."""
    for name in (BEST, NEXT):
        scene.node(name)["drained"] = True
    if "rival" not in scene.document["instances"]:
        rival = scene.add("rival", NEXT, memory=2000)
        scene.tag(rival, "iallocator:score:source:10", "iallocator:priority:10")
    yield
    scene.tag(scene.subject, "iallocator:keep-running")


@feature("hard location score", PRIMARIES)
def hard_score(scene: Scene) -> Iterator[None]:
    """Minus infinity on `best`."""
    yield
    scene.tag(scene.subject, "iallocator:score:best:-INFINITY")


@feature("hard node score", PRIMARIES)
def hard_node_score(scene: Scene) -> Iterator[None]:
    """Minus infinity for everything on `best`."""
    yield
    scene.tag(scene.node(BEST), "iallocator:score:-INFINITY")


# N+1.


def _only_best_can_rescue(scene: Scene) -> None:
    """What is on `keeper` finds room on `best` only, and only if nothing more goes there."""
    size = MEMORY[BEST] - HELD[BEST] - 256
    home = KEEPER
    if scene.group_of(KEEPER) is not scene.group_of(BEST):
        home = SPARE
        scene.instance("at-spare")["memory"] = 100
    scene.node(home)["total_memory"] += size
    scene.add("large", home, memory=size, auto_balance=False)
    if scene.request.get("type") == "change-group":  # N+1 counts where the group is chosen
        scene.node(NEXT)["drained"] = True


@feature("N+1 no-new")
def n1_no_new(scene: Scene) -> Iterator[None]:
    """A node's failure would no longer be survived."""
    _only_best_can_rescue(scene)
    scene.options.append("--n1=off")
    yield
    scene.options[-1] = "--n1=no-new"


@feature("N+1 off", expect=HERE)
def n1_off(scene: Scene) -> Iterator[None]:
    """Nobody asks whether a node's failure would be survived."""
    _only_best_can_rescue(scene)
    scene.options.append("--n1=no-new")
    yield
    scene.options[-1] = "--n1=off"


@feature("N+1 strict", nowhere=True)
def n1_strict(scene: Scene) -> Iterator[None]:
    """Elsewhere is a node whose failure is not survived; for a plan, in a group that it uses."""
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


# States of instances.


def _reserved_on_best(scene: Scene) -> Json:
    """Let the mirror of a large instance reserve what `best` has left."""
    scene.forgo_n1()
    size = MEMORY[BEST] - HELD[BEST] - 256
    near = scene.kind != MIRROR and scene.group_of(NEXT) is scene.group_of(BEST)
    home, other = (NEXT, KEEPER) if near else (KEEPER, NEXT)
    if SPARE in scene.document["nodes"]:
        scene.node(SPARE)["drained"] = scene.kind != PAIR
    scene.node(home)["total_memory"] += size
    for number in range(1 if near else 2):
        scene.add(f"another-{number}", home, other, disk_template="drbd", memory=0)
    return scene.add("mirrored", home, BEST, disk_template="drbd", memory=size)


@feature("auto_balance off", expect=HERE)
def auto_balance_off(scene: Scene) -> Iterator[None]:
    """For a mirror that is not balanced automatically no memory is reserved."""
    held = _reserved_on_best(scene)
    yield
    held["auto_balance"] = False


@feature("admin_state offline", expect=HERE)
def admin_offline(scene: Scene) -> Iterator[None]:
    """For a mirror of what is offline by its administrator's will no memory is reserved."""
    held = _reserved_on_best(scene)
    yield
    held["admin_state"] = "offline"


@feature("not running", (SHARED, PAIR), expect=FAILS_OVER)
def not_running(scene: Scene) -> Iterator[None]:
    """What does not run cannot be migrated."""
    yield
    scene.subject["admin_state"] = "down"
