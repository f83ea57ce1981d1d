"""Counts of the members of each affinity rule by node, and the failure domains of nodes.

The counts of a state are kept up to date: only nodes that have changed are counted again.
"""

from __future__ import annotations

from iallocator.model.constraints import GROUP_DOMAIN, HARD_WEIGHT
from iallocator.model.state import derived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence, Set

    from iallocator.model.cluster import Node
    from iallocator.model.constraints import Member, Rule
    from iallocator.model.state import Kept, State

    Counts = dict[int, int]
    """Node -> the number of members of a rule on it."""
    Shape = tuple[float, str]
    MembersOf = Mapping[str, Mapping[Rule, Sequence[Member]]]
    """Instance -> rule -> the members of the rule that are this instance, one for each tag."""

__all__ = ["UNUSED_PREFIX", "Domains", "HardMembers", "LiveRuleCounts", "RuleCounts", "Zones"]


class HardMembers:
    """Counts of the members of a rule that have a hard constraint, on each node.

    Attributes
    ----------
    every:
        Node -> the number of these members on it.
    by_domain:
        Prefix of failure domains that a tag names, "" for none -> node -> the number of members
        with this prefix.
    named:
        `Zones` of a prefix -> node -> the number of members with a tag that names the prefix, or
        another prefix with the same zones.
    """

    __slots__ = ("by_domain", "every", "named")

    def __init__(self, shapes: Mapping[Shape, Counts], domains: Domains) -> None:
        self.every: Counts = {}
        self.by_domain: dict[str, Counts] = {}
        self.named: dict[Zones, Counts] = {}
        for (weight, domain), counts in shapes.items():
            if weight == HARD_WEIGHT:
                self.by_domain[domain] = counts
                _add(self.every, counts)
                if domain:
                    _add(self.named.setdefault(domains.zones(domain), {}), counts)


def _add(sums: Counts, counts: Counts) -> None:
    for node, count in counts.items():
        sums[node] = sums.get(node, 0) + count


