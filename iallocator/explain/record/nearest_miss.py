"""Where nothing fits: which node came closest, and what it lacked.

Near is what
lacks the smallest part of what the instance asks for, all that is lacking added up;
of equals the first node in the order of the cluster.
"""

from __future__ import annotations

from iallocator.limits.words import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from iallocator.explain.record.limits import RolesTested
    from iallocator.limits.node import LimitSet
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView
    from iallocator.n1.check import N1Check
    from iallocator.n1.simulation import UnsurvivedFailure
    from iallocator.placement.context import Context
    from iallocator.placement.what_if import WhatIf

    Nodes = tuple[int, ...]

    Amount = Callable[[NodeView, NodeView, Instance], float]
    _Amounts = dict[str, tuple[float, float, str]]
    """Unit -> amount lacking, amount asked for, unit."""

__all__ = ["Search", "closest", "lost_by_n1"]


def lost_by_n1(context: Context, check: N1Check, instance: Instance, nodes: Nodes) -> str:
    """What stands in the way of a placement that only global N+1 refused; "" if nothing does."""
    stranded = check.stranded(instance, nodes)
    return _not_redundant(context, nodes, stranded) if stranded else ""


def closest(
    context: Context,
    seats: RolesTested,
    barred: Collection[int] = (),
    mirror: WhatIf | None = None,
    source: int | None = None,
) -> str:
    """One clause on what came closest to taking an instance in `seats`.

    `barred` are nodes that no resource would help; for `mirror` and `source` see
    `Search`.  "" if there is nothing to tell.
    """
    open_to = [index for index in seats.primaries if index not in barred]
    search = Search(seats.prospect, mirror, source)
    if not open_to:
        told = [seats.refusals[index] for index in seats.primaries]
        names = context.cluster.node_names(seats.primaries[:1])
        return f"{names[0]}: {told[0].wording}" if told else ""
    if seats.secondaries is None:
        return _told(context, search.single(open_to))
    if not seats.secondaries:
        return ""
    return _told(context, search.pair(open_to, seats.secondaries))


class _Lack:
    """What a node lacks for one role: texts, and the sum of the parts of what is asked for."""

    __slots__ = ("index", "part", "texts")

    def __init__(self, index: int, amounts: Sequence[tuple[float, float, str]]) -> None:
        self.index = index
        self.texts = [quantity(amount, unit) for amount, _, unit in amounts]
        self.part = sum(amount / asked for amount, asked, _ in amounts)


def _part(lack: _Lack) -> float:
    return lack.part


class Search:
    """The nearest placement by what single nodes lack.

    With `mirror`, what limits a first step, and the node `source`, a new primary must
    become the secondary of that before.
    """

    def __init__(
        self, prospect: WhatIf, mirror: WhatIf | None = None, source: int | None = None
    ) -> None:
        self._prospect = prospect
        self._mirror = mirror
        self._source = source

    def single(self, nodes: Iterable[int]) -> list[_Lack]:
        """What the nearest node lacks."""
        return [min((self._as_primary(index) for index in nodes), key=_part)]

    def pair(self, primaries: Sequence[int], nodes: Sequence[int]) -> list[_Lack]:
        """What the nodes of the nearest pair lack.

        Two are looked at: the best primary with its best secondary, and the best
        secondary with its best primary.
        """
        first = [self._as_primary(index) for index in primaries]
        second = [self._as_secondary(index, None) for index in nodes]
        pairs = []
        best = min(first, key=_part)
        others = [self._as_secondary(i, best.index) for i in nodes if i != best.index]
        if others:
            pairs.append([best, min(others, key=_part)])
        taker = min(second, key=_part)
        givers = [lack for lack in first if lack.index != taker.index]
        if givers:
            giver = min(givers, key=_part)
            pairs.append([giver, self._as_secondary(taker.index, giver.index)])
        return min(pairs, key=lambda pair: pair[0].part + pair[1].part, default=[])

    def _as_primary(self, index: int) -> _Lack:
        prospect = self._prospect
        reasons = {check.reason for check, _ in prospect.primary_failures(index)}
        counting = _counting(AS_PRIMARY, reasons, prospect.limits)
        amounts = self._amounts(counting, prospect.primary(index))
        if self._mirror is not None:
            before = self._as_secondary_of(self._mirror, index, self._source)
            amounts |= {
                unit: lacking
                for unit, lacking in before.items()
                if unit not in amounts or lacking > amounts[unit]
            }
        return _Lack(index, list(amounts.values()))

    def _as_secondary(self, index: int, primary: int | None) -> _Lack:
        return _Lack(index, list(self._as_secondary_of(self._prospect, index, primary).values()))

    def _as_secondary_of(self, prospect: WhatIf, index: int, primary: int | None) -> _Amounts:
        reasons = {check.reason for check, _ in prospect.secondary_failures(index, primary)}
        counting = _counting(AS_SECONDARY, reasons, prospect.mirror_limits)
        return self._amounts(counting, prospect.secondary(index, primary))

    def _amounts(self, measures: Iterable[_Measure], views: tuple[NodeView, NodeView]) -> _Amounts:
        """Of every resource the largest amount that one of its limits asks for."""
        instance = self._prospect.instance
        amounts: _Amounts = {}
        for measure in measures:
            amount = measure.amount(*views, instance)
            if amount > 0 and amount > amounts.get(measure.unit, (0.0,))[0]:
                amounts[measure.unit] = (amount, measure.asked(instance), measure.unit)
        return amounts


