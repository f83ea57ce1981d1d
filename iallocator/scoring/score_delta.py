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

from iallocator.scoring.metrics import STATISTICS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView, Quantity

    Change = Sequence[tuple[Quantity, Quantity]]
    """Per statistic: what is added to its sum, and to its sum of squares."""

__all__ = [
    "NO_CENTRES", "ROUNDING", "Totals", "after_primary",
    "after_secondary", "counting", "node_counts", "scope_group", "spread", "terms",
    "value_of", "values",
]  # fmt: skip

NO_CENTRES = (0.0,) * len(STATISTICS)
"""Centres with which `values` are the plain ones."""

ROUNDING = 4e-14
"""A variance below this share of the mean square is zero that was rounded."""


def values(view: NodeView, centres: Sequence[float]) -> list[Quantity]:
    """Per statistic what each node in `view` has, less the centre; 0 where it does not count."""
    online, stored = view.online, view.stored
    offline = 1 - online
    return [
        (statistic.value(view) - centre)
        * (offline if statistic.offline else stored if statistic.disk else online)
        for statistic, centre in zip(STATISTICS, centres)
    ]


def counting(k: int, view: NodeView) -> Quantity:
    """1 for the nodes of `view` that statistic `k` runs over, else 0."""
    statistic = STATISTICS[k]
    if statistic.offline:
        return 1 - view.online
    return view.stored if statistic.disk else view.online


def value_of(k: int, view: NodeView, centre: float) -> Quantity:
    """What `values` has at position `k`."""
    return (STATISTICS[k].value(view) - centre) * counting(k, view)


def after_primary(view: NodeView, instance: Instance) -> NodeView:
    """The nodes of `view`, each as if it were the primary of `instance` (tags aside)."""
    return _hidden(view.plus(instance.as_primary, view.reserved), instance)


def after_secondary(
    view: NodeView, instance: Instance, peers: Quantity, maximum: Callable[..., Quantity]
) -> NodeView:
    """The nodes of `view`, each as if it were the secondary of `instance`.

    `peers` is the memory already reserved there for the instance's primary.
    """
    reserved = view.reserved
    if instance.reserves:
        reserved = maximum(reserved, peers + instance.memory)
    return _hidden(view.plus(instance.as_secondary, reserved), instance)


def _hidden(after: NodeView, instance: Instance) -> NodeView:
    """The nodes after `instance` came, without spindles where it does not say how many it has."""
    if instance.hides_spindles:
        after.hide_spindles(not instance.forthcoming)
    return after


def scope_group(cluster: Cluster, scope: Sequence[int]) -> int | None:
    """The index of the group that is the scope of the statistics, or None for all nodes."""
    return None if len(scope) == len(cluster.nodes) else cluster.nodes[scope[0]].group.index


class Totals:
    """Sums of the statistics over a set of nodes, from which scores are made.

    Attributes
    ----------
    counts:
        Per statistic the number of nodes that it runs over; see `node_counts`.
    centres:
        Per statistic the mean before any change (0 for those that are summed).
    sums, squares:
        Per statistic, of the values less the centre.
    """

    __slots__ = ("centres", "counts", "squares", "sums")

    def __init__(
        self,
        counts: Sequence[int],
        centres: list[float],
        sums: list[float],
        squares: list[float],
    ) -> None:
        self.counts = counts
        self.centres = centres
        self.sums = sums
        self.squares = squares


def node_counts(online: int, offline: int, stored: int) -> list[int]:
    """Per statistic how many nodes it runs over; 1 if none, so that means exist.

    `stored` are the online nodes that may have storage of their own.
    """
    return [(offline if s.offline else stored if s.disk else online) or 1 for s in STATISTICS]


def spread(added: Quantity, square: Quantity, count: Quantity) -> Quantity:
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
            count = totals.counts[k]
            result.append(statistic.weight * sqrt(spread(added, square, count)))
        else:
            result.append(statistic.weight * added)
    return result
