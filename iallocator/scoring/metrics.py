"""The statistics of the cluster score in one table, and the arithmetic of their changes.

Source: the arithmetic of Ganeti's allocation tools. A lower score is better. Every statistic is 0
for an evenly used cluster without conflicts.

The standard deviation after a change follows from the number of nodes, the sum, the sum of squares,
and the old and new values at the nodes that change. Values are relative to the mean before the
change, so that the subtraction of squares is exact to well below the eighth decimal.

The functions work on numbers and on arrays: `iallocator.scoring.scalar` applies them to one
candidate after the other, `iallocator.scoring.arrays` to all candidates at once.
"""

from __future__ import annotations

from iallocator.constraints.table import EXCLUSION_TAGS, LOCATION_TAGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.node_view import NodeView, Quantity

    Change = Sequence[tuple[Quantity, Quantity]]
    """Per statistic: what is added to its sum, and to its sum of squares."""

__all__ = [
    "DOMAINS",
    "LOCATION",
    "N1_COUNT",
    "NO_CENTRES",
    "NO_EQUAL",
    "RESERVED",
    "RESERVED_TOTAL",
    "RESERVING",
    "STATISTICS",
    "VARIANCE_ROUNDING",
    "Statistic",
    "Totals",
    "counting",
    "node_counts",
    "scope_group",
    "spread",
    "terms",
    "value_of",
    "values",
]  # fmt: skip


class Statistic:
    """One term of the score.

    Attributes
    ----------
    name:
        The name of the statistic in Ganeti's terms.
    weight:
        The factor of the statistic in the cluster score.
    value:
        The quantity of a node, as a formula over its `NodeView`. The formula is a sum of products
        of one column (`iallocator.model.columns`) and any number of capacities, so that equal
        instances change the value by equal amounts. New statistics must not read `reserved`,
        `fails_n1`, `misplaced` and `domain_conflicts`.
    more:
        The reason why the statistic, and so the score, is larger: a clause for tables and pages.
    less:
        The improvement if the statistic is smaller: a clause.
    spread:
        True: the statistic is the population standard deviation of the values; False: their sum.
    offline, disk:
        The nodes that count, by the argument `over`: "online", "offline" (all others), or "stored"
        (the online nodes that may have storage of their own, if `disk` is true).
    htools:
        The name of the statistic in htools; "" if htools do not have it. Such a statistic is 0 with
        ``--compat hail``.
    reads:
        The attributes of a `NodeView` that `value` depends on.
    """

    __slots__ = (
        "disk", "htools", "less", "more", "name", "offline", "reads", "spread", "value", "weight",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        weight: float,
        value: Callable[[NodeView], Quantity],
        more: str,
        less: str,
        *,
        spread: bool = True,
        over: str = "online",
        htools: str = "",
    ) -> None:
        self.name = name
        self.weight = weight
        self.value = value if htools else lambda node: value(node) * node.new_statistics
        self.more = more
        self.less = less
        self.spread = spread
        self.offline = over == "offline"
        self.disk = over == "stored"
        self.htools = htools
        noted = _Noted()
        self.value(noted)  # type: ignore[arg-type]
        self.reads = frozenset(noted.read)


class _Noted:
    """Stands in for a `NodeView`, and records the names of the attributes that a formula reads."""

    def __init__(self) -> None:
        self.read: list[str] = []

    def __getattr__(self, name: str) -> float:
        self.read.append(name)
        return 1.0


def _instances(n: NodeView) -> Quantity:
    return n.primaries + n.secondaries


