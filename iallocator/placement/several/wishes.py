"""Shoulds between instances that all choose at once, as costs of an integer program."""

from __future__ import annotations

from itertools import combinations

from iallocator.model.constraints import ALWAYS, APART, TOGETHER, domains_between, weight_between
from iallocator.solver.problem import INFINITY, Choice, Kind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Any

    from iallocator.constraints.relations import Relations
    from iallocator.model.constraints import Rule
    from iallocator.solver.problem import Problem

    Row = tuple[Any, ...]
    Key = tuple[str, str, str, str]

__all__ = ["WishRows"]

MANY = 2_000
"""A rule with more pairs than this is left to the greedy choice: the program would be too large."""


class WishRows:
    """What those in `names` should, or should not, have in common; each pair once.

    `price_of` says what breaking a wish of two, at a weight, costs in the program.  A wish has
    a choice of its own: to be kept, or broken at its price, which is the only way round its
    rows.
    """

    def __init__(
        self,
        relations: Relations | None,
        names: Collection[str],
        price_of: Callable[[str, str, float], float],
    ) -> None:
        self._relations = relations
        self._wishes: dict[str, list[Key]] = {}
        self._rows: dict[Key, dict[Row, float]] = {}
        self._prices: dict[Key, float] = {}
        for key, weight in self._pairs(names):
            self._prices[key] = max(self._prices.get(key, 0.0), price_of(*key[1:3], weight))
        for key in self._prices:
            for name in key[1:3]:
                self._wishes.setdefault(name, []).append(key)

    def _pairs(self, names: Collection[str]) -> Iterator[tuple[Key, float]]:
        """(kind, one, other, domain) and the weight of each wish."""
        relations = self._relations
        rules: dict[Rule, None] = {}
        for name in sorted(names) if relations is not None else ():
            assert relations is not None
            rules |= dict.fromkeys(relations.members_of.get(name, ()))
        for rule in rules:
            members = [member for member in rule.members if member.instance in names]
            if len(members) * (len(members) - 1) > 2 * MANY:
                continue
            for one, other in combinations(members, 2):
                weight = weight_between(one.weight, other.weight)
                if weight == ALWAYS or weight <= 0 or one.instance == other.instance:
                    continue
                first, second = sorted((one.instance, other.instance))
                for domain in domains_between(one.domain, other.domain):
                    yield (rule.kind, first, second, domain), weight

    def uses(self, name: str, node: int) -> dict[Row, float]:
        """What the instance of that name, running on `node`, uses of the wishes' rows."""
        found: dict[Row, float] = {}
        for key in self._wishes.get(name, ()):
            assert self._relations is not None
            kind, _, second, domain = key
            domains = self._relations.domains
            if kind == TOGETHER and not domains.zones(domain).disjoint:
                continue  # no sum of its own says whether they share one of several domains
            sign = -1.0 if kind == TOGETHER and name == second else 1.0
            rows = {("wish", key, site): sign for site in domains.sites(node, domain)}
            self._rows.setdefault(key, {}).update(rows)
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
