"""List all measured cases: the lines of the table of results, and more points of the plot."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import planners
from benchmarks.case import Case
from benchmarks.planners import PLANNERS
from benchmarks.requests import REQUESTS

__all__ = ["CASES", "Case"]

NODES = (5, 10, 20, 40, 80, 160, 320)
"""The points of the curves of planners on one group."""

GROUPS = ((5, 4), (5, 8), (20, 4), (20, 8), (20, 16), (20, 50))
"""The points of the curves of planners between groups: number of groups, and of nodes in each."""


def _one_group(nodes: int) -> Iterator[Case]:
    """Yield one point of each curve of the plot; slow planners have none for large clusters."""
    yield planners.balance(nodes, "drbd")
    yield planners.balance(nodes, "rbd")
    yield planners.check(nodes, "drbd")
    yield planners.placed(nodes)
    yield planners.repair(nodes)
    yield planners.reboot(nodes, "drbd")
    if nodes >= 20:
        yield planners.make_room(nodes, "drbd")
        yield planners.make_room(nodes, "rbd")
    if nodes != 160:
        yield planners.capacity(nodes, "drbd")
        yield planners.capacity(nodes, "rbd")
        yield planners.capacity(nodes, "plain")
    if nodes <= 160:
        yield planners.squeeze(nodes, "rbd", 0)
        yield planners.squeeze(nodes, "drbd", 0)
    if nodes <= 40:
        yield planners.reboot(nodes, "rbd")


def _between_groups(groups: int, nodes: int) -> Iterator[Case]:
    for template in ("drbd", "rbd"):
        yield planners.between_groups("compress", groups, nodes, template)
        yield planners.between_groups("redistribute", groups, nodes, template)
    yield planners.balance_groups(groups, nodes)


def _rest_of_curves() -> list[Case]:
    """Return the cases that are points of the plot, and not lines of the table."""
    known = {(case.work, case.template, case.nodes) for case in (*REQUESTS, *PLANNERS)}
    points = [case for nodes in NODES for case in _one_group(nodes)]
    points += [planners.repair(1000), planners.reboot(1000, "drbd")]
    points += [case for groups, nodes in GROUPS for case in _between_groups(groups, nodes)]
    return [case for case in points if (case.work, case.template, case.nodes) not in known]


CASES = (*REQUESTS, *PLANNERS, *_rest_of_curves())
"""All measured cases, in the order of the table."""