class _Measure:
    """How much of a resource (`unit`) is missing where a limit counted as `reason` is broken.

    ``asked`` names the attribute of the instance that says how much of it it takes;
    ``soft`` and ``forced`` are those of the limit.
    """

    __slots__ = ("_asked", "amount", "forced", "reason", "soft", "unit")

    def __init__(
        self,
        reason: str,
        unit: str,
        asked: str,
        amount: Amount,
        *,
        soft: bool = False,
        forced: bool = True,
    ) -> None:
        self.reason = reason
        self.unit = unit
        self.amount = amount
        self.soft = soft
        self.forced = forced and not soft
        self._asked = asked

    def asked(self, instance: Instance) -> float:
        """How much of it the instance asks for in all; 1 where that means nothing."""
        return float(getattr(instance, self._asked) or 1) if self._asked else 1.0


def _counting(measures: Sequence[_Measure], reasons: set[str], limits: LimitSet) -> list[_Measure]:
    """Those of `measures` that are about `reasons`, and about limits that count."""
    return [
        measure
        for measure in measures
        if measure.reason in reasons and limits.holds(measure.soft, measure.forced)
    ]


_MEMORY, _DISK, _CPUS = "MiB memory", "MiB disk", "virtual cpus"
_OWN, _SHARED = "spindles of its own", "spindles under the policy's ratio"

_N1 = _Measure(
    "FailMem", _MEMORY, "memory",
    lambda b, a, i: a.reserved - a.memory + 1 if a.fails_n1 > b.fails_n1 else 0, soft=True,
)  # fmt: skip

_DISKS = (
    _Measure("FailDisk", "places in its storage pool", "",
             lambda b, a, i: 1 if a.at is not None and a.at.bars(i) else 0),
    _Measure("FailDisk", _DISK, "disk", lambda b, a, i: 1 - a.disk),
    _Measure("FailDisk", _DISK, "disk", lambda b, a, i: 1 - a.disk_later, forced=False),
    _Measure("FailDisk", _DISK, "disk", lambda b, a, i: a.disk_reserve - a.disk, soft=True),
    _Measure("FailDisk", _SHARED, "spindle_use", lambda b, a, i: a.spindles - a.high_spindles,
             forced=False),
    _Measure("FailDisk", _SHARED, "spindle_use",
             lambda b, a, i: a.spindles_later - a.high_spindles, forced=False),
    _Measure("FailSpindles", _OWN, "spindles", lambda b, a, i: -a.exclusive * a.free_spindles),
    _Measure("FailSpindles", _OWN, "spindles",
             lambda b, a, i: -a.exclusive * a.free_spindles_later, forced=False),
    _Measure("FailSpindles", "disk size in spindles (the disks do not say theirs)", "",
             lambda b, a, i: a.exclusive * (i.spindles is None)),
)  # fmt: skip

AS_PRIMARY = (
    _Measure("FailMem", _MEMORY, "memory", lambda b, a, i: 1 - a.memory),
    _Measure("FailMem", _MEMORY, "memory", lambda b, a, i: 1 - a.memory_later, forced=False),
    _N1,
    *_DISKS,
    _Measure("FailCPU", _CPUS, "vcpus", lambda b, a, i: a.cpus - a.vcpu_ratio * a.total_cpus,
             soft=True),
    _Measure("FailCPU", _CPUS, "vcpus",
             lambda b, a, i: a.cpus_later - a.vcpu_ratio * a.total_cpus, soft=True),
    _Measure("FailTags", "places free of its exclusion tags", "",
             lambda b, a, i: a.conflicts - b.conflicts, soft=True),
)  # fmt: skip
"""What a primary can lack; `iallocator.limits.node` has the limits themselves."""

AS_SECONDARY = (
    _Measure("FailMem", _MEMORY, "takeover_memory",
             lambda b, a, i: i.takeover_memory - b.memory + 1, soft=True),
    _Measure("FailMem", _MEMORY, "takeover_memory",
             lambda b, a, i: i.takeover_memory - b.memory_later + 1, soft=True),
    _N1,
    *_DISKS,
)  # fmt: skip
"""What a secondary can lack."""


def _told(context: Context, lacks: Sequence[_Lack]) -> str:
    """``node1/node2: node2 lacks 977 MiB memory``."""
    names = context.cluster.node_names([lack.index for lack in lacks])
    told = [
        f"{name} lacks {' and '.join(lack.texts)}" for name, lack in zip(names, lacks) if lack.texts
    ]
    if len(names) == 2 and told:
        return f"{'/'.join(names)}: {', '.join(told)}"
    return ", ".join(told)


def _not_redundant(context: Context, nodes: tuple[int, ...], stranded: UnsurvivedFailure) -> str:
    """What stands in the way where only N+1 does."""
    names = context.cluster.node_names([*nodes, stranded.node])
    return (
        f"{'/'.join(names[:-1])}: if {names[-1]} failed, "
        f"{stranded.instance.name} ({stranded.instance.memory} MiB memory) would have no place: "
        f"{stranded.why}"
    )
