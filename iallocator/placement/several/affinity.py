"""Bonds between the instances of a request as rows of an integer program."""

from __future__ import annotations

from iallocator.model.constraints import APART, ORDER, TOGETHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.constraints.domains import Domains
    from iallocator.model.constraints import Rule
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.solver.problem import Problem

    Row = tuple[Any, ...]

__all__ = ["BondRows"]

INFINITE = float("inf")


class _Bound:
    """The musts of one rule among the instances of a request.

    Attributes
    ----------
    names:
        The instances, each once, in the order of the members.
    asking:
        Failure domain -> those whose tags name it, "" for none.  Each of them is bound in it
        to every other; those that name none only to each other.
    """

    __slots__ = ("asking", "kind", "name", "names")

    def __init__(self, rule: Rule, among: Mapping[str, Instance], domains: Domains) -> None:
        self.kind = rule.kind
        self.name = rule.name
        asking: dict[str, dict[str, None]] = {}
        for member in rule.members:
            if member.must and member.instance in among:
                asking.setdefault(domains.known(member.domain), {})[member.instance] = None
        self.names = list(dict.fromkeys(name for some in asking.values() for name in some))
        self.asking = {d: some for d, some in asking.items() if d or len(some) > 1}

    def concerned(self, domain: str) -> Collection[str]:
        """All whom `domain` binds."""
        return self.names if domain else self.asking[domain]


class BondRows:
    """The musts that bind `instances` to each other.

    Bonds to others are no matter for the program: they leave no such place.  Musts of the
    kinds in `chained` let no instance have a place unless the one it is bound to has one;
    of those together that are not chained none has one unless the first of them has.
    There are as many rows as instances in rules, not as pairs of them.
    """

    def __init__(
        self, context: Context, instances: Sequence[Instance], chained: Sequence[str]
    ) -> None:
        self._relations = context.bonds.relations
        self._least = 0.0 if TOGETHER in chained else -INFINITE
        self._rows: dict[Row, tuple[float, float]] = {}
        self._chains: dict[str, dict[Row, float]] = {}
        self._bound: dict[str, list[_Bound]] = {}
        named = {instance.name: instance for instance in instances}
        for bound in self._among(named):
            for name in bound.names:
                self._bound.setdefault(name, []).append(bound)
            for name in bound.names[1:] if bound.kind in chained else ():
                self._chain(name, bound.names[0])
                self._chain(bound.names[0], name)
        if self._relations is not None and ORDER in chained:
            for name in named:
                for bond in self._relations.of(name, ORDER):
                    if bond.must and bond.other in named:
                        self._chain(name, bond.other)

    def _among(self, named: Mapping[str, Instance]) -> Iterator[_Bound]:
        """What is left of the rules if there were only these instances."""
        if self._relations is not None:
            rules = dict.fromkeys(r for n in named for r in self._relations.members_of.get(n, ()))
            every = (_Bound(rule, named, self._relations.domains) for rule in rules)
            yield from (bound for bound in every if len(bound.names) > 1)

    def priority(self, instance: Instance) -> int:
        """Whose place matters more, where not all can have one: the higher."""
        return self._relations.priorities.get(instance.name, 0) if self._relations else 0

    def needs(
        self, instance: Instance, places: Iterable[Nodes]
    ) -> Mapping[Nodes, Mapping[Row, float]]:
        """What `instance` uses of the bonds on each of `places`."""
        name = instance.name
        bounds, chains = self._bound.get(name, ()), self._chains.get(name, {})
        if not bounds and not chains:
            return {}
        found: dict[Nodes, dict[Row, float]] = {}
        for nodes in places:
            found[nodes] = uses = dict(chains)
            for bound in bounds:
                for domain in bound.asking:
                    uses |= dict(self._uses(bound, name, nodes[0], domain))
        return found

    def _chain(self, name: str, other: str) -> None:
        """A place of the one that is bound takes what a place of the other gives."""
        row: Row = ("needs", name, other)
        self._rows[row] = (-INFINITE, 0)
        self._chains.setdefault(name, {})[row] = 1
        self._chains.setdefault(other, {})[row] = -1

    def _uses(
        self, bound: _Bound, name: str, node: int, domain: str
    ) -> Iterator[tuple[Row, float]]:
        """What an instance on `node` uses of what one failure domain asks."""
        assert self._relations is not None
        domains, asking = self._relations.domains, bound.asking[domain]
        if not domain and name not in asking:
            return
        members, sites = bound.concerned(domain), domains.sites(node, domain)
        if bound.kind == APART:
            others = len(members) - len(asking)
            for site in sites:  # one that asks fills it, the others go with each other
                row: Row = (APART, bound.name, domain, site)
                self._rows[row] = (-INFINITE, max(1, others))
                yield row, max(1, others) if name in asking else 1
        elif bound.kind == TOGETHER and domains.zones(domain).disjoint:
            # else it is left to the check
            first = next(iter(asking))
            for other in members if name == first else (name,):
                if other != first:
                    row = (TOGETHER, bound.name, domain, other, sites[0])
                    self._rows[row] = (self._least, 0)
                    yield row, -1 if name == first else 1

    def bound(self, problem: Problem) -> None:
        """Put the rows into `problem`."""
        problem.bounds.update(self._rows)
