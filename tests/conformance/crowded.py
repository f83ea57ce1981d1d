"""Generate nearly full clusters, on which limits decide where an instance may go."""

from __future__ import annotations

from random import Random
from typing import Any

from tests import builders
from tests.builders import Json

__all__ = ["crowded", "crowded_text"]

TEMPLATES = (
    ("drbd",), ("drbd",), ("drbd", "plain"), ("rbd",), ("drbd", "rbd"), ("plain",),
    ("drbd", "plain", "rbd", "diskless", "file", "blockdev"),
)  # fmt: skip
"""The disk templates of the instances of a cluster."""

SIZES = (512, 700, 1024, 1536, 2048, 4096)
"""MiB of memory of an instance."""

DISKS = (1024, 5120, 20480)
"""MiB of disk of an instance."""

ON_NODE = ("drbd", "plain")
"""The disk templates that take the disk of nodes."""


class Space:
    """The free memory and disk of each node while instances are placed.

    Parameters
    ----------
    groups
        Node -> its group.
    memory, disk
        Node -> MiB.
    """

    def __init__(self, groups: dict[str, str], memory: dict[str, int], disk: dict[str, int]):
        self.groups = groups
        self.memory = memory
        self.disk = disk

    def place(self, rng: Random, template: str, size: int, space: int, up: bool) -> list[str]:
        """Return the nodes of a new instance, and subtract its amounts; [] if it does not fit."""
        home = rng.choice(list(self.groups))
        nodes = [home]
        if template == "drbd":
            others = [
                name
                for name, group in self.groups.items()
                if name != home and group == self.groups[home] and self.disk[name] > space
            ]
            if not others:
                return []
            nodes.append(rng.choice(others))
        local = template in ON_NODE
        if (up and self.memory[home] <= size) or (local and self.disk[home] <= space):
            return []
        self.memory[home] -= size * up
        for name in nodes if local else ():
            self.disk[name] -= space
        return nodes


def crowded_text(rng: Random) -> str:
    """Return a small, nearly full cluster in htools' text format."""
    groups = [("default", "uuid-1")] + [("other", "uuid-2")] * (rng.random() < 0.2)
    names = [f"node{number:02}" for number in range(rng.randint(3, 8))]
    homes = {name: rng.choice(groups)[1] for name in names}
    total = {name: rng.choice((6144, 8192, 12288)) for name in names}
    disk = rng.choice((40960, 65536, 131072))
    space = Space(homes, dict(total), dict.fromkeys(names, disk))
    templates, tagged = rng.choice(TEMPLATES), rng.random() < 0.3
    lines = []
    for number in range(rng.randint(4, 16)):
        template, size, amount = rng.choice(templates), rng.choice(SIZES), rng.choice(DISKS)
        status = rng.choice(("running",) * 6 + ("ADMIN_down",))
        nodes = space.place(rng, template, size, amount, status == "running")
        if nodes:
            tag = rng.choice(("", "", "", "web:a", "web:b", "web:a,db:x")) if tagged else ""
            pair = "|".join((*nodes, "")[:2])
            lines.append(
                f"inst{number}|{size}|{amount}|{rng.randint(1, 4)}|{status}|{rng.choice('YYYN')}|"
                f"{pair}|{template}|{tag}|{rng.randint(1, 3)}|-"
            )
    exclusive = rng.random() < 0.15
    spindles = {name: rng.randint(0, 9) for name in names}
    rows = [
        f"{name}|{total[name]}|0|{space.memory[name]}|{disk}|{space.disk[name]}|"
        f"{rng.choice((4, 8, 16))}|{rng.choice('N' * 14 + 'Y')}|{homes[name]}|"
        f"{12 if exclusive else 1}||{f'Y|{spindles[name]}' if exclusive else 'N|0'}|1|1.0"
        for name in names
    ]
    parts = [
        [f"{name}|{uuid}|preferred||" for name, uuid in groups], rows, lines,
        ["htools:iextags:web"] if tagged else [], [],
    ]  # fmt: skip
    return "\n".join("".join(f"{line}\n" for line in part) for part in parts)


def crowded(rng: Random, kind: str) -> Json | None:
    """Return a request document of `kind`, or None if the cluster allows no such request."""
    shapes = ({"a": 3}, {"a": 4}, {"a": 6}, {"a": 3, "b": 3}, {"a": 2, "b": 2, "c": 3})
    groups: dict[str, int] = dict(rng.choice(shapes[3:] if kind == "change-group" else shapes))
    names = [name for name, count in groups.items() for _ in range(count)]
    homes = {f"node{number}": name for number, name in enumerate(names, start=1)}
    memory, disk = rng.choice((4096, 8192)), rng.choice((30000, 60000, 102400))
    space = Space(homes, dict.fromkeys(homes, memory), dict.fromkeys(homes, disk))
    templates, exclusive = rng.choice(TEMPLATES), rng.random() < 0.35
    spindles = (1, 1, 2, 3, None) if exclusive else (1, None)
    held: Json = {}
    for number in range(rng.randint(3, 16)):
        template, size, amount = rng.choice(templates), rng.choice(SIZES[:5]), rng.choice(DISKS)
        state = rng.choice(("up",) * 8 + ("down", "offline"))
        # the builder adds metadata to drbd
        nodes = space.place(rng, template, size, amount + 128, state == "up")
        if nodes:
            held[f"inst{number}"] = builders.instance(
                *nodes, memory=size, disk_template=template, admin_state=state,
                disks=[{"size": amount, "spindles": rng.choice(spindles)}],
            )  # fmt: skip
    document = builders.cluster(
        groups, memory=memory, disk=disk, cpus=rng.choice((4, 8, 64)), instances=held
    )
    for node in document["nodes"].values():
        if exclusive:
            node["ndparams"] = {"exclusive_storage": rng.random() < 0.85, "spindle_count": 1}
            node["total_spindles"], node["free_spindles"] = 20, rng.choice((0, 1, 2, 3, 6, 10))
        if rng.random() < 0.1:
            node[rng.choice(("offline", "drained"))] = True
    request = _request(rng, kind, document, templates, spindles)
    return None if request is None else {**document, "request": {**request, "type": kind}}


def _request(
    rng: Random, kind: str, document: Json, templates: tuple[str, ...], spindles: tuple[Any, ...]
) -> Json | None:
    held = document["instances"]

    def new(name: str) -> Json:
        made = builders.allocate(
            document, name, memory=rng.choice((128, *SIZES)), disk_template=rng.choice(templates),
            disks=[{"size": rng.choice(DISKS), "spindles": rng.choice(spindles)}],
        )  # fmt: skip
        request: Json = made["request"]
        return request

    if kind == "allocate":
        return new("new")
    if kind == "multi-allocate":
        return {"instances": [new(f"new{number}") for number in range(rng.randint(1, 4))]}
    if kind == "relocate":
        names = [name for name, one in held.items() if one["disk_template"] == "drbd"]
        if not names:
            return None
        one = held[name := rng.choice(names)]
        return {
            "name": name, "required_nodes": 1, "disk_space_total": one["disk_space_total"],
            "relocate_from": one["nodes"][-1:],
        }  # fmt: skip
    if not held:
        return None
    some = rng.sample(list(held), rng.randint(1, min(5, len(held))))
    if kind == "change-group":
        groups = list(document["nodegroups"])
        return {"instances": some, "target_groups": rng.choice(([], [rng.choice(groups)]))}
    return {"instances": some, "evac_mode": rng.choice(("primary-only", "secondary-only", "all"))}
