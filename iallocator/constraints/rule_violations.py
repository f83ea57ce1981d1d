"""Find how often one member of an affinity rule violates the rule on each node.

`RuleViolations` needs only counts of the other members. The functions name the other members that
are involved in a violation.
"""

from __future__ import annotations

from iallocator.model.constraints import APART, HARD_WEIGHT, domains_between, weight_between

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iallocator.constraints.rule_counts import Domains, RuleCounts, Zones
    from iallocator.model.constraints import Member

    Pair = tuple[Member, Member, str]
    """Two members of a rule, and the prefix of the failure domains in which the rule applies."""

__all__ = ["RuleViolations", "breaks", "others_broken"]


class _Term:
    """Members of an affinity rule with their penalties, counted by failure domain of one prefix."""

    __slots__ = ("_apart", "_by_zone", "_cost", "_costs", "_total", "_zones")

    def __init__(self, apart: bool, zones: Zones) -> None:
        self._apart = apart
        self._zones = zones
        self._total = 0
        self._cost = 0.0
        self._by_zone: dict[int, int] = {}
        self._costs: dict[int, float] = {}

    def add(self, counts: Mapping[int, int], weight: float) -> None:
        """Add members: node -> their number; each violation with one of them costs `weight`."""
        for node, count in counts.items():
            zone, cost = self._zones.of[node], weight * count
            self._by_zone[zone] = self._by_zone.get(zone, 0) + count
            self._costs[zone] = self._costs.get(zone, 0.0) + cost
            self._total += count
            self._cost += cost

    def broken(self, node: int) -> int:
        """Return with how many of the counted members an instance on `node` violates the rule."""
        zones, by_zone = self._zones, self._by_zone
        near = sum(by_zone.get(zone, 0) for zone in zones.touching[zones.of[node]])
        return near if self._apart else self._total - near

    def cost(self, node: int) -> float:
        """Return the penalty of an instance on `node`: the costs of all violations with members."""
        if not self.broken(node):
            return 0.0
        zones, costs = self._zones, self._costs
        near = sum(costs.get(zone, 0.0) for zone in zones.touching[zones.of[node]])
        return near if self._apart else self._cost - near

    def parts(self, before: int, now: int) -> bool:
        """Return whether a move from `before` to `now` violates the rule with another member."""
        zones, by_zone = self._zones, self._by_zone
        near, far = zones.touching[zones.of[now]], zones.touching[zones.of[before]]
        if not self._apart:
            near, far = far, near
        return any(by_zone.get(zone, 0) and zone not in far for zone in near)


class RuleViolations:
    """The violations of one member of a rule on any node, with the other members where they are
    now.

    Cost: for hard constraints, once O(d n) for *d* prefixes of failure domains and *n* nodes, then
    O(d) for each node. For soft constraints, *d* is the number of different weights and prefixes.
    Each part is computed when it is first used.
    """

    __slots__ = ("_domains", "_hard_terms", "_rule_counts", "_soft_terms", "member")

    def __init__(self, member: Member, rule_counts: RuleCounts, domains: Domains) -> None:
        self.member = member
        self._rule_counts = rule_counts
        self._domains = domains
        self._hard_terms: list[_Term] | None = None
        self._soft_terms: list[_Term] | None = None

    def __bool__(self) -> bool:
        """Return whether the rule has other members that are placed."""
        rule_counts, rule, name = self._rule_counts, self.member.rule, self.member.instance
        own = len(rule_counts.of(name, rule)) if name in rule_counts.homes else 0
        return sum(map(len, rule_counts.present(rule).values())) > own

    @property
    def _hard(self) -> list[_Term]:
        if self._hard_terms is None:
            terms = _hard_terms(self.member, self._rule_counts, self._domains)
            self._hard_terms = list(terms) if self.member.must else []
        return self._hard_terms

    @property
    def _soft(self) -> list[_Term]:
        if self._soft_terms is None:
            terms = _soft_terms(self.member, self._rule_counts, self._domains)
            self._soft_terms = list(terms.values())
        return self._soft_terms

    def hard(self, node: int) -> int:
        """Return the number of hard constraints that the member violates on `node`."""
        return sum(term.broken(node) for term in self._hard)

    def parts(self, before: int, now: int) -> bool:
        """Return whether the member violates a constraint on node `now` that it satisfies on
        `before`.
        """
        return any(term.parts(before, now) for term in self._hard)

    def soft(self, node: int) -> int:
        """Return the number of soft constraints that the member violates on `node`."""
        return sum(term.broken(node) for term in self._soft)

    def cost(self, node: int) -> float:
        """Return the penalty of the soft constraints that the member violates on `node`."""
        return sum(term.cost(node) for term in self._soft)


