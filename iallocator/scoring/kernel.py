"""The arithmetic of candidates: what a change at one or two nodes does to the score.

A standard deviation after a change needs only the number of nodes, the sum, the
sum of squares, and the old and new values at the nodes that change.  Values are
taken relative to the mean before the change, which keeps the subtraction of
squares exact to well below the eighth decimal.

The functions work on numbers and on arrays alike.  `iallocator.scoring.scalar`
applies them to one candidate after the other, `iallocator.scoring.arrays` to all at
once; they give the same answers and differ only in cost.
"""

from __future__ import annotations

from iallocator.scoring.statistics import STATISTICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.scoring.view import Quantity, View

    Change = Sequence[tuple[Quantity, Quantity]]
    """Per statistic: what is added to its sum, and to its sum of squares."""

__all__ = [
    "DOMAINS", "LOCATION", "Totals", "after_primary", "after_secondary", "scope_group", "spread",
    "terms", "values",
]  # fmt: skip

LOCATION, DOMAINS = (
    next(k for k, statistic in enumerate(STATISTICS) if statistic.name == name)
    for name in ("location", "location_exclusion")
)
"""Positions of the statistics that depend on more than one node."""

ROUNDING = 4e-14
"""A variance below this share of the mean square is zero that was rounded."""


def values(view: View, centres: Sequence[float]) -> list[Quantity]:
    """Per statistic what each node in `view` has, less the centre; 0 where it does not count."""
    online = view.online
    offline = 1 - online
    return [
        (statistic.value(view) - centre) * (offline if statistic.offline else online)
        for statistic, centre in zip(STATISTICS, centres)
    ]


def after_primary(view: View, instance: Instance) -> View:
    """The nodes of `view`, each as if it were the primary of `instance` (tags aside)."""
    return view.plus(instance.as_primary, view.reserved)


def after_secondary(
    view: View, instance: Instance, peers: Quantity, maximum: Callable[..., Quantity]
) -> View:
    """The nodes of `view`, each as if it were the secondary of `instance`.

    `peers` is the memory already reserved there for the instance's primary.
    """
    reserved = view.reserved
    if instance.reserves:
        reserved = maximum(reserved, peers + instance.memory)
    return view.plus(instance.as_secondary, reserved)


def scope_group(cluster: Cluster, scope: Sequence[int]) -> int | None:
    """The index of the group that is the scope of the statistics, or None for all nodes."""
    return None if len(scope) == len(cluster.nodes) else cluster.nodes[scope[0]].group.index


class Totals:
    """Sums of the statistics over a set of nodes, from which scores are made.

    Attributes
    ----------
    online, offline:
        How many nodes of either kind there are.
    centres:
        Per statistic the mean before any change (0 for those that are summed).
    sums, squares:
        Per statistic, of the values less the centre.
    """

    __slots__ = ("centres", "offline", "online", "squares", "sums")

    def __init__(
        self,
        online: int,
        offline: int,
        centres: list[float],
        sums: list[float],
        squares: list[float],
    ) -> None:
        self.online = online
        self.offline = offline
        self.centres = centres
        self.sums = sums
        self.squares = squares

    def count(self, offline: bool) -> int:
        """How many nodes a statistic runs over; 1 if none, so that means exist."""
        return (self.offline if offline else self.online) or 1


def spread(added: Quantity, square: Quantity, count: int) -> Quantity:
    """The variance of `count` values with this sum and sum of squares."""
    mean = added / count
    mean_square = square / count
    variance = mean_square - mean * mean
    # what is left of two equal numbers is rounding, and its root would show
    return variance * (variance > ROUNDING * mean_square)


def terms(
    totals: Totals,
    changes: Iterable[Change],
    sqrt: Callable[[Quantity], Quantity],
) -> list[Quantity]:
    """The weighted terms of the score after `changes`, one per statistic.

    Cost: constant per candidate.  Their sum is the score; lower is better.
    """
    result: list[Quantity] = []
    collected = list(changes)
    for k, statistic in enumerate(STATISTICS):
        added: Quantity = totals.sums[k]
        square: Quantity = totals.squares[k]
        for change in collected:
            more, more_square = change[k]
            added = added + more
            square = square + more_square
        if statistic.spread:
            count = totals.count(statistic.offline)
            result.append(statistic.weight * sqrt(spread(added, square, count)))
        else:
            result.append(statistic.weight * added)
    return result
