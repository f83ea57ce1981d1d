"""Where nothing fits: which node came closest, and what it lacked.

Near is what
lacks the smallest part of what the instance asks for, all that is lacking added up;
of equals the first node in the order of the cluster.
"""

from __future__ import annotations

from iallocator.limits.words import quantity

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iallocator.explain.record.limits import RolesTested
    from iallocator.limits.node import Check
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView
    from iallocator.n1.check import N1Check
    from iallocator.n1.simulation import UnsurvivedFailure
    from iallocator.placement.context import Context
    from iallocator.placement.verdict.what_if import WhatIf

    Nodes = tuple[int, ...]

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
        amounts = self._amounts(prospect.primary_failures(index), prospect.primary(index))
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
        failures = prospect.secondary_failures(index, primary)
        return self._amounts(failures, prospect.secondary(index, primary))

    def _amounts(
        self, failures: Iterable[tuple[Check, str]], views: tuple[NodeView, NodeView]
    ) -> _Amounts:
        """Of every resource the largest amount that one of the limits asks for."""
        instance = self._prospect.instance
        amounts: _Amounts = {}
        for check, _ in failures:
            lack = check.lacks
            amount = lack.amount(*views, instance)
            if amount > amounts.get(lack.unit, (0.0,))[0]:
                amounts[lack.unit] = (amount, lack.asked(instance), lack.unit)
        return amounts


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