def _hard_terms(member: Member, rule_counts: RuleCounts, domains: Domains) -> Iterator[_Term]:
    """Yield terms that count the other members with a hard constraint, one for each failure domain.

    If `member` names a failure domain, the rule applies in it with all other members. If another
    member names a failure domain, the rule applies in it, too.
    """
    rule, domain = member.rule, member.domain
    home = rule_counts.homes.get(member.instance)
    own = rule_counts.of(member.instance, rule) if home is not None else ()
    hard = rule_counts.hard_members(rule, domains)

    def term(zones: Zones, counts: Mapping[int, int], mine: int) -> _Term:
        others = dict(counts)
        if home is not None and mine:
            others[home] -= mine
        hard_term = _Term(rule.kind == APART, zones)
        hard_term.add(others, 0.0)
        return hard_term

    counted = [one.domain for one in own if one.must and (domain or not one.domain)]
    mine = domains.zones(domain)
    yield term(mine, hard.every if domain else hard.by_domain.get("", {}), len(counted))
    for zones, every in hard.named.items():
        # members that name the same kind of domain are in the first term already
        same = hard.by_domain.get(domain, {}) if domain and zones is mine else {}
        counts = {node: count - same.get(node, 0) for node, count in every.items()}
        named = [one.domain for one in own if one.must and one.domain not in ("", domain)]
        yield term(zones, counts, sum(domains.zones(one) is zones for one in named))


def _soft_terms(member: Member, rule_counts: RuleCounts, domains: Domains) -> dict[Zones, _Term]:
    """Return zones -> a term that counts the other members with a soft constraint in them."""
    rule = member.rule
    home = rule_counts.homes.get(member.instance)
    own = [one.shape for one in rule_counts.of(member.instance, rule)] if home is not None else []
    by_zones: dict[Zones, _Term] = {}
    for shape, counts in rule_counts.counts(rule).items():
        penalty = weight_between(member.weight, shape[0])
        if penalty == HARD_WEIGHT:
            continue
        others: Mapping[int, int] = counts
        if home is not None and shape in own:
            others = {**counts, home: counts[home] - own.count(shape)}
        if not any(others.values()):
            continue
        for domain in domains_between(member.domain, shape[1]):
            zones = domains.zones(domain)
            if zones not in by_zones:
                by_zones[zones] = _Term(rule.kind == APART, zones)
            by_zones[zones].add(others, penalty)
    return by_zones


def breaks(one: Member, other: Member, nodes: tuple[int, int], domains: Domains) -> Iterator[str]:
    """Yield the failure domains in which `one` and `other`, on `nodes`, violate their rule."""
    apart = one.rule.kind == APART
    for domain in domains_between(one.domain, other.domain):
        if domains.zones(domain).share(*nodes) == apart:
            yield domain


def others_broken(
    member: Member, node: int, rule_counts: RuleCounts, domains: Domains
) -> Iterator[Pair]:
    """Yield (member, other member, domain) for each violation of `member` on `node`, in no order.

    Cost: the nodes with members, and the members on nodes with a violation.
    """
    rule, apart = member.rule, member.rule.kind == APART
    zone_sets = _asked(member, rule_counts, domains)
    for home, members in rule_counts.present(rule).items():
        if any(zones.share(node, home) == apart for zones in zone_sets):
            for other in members:
                if other.instance != member.instance:
                    for domain in breaks(member, other, (node, home), domains):
                        yield member, other, domain


def new_violations(
    member: Member,
    before: int | None,
    now: int,
    moved: Mapping[str, int | None],
    rule_counts: RuleCounts,
    domains: Domains,
) -> Iterator[Pair]:
    """Yield the violations of `member` on node `now` that it did not have on node `before`.

    `moved`: other instance that moved -> its primary before; None if it was not placed. A violation
    is (member, other member, domain). Cost: the nodes with members, and the members on nodes with a
    violation.
    """
    rule, apart = member.rule, member.rule.kind == APART
    zone_sets = _asked(member, rule_counts, domains)
    known: dict[tuple[int | None, int], bool] = {}

    def concerned(was: int | None, home: int) -> bool:
        """Return whether a member that moved from `was` to `home` may be in a new violation."""
        if (was, home) not in known:
            known[was, home] = any(
                zones.share(now, home) == apart
                and (before is None or was is None or zones.share(before, was) != apart)
                for zones in zone_sets
            )
        return known[was, home]

    for home, members in rule_counts.present(rule).items():
        for other in members if concerned(home, home) else ():
            if other.instance not in moved:
                yield from _new(member, other, (before, now), (home, home), domains)
    for name, was in moved.items():
        present = rule_counts.homes.get(name)
        if present is not None and name != member.instance and concerned(was, present):
            for other in rule_counts.of(name, rule):
                yield from _new(member, other, (before, now), (was, present), domains)


def _new(
    member: Member,
    other: Member,
    own: tuple[int | None, int],
    others: tuple[int | None, int],
    domains: Domains,
) -> Iterator[Pair]:
    """Yield the violations of two members on their nodes now that they did not have before.

    `own`, `others`: the node of `member`, and of `other`, before and now.
    """
    was: Sequence[str] = ()
    if own[0] is not None and others[0] is not None:
        was = list(breaks(member, other, (own[0], others[0]), domains))
    for domain in breaks(member, other, (own[1], others[1]), domains):
        if domain not in was:
            yield member, other, domain


def _asked(member: Member, rule_counts: RuleCounts, domains: Domains) -> set[Zones]:
    """Return the failure domains in which the rule of `member` applies to this member."""
    zone_sets = set(rule_counts.named(member.rule, domains))
    if member.domain or any(not domain for _, domain in rule_counts.counts(member.rule)):
        zone_sets.add(domains.zones(member.domain))
    return zone_sets
