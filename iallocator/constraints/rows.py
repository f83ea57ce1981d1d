"""The rows that constraints add to the integer programs of the solver.

A `PlacementProblem` makes the rows of each constraint of `iallocator.constraints.table`. The rows
of affinity rules and orders depend on the instances of a request: the caller makes `AffinityRows`
(hard constraints) and `SoftAffinityRows`. The solver makes the rows for sums of a `Resource`.
"""

from __future__ import annotations

from itertools import combinations
from math import ceil, inf

from iallocator.model.columns import MEMORY
from iallocator.model.constraints import (
    APART,
    GROUP_DOMAIN,
    HARD_WEIGHT,
    ORDER,
    TOGETHER,
    domains_between,
    weight_between,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Protocol

    from iallocator.aliases import Nodes
    from iallocator.constraints.relations import Relations
    from iallocator.constraints.rule_counts import Domains
    from iallocator.model.constraints import Rule
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    Row = tuple[Any, ...]
    """The name of a row: its kind, then the node, tag or instance that the row is about."""

    Key = tuple[str, str, str, str]
    """(kind, one instance, other instance, failure domain)."""

    class Program(Protocol):
        """The integer program, as far as constraints add rows to it; see `iallocator.solver`."""

        bounds: dict[Row, tuple[float, float]]

        def at_most(self, row: Row, highest: float) -> None:
            """Limit the sum of the amounts that choices use of `row` to `highest`."""

        def add_amount(self, lowest: float, uses: Mapping[Row, float]) -> None:
            """Add a variable of at least `lowest` that uses rows and belongs to no choice."""

        def add_relaxable(
            self, name: str, rows: Iterable[Row], highest: float, penalty: float
        ) -> None:
            """Add rows with the upper bound `highest`; each violated row costs `penalty`."""


__all__ = ["AffinityRows", "ConstraintRows", "ExclusionRows", "PoolRows", "ReserveRows",
           "SoftAffinityRows"]  # fmt: skip


class ConstraintRows:
    """The rows that one constraint adds to an integer program.

    Attributes
    ----------
    kinds:
        The kinds of rows for which `spare` returns the bound. The first member of a row is its
        kind.
    """

    kinds: tuple[str, ...] = ()

    def uses(self, instance: Instance, nodes: Nodes) -> Mapping[Row, float]:
        """Return row -> the amount that `instance` uses on `nodes`, of which the first is the
        primary.
        """
        raise NotImplementedError

    def spare(self, row: Row) -> float:
        """Return the total amount of `row` that may be used."""
        raise NotImplementedError

    def add_to(self, program: Program, rows: Iterable[Row]) -> None:
        """Add to `program` what `spare` cannot express: other bounds, variables and penalties.

        `rows` are all rows that the choices of the program use.
        """


class PoolRows(ConstraintRows):
    """Rows for the free space of the storage pools of each node, named (kind, pool, node)."""

    kinds = ("pool",)

    def __init__(self, state: State, *_: object) -> None:
        self._free = None if state.access is None else state.access.free

    def uses(self, instance: Instance, nodes: Nodes) -> Mapping[Row, float]:
        return {("pool", pool, i): amount for i in nodes for pool, amount in instance.draws}

    def spare(self, row: Row) -> float:
        _, pool, index = row
        free = None if self._free is None else self._free[index].get(pool)
        return inf if free is None else ceil(free) - 1  # some must remain


class ExclusionRows(ConstraintRows):
    """Rows for the primaries with an exclusion tag on each node, named (kind, tag, node)."""

    kinds = ("tag",)

    def __init__(self, state: State, forced: Collection[int], *_: object) -> None:
        self._state = state
        self._forced = forced

    def uses(self, instance: Instance, nodes: Nodes) -> Mapping[Row, float]:
        return {("tag", tag, nodes[0]): 1 for tag in instance.exclusion}

    def spare(self, row: Row) -> float:
        _, tag, index = row
        if index in self._forced:
            return inf
        return max(0, 1 - self._state.exclusion[index].get(tag, 0))


class ReserveRows(ConstraintRows):
    """Rows for the memory that nodes keep free for failures.

    A node keeps free the memory that the failure of its worst peer requires. This memory is a
    variable of the program: at least what each peer requires. Rows: ``("used", node)``, and
    ``("peer", node, peer)``.

    A group can give up to the MiB in `reserves`; with less memory, a failure that is tolerated now
    may no longer be tolerated. Row: ``("group", group)``.
    """

    kinds = ("group",)

    def __init__(
        self,
        state: State,
        forced: Collection[int],
        failing: Collection[int],
        reserves: Mapping[int, float],
    ) -> None:
        self._state = state
        self._forced = forced
        self._failing = failing
        self._reserves = reserves

    def uses(self, instance: Instance, nodes: Nodes) -> Mapping[Row, float]:
        uses: dict[Row, float] = {}
        if instance.uses_memory:
            uses["used", nodes[0]] = instance.memory
            uses["group", self._state.cluster.nodes[nodes[0]].group.index] = instance.memory
        if len(nodes) > 1 and instance.reserves:
            uses["peer", nodes[1], nodes[0]] = instance.memory
        return uses

    def spare(self, row: Row) -> float:
        return self._reserves.get(row[1], inf)

    def add_to(self, program: Program, rows: Iterable[Row]) -> None:
        """Add bounds of the used and reserved memory of nodes that pass N+1 now."""
        state = self._state
        kept: dict[int, dict[Row, float]] = {}
        own = [row for row in rows if row[0] in ("used", "peer")]
        for _, index, *_peer in own:
            if index in kept or index in self._forced:
                continue
            if state.fails_n1(index) or index in self._failing:
                continue
            kept[index] = {("used", index): 1.0}
            program.at_most(("used", index), ceil(state.columns[MEMORY][index]) - 1)
        for row in own:
            if row[0] == "peer" and row[1] in kept:
                kept[row[1]][row] = -1.0
                program.at_most(row, -state.peers[row[1]].get(row[2], 0))
        for index, uses in kept.items():
            program.add_amount(state.reserved[index], uses)


MOST_RULE_PAIRS = 2_000
"""The most pairs of a rule that get rows. A rule with more pairs is left to the greedy search,
because the program would be too large."""


class _Bound:
    """The hard constraints of one rule among the instances of a request.

    Attributes
    ----------
    names:
        The names of the instances, each once, in the order of the members.
    by_domain:
        Failure domain, "" for none -> the instances with a tag that names the domain. A domain
        binds each of these instances to every other instance. Without a domain, they are bound to
        each other only.
    """

    __slots__ = ("by_domain", "kind", "name", "names")

    def __init__(self, rule: Rule, among: Mapping[str, Instance], domains: Domains) -> None:
        self.kind = rule.kind
        self.name = rule.name
        by_domain: dict[str, dict[str, None]] = {}
        for member in rule.members:
            if member.must and member.instance in among:
                by_domain.setdefault(domains.known(member.domain), {})[member.instance] = None
        self.names = list(dict.fromkeys(name for some in by_domain.values() for name in some))
        self.by_domain = {d: some for d, some in by_domain.items() if d or len(some) > 1}

    def concerned(self, domain: str) -> Collection[str]:
        """Return all instances that `domain` binds."""
        return self.names if domain else self.by_domain[domain]


class AffinityRows(ConstraintRows):
    """The hard affinity constraints that bind `instances` to each other.

    Constraints with other instances need no rows: only placements that satisfy them are choices of
    the program. With a constraint of a kind in `chained`, an instance is placed only if the
    instance that it is bound to is placed. In a colocation group that is not chained, an instance
    is placed only if the first one is placed. The number of rows grows with the instances in rules,
    not with their pairs.
    """

    def __init__(
        self,
        relations: Relations | None,
        instances: Sequence[Instance],
        chained: Sequence[str],
    ) -> None:
        self._relations = relations
        self._least = 0.0 if TOGETHER in chained else -inf
        self._rows: dict[Row, tuple[float, float]] = {}
        self._chains: dict[str, dict[Row, float]] = {}
        self._bound: dict[str, list[_Bound]] = {}
        named = {instance.name: instance for instance in instances}
        if relations is None:
            return
        for rule in dict.fromkeys(r for n in named for r in relations.members_of.get(n, ())):
            bound = _Bound(rule, named, relations.domains)
            if len(bound.names) < 2:
                continue
            for name in bound.names:
                self._bound.setdefault(name, []).append(bound)
            for name in bound.names[1:] if bound.kind in chained else ():
                self._chain(name, bound.names[0])
                self._chain(bound.names[0], name)
        if ORDER in chained:
            for name in named:
                for constraint in relations.of(name, ORDER):
                    if constraint.must and constraint.other in named:
                        self._chain(name, constraint.other)

    def priority(self, instance: Instance) -> int:
        """Return the priority of `instance`; if not all can be placed, higher priorities come
        first.
        """
        return self._relations.priorities.get(instance.name, 0) if self._relations else 0

    def uses(self, instance: Instance, nodes: Nodes) -> Mapping[Row, float]:
        name = instance.name
        uses = dict(self._chains.get(name, {}))
        for bound in self._bound.get(name, ()):
            for domain in bound.by_domain:
                uses |= dict(self._uses(bound, name, nodes[0], domain))
        return uses

    def _chain(self, name: str, other: str) -> None:
        """Add a row by which instance `name` is placed only if instance `other` is placed."""
        row: Row = ("needs", name, other)
        self._rows[row] = (-inf, 0)
        self._chains.setdefault(name, {})[row] = 1
        self._chains.setdefault(other, {})[row] = -1

    def _uses(
        self, bound: _Bound, name: str, node: int, domain: str
    ) -> Iterator[tuple[Row, float]]:
        """Yield (row, amount) for each row of a failure domain that an instance on `node` uses."""
        assert self._relations is not None
        domains, by_domain = self._relations.domains, bound.by_domain[domain]
        if not domain and name not in by_domain:
            return
        members, sites = bound.concerned(domain), domains.sites(node, domain)
        if bound.kind == APART:
            others = len(members) - len(by_domain)
            together = 1  # those that shared their group initially may share it in the end
            if domain == GROUP_DOMAIN:
                began = self._relations.share_first_group(members, node)
                together = len(began) if name in began else 1
            for site in sites:  # an instance that names the domain fills it; others share it
                row: Row = (APART, bound.name, domain, site)
                self._rows[row] = (-inf, max(1, others))
                yield row, (max(1, others) if name in by_domain else 1) / together
        elif bound.kind == TOGETHER and domains.zones(domain).disjoint:
            # else only the check of the solution enforces the rule
            first = next(iter(by_domain))
            for other in members if name == first else (name,):
                if other != first:
                    row = (TOGETHER, bound.name, domain, other, sites[0])
                    self._rows[row] = (self._least, 0)
                    yield row, -1 if name == first else 1

    def add_to(self, program: Program, rows: Iterable[Row]) -> None:
        program.bounds.update(self._rows)


class SoftAffinityRows(ConstraintRows):
    """Rows for the soft affinity constraints between the instances `names`, each pair once.

    `penalty_of` returns the penalty, in the program, of violating a constraint: (instance, other
    instance, weight) -> penalty. The program can violate each constraint at this penalty, which
    relaxes its rows.
    """

    def __init__(
        self,
        relations: Relations | None,
        names: Collection[str],
        penalty_of: Callable[[str, str, float], float],
    ) -> None:
        self._relations = relations
        self._soft: dict[str, list[Key]] = {}
        self._rows: dict[Key, dict[Row, float]] = {}
        self._penalties: dict[Key, float] = {}
        for key, weight in self._pairs(names):
            self._penalties[key] = max(self._penalties.get(key, 0.0), penalty_of(*key[1:3], weight))
        for key in self._penalties:
            for name in key[1:3]:
                self._soft.setdefault(name, []).append(key)

    def _pairs(self, names: Collection[str]) -> Iterator[tuple[Key, float]]:
        """Yield the key of each soft constraint, with its weight.

        A key is (kind, instance, other instance, domain).
        """
        relations = self._relations
        rules: dict[Rule, None] = {}
        for name in sorted(names) if relations is not None else ():
            assert relations is not None
            rules |= dict.fromkeys(relations.members_of.get(name, ()))
        for rule in rules:
            members = [member for member in rule.members if member.instance in names]
            if len(members) * (len(members) - 1) > 2 * MOST_RULE_PAIRS:
                continue
            for one, other in combinations(members, 2):
                weight = weight_between(one.weight, other.weight)
                if weight == HARD_WEIGHT or weight <= 0 or one.instance == other.instance:
                    continue
                first, second = sorted((one.instance, other.instance))
                for domain in domains_between(one.domain, other.domain):
                    yield (rule.kind, first, second, domain), weight

    def uses(self, instance: Instance, nodes: Nodes) -> Mapping[Row, float]:
        name, node = instance.name, nodes[0]
        amounts: dict[Row, float] = {}
        for key in self._soft.get(name, ()):
            assert self._relations is not None
            kind, _, second, domain = key
            domains = self._relations.domains
            if kind == TOGETHER and not domains.zones(domain).disjoint:
                continue  # a sum cannot express that two nodes share one of several domains
            sign = -1.0 if kind == TOGETHER and name == second else 1.0
            rows = {("soft", key, site): sign for site in domains.sites(node, domain)}
            self._rows.setdefault(key, {}).update(rows)
            amounts |= rows
        return amounts

    def add_to(self, program: Program, rows: Iterable[Row]) -> None:
        for key, own in self._rows.items():
            highest = 1.0 if key[0] == APART else 0.0
            program.add_relaxable(f"soft constraint {key}", own, highest, self._penalties[key])
