"""Bonds between instances as scans of many moves need them: who, what, and the failure domains."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["Tie", "Ties"]


class Tie:
    """`instance` must, or should, be apart from or together with `other`.

    Attributes
    ----------
    apart:
        Whether apart; else together.
    must:
        Whether there is no way round it; else breaking it adds `weight` to the score.
    domain:
        Which failure domains it is about, a key of `Ties.sites`.
    """

    __slots__ = ("apart", "domain", "instance", "must", "other", "weight")

    def __init__(
        self, instance: str, other: str, *, apart: bool, must: bool, domain: str, weight: float
    ) -> None:
        self.instance = instance
        self.other = other
        self.apart = apart
        self.must = must
        self.domain = domain
        self.weight = weight


class Ties:
    """All of them, each pair of instances once in each direction.

    Attributes
    ----------
    wishes:
        Those that are no musts.
    sites:
        Domain -> per node of the cluster the failure domains that it is in.
    """

    __slots__ = ("_of", "sites", "wishes")

    def __init__(self, ties: Iterable[Tie], sites: Mapping[str, Sequence[frozenset[str]]]) -> None:
        self.sites = sites
        self._of: dict[str, list[Tie]] = {}
        for tie in ties:
            self._of.setdefault(tie.instance, []).append(tie)
        self.wishes = [tie for some in self._of.values() for tie in some if not tie.must]

    def of(self, instance: str) -> Sequence[Tie]:
        """What binds `instance`."""
        return self._of.get(instance, ())

    def unit_of(self, instance: str, domains: bool = False) -> list[str]:
        """Those that must be where `instance` is, itself among them, by name.

        Bonds of bonds count; `domains`: those to one failure domain, too.
        """
        unit = {instance}
        open_ends = [instance]
        while open_ends:
            for tie in self.of(open_ends.pop()):
                wanted = tie.must and not tie.apart and (domains or not tie.domain)
                if wanted and tie.other not in unit:
                    unit.add(tie.other)
                    open_ends.append(tie.other)
        return sorted(unit)

    def domains_of(self, node: int) -> frozenset[str]:
        """All failure domains that `node` is in."""
        return frozenset().union(*(sites[node] for domain, sites in self.sites.items() if domain))

    def broken(
        self, instance: str, where: Mapping[str, tuple[int, ...]], node: int | None = None
    ) -> list[Tie]:
        """The musts of `instance` that are broken; if it were on `node`, where that is given."""
        nodes = where.get(instance, ()) if node is None else (node,)
        return [
            tie
            for tie in self.of(instance)
            if tie.must
            and nodes
            and tie.other in where
            and self.breaks(tie, nodes[0], where[tie.other][0])
        ]

    def breaks(self, tie: Tie, node: int, home: int) -> bool:
        """Whether an instance on `node` breaks `tie` while the other is at `home`."""
        sites = self.sites[tie.domain]
        return tie.apart != sites[node].isdisjoint(sites[home])

    def penalty(self, where: Mapping[str, tuple[int, ...]], scope: Mapping[int, int]) -> float:
        """What the broken wishes of instances with primaries in `scope` cost, each pair once."""
        total = 0.0
        for tie in self.wishes:
            if tie.instance in where and tie.other in where:
                node, home = where[tie.instance][0], where[tie.other][0]
                if node in scope and self.breaks(tie, node, home):
                    total += tie.weight / (2 if home in scope else 1)
        return total
