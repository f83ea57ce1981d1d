"""The affinity rules, the nodes, and the colocation group that apply to each instance."""

from __future__ import annotations

from iallocator.constraints.rule_counts import Domains, LiveRuleCounts, RuleCounts
from iallocator.model.constraints import TOGETHER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.constraints.locations import Locations
    from iallocator.model.cluster import Cluster
    from iallocator.model.constraints import Constraint, Member, Rule
    from iallocator.model.state import State
    from iallocator.tags.affinity import Parsed

__all__ = ["AffinityGroups", "units_of"]

if TYPE_CHECKING:
    Units = dict[str, tuple[str, ...]]


def units_of(rules: Iterable[Rule], domains: bool = False) -> Units:
    """Instance -> all that must be on its node, itself among them, where there are others.

    `domains`: or in its failure domain.  In the order in which rules and members stand.
    """
    leader: dict[str, str] = {}

    def lead(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    rules = [rule for rule in rules if rule.kind == TOGETHER]
    for names in _sets(rules, True):
        leader |= {name: name for name in names if name not in leader}
    for names in _sets(rules, domains):
        for name in names:
            leader[lead(name)] = lead(names[0])
    groups: dict[str, list[str]] = {}
    for name in leader:
        groups.setdefault(lead(name), []).append(name)
    units = [tuple(members) for members in groups.values() if len(members) > 1]
    return {name: unit for unit in units for name in unit}


def _sets(rules: Iterable[Rule], domains: bool) -> Iterable[Sequence[str]]:
    """Per rule those that must be together, if there are several."""
    for rule in rules:
        tied = [m.instance for m in rule.members if m.must and (domains or not m.domain)]
        if len(set(tied)) > 1:
            yield tied


if TYPE_CHECKING:
    Where = Mapping[str, tuple[int, ...]]

    """Instance name -> its nodes, primary first."""


class AffinityGroups:
    """Who is bound by what; nothing here asks whether it holds.

    Attributes
    ----------
    rules:
        Who must or should be together, or apart.
    constraints:
        The others: orders, priorities, what must not be stopped.
    members_of:
        Instance -> rule -> its memberships there.
    keep_running, stuck:
        Instances that are never stopped to make room; that cannot be stopped, and must not
        be by force.
    locations:
        The nodes that are out, or None.
    """

    __slots__ = (
        "_bound",
        "_named", "_units", "_wide", "cluster", "constraints", "domains", "keep_running",
        "locations", "members_of", "priorities", "rules", "stuck", "unusable",
    )  # fmt: skip

    def __init__(
        self, cluster: Cluster, parsed: Parsed, locations: Locations | None = None
    ) -> None:
        self.cluster = cluster
        self.domains = Domains(cluster.nodes)
        self.locations = locations
        self.keep_running = parsed.keep_running
        self.stuck = parsed.stuck
        self.constraints = parsed.constraints
        self.priorities = parsed.priorities
        self.unusable = [*parsed.unusable, *parsed.lonely]
        self.rules = parsed.rules
        self._units: dict[str, tuple[str, ...]] | None = None
        self._wide: dict[str, tuple[str, ...]] | None = None
        self._named: set[str] | None = None
        self._bound: dict[str, list[Constraint]] = {}
        for constraint in parsed.constraints:
            self._bound.setdefault(constraint.instance, []).append(constraint)
        self.members_of: dict[str, dict[Rule, list[Member]]] = {}
        for rule in parsed.rules:
            for member in rule.members:
                of_rule = self.members_of.setdefault(member.instance, {})
                of_rule.setdefault(rule, []).append(member)

    def rule_counts(self, where: Where) -> RuleCounts:
        """Who is where, as a mapping says now."""
        return RuleCounts(self.members_of, where)

    def live(self, state: State) -> LiveRuleCounts:
        """Who is where on `state`, whenever one asks."""
        return LiveRuleCounts(self.members_of, state)

    def of(self, instance: str, kind: str = "") -> list[Constraint]:
        """The constraints that bind `instance` alone or to one other, of one kind or all."""
        found = self._bound.get(instance, [])
        return [c for c in found if c.kind == kind] if kind else found

    @property
    def bound(self) -> Collection[str]:
        """The instances that constraints other than rules bind."""
        return self._bound.keys()

    def memberships(self, instance: str) -> Iterator[Member]:
        """The rules that bind `instance`, by each of its tags."""
        for members in self.members_of.get(instance, {}).values():
            yield from members

    @property
    def binding(self) -> bool:
        """Whether anything binds the places of instances."""
        return bool(self.rules or self.locations)

    def binds(self, instance: str) -> bool:
        """Whether rules or nodes bind the place of `instance`."""
        forbidden = instance in self.members_of or self.forbidden(instance)
        return bool(forbidden) or self.stays(instance)

    def forbidden(self, instance: str) -> Collection[int]:
        """The nodes of the cluster that `instance` must not come to, in either role."""
        return () if self.locations is None else self.locations.forbidden(instance)

    def stays(self, instance: str) -> bool:
        """Whether the primary of `instance` must stay where it is."""
        return self.locations is not None and self.locations.pin(instance) is not None

    def sites_of(self, node: int) -> frozenset[str]:
        """All failure domains that rules name and `node` is in."""
        if self._named is None:
            every = {member.domain for rule in self.rules for member in rule.members}
            self._named = {self.domains.known(domain) for domain in every if domain}
        return frozenset(
            site for domain in self._named for site in self.domains.sites(node, domain)
        )

    def units(self) -> dict[str, tuple[str, ...]]:
        """Instance -> all that must be on its node, itself among them, where there are others."""
        if self._units is None:
            self._units = units_of(self.rules)
        return self._units

    def wide_units(self) -> dict[str, tuple[str, ...]]:
        """The same, or in its failure domain."""
        if self._wide is None:
            self._wide = units_of(self.rules, domains=True)
        return self._wide

    def group_of(self, instance: str, among: Iterable[str]) -> list[str]:
        """Those of `among` that must be on one node with `instance`, itself among them.

        In the order of `among`; bonds of bonds count, bonds to failure domains do not.
        """
        colour = {instance, *self.units().get(instance, ())}
        return [name for name in among if name in colour]