class RuleCounts:
    """The members of affinity rules, counted on the node of their primary.

    `members_of`: instance -> rule -> the members of the rule that are this instance. Instances that
    are not placed are not counted.

    Attributes
    ----------
    homes:
        Instance -> the node of its primary, for members of rules.
    versions:
        Rule -> the number of changes of its counts.
    """

    __slots__ = (
        "_counts",
        "_hard_members",
        "_members_of",
        "_named",
        "_present",
        "homes",
        "versions",
    )  # fmt: skip

    def __init__(
        self,
        members_of: MembersOf,
        where: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        self._members_of = members_of
        self._present: dict[Rule, dict[int, dict[Member, None]]] = {}
        self._counts: dict[Rule, dict[Shape, Counts]] = {}
        self._hard_members: Kept[Rule, HardMembers] = {}
        self._named: Kept[Rule, set[Zones]] = {}
        self.homes: dict[str, int] = {}
        self.versions: dict[Rule, int] = {}
        for name in members_of if where else ():
            if where and name in where:
                self._put(name, where[name][0])

    def counts(self, rule: Rule) -> Mapping[Shape, Counts]:
        """Return shape -> node -> the number of members of `rule` with this weight and failure
        domain.
        """
        return self._counts.get(rule, {})

    def hard_members(self, rule: Rule, domains: Domains) -> HardMembers:
        """Return the present counts of the members of `rule` that have a hard constraint."""
        version = self.versions.get(rule, 0)
        return derived(
            self._hard_members, rule, version, lambda: HardMembers(self.counts(rule), domains)
        )

    def named(self, rule: Rule, domains: Domains) -> set[Zones]:
        """Return the failure domains that placed members of `rule` name."""

        def compute() -> set[Zones]:
            return {domains.zones(domain) for _, domain in self.counts(rule) if domain}

        return derived(self._named, rule, self.versions.get(rule, 0), compute)

    def present(self, rule: Rule) -> Mapping[int, Collection[Member]]:
        """Return node -> the members of `rule` on it, in no order.

        Nodes without members may be missing.
        """
        return self._present.get(rule, {})

    def of(self, name: str, rule: Rule) -> Sequence[Member]:
        """Return the members of `rule` that are the instance `name`, one for each of its tags."""
        return self._members_of[name].get(rule, ())

    def _put(self, name: str, node: int) -> None:
        self._take(name)
        self.homes[name] = node
        for rule, members in self._members_of[name].items():
            self.versions[rule] = self.versions.get(rule, 0) + 1
            present = self._present.setdefault(rule, {}).setdefault(node, {})
            shapes = self._counts.setdefault(rule, {})
            for member in members:
                present[member] = None
                counts = shapes.setdefault(member.shape, {})
                counts[node] = counts.get(node, 0) + 1

    def _take(self, name: str) -> None:
        node = self.homes.pop(name, None)
        if node is None:
            return
        for rule, members in self._members_of[name].items():
            self.versions[rule] += 1
            present = self._present[rule]
            for member in members:
                del present[node][member]
                counts = self._counts[rule][member.shape]
                counts[node] -= 1
                if not counts[node]:
                    del counts[node]
            if not present[node]:
                del present[node]


class LiveRuleCounts(RuleCounts):
    """The counts of rules on `state`, without instances that are `pending`. `now` renews them."""

    __slots__ = ("_names", "_pending", "_stamps", "state")

    def __init__(self, members_of: MembersOf, state: State) -> None:
        super().__init__(members_of)
        self.state = state
        self._pending: Set[str] = frozenset()
        self._stamps = [-1] * len(state.primaries)
        self._names: list[Set[str]] = [frozenset()] * len(state.primaries)

    def now(self, pending: Set[str] = frozenset()) -> LiveRuleCounts:
        """Bring these counts up to date, without `pending` instances, and return them.

        Cost: the changed nodes, and one comparison.
        """
        if pending != self._pending:
            # Stop to count those that are pending now; count those that no longer are
            where, after = self.state.where, frozenset(pending)
            changed = (after ^ self._pending) & self._members_of.keys()
            self._pending = after
            for name in changed:
                if name in after:
                    self._take(name)
                elif name in where:
                    self._put(name, where[name][0])
        stamps = self.state.stamps
        if stamps != self._stamps:
            for index, (old, new) in enumerate(zip(self._stamps, stamps)):
                if old == new:
                    continue
                present = self.state.primaries[index].keys() & self._members_of.keys()
                for name in self._names[index] - present:
                    if self.homes.get(name) == index:
                        self._take(name)
                for name in present - self._names[index] - self._pending:
                    self._put(name, index)
                self._names[index] = present
            self._stamps = list(stamps)
        return self


UNUSED_PREFIX = ":"
"""A prefix of failure domains that no tag has. With it, each node is its own failure domain."""


class Zones:
    """The nodes of a cluster, divided by the failure domains of one prefix.

    A zone is a set of nodes that are in the same failure domains.

    Attributes
    ----------
    of:
        The zone of each node, by index.
    touching:
        For each zone, the zones that share a failure domain with it, itself among them.
    disjoint:
        Whether every node is in exactly one failure domain.
    """

    __slots__ = ("disjoint", "of", "touching")

    def __init__(self, sites: Sequence[frozenset[str]]) -> None:
        numbers: dict[frozenset[str], int] = {}
        self.of = [numbers.setdefault(some, len(numbers)) for some in sites]
        inside: dict[str, list[int]] = {}
        for some, zone in numbers.items():
            for site in some:
                inside.setdefault(site, []).append(zone)
        self.touching = [tuple({z for site in some for z in inside[site]}) for some in numbers]
        self.disjoint = all(len(some) == 1 for some in numbers)

    def share(self, one: int, other: int) -> bool:
        """Return whether two nodes share a failure domain."""
        return self.of[one] in self.touching[self.of[other]]


class Domains:
    """The failure domains of all nodes of a cluster, by the prefix of their tags.

    With the prefix "", every node is its own failure domain. With the prefix `GROUP_DOMAIN`,
    failure domains are node groups. A prefix that no node has is treated like "".
    """

    __slots__ = ("_known", "_nodes", "_prefixes")

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._prefixes = {tag.partition(":")[0] for node in nodes for tag in node.tags} | {
            GROUP_DOMAIN
        }
        self._known: dict[str, Zones] = {}

    def zones(self, domain: str) -> Zones:
        """Return the nodes divided by the failure domains of prefix `domain`."""
        prefix = domain if domain in self._prefixes else ""
        zones = self._known.get(prefix)
        if zones is None:
            every = range(len(self._nodes))
            sites = [frozenset(self.sites(index, prefix)) for index in every]
            zones = self._known[prefix] = Zones(sites)
        return zones

    def known(self, domain: str) -> str:
        """Return the prefix `domain`, or `UNUSED_PREFIX` if no node has a tag with it."""
        return domain if not domain or domain in self._prefixes else UNUSED_PREFIX

    def sites(self, index: int, domain: str) -> list[str]:
        """Return the failure domains of node `index` with prefix `domain`.

        The node itself is the domain if the prefix is "", or if the node has no such tag.
        """
        node, prefix = self._nodes[index], domain + ":"
        if domain == GROUP_DOMAIN:
            return [f"group {node.group.name}"]
        known = domain and domain in self._prefixes
        tags = [tag for tag in node.tags if tag.startswith(prefix)] if known else []
        return tags or [f"node {node.name}"]
