"""Define the measured cases of requests, compared with hail."""

from __future__ import annotations

from benchmarks.case import Case
from benchmarks.clusters import (
    Shape,
    allocate,
    change_group,
    multi_allocate,
    node_evacuate,
    not_redundant,
)

__all__ = ["REQUESTS"]


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


REQUESTS = (
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
        "a rejection, 120 nodes rbd: no room",
        lambda: allocate(Shape(120, "rbd", fullness=0.9, seed=3), memory=60000),
    ),
    Case(
        "a rejection by hail, 120 nodes rbd: the group is not N+1",
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
)
"""The measured cases of requests, in the order of the table."""
