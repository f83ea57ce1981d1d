"""Bonds between instances as scans of many moves need them: who, what, and the failure domains."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from iallocator.constraints.locations import Locations

__all__ = ["Tie", "Ties"]


class Tie:
    """`instance` must, or should, be apart from or together with `other`.

    `other` is "" where it must be apart from a node.

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
    locations:
        Where instances must not be, or must stay; None if no tag says so.
    """

    __slots__ = ("_of", "_out", "locations", "sites", "wishes")

    def __init__(
        self,
        ties: Iterable[Tie],
        sites: Mapping[str, Sequence[frozenset[str]]],
        locations: Locations | None = None,
    ) -> None:
        self.locations = locations
        self._out: dict[tuple[str, int], Tie] = {}
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
        if node is None:
            node = where[instance][0]
        broken = [
            tie
            for tie in self.of(instance)
            if tie.must and tie.other in where and self.breaks(tie, node, where[tie.other][0])
        ]
        if self.locations is not None and self.locations.broken(instance, node):
            broken.append(self._out_of(instance, node))
        return broken

    def _out_of(self, instance: str, node: int) -> Tie:
        """That `instance` must not be on `node`: always the same object."""
        found = self._out.get((instance, node))
        if found is None:
            found = Tie(instance, "", apart=True, must=True, domain="", weight=0.0)
            self._out[instance, node] = found
        return found

    def forbidden(self, instance: str) -> Collection[int]:
        """The nodes of the cluster that `instance` must not come to, in either role."""
        return () if self.locations is None else self.locations.forbidden(instance)

    def binds(self, instance: str) -> bool:
        """Whether `instance` is bound to others, or kept off nodes."""
        return bool(self.of(instance) or self.forbidden(instance) or self.stays(instance))

    def stays(self, instance: str) -> bool:
        """Whether the primary of `instance` must stay where it is."""
        return self.locations is not None and self.locations.pin(instance) is not None

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