STATISTICS = (
    Statistic(
        "free_mem", 0.5, lambda n: n.memory * n.per_memory,
        "free memory differs between nodes",
        "free memory more even",
        htools="free_mem_cv",
    ),
    Statistic(
        "free_disk", 0.5,
        lambda n: n.disk * n.per_disk + n.free_spindles * n.per_own_spindle + n.no_disk,
        "free disk differs between nodes",
        "free disk more even",
        over="stored", htools="free_disk_cv",
    ),
    Statistic(
        "n1_cnt", 1, lambda n: _instances(n) * n.fails_n1,
        "instances on nodes that fail N+1",
        "fewer instances on nodes that fail N+1",
        spread=False, htools="n1_cnt",
    ),
    Statistic(
        "reserved_mem", 1, lambda n: n.reserved * n.per_memory,
        "memory reserved for failovers differs between nodes",
        "memory reserved for failovers more even",
        htools="reserved_mem_cv",
    ),
    Statistic(
        "offline_all", 4, _instances,
        "instances on nodes that are not online",
        "fewer instances on nodes that are not online",
        spread=False, over="offline", htools="offline_all_cnt",
    ),
    Statistic(
        "offline_pri", 16, lambda n: n.primaries,
        "primaries on nodes that are not online",
        "fewer primaries on nodes that are not online",
        spread=False, over="offline", htools="offline_pri_cnt",
    ),
    Statistic(
        "vcpu_ratio", 0.5, lambda n: n.cpus * n.per_cpu * n.per_speed,
        "virtual cpus per cpu differ between nodes",
        "virtual cpus more even",
        htools="vcpu_ratio_cv",
    ),
    Statistic(
        "cpu_load", 1, lambda n: n.cpu_load,
        "cpu load differs between nodes",
        "cpu load more even",
        htools="cpu_load_cv",
    ),
    Statistic(
        "mem_load", 1, lambda n: n.memory_load,
        "memory load differs between nodes",
        "memory load more even",
        htools="mem_load_cv",
    ),
    Statistic(
        "disk_load", 1, lambda n: n.disk_load,
        "disk load differs between nodes",
        "disk load more even",
        htools="disk_load_cv",
    ),
    Statistic(
        "net_load", 1, lambda n: n.net_load,
        "network load differs between nodes",
        "network load more even",
        htools="net_load_cv",
    ),
    Statistic(
        "pri_tags", EXCLUSION_TAGS.weight, lambda n: n.conflicts,
        "primaries with the same exclusion tag on one node",
        "fewer exclusion tags twice on one node",
        spread=False, htools="pri_tags_score",
    ),
    Statistic(
        "spindles", 0.5, lambda n: n.spindles * n.per_spindle,
        "spindles in use differ between nodes",
        "spindles more even",
        over="stored", htools="spindles_cv",
    ),
    Statistic(
        "free_mem_forth", 0.5, lambda n: n.memory_later * n.per_memory,
        "free memory differs, forthcoming instances counted",
        "free memory more even once forthcoming instances exist",
        htools="free_mem_cv_forth",
    ),
    Statistic(
        "free_disk_forth", 0.5,
        lambda n: (
            n.disk_later * n.per_disk + n.free_spindles_later * n.per_own_spindle + n.no_disk
        ),
        "free disk differs, forthcoming instances counted",
        "free disk more even once forthcoming instances exist",
        over="stored", htools="free_disk_cv_forth",
    ),
    Statistic(
        "vcpu_ratio_forth", 0.5, lambda n: n.cpus_later * n.per_cpu * n.per_speed,
        "virtual cpus per cpu differ, forthcoming instances counted",
        "virtual cpus more even once forthcoming instances exist",
        htools="vcpu_ratio_cv_forth",
    ),
    Statistic(
        "spindles_forth", 0.5, lambda n: n.spindles_later * n.per_spindle,
        "spindles in use differ, forthcoming instances counted",
        "spindles more even once forthcoming instances exist",
        over="stored", htools="spindles_cv_forth",
    ),
    Statistic(
        "location", LOCATION_TAGS.weight, lambda n: n.misplaced,
        "failure domains shared with the secondary, desired locations missed",
        "fewer shared failure domains",
        spread=False, htools="location_score",
    ),
    Statistic(
        "location_exclusion", 1, lambda n: n.domain_conflicts,
        "same exclusion tag twice in one failure domain",
        "fewer exclusion tags twice in one failure domain",
        spread=False, htools="location_exclusion_score",
    ),
    Statistic(
        "reserved_mem_total", 0.25, lambda n: n.reserved * n.per_memory,
        "memory reserved for failovers in all",
        "less memory reserved for failovers",
        spread=False, htools="reserved_mem_rtotal",
    ),
)  # fmt: skip
"""All statistics, in the order in which they are listed and explained."""


def _reading(name: str) -> list[int]:
    """Return the positions of the statistics that read the attribute `name` of a node."""
    return [k for k, statistic in enumerate(STATISTICS) if name in statistic.reads]


(LOCATION,), (DOMAINS,) = _reading("misplaced"), _reading("domain_conflicts")
"""The positions of the statistics that depend on more than one node."""

