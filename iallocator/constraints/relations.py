"""Affinity rules between instances, orders, and forbidden nodes: which a placement violates.

An affinity rule is a set of instances that must, or should, be together or apart. A rule is never
expanded to pairs, because large rules have too many: a `RuleCounts` counts the members on each
node, and only messages name single members.

An instance runs on its primary node, so all rules are about primaries. An instance that is not
placed yet violates no rule.
"""

from __future__ import annotations

from itertools import islice

from iallocator.constraints.order_chains import dependents_of_failed, unsupported
from iallocator.constraints.rule_counts import Domains, LiveRuleCounts, RuleCounts
from iallocator.constraints.rule_violations import (
    RuleViolations,
    breaks,
    new_violations,
    others_broken,
)
from iallocator.errors import FEW_NAMES
from iallocator.model.constraints import APART, GROUP_DOMAIN, ORDER, TOGETHER, domains_between
from iallocator.tags.affinity import constraint_between, constraint_to_many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.constraints.locations import Locations
    from iallocator.constraints.rule_violations import Pair
    from iallocator.model.cluster import Cluster
    from iallocator.model.constraints import Constraint, Member, Rule
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.tags.affinity import Parsed

    Units = dict[str, tuple[str, ...]]
    """Instance -> the instances of its colocation group, itself included."""

    Where = Mapping[str, tuple[int, ...]]
    """Instance -> its nodes, primary first."""

__all__ = ["Relations", "in_order", "units_of"]


