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

    Bonds to others are no matter for the program: they leave no such place.
    """

    def __init__(self, context: Context, instances: Sequence[Instance]) -> None:
        self._relations = context.bonds.relations
        self._names = {instance.name for instance in instances}
        self._rows: dict[Row, tuple[float, float]] = {}

    def _bonds(self, instance: Instance) -> list[Constraint]:
        if self._relations is None:
            return []
        return [
            bond
            for bond in self._relations.of(instance.name)
            if bond.must and bond.kind in (APART, TOGETHER) and bond.other in self._names
        ]

    def needs(
        self, instance: Instance, places: Iterable[Nodes]
    ) -> Mapping[Nodes, Mapping[Row, float]]:
        """What `instance` uses of the bonds on each of `places`."""
        bonds = self._bonds(instance)
        return {nodes: self._uses(bonds, nodes[0]) for nodes in places} if bonds else {}

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
            elif self._relations.disjoint(bond.domain):  # else it is left to the check
                row = (TOGETHER, pair, bond.domain, sites[0])
                uses[row] = 1 if bond.instance == pair[0] else -1
                self._rows[row] = (0, 0)
        return uses

    def bound(self, problem: Problem) -> None:
        """Put the rows into `problem`."""
        problem.bounds.update(self._rows)
