"""Which node came closest to taking an instance, and what it lacked.

Near is what lacks the smallest part of what the instance asks for, all that is lacking
added up; of equals the first node in the order of the cluster.
"""

from __future__ import annotations

from iallocator.limits.words import quantity
from iallocator.model.moves import Move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.aliases import Nodes
    from iallocator.limits.node import Check
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.placement.nearest.roles import RolesTested
    from iallocator.placement.what_if import WhatIf

    Shown = Callable[[str], str]
    """A name of a node or an instance as people are to see it."""

    _Amounts = dict[str, tuple[float, float, str]]
    """Unit -> amount lacking, amount asked for, unit with what it is for."""

__all__ = ["NO_HELP", "Miss", "Search", "closest", "lost_by_n1"]

NO_HELP = float("inf")
"""How much is lacking where no resource would help."""


class Miss:
    """What came closest, in one clause; "" if there is nothing to tell.

    ``part`` is how much it lacks, in parts of what is asked for: 0 where only N+1 is in
    the way, `NO_HELP` where a rule is.
    """

    __slots__ = ("part", "text")

    def __init__(self, text: str, part: float) -> None:
        self.text = text
        self.part = part


def lost_by_n1(
    cluster: Cluster, check: FailureTolerance, instance: Instance, nodes: Nodes, shown: Shown = str
) -> Miss:
    """What stands in the way of a placement that only global N+1 rejected."""
    stranded = check.obstacle(Move(instance, (), nodes))
    if stranded is None:
        return Miss("", 0.0)
    *names, failing = map(shown, cluster.node_names([*nodes, stranded.node]))
    return Miss(
        f"{'/'.join(names)}: if {failing} failed, {shown(stranded.instance.name)} "
        f"({stranded.instance.memory} MiB memory) would have no place: {stranded.why}",
        0.0,
    )


def closest(cluster: Cluster, roles: RolesTested, shown: Shown = str) -> Miss:
    """What came closest to taking an instance in `roles`."""
    if roles.breach:
        return Miss(roles.breach, NO_HELP)
    open_to = [index for index in roles.primaries if index not in roles.barred]
    if not open_to:
        return _barred(cluster, roles, shown)
    search = Search(roles.prospect, roles.mirror, roles.source)
    if roles.secondaries is None:
        return _miss_of(cluster, search.single(open_to), shown)
    if not roles.secondaries:
        return _barred_as_mirrors(cluster, roles, shown)
    return _miss_of(cluster, search.pair(open_to, roles.secondaries), shown)


def _barred(cluster: Cluster, roles: RolesTested, shown: Shown) -> Miss:
    """What the first node says where none is open to the instance."""
    if not roles.primaries:
        return Miss("", NO_HELP)
    first = roles.primaries[0]
    return Miss(f"{shown(cluster.nodes[first].name)}: {roles.rejections[first].wording}", NO_HELP)


def _barred_as_mirrors(cluster: Cluster, roles: RolesTested, shown: Shown) -> Miss:
    """The same, where none may be the secondary."""
    for index, rejection in roles.out_as_mirrors.items():
        name = shown(cluster.nodes[index].name)
        return Miss(f"{name} as secondary: {rejection.wording}", NO_HELP)
    return Miss("", NO_HELP)


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
                amounts[lack.unit] = (amount, lack.asked(instance), lack.unit + lack.purpose)
        return amounts


def _miss_of(cluster: Cluster, lacks: Sequence[_Lack], shown: Shown) -> Miss:
    """``node1/node2: node2 lacks 977 MiB memory``."""
    names = [shown(cluster.nodes[lack.index].name) for lack in lacks]
    told = [
        f"{name} lacks {' and '.join(lack.texts)}" for name, lack in zip(names, lacks) if lack.texts
    ]
    pair = f"{'/'.join(names)}: " if len(names) == 2 and told else ""
    return Miss(pair + ", ".join(told), sum(lack.part for lack in lacks))