(N1_COUNT,) = _reading("fails_n1")
"""The position of the statistic that counts instances on nodes without the memory for failovers."""

RESERVED, RESERVED_TOTAL = _reading("reserved")
"""The positions of two statistics of reserved memory: its deviation, and its sum."""

RESERVING = (N1_COUNT, RESERVED, RESERVED_TOTAL)
"""The positions of the statistics that change with the memory reserved on a node."""

NO_CENTRES = (0.0,) * len(STATISTICS)
"""Centres of 0, with which `values` returns the values of nodes unchanged."""

NO_EQUAL: Mapping[int, int] = {}
"""An empty mapping: no statistic always has the deviation of another one."""

VARIANCE_ROUNDING = 4e-14
"""The share of the mean square below which a variance is a rounding error of zero."""


def values(view: NodeView, centres: Sequence[float]) -> list[Quantity]:
    """Return for each statistic the values of `view` less its centre; 0 for nodes not included."""
    online, stored = view.online, view.stored
    offline = 1 - online
    return [
        (statistic.value(view) - centre)
        * (offline if statistic.offline else stored if statistic.disk else online)
        for statistic, centre in zip(STATISTICS, centres)
    ]


def counting(k: int, view: NodeView) -> Quantity:
    """Return 1 for each node of `view` that statistic `k` includes, else 0."""
    statistic = STATISTICS[k]
    if statistic.offline:
        return 1 - view.online
    return view.stored if statistic.disk else view.online


def value_of(k: int, view: NodeView, centre: float) -> Quantity:
    """Return the values of `view` for statistic `k`, less `centre`; 0 for nodes not included."""
    return (STATISTICS[k].value(view) - centre) * counting(k, view)


def scope_group(cluster: Cluster, scope: Sequence[int]) -> int | None:
    """Return the index of the group that is the scope of the statistics; None for all nodes."""
    return None if len(scope) == len(cluster.nodes) else cluster.nodes[scope[0]].group.index


class Totals:
    """Sums of the statistics over a set of nodes, from which the score follows.

    Attributes
    ----------
    counts:
        For each statistic, the number of nodes that it includes; see `node_counts`.
    centres:
        For each statistic, the mean before any change; 0 for statistics that are sums.
    sums, squares:
        For each statistic, the sum, and the sum of squares, of the values less the centre.
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
    """Return the number of nodes that each statistic includes; at least 1.

    `online`, `offline`: the numbers of nodes; `stored`: the number of online nodes that may have
    storage of their own.
    """
    return [(offline if s.offline else stored if s.disk else online) or 1 for s in STATISTICS]


def spread(added: Quantity, square: Quantity, count: Quantity) -> Quantity:
    """Return the variance of `count` values with sum `added` and sum of squares `square`."""
    mean = added / count
    mean_square = square / count
    variance = mean_square - mean * mean
    # the difference of two equal numbers is a rounding error, of which the root is not negligible
    return variance * (variance > VARIANCE_ROUNDING * mean_square)


def terms(
    totals: Totals,
    changes: Iterable[Change],
    sqrt: Callable[[Quantity], Quantity],
    spread: Callable[[Quantity, Quantity, Quantity], Quantity] = spread,
    equal: Mapping[int, int] = NO_EQUAL,
) -> list[Quantity]:
    """Return the weighted terms of the score after `changes`, one for each statistic.

    The sum of the terms is the score; lower is better. `sqrt` and `spread` compute square roots and
    variances of numbers or arrays. `equal`: statistic -> an earlier statistic with equal sums and
    changes (positions); its deviation is used for both. Cost: constant per candidate.
    """
    result: list[Quantity] = []
    deviations: dict[int, Quantity] = {}
    collected = list(changes)
    for k, statistic in enumerate(STATISTICS):
        if k in equal:
            result.append(statistic.weight * deviations[equal[k]])
            continue
        added: Quantity = totals.sums[k]
        square: Quantity = totals.squares[k]
        for change in collected:
            more, more_square = change[k]
            added = added + more
            square = square + more_square
        if statistic.spread:
            deviation = sqrt(spread(added, square, totals.counts[k]))
            if equal:
                deviations[k] = deviation
            result.append(statistic.weight * deviation)
        else:
            result.append(statistic.weight * added)
    return result