def units_of(rules: Iterable[Rule], domains: bool = False) -> Units:
    """Return instance -> its colocation group, for instances that must be on a node with others.

    A chain of hard colocations connects the members of a group. With `domains`, hard colocations in
    a failure domain count, too. Groups and members are in the order of the rules.
    """
    everywhere: list[list[str]] = []  # members that must be on one node
    counted: list[list[str]] = []
    for rule in rules:
        if rule.kind == TOGETHER:
            hard = [member for member in rule.members if member.must]
            names = [member.instance for member in hard]
            same_node = [member.instance for member in hard if not member.domain]
            if len(set(names)) > 1:
                everywhere.append(names)
            chosen = names if domains else same_node
            if len(set(chosen)) > 1:
                counted.append(chosen)
    # Union-find: each instance leads to the first of its group
    leader = {name: name for names in everywhere for name in names}

    def lead(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for names in counted:
        for name in names:
            leader[lead(name)] = lead(names[0])
    groups: dict[str, list[str]] = {}
    for name in leader:
        groups.setdefault(lead(name), []).append(name)
    units = [tuple(members) for members in groups.values() if len(members) > 1]
    return {name: unit for unit in units for name in unit}


def in_order(
    instances: Sequence[Instance],
    priorities: Mapping[str, int],
    constraints_of: Callable[[str], Sequence[Constraint]],
    units: Mapping[str, Sequence[str]],
) -> list[Instance]:
    """Return `instances` by priority, higher first; each follows those that must start before it.

    Instances with equal priorities stay in the given order. The members of a colocation group
    follow each other, unless another instance must start between them.

    Parameters
    ----------
    instances:
        The instances to sort.
    priorities:
        Name of an instance -> its priority; 0 if missing.
    constraints_of:
        Name of an instance -> its orders.
    units:
        Name of an instance -> the members of its colocation group.
    """
    ranked = sorted(instances, key=lambda i: -priorities.get(i.name, 0))
    by_name = {instance.name: instance for instance in instances}
    placed: dict[str, Instance] = {}
    entered: set[str] = set()
    left = {id(unit): iter(unit) for unit in units.values()}
    waiting = [instance.name for instance in reversed(ranked)]
    while waiting:  # a chain may be as long as the list: no recursion
        name = waiting[-1]
        if name not in entered:
            entered.add(name)
            follows = [constraint.other for constraint in constraints_of(name)]
        else:
            waiting.pop()
            if name in placed:
                continue
            placed[name] = by_name[name]
            rest = left.get(id(units.get(name)), iter(()))
            follows = [next((n for n in rest if n in by_name and n not in entered), "")]
        waiting += [n for n in reversed(follows) if n in by_name and n not in entered]
    return list(placed.values())


MOST_REPORTED_SINGLY = 10
"""The most violations of one tag by one instance that are reported singly. More are reported in one
sentence."""


class Relations:
    """The affinity rules, orders and forbidden nodes of a cluster; checks which are violated.

    Methods with `rule_counts` compare an instance with the members of rules that `rule_counts` has
    on each node.

    Attributes
    ----------
    rules:
        The affinity rules.
    constraints:
        The other constraints of instances: orders, priorities, instances that keep running.
    members_of:
        Instance -> rule -> the members of the rule that are this instance, one for each tag.
    keep_running:
        The instances that are never stopped to free capacity.
    stuck:
        The instances that cannot be stopped, and must not be stopped by force.
    locations:
        The nodes that are forbidden for instances; None if there are none.
    preferred:
        Instance -> the labels that its nodes should have, each with its constraint.
    """

    __slots__ = (
        "_bound",
        "_first_groups",
        "_group_rules",
        "_named",
        "_units",
        "_wide",
        "cluster",
        "constraints",
        "domains",
        "keep_running",
        "locations",
        "members_of",
        "preferred",
        "priorities",
        "rules",
        "stuck",
        "unusable",
    )

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
        self.preferred = parsed.preferred
        self._units: Units | None = None
        self._wide: Units | None = None
        self._named: set[str] | None = None
        self._group_rules: frozenset[Rule] | None = None
        self._first_groups: dict[str, int] | None = None
        self._bound: dict[str, list[Constraint]] = {}
        for constraint in parsed.constraints:
            self._bound.setdefault(constraint.instance, []).append(constraint)
        self.members_of: dict[str, dict[Rule, list[Member]]] = {}
        for rule in parsed.rules:
            for member in rule.members:
                of_rule = self.members_of.setdefault(member.instance, {})
                of_rule.setdefault(rule, []).append(member)

    # Which constraints an instance has

    def rule_counts(self, where: Where) -> RuleCounts:
        """Return the members of rules on each node; `where` has the nodes of instances, by name."""
        return RuleCounts(self.members_of, where)

    def live(self, state: State) -> LiveRuleCounts:
        """Return the members of rules on each node of `state`; the counts follow changes of the
        state.
        """
        return LiveRuleCounts(self.members_of, state)

    def of(self, instance: str, kind: str = "") -> list[Constraint]:
        """Return the `constraints` of an instance; only those of one kind if `kind` is given."""
        constraints = self._bound.get(instance, [])
        return [c for c in constraints if c.kind == kind] if kind else constraints

    @property
    def bound(self) -> Collection[str]:
        """Return the names of instances that have orders, priorities or marks in `constraints`."""
        return self._bound.keys()

    def rule_members(self, instance: str) -> Iterator[Member]:
        """Yield `instance` as a member of each of its rules, once for each of its tags."""
        for members in self.members_of.get(instance, {}).values():
            yield from members

    @property
    def binding(self) -> bool:
        """Return whether any constraint limits the nodes that instances may use."""
        return bool(self.rules or self.locations or self.preferred)

    def idle_within(self, nodes: Collection[int]) -> bool:
        """Return whether no constraint matters for moves between `nodes`, which are in one group.

        Then each constraint is satisfied, or violated, wherever the instances on these nodes are.
        Only spreads over groups can be violated, see `penalty_of_spreads`.
        """
        if self.locations or len(self.constraints) > sum(map(len, self.preferred.values())):
            return False
        labels = {label for some in self.preferred.values() for label, _ in some}
        if any(not labels.issubset(self.cluster.nodes[node].tags) for node in nodes):
            return False
        return not any(map(self.varies_within_groups, self.rules))

    @property
    def colocates(self) -> bool:
        """Return whether a hard constraint colocates instances, on a node or in a domain."""
        return any(one.must for rule in self.rules if rule.kind == TOGETHER for one in rule.members)

    def penalty_of_spreads(self, nodes: Collection[int], where: Where) -> float:
        """Return the penalty of violated spreads over groups for the instances on `nodes`.

        `nodes` are all nodes of one group, so no move between them changes this penalty. Each pair
        of instances counts once. `where` has the present nodes of instances, by name.
        """
        spreads = [rule for rule in self.group_rules if not self.varies_within_groups(rule)]
        soft = [one for rule in spreads for one in rule.members if not one.must]
        if not soft:
            return 0.0
        rule_counts = self.rule_counts(where)
        total = 0.0
        for rule in spreads:
            for member in rule.members:
                home = rule_counts.homes.get(member.instance)
                if home is not None and home in nodes:
                    total += RuleViolations(member, rule_counts, self.domains).cost(home)
        return total / 2

    def binds(self, instance: str) -> bool:
        """Return whether a rule, label or location constraint limits the nodes of an instance."""
        if instance in self.members_of or self.forbidden(instance):
            return True
        return self.prefers(instance) or self.confined(instance) is not None

    def forbidden(self, instance: str) -> Collection[int]:
        """Return the nodes that must be neither primary nor secondary of the instance."""
        return () if self.locations is None else self.locations.forbidden(instance)

    def stays(self, instance: str) -> bool:
        """Return whether the primary of an instance must stay where it is."""
        return self.locations is not None and self.locations.stays(instance)

    def confined(self, instance: str) -> Collection[int] | None:
        """Return the only nodes that the primary of an instance may use; None for any nodes."""
        return None if self.locations is None else self.locations.confined(instance)

    @property
    def settled(self) -> Collection[str]:
        """Return the instances with infinite stickiness on an online node."""
        return () if self.locations is None else self.locations.settled.keys()

    def sites_of(self, node: int) -> frozenset[str]:
        """Return the failure domains of a node, of all kinds that rules name."""
        if self._named is None:
            every = {member.domain for rule in self.rules for member in rule.members}
            self._named = {self.domains.known(domain) for domain in every if domain}
        return frozenset(
            site for domain in self._named for site in self.domains.sites(node, domain)
        )

    def units(self) -> Units:
        """Return instance -> the members of its colocation group, which must be on one node."""
        if self._units is None:
            self._units = units_of(self.rules)
        return self._units

    def wide_units(self) -> Units:
        """Return instance -> the instances that must be on its node or in its failure domain."""
        if self._wide is None:
            self._wide = units_of(self.rules, domains=True)
        return self._wide

    def group_of(self, instance: str, among: Iterable[str]) -> list[str]:
        """Return the members of an instance's colocation group that are in `among`, in order.

        The instance itself is a member. Colocations in a failure domain are ignored.
        """
        group = {instance, *self.units().get(instance, ())}
        return [name for name in among if name in group]

    # Violations

    def _violations(self, instance: str, rule_counts: RuleCounts) -> list[RuleViolations]:
        every = (RuleViolations(m, rule_counts, self.domains) for m in self.rule_members(instance))
        return [one for one in every if one]

    def _location_violations(self, instance: str, node: int) -> list[Constraint]:
        """Return the hard location constraints that `instance` on `node` violates."""
        return [] if self.locations is None else self.locations.broken(instance, node)

    def _forbids(self, one: RuleViolations, node: int, rule_counts: RuleCounts) -> bool:
        """Return whether a hard constraint of a member rejects `node`.

        A spread over groups that was violated initially in the instance's own group does not
        reject the nodes of that group: the violation does not depend on the node.
        """
        if not one.hard(node):
            return False
        if one.member.rule not in self.group_rules or not self._began_in(one.member.instance, node):
            return True
        return any(self._in_turn(one.member, node, rule_counts, must=True, new=True))

    def _began_in(self, instance: str, node: int) -> bool:
        """Return whether the instance was in the group of `node` initially."""
        if self._first_groups is None:
            members = {one.instance for rule in self.group_rules for one in rule.members}
            nodes = self.cluster.nodes
            self._first_groups = {
                one.name: nodes[one.nodes[0]].group.index
                for one in self.cluster.instances
                if one.nodes and one.name in members
            }
        return self._first_groups.get(instance) == self.cluster.nodes[node].group.index

    def share_first_group(self, instances: Iterable[str], node: int) -> list[str]:
        """Return those of `instances` that were in the group of `node` initially."""
        return [name for name in instances if self._began_in(name, node)]

    def rejected(self, instance: str, nodes: Iterable[int], rule_counts: RuleCounts) -> list[int]:
        """Return the nodes of `nodes` where `instance` violates a hard constraint."""
        violations = self._violations(instance, rule_counts)
        if not violations and self.locations is None:
            return []
        return [
            node
            for node in nodes
            if self._location_violations(instance, node)
            or any(self._forbids(one, node, rule_counts) for one in violations)
        ]

    def rejected_passing(
        self, instance: str, nodes: Iterable[int], rule_counts: RuleCounts
    ) -> list[int]:
        """Return the nodes of `nodes` that `instance` must not use even for a temporary move.

        Colocations are ignored, because the other members follow.
        """
        apart = [o for o in self._violations(instance, rule_counts) if o.member.rule.kind == APART]
        if not apart and self.locations is None:
            return []
        return [
            node
            for node in nodes
            if self._location_violations(instance, node)
            or any(self._forbids(one, node, rule_counts) for one in apart)
        ]

    def allows_temporary_move(self, instance: Instance, node: int, where: Where) -> bool:
        """Return whether hard constraints allow `instance` on `node` for a temporary move.

        Colocations are ignored, because the other members follow. `where`: name of an instance ->
        its present nodes.
        """
        if self._location_violations(instance.name, node):
            return False
        return not any(
            other.must and other.instance in where and other.instance != instance.name
            and any(
                not self._inherited(member, other, domain, node)
                for domain in breaks(member, other, (node, where[other.instance][0]), self.domains)
            )
            for member in self.rule_members(instance.name)
            if member.must and member.rule.kind == APART
            for other in member.rule.members
        )  # fmt: skip

    def hard_violations(self, instance: str, node: int, rule_counts: RuleCounts) -> int:
        """Return the number of hard constraints that `instance` on `node` violates."""
        violations = self._violations(instance, rule_counts)
        return len(self._location_violations(instance, node)) + sum(
            one.hard(node) for one in violations
        )

    def costs(
        self, instance: str, nodes: Iterable[int], rule_counts: RuleCounts
    ) -> dict[int, float]:
        """Return node -> the penalty of the soft constraints that `instance` violates on this node.

        Nodes without a penalty are left out.
        """
        violations = self._violations(instance, rule_counts)
        prefers = self.prefers(instance)
        if not violations and not prefers:
            return {}
        sums = {node: sum(one.cost(node) for one in violations) for node in nodes}
        if prefers:
            sums = {node: cost + self.node_penalty(instance, node) for node, cost in sums.items()}
        return {node: cost for node, cost in sums.items() if cost > 0}

    def missing_labels(self, instance: str, node: int) -> list[Constraint]:
        """Return the soft constraints of `instance` for labels that `node` does not have."""
        own = self.cluster.nodes[node].tags
        return [one for label, one in self.preferred.get(instance, ()) if label not in own]

    def label_penalties(self, instance: str, nodes: Iterable[int]) -> list[float]:
        """Return the penalty of the missing labels of each node of `nodes`."""
        weights = ([one.weight for one in self.missing_labels(instance, node)] for node in nodes)
        return [float(sum(some)) for some in weights]

    @property
    def preferring(self) -> bool:
        """Return whether any instance prefers some nodes by labels or scores."""
        return bool(self.preferred or (self.locations is not None and self.locations.preferring))

    def prefers(self, instance: str) -> bool:
        """Return whether `instance` prefers some nodes by labels or scores."""
        if instance in self.preferred:
            return True
        return self.locations is not None and instance in self.locations.preferring

    def node_penalty(self, instance: str, node: int) -> float:
        """Return the penalty of labels and scores if `instance` runs on `node`."""
        penalty = 0.0 if self.locations is None else self.locations.penalty(instance, node)
        return penalty + sum(one.weight for one in self.missing_labels(instance, node))

    def first_broken(self, instance: str, node: int, rule_counts: RuleCounts) -> Constraint | None:
        """Return the first hard constraint that `instance` on `node` violates, or None."""
        for must in self._location_violations(instance, node):
            return must
        for one in self._violations(instance, rule_counts):
            if self._forbids(one, node, rule_counts):
                return constraint_between(
                    *next(self._in_turn(one.member, node, rule_counts, must=True, new=True))
                )
        return None

    def rejections(
        self, instance: str, nodes: Iterable[int], rule_counts: RuleCounts
    ) -> dict[int, Constraint]:
        """Return node -> the first hard constraint that `instance` violates there, if it violates
        one.
        """
        broken = ((node, self.first_broken(instance, node, rule_counts)) for node in nodes)
        return {node: constraint for node, constraint in broken if constraint is not None}

    def violated_hard(self, instance: str, node: int, rule_counts: RuleCounts) -> list[Constraint]:
        """Return the hard constraints that `instance` on `node` violates, for messages.

        If a tag is violated with many other instances, one constraint has their number and names
        some of them.
        """
        violated = self._location_violations(instance, node)
        for one in self._violations(instance, rule_counts):
            violated += self._violated(one.member, node, rule_counts, True, one.hard(node), 0.0)
        return violated

    def violated_soft(self, instance: str, node: int, rule_counts: RuleCounts) -> list[Constraint]:
        """Return the soft constraints that `instance` on `node` violates, for messages."""
        violated = self.missing_labels(instance, node)
        for one in self._violations(instance, rule_counts):
            count, cost = one.soft(node), one.cost(node)
            violated += self._violated(one.member, node, rule_counts, False, count, cost)
        if self.locations is not None:
            violated += self.locations.violated_soft(instance, node)
        return violated

    def _violated(
        self,
        member: Member,
        node: int,
        rule_counts: RuleCounts,
        must: bool,
        count: int,
        cost: float,
    ) -> list[Constraint]:
        """Return the hard (`must`) or soft violations of `member` on `node`, for messages.

        `count`: their number; many violations are combined in one constraint of penalty `cost`.
        """
        if not count:
            return []
        if count > MOST_REPORTED_SINGLY:
            some = list(islice(self._in_turn(member, node, rule_counts, must), FEW_NAMES))
            return [constraint_to_many(some, count, cost)]
        pairs = others_broken(member, node, rule_counts, self.domains)
        chosen_pairs = [pair for pair in pairs if (pair[0].must and pair[1].must) == must]
        chosen_pairs.sort(key=lambda pair: (pair[1].position, pair[2]))
        return [constraint_between(*pair) for pair in chosen_pairs]

    def _inherited(self, member: Member, other: Member, domain: str, node: int) -> bool:
        """Return whether two members that a rule spreads were in the group of `node` initially."""
        if domain != GROUP_DOMAIN or member.rule.kind != APART:
            return False
        return self._began_in(member.instance, node) and self._began_in(other.instance, node)

    def _in_turn(
        self, member: Member, node: int, rule_counts: RuleCounts, must: bool, new: bool = False
    ) -> Iterator[Pair]:
        """Yield the hard (`must`) or soft violations of `member` on `node`, in the order of the
        members.

        `new`: without those of a spread over groups that were there initially.

        Cost: the members up to the one at which the caller stops.
        """
        for other in member.rule.members:
            home = rule_counts.homes.get(other.instance)
            if home is None or other.instance == member.instance:
                continue
            if (member.must and other.must) == must:
                for domain in breaks(member, other, (node, home), self.domains):
                    if not (new and self._inherited(member, other, domain, node)):
                        yield member, other, domain

    @property
    def group_rules(self) -> frozenset[Rule]:
        """Return the rules that spread instances over node groups."""
        if self._group_rules is None:
            self._group_rules = frozenset(
                rule
                for rule in self.rules
                if rule.kind == APART and any(one.domain == GROUP_DOMAIN for one in rule.members)
            )
        return self._group_rules

    @staticmethod
    def varies_within_groups(rule: Rule) -> bool:
        """Return whether moves within a node group can change the violations of `rule`."""
        return rule.kind != APART or any(one.domain != GROUP_DOMAIN for one in rule.members)

    def spread_over_groups(self, instance: str) -> bool:
        """Return whether a rule spreads an instance over node groups."""
        return not self.group_rules.isdisjoint(self.members_of.get(instance, ()))

    def group_conflicts(self, instances: Iterable[str]) -> list[str]:
        """Return the instances that must leave their node group because of others of `instances`.

        All of `instances` are in one node group. Of instances that hard constraints separate by
        group, the first may stay.
        """
        names: list[str] = []
        kept: dict[Rule, set[str]] = {}  # the domains in the tags of members that stay
        for name in instances if self.group_rules else ():
            mine = [m for m in self.rule_members(name) if m.must and m.rule in self.group_rules]
            there = [(kept.get(member.rule, set()), member) for member in mine]
            if any(
                GROUP_DOMAIN in some or (some and one.domain == GROUP_DOMAIN) for some, one in there
            ):
                names.append(name)
                continue
            for member in mine:
                kept.setdefault(member.rule, set()).add(member.domain)
        return names

    def newly_broken(
        self, moved: Mapping[str, int | None], where: Where, rule_counts: RuleCounts
    ) -> Iterator[tuple[str, Constraint]]:
        """Yield each hard constraint that moves have newly violated, with the instance that moved.

        `moved`: instance -> its primary before; None if it was not placed. `where`: the nodes of
        all instances after the moves. Instances that are not in `moved` have not moved.
        """
        for name, before in moved.items():
            if name not in where:
                continue
            now = where[name][0]
            yield from (
                (name, must) for must in self._location_violations(name, now) if now != before
            )
            for member in self.rule_members(name):
                if not member.must:
                    continue
                for one, other, domain in new_violations(
                    member, before, now, moved, rule_counts, self.domains
                ):
                    if other.must:
                        yield name, constraint_between(one, other, domain)

    def with_fewer_violations(
        self, instance: str, node: int, targets: Iterable[int], rule_counts: RuleCounts
    ) -> dict[int, int]:
        """Return node -> change, for `targets` where `instance` violates fewer hard constraints.

        The change is the difference to the number of violations on `node`, which is negative. Nodes
        where the instance violates a constraint that it satisfies on `node` are left out.
        """
        violations = self._violations(instance, rule_counts)
        present = self.hard_violations(instance, node, rule_counts)
        more = {
            target: sum(one.hard(target) for one in violations) - present
            for target in targets
            if not self._location_violations(instance, target)
            and not any(one.parts(node, target) for one in violations)
        }
        return {target: count for target, count in more.items() if count < 0}

    # Hard separations

    def hard_separations(self, instance: str) -> Iterator[Pair]:
        """Yield (member, other member, domain) for each hard separation of an instance."""
        for member in self.rule_members(instance):
            if member.must and member.rule.kind == APART:
                for other in member.rule.members:
                    if other.must and other.instance != instance:
                        for domain in domains_between(member.domain, other.domain):
                            yield member, other, domain

    def apart(self, instances: Iterable[str]) -> list[tuple[str, str, str]]:
        """Return (instance, instance, domain) for each hard separation of `instances`, sorted."""
        pairs = (pair for name in instances for pair in self.hard_separations(name))
        names = {(*sorted((one.instance, other.instance)), domain) for one, other, domain in pairs}
        return sorted((one, other, domain) for one, other, domain in names)

    def separates(self, one: str, at: int, other: str, there: int) -> bool:
        """Return whether a hard rule forbids `one` on node `at` with `other` on node `there`."""
        return any(
            mine.must and theirs.must and any(breaks(mine, theirs, (at, there), self.domains))
            for rule, members in self.members_of.get(one, {}).items()
            for mine in members
            for theirs in self.members_of.get(other, {}).get(rule, ())
        )

    # Orders

    def unsupported(self, coming: Collection[str] = ()) -> dict[str, str]:
        """Return instance -> chain of orders in words, for instances that start after one that
        cannot run.

        `coming` are the instances that the request creates.
        """
        return unsupported(self.cluster, self._orders, self._bound, coming)

    def dependents_of_failed(
        self, done: Sequence[str], failed: Collection[str], ordered: bool
    ) -> dict[str, str]:
        """Return instance -> chain in words, for those of `done` that depend on one of `failed`.

        With `ordered`, an instance also depends on the instances that must start before it.
        """
        constraints_of = self._orders if ordered else lambda name: []
        return dependents_of_failed(done, failed, constraints_of, self.members_of)

    def in_order(self, instances: Sequence[Instance]) -> list[Instance]:
        """Return `instances` in their order of placement: by priority and start orders."""
        return in_order(instances, self.priorities, self._orders, self.units())

    def _orders(self, name: str) -> list[Constraint]:
        return self.of(name, ORDER)
