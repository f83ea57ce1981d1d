"""Those who can only move at once: together on one node, or in one failure domain."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context

    Unit = tuple[tuple[Instance, ...], ...]
    """Those that must be on one node, for each of the nodes that a failure domain binds."""

__all__ = ["Bound"]


class Bound:
    """Who moves with whom, as `context` is at first; those of `movers` who may move at all.

    Attributes
    ----------
    units:
        Those who move at once; all of them are `movers`.
    pinned:
        The names of those who cannot leave their node alone, whether they may move or not.
    whole:
        Whether nobody else could move only at once: nobody is parted from whom it must be with,
        and every node is in one failure domain of a kind.
    """

    def __init__(self, context: Context, movers: Sequence[Instance]) -> None:
        self._relations = context.bonds.relations
        self._where = context.state.where
        self._movers = {one.name: one for one in movers}
        self.units: list[Unit] = []
        self.pinned: frozenset[str] = frozenset()
        self.whole = True
        if self._relations is not None:
            self._on_one_node(self._relations.units())
            self._in_one_domain(self._relations.wide_units(), self._relations.units())

    def part(self, one: str, at: int, other: str, there: int) -> bool:
        """Whether two instances, each on that node, break a must between them."""
        return self._relations is not None and self._relations.part(one, at, other, there)

    def crosses(self, before: int, after: int) -> bool:
        """Whether two nodes are in different failure domains of those that bind anybody."""
        relations = self._relations
        return relations is None or relations.sites_of(before) != relations.sites_of(after)

    def _on_one_node(self, units: dict[str, tuple[str, ...]]) -> None:
        pinned: set[str] = set()
        for names in dict.fromkeys(units.values()):
            present = [name for name in names if name in self._where]
            if len(present) < 2:
                continue
            if len({self._where[name][0] for name in present}) > 1:
                self.whole = False  # who has lost the others may join them, like anybody else
                continue
            pinned.update(present)
            self._add((present,))
        self.pinned = frozenset(pinned)

    def _in_one_domain(
        self, wide: dict[str, tuple[str, ...]], units: dict[str, tuple[str, ...]]
    ) -> None:
        for names in dict.fromkeys(wide.values()):
            present = [name for name in names if name in self._where]
            several = dict.fromkeys(units.get(name, (name,)) for name in present)
            if len(several) < 2:
                continue
            self.whole = self.whole and not self._parted(present)
            self._add([[name for name in some if name in self._where] for some in several])

    def _parted(self, names: Sequence[str]) -> bool:
        """Whether some of `names` are not as they must be, or could be so in several ways."""
        assert self._relations is not None
        domains = self._relations.domains
        kinds = {m.domain for name in names for m in self._relations.memberships(name)}
        if not all(domains.zones(kind).disjoint for kind in kinds):
            return True
        homes = [(name, self._where[name][0]) for name in names]
        return any(self.part(*one, *other) for one in homes for other in homes if one != other)

    def _add(self, unit: Sequence[Sequence[str]]) -> None:
        """Note those who move at once, if all of them may move."""
        if all(name in self._movers for some in unit for name in some):
            self.units.append(tuple(tuple(self._movers[n] for n in sorted(s)) for s in unit))
