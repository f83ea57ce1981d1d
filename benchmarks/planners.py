"""Define the measured cases of planners, and the programs of htools to compare them with."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.case import Case
from benchmarks.clusters import (
    Shape,
    document,
    first_nodes_offline,
    half_empty,
    to_be_repaired,
    too_large,
)
from iallocator.aliases import Json

__all__ = [
    "PLANNERS", "balance", "balance_groups", "between_groups", "capacity", "check", "make_room",
    "placed", "reboot", "repair", "squeeze",
]  # fmt: skip


def balance(
    nodes: int,
    template: str,
    target: float = 0,
    seconds: float = 0,
    crowding: float = 0.3,
    options: tuple[str, ...] = (),
) -> Case:
    """Return a case of balance, on an uneven cluster if `crowding` is above 0."""
    spread = "" if seconds == 0 else ", uneven" if crowding else ", even"
    return Case(
        f"{' '.join(('balance', *options))}, {nodes} nodes, "
        f"{nodes * 12} {template} instances{spread}",
        lambda: document(Shape(nodes, template, crowding=crowding)),
        target,
        seconds,
        nodes,
        template,
        ("balance", *options),
        ("hbal",) if seconds == 0 else (),
        " ".join(("balance", *options)) if crowding else "",
    )


NO_TIERS = "--tiered-alloc=1m,1m,1"
"""A size for tiers that no policy permits, so that no tiers are counted."""


def capacity(
    nodes: int,
    template: str,
    target: float = 0,
    seconds: float = 0,
    crowding: float = 0.0,
    tiers: bool = False,
) -> Case:
    """Return a case of capacity.

    Uneven drbd clusters of 40 nodes or more violate N+1, and are filled nevertheless.
    """
    kind = ("even", "uneven")[crowding > 0], "standard" + " and tiers" * tiers
    anyway = ("--accept-existing-errors",) if crowding and template == "drbd" else ()
    options = (f"--disk-template={template}", *anyway, *(() if tiers else (NO_TIERS,)))
    return Case(
        f"capacity, {nodes} nodes {template}, {', '.join(kind)}",
        lambda: document(Shape(nodes, template, crowding=crowding)),
        target,
        seconds,
        nodes,
        template,
        ("capacity", *options),
        ("hspace", *options) if seconds == 0 else (),
        "" if crowding else "capacity with tiers" if tiers else "capacity",
    )


def squeeze(nodes: int, template: str, seconds: float, crowding: float = 0.0) -> Case:
    spread = "uneven" if crowding else "even"
    return Case(
        f"squeeze, {nodes} nodes, {nodes * 12} {template} instances, {spread}",
        lambda: document(Shape(nodes, template, crowding=crowding)),
        0,
        seconds,
        nodes,
        template,
        ("squeeze", "--drbd") if template == "drbd" else ("squeeze",),
        () if template == "drbd" else ("hsqueeze",),  # it frees no drbd instances
        "" if crowding else "squeeze",
    )


def place(template: str, strategy: str, crowding: float = 0.0) -> Case:
    spread = "uneven" if crowding else "even"
    return Case(
        f"place, pacemaker-{strategy}, 320 nodes, 4 160 {template} instances, {spread}",
        lambda: document(Shape(320, template, per_node=13, crowding=crowding)),
        seconds=10.0,
        ours=("place", f"--strategy=pacemaker-{strategy}"),
    )


def check(nodes: int, template: str) -> Case:
    return Case(
        f"check without simulation, {nodes} nodes {template}",
        lambda: document(Shape(nodes, template)),
        0,
        0,
        nodes,
        template,
        ("check", "--no-simulation"),
        ("hcheck", "--no-simulation"),
        "check",
    )


def check_and_balance(nodes: int, template: str, crowding: float) -> Case:
    """Return a case of check with the simulation of balancing; uneven clusters need moves."""
    return Case(
        f"check, {nodes} nodes {template}, {'uneven' if crowding else 'even'}",
        lambda: document(Shape(nodes, template, crowding=crowding)),
        ours=("check",),
        peer=("hcheck",),
    )


def between_groups(
    command: str, groups: int, nodes: int, template: str, fullness: float = 0.4, seconds: float = 0
) -> Case:
    """Return a case of a planner between groups; redistribute gets two offline nodes."""
    shape = Shape(nodes, template, groups=groups, fullness=fullness)
    broken = 2 if command == "redistribute" else 0
    count = f"{groups * nodes * 12:,}".replace(",", " ")
    return Case(
        f"{command}, {groups} x {nodes} nodes, {count} {template} instances"
        + f", {fullness:.0%} full" * (seconds > 0),
        lambda: first_nodes_offline(shape, broken),
        seconds=seconds,
        nodes=groups * nodes,
        template=template,
        ours=(command,),
        work=command if fullness == 0.4 else "",
    )


def _point(command: str, about: str, make: Callable[[], Json], nodes: int, template: str) -> Case:
    """Return a case of a planner without a comparable program and without a target time."""
    return Case(
        f"{command}, {about}",
        make,
        nodes=nodes,
        template=template,
        ours=(command,),
        work=command,
    )


def balance_groups(groups: int, nodes: int) -> Case:
    """Return a case of balance-groups in which every second group is half empty."""
    shape = Shape(nodes, "rbd", groups=groups)
    about = f"{groups} x {nodes} nodes, rbd"
    return _point("balance-groups", about, lambda: half_empty(shape), groups * nodes, "rbd")


def make_room(nodes: int, template: str) -> Case:
    """Return a case of make-room for a new instance larger than the free capacity of any node."""
    shape = Shape(nodes, template, fullness=0.6)
    return _point(
        "make-room", f"{nodes} nodes {template}", lambda: too_large(shape), nodes, template
    )


def repair(nodes: int) -> Case:
    """Return a case of repair with one offline node.

    harep is not compared, because it needs a running cluster.
    """
    about = f"{nodes} nodes drbd, one of them offline"
    return _point("repair", about, lambda: to_be_repaired(Shape(nodes, "drbd")), nodes, "drbd")


def reboot(nodes: int, template: str) -> Case:
    """Return a case of reboot.

    Instances that cannot fail over are moved; drbd instances can fail over.
    """
    return Case(
        f"reboot, {nodes} nodes {template}",
        lambda: document(Shape(nodes, template)),
        0,
        0,
        nodes,
        template,
        ("reboot", "--force"),
        ("hroller", "--force"),
        "reboot",
    )


def placed(nodes: int) -> Case:
    return Case(
        f"place, pacemaker-default, {nodes} nodes, {nodes * 12} drbd instances",
        lambda: document(Shape(nodes, "drbd", crowding=0.3)),
        0,
        0,
        nodes,
        "drbd",
        ("place", "--strategy=pacemaker-default"),
        (),
        "place",
    )


PLANNERS = (
    balance(20, "drbd", 60),
    balance(40, "drbd", 150),
    balance(40, "rbd", 60),
    balance(200, "drbd", 0, 12.0, crowding=0.0),
    balance(200, "drbd", 0, 20.0),
    squeeze(20, "rbd", 1.0),
    squeeze(40, "rbd", 1.0),
    squeeze(40, "rbd", 1.0, crowding=0.3),
    squeeze(160, "rbd", 10.0),
    squeeze(40, "drbd", 5.0),
    squeeze(40, "drbd", 5.0, crowding=0.3),
    *(
        place(template, strategy, 0.3)
        for template in ("rbd", "drbd")
        for strategy in ("default", "utilization", "minimal", "balanced")
    ),
    between_groups("compress", 20, 50, "drbd", 0.4, 20.0),
    between_groups("compress", 20, 50, "drbd", 0.92, 30.0),
    between_groups("compress", 20, 50, "rbd", 0.4, 20.0),
    between_groups("compress", 20, 50, "rbd", 0.88, 30.0),
    between_groups("redistribute", 20, 50, "drbd", 0.4, 20.0),
    between_groups("redistribute", 20, 50, "rbd", 0.4, 20.0),
    *(check(nodes, "drbd") for nodes in (20, 80, 160)),
    *(check(nodes, template) for template in ("plain", "rbd") for nodes in (20, 80, 160)),
    *(
        check_and_balance(nodes, template, crowding)
        for template in ("drbd", "plain", "rbd")
        for nodes in (20, 80)
        for crowding in (0.0, 0.3)
    ),
    *(
        capacity(nodes, template, target, 0, crowding, tiers)
        for template, target in (("drbd", 5), ("plain", 10), ("rbd", 10))
        for nodes in (20, 40)
        for crowding in (0.0, 0.3)
        for tiers in (False, True)
    ),
    *(
        capacity(nodes, template, 0, seconds, crowding, tiers)
        for nodes, seconds, tiers in ((100, 5.0, True), (320, 30.0, False))
        for template in ("drbd", "plain", "rbd")
        for crowding in (0.0, 0.3)
    ),
)
"""The measured cases of planners, in the order of the table."""
