"""What is measured: the work, how many times faster than the peer it has to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from benchmarks.clusters import (
    Shape,
    allocate,
    change_group,
    document,
    first_nodes_offline,
    multi_allocate,
    node_evacuate,
    not_redundant,
)
from iallocator.aliases import Json

__all__ = ["CASES", "Case"]


class Case(NamedTuple):
    """One line of the table.

    Attributes
    ----------
    name:
        What is done.
    document:
        Makes the request.
    target:
        The peer's time divided by ours, at least; 0: only our own time counts.
    seconds:
        Our time at most; 0: only the ratio counts.
    nodes, template:
        For the picture; 0 and "" for what is not in it.
    ours, peer:
        Planners: what is asked on the cluster as a text file, a command with its options, and
        the program that is asked beside it; () for requests, which are asked of hail, and
        for a planner without peer.
    work:
        The panel of the picture; "" for what is in none.
    """

    name: str
    document: Callable[[], Json]
    target: float = 0
    seconds: float = 0
    nodes: int = 0
    template: str = ""
    ours: tuple[str, ...] = ()
    peer: tuple[str, ...] = ()
    work: str = ""


def _allocate(nodes: int, template: str, target: float = 0, seconds: float = 0) -> Case:
    return Case(
        f"allocate, {nodes} nodes {template}",
        lambda: allocate(Shape(nodes, template)),
        target,
        seconds,
        nodes,
        template,
        work="allocate",
    )


def _balance(
    nodes: int,
    template: str,
    target: float = 0,
    seconds: float = 0,
    crowding: float = 0.3,
    options: tuple[str, ...] = (),
) -> Case:
    """Uneven clusters, but for those that only our own time is wanted of."""
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
        "balance" if seconds == 0 else "",
    )


NO_TIERS = "--tiered-alloc=1m,1m,1"
"""A size that no policy allows: the tiers end at once."""


def _capacity(
    nodes: int,
    template: str,
    target: float = 0,
    seconds: float = 0,
    crowding: float = 0.0,
    tiers: bool = False,
) -> Case:
    """Uneven drbd clusters are not N+1 from 40 nodes on: they are filled all the same."""
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


def _squeeze(nodes: int, template: str, seconds: float, crowding: float = 0.0) -> Case:
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


def _place(template: str, strategy: str, crowding: float = 0.0) -> Case:
    spread = "uneven" if crowding else "even"
    return Case(
        f"place, pacemaker-{strategy}, 320 nodes, 4 160 {template} instances, {spread}",
        lambda: document(Shape(320, template, per_node=13, crowding=crowding)),
        seconds=10.0,
        ours=("place", f"--strategy=pacemaker-{strategy}"),
    )


def _check(nodes: int, template: str) -> Case:
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


def _check_and_balance(nodes: int, template: str, crowding: float) -> Case:
    """With the simulation of balancing, as it is by default; uneven clusters have work to do."""
    return Case(
        f"check, {nodes} nodes {template}, {'uneven' if crowding else 'even'}",
        lambda: document(Shape(nodes, template, crowding=crowding)),
        ours=("check",),
        peer=("hcheck",),
    )


def _between_groups(command: str, fullness: float, seconds: float) -> Case:
    """20 groups with 50 nodes each; to be repaired, two of them have a node that is offline."""
    shape = Shape(50, "drbd", groups=20, fullness=fullness)
    broken = 2 if command == "redistribute" else 0
    return Case(
        f"{command}, 20 x 50 nodes, 12 000 drbd instances, {fullness:.0%} full",
        lambda: first_nodes_offline(shape, broken),
        seconds=seconds,
        ours=(command,),
    )


NODES = (5, 10, 20, 40, 80, 160, 320)
"""The points of the curves of planners."""


def _rest_of_curves() -> list[Case]:
    """The points of the picture that no line of the table is about."""
    known = {(case.work, case.template, case.nodes) for case in CASES}
    points = [
        case
        for nodes in NODES
        for case in (
            _balance(nodes, "drbd"),
            _balance(nodes, "rbd"),
            _squeeze(nodes, "rbd", 0),
            _squeeze(nodes, "drbd", 0),
            _check(nodes, "drbd"),
            _capacity(nodes, "drbd"),
            _capacity(nodes, "rbd"),
            _placed(nodes),
        )
    ]
    return [case for case in points if (case.work, case.template, case.nodes) not in known]


def _placed(nodes: int) -> Case:
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


CASES = (
    _allocate(5, "drbd", 1 / 3),
    _allocate(20, "drbd", 1),
    _allocate(20, "rbd", 1),
    _allocate(40, "rbd", 8),
    _allocate(80, "rbd", 50),
    _allocate(160, "rbd", 300),
    _allocate(320, "rbd", 0, 0.25),
    _allocate(640, "rbd"),
    _allocate(1280, "rbd"),
    _allocate(80, "drbd", 3),
    _allocate(160, "drbd", 8),
    _allocate(320, "drbd", 20),
    Case(
        "allocate, 120 nodes rbd, tight (98 % full)",
        lambda: allocate(Shape(120, "rbd", fullness=0.98, seed=3)),
    ),
    Case(
        "a refusal, 120 nodes rbd: no room",
        lambda: allocate(Shape(120, "rbd", fullness=0.9, seed=3), memory=60000),
    ),
    Case(
        "a refusal by hail, 120 nodes rbd: the group is not N+1",
        lambda: not_redundant(Shape(120, "rbd")),
        200,
    ),
    Case(
        "node-evacuate, 26 drbd instances, 80 nodes",
        lambda: node_evacuate(Shape(80, "drbd"), 26),
        40,
    ),
    Case(
        "node-evacuate, 26 of 20 000 drbd instances, 1000 nodes",
        lambda: node_evacuate(Shape(1000, "drbd", per_node=20), 26),
        0,
        3.0,
    ),
    Case(
        "change-group, 20 drbd instances, 3 x 80 nodes",
        lambda: change_group(Shape(80, "drbd", groups=3), 20),
        100,
    ),
    Case(
        "multi-allocate, 20 rbd instances, 80 nodes",
        lambda: multi_allocate(Shape(80, "rbd"), 20),
        500,
    ),
    Case(
        "allocate, 1000 nodes, 20 000 drbd instances",
        lambda: allocate(Shape(1000, "drbd", per_node=20)),
        0,
        1.0,
    ),
    Case(
        "allocate, 10 groups x 1000 nodes, 100 000 drbd instances",
        lambda: allocate(Shape(1000, "drbd", per_node=10, groups=10)),
        0,
        5.0,
    ),
    _balance(20, "drbd", 60),
    _balance(40, "drbd", 150),
    _balance(40, "rbd", 60),
    _balance(200, "drbd", 0, 8.0, crowding=0.0),
    _balance(200, "drbd", 0, 8.0),
    *(
        _balance(nodes, "drbd", 0, seconds, crowding, ("--lookahead",))
        for nodes, seconds in ((40, 3.0), (200, 60.0))
        for crowding in (0.0, 0.3)
    ),
    _squeeze(20, "rbd", 1.0),
    _squeeze(40, "rbd", 1.0),
    _squeeze(40, "rbd", 1.0, crowding=0.3),
    _squeeze(160, "rbd", 10.0),
    _squeeze(40, "drbd", 5.0),
    _squeeze(40, "drbd", 5.0, crowding=0.3),
    *(
        _place(template, strategy, 0.3)
        for template in ("rbd", "drbd")
        for strategy in ("default", "utilization", "minimal", "balanced")
    ),
    _between_groups("compress", 0.4, 20.0),
    _between_groups("compress", 0.92, 30.0),
    _between_groups("redistribute", 0.4, 20.0),
    *(_check(nodes, "drbd") for nodes in (20, 80, 160)),
    *(_check(nodes, template) for template in ("plain", "rbd") for nodes in (20, 80, 160)),
    *(
        _check_and_balance(nodes, template, crowding)
        for template in ("drbd", "plain", "rbd")
        for nodes in (20, 80)
        for crowding in (0.0, 0.3)
    ),
    *(
        _capacity(nodes, template, target, 0, crowding, tiers)
        for template, target in (("drbd", 5), ("plain", 10), ("rbd", 10))
        for nodes in (20, 40)
        for crowding in (0.0, 0.3)
        for tiers in (False, True)
    ),
    _capacity(100, "drbd", 0, 5.0, tiers=True),
    _capacity(100, "rbd", 0, 5.0, tiers=True),
    _capacity(320, "drbd", 0, 30.0),
    _capacity(320, "rbd", 0, 30.0),
)
CASES = (*CASES, *_rest_of_curves())
"""In the order of the table."""
