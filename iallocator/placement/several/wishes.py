"""Shoulds between instances that all choose at once, as costs of an integer program."""

from __future__ import annotations

from iallocator.model.constraint import APART, TOGETHER
from iallocator.solver.problem import INFINITY, Choice, Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from iallocator.constraints.relations import Relations
    from iallocator.model.constraint import Constraint
    from iallocator.solver.problem import Problem

    Row = tuple[Any, ...]
    Key = tuple[str, str, str, str]

__all__ = ["WishRows"]


class WishRows:
    """What those in `names` should, or should not, have in common; each pair once.

    `price_of` says what breaking one costs in the program.  A wish has a choice of its own:
    to be kept, or broken at its price, which is the only way round its rows.
    """

    def __init__(
        self,
        relations: Relations | None,
        names: Collection[str],
        price_of: Callable[[Constraint], float],
    ) -> None:
        self._relations = relations
        self._names = names
        self._price_of = price_of
        self._rows: dict[Key, set[Row]] = {}
        self._prices: dict[Key, float] = {}

    def uses(self, name: str, node: int) -> dict[Row, float]:
        """What the instance of that name, running on `node`, uses of the wishes' rows."""
        relations = self._relations
        found: dict[Row, float] = {}
        for bond in relations.of(name) if relations is not None else ():
            if bond.must or bond.other not in self._names or bond.kind not in (APART, TOGETHER):
                continue
            assert relations is not None
            if bond.kind == TOGETHER and not relations.disjoint(bond.domain):
                continue  # no sum of its own says whether they share one of several domains
            first, second = sorted((name, bond.other))
            key = (bond.kind, first, second, bond.domain)
            sign = -1.0 if bond.kind == TOGETHER and name == second else 1.0
            rows = {("wish", key, site): sign for site in relations.sites(node, bond.domain)}
            self._rows.setdefault(key, set()).update(rows)
            self._prices[key] = max(self._prices.get(key, 0.0), self._price_of(bond))
            found |= rows
        return found

    def bound(self, problem: Problem) -> None:
        """Put the wishes into `problem`, once everybody has asked for what it uses."""
        for key, rows in self._rows.items():
            way_round: dict[Row, float] = dict.fromkeys(rows, -1.0)
            choices = [Choice("kept", 0.0, {}), Choice("broken", self._prices[key], way_round)]
            problem.kinds.append(Kind([f"wish of {key}"], choices))
            highest = 1.0 if key[0] == APART else 0.0
            problem.bounds |= dict.fromkeys(rows, (-INFINITY, highest))
