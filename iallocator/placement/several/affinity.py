"""Bonds between the instances of a request as rows of an integer program."""

from __future__ import annotations

from iallocator.model.constraint import APART, TOGETHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.model.constraint import Constraint
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.solver.problem import Problem

    Nodes = tuple[int, ...]
    Row = tuple[Any, ...]

__all__ = ["BondRows"]


class BondRows:
    """The musts that bind `instances` to each other.

    Bonds to others are no matter for the program: they leave no such place.  Musts of the
    kinds in `chained` let no instance have a place unless the one it is bound to has one.
    """

    def __init__(
        self, context: Context, instances: Sequence[Instance], chained: Sequence[str]
    ) -> None:
        self._relations = context.bonds.relations
        self._names = {instance.name for instance in instances}
        self._rows: dict[Row, tuple[float, float]] = {}
        self._chains: dict[str, dict[Row, float]] = {}
        for instance in instances:
            for bond in self._bonds(instance):
                if bond.kind in chained:
                    self._chain(bond)

    def priority(self, instance: Instance) -> int:
        """Whose place matters more, where not all can have one: the higher."""
        return self._relations.priorities.get(instance.name, 0) if self._relations else 0

    def _bonds(self, instance: Instance) -> list[Constraint]:
        """Its musts that bind it to others of the instances."""
        if self._relations is None:
            return []
        bonds = self._relations.of(instance.name)
        return [bond for bond in bonds if bond.must and bond.other in self._names]

    def needs(
        self, instance: Instance, places: Iterable[Nodes]
    ) -> Mapping[Nodes, Mapping[Row, float]]:
        """What `instance` uses of the bonds on each of `places`."""
        bonds, chains = self._bonds(instance), self._chains.get(instance.name, {})
        if not bonds and not chains:
            return {}
        return {nodes: self._uses(bonds, nodes[0]) | chains for nodes in places}

    def _chain(self, bond: Constraint) -> None:
        """A place of the one that is bound takes what a place of the other gives."""
        row: Row = ("needs", bond.instance, bond.other)
        self._rows[row] = (float("-inf"), 0)
        self._chains.setdefault(bond.instance, {})[row] = 1
        self._chains.setdefault(bond.other, {})[row] = -1

    def _uses(self, bonds: Sequence[Constraint], node: int) -> dict[Row, float]:
        assert self._relations is not None
        uses: dict[Row, float] = {}
        for bond in bonds:
            pair = tuple(sorted((bond.instance, bond.other)))
            sites = self._relations.sites(node, bond.domain)
            if bond.kind == APART:
                for site in sites:
                    row: Row = (APART, pair, bond.domain, site)
                    uses[row] = 1
                    self._rows[row] = (float("-inf"), 1)
            elif bond.kind == TOGETHER and self._relations.disjoint(bond.domain):
                # else it is left to the check
                row = (TOGETHER, pair, bond.domain, sites[0])
                uses[row] = 1 if bond.instance == pair[0] else -1
                self._rows[row] = (0, 0)
        return uses

    def bound(self, problem: Problem) -> None:
        """Put the rows into `problem`."""
        problem.bounds.update(self._rows)
