"""Affinity between instances, and order of placement: what they mean for a candidate."""

from __future__ import annotations

from itertools import islice

from iallocator.constraints.affinity_groups import AffinityGroups
from iallocator.constraints.order_chains import dependents_of_failed, unsupported
from iallocator.constraints.rule_violations import (
    RuleViolations,
    breaks,
    newly_parted,
    others_broken,
)
from iallocator.model.constraints import APART, ORDER, domains_between
from iallocator.tags.affinity import bond_between, bond_to_many

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from iallocator.constraints.affinity_groups import Where
    from iallocator.constraints.rule_counts import RuleCounts
    from iallocator.constraints.rule_violations import Pair
    from iallocator.model.constraints import Constraint, Member
    from iallocator.model.instance import Instance

__all__ = ["Relations", "in_order"]


def in_order(
    instances: Sequence[Instance],
    priorities: Mapping[str, int],
    bonds: Callable[[str], Sequence[Constraint]],
    units: Mapping[str, Sequence[str]],
) -> list[Instance]:
    """`instances` by priority, higher first; those after another follow it; else as given.

    Those that must be on one node follow each other, unless something must start between.
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
            follows = [bond.other for bond in bonds(name)]
        else:
            waiting.pop()
            if name in placed:
                continue
            placed[name] = by_name[name]
            rest = left.get(id(units.get(name)), iter(()))
            follows = [next((n for n in rest if n in by_name and n not in entered), "")]
        waiting += [n for n in reversed(follows) if n in by_name and n not in entered]
    return list(placed.values())


FEW = 10
"""So many broken bonds of one instance by one tag are told one by one; more in one sentence."""

NAMED = 3
"""How many of the others that sentence names."""


class Relations(AffinityGroups):
    """What is broken where, of the constraints between instances and to nodes.

    All questions are about primaries: that is where an instance runs.  Those that are
    nowhere yet bind nobody.  A rule between many is never written out as pairs: a `RuleCounts`
    counts who is where, and only what is told to people names the others.
    """

    __slots__ = ()

    # What breaks

    def _violations(self, instance: str, rule_counts: RuleCounts) -> list[RuleViolations]:
        every = (RuleViolations(m, rule_counts, self.domains) for m in self.memberships(instance))
        return [one for one in every if one]

    def _out(self, instance: str, node: int) -> list[Constraint]:
        """The location musts that `instance` on `node` would break."""
        return [] if self.locations is None else self.locations.broken(instance, node)

    def rejected(self, instance: str, nodes: Iterable[int], rule_counts: RuleCounts) -> list[int]:
        """Those of `nodes` where `instance` would break a must, as the others are."""
        violations = self._violations(instance, rule_counts)
        if not violations and self.locations is None:
            return []
        return [
            node
            for node in nodes
            if self._out(instance, node) or any(one.musts(node) for one in violations)
        ]

    def rejected_passing(
        self, instance: str, nodes: Iterable[int], rule_counts: RuleCounts
    ) -> list[int]:
        """Those where it must not even be on its way: its partners come after it."""
        apart = [o for o in self._violations(instance, rule_counts) if o.member.rule.kind == APART]
        if not apart and self.locations is None:
            return []
        return [
            node
            for node in nodes
            if self._out(instance, node) or any(one.musts(node) for one in apart)
        ]

    def may_pass(self, instance: Instance, node: int, where: Where) -> bool:
        """Whether `instance` may be on `node` on its way."""
        if self._out(instance.name, node):
            return False
        return not any(
            other.must and other.instance in where and other.instance != instance.name
            and any(breaks(member, other, (node, where[other.instance][0]), self.domains))
            for member in self.memberships(instance.name)
            if member.must and member.rule.kind == APART
            for other in member.rule.members
        )  # fmt: skip

    def musts_broken(self, instance: str, node: int, rule_counts: RuleCounts) -> int:
        """How many musts `instance` on `node` would break."""
        violations = self._violations(instance, rule_counts)
        return len(self._out(instance, node)) + sum(one.musts(node) for one in violations)

    def costs(
        self, instance: str, nodes: Iterable[int], rule_counts: RuleCounts
    ) -> dict[int, float]:
        """What `instance` on each of `nodes` costs by the shoulds it breaks, where it costs."""
        violations = self._violations(instance, rule_counts)
        if not violations:
            return {}
        sums = {node: sum(one.cost(node) for one in violations) for node in nodes}
        return {node: cost for node, cost in sums.items() if cost > 0}

    def first_broken(self, instance: str, node: int, rule_counts: RuleCounts) -> Constraint | None:
        """The first must that `instance` on `node` would break, or None."""
        for must in self._out(instance, node):
            return must
        for one in self._violations(instance, rule_counts):
            if one.musts(node):
                return bond_between(*next(self._in_turn(one.member, node, rule_counts, must=True)))
        return None

    def rejections(
        self, instance: str, nodes: Iterable[int], rule_counts: RuleCounts
    ) -> dict[int, Constraint]:
        """Those of `nodes` that break a must of `instance`, and the first that they break."""
        found = ((node, self.first_broken(instance, node, rule_counts)) for node in nodes)
        return {node: bond for node, bond in found if bond is not None}

    def broken_musts(self, instance: str, node: int, rule_counts: RuleCounts) -> list[Constraint]:
        """The musts that `instance` on `node` would break, as the others are, to be told.

        Where there are many others by one tag, some are named and all of them counted.
        """
        found = self._out(instance, node)
        for one in self._violations(instance, rule_counts):
            found += self._broken_bonds(one.member, node, rule_counts, True, one.musts(node), 0.0)
        return found

    def violated_soft(self, instance: str, node: int, rule_counts: RuleCounts) -> list[Constraint]:
        """The same of shoulds."""
        found: list[Constraint] = []
        for one in self._violations(instance, rule_counts):
            count, cost = one.soft(node), one.cost(node)
            found += self._broken_bonds(one.member, node, rule_counts, False, count, cost)
        return found

    def _broken_bonds(
        self,
        member: Member,
        node: int,
        rule_counts: RuleCounts,
        must: bool,
        count: int,
        cost: float,
    ) -> list[Constraint]:
        """The `count` broken bonds of `member` on `node` that must, or only should, hold."""
        if not count:
            return []
        if count > FEW:
            some = list(islice(self._in_turn(member, node, rule_counts, must), NAMED))
            return [bond_to_many(some, count, cost)]
        pairs = others_broken(member, node, rule_counts, self.domains)
        wanted = (pair for pair in pairs if (pair[0].must and pair[1].must) == must)
        return [bond_between(*pair) for pair in sorted(wanted, key=_place)]

    def _in_turn(
        self, member: Member, node: int, rule_counts: RuleCounts, must: bool
    ) -> Iterator[Pair]:
        """The same bonds in the order of the members.  Cost: members up to where one stops."""
        for other in member.rule.members:
            home = rule_counts.homes.get(other.instance)
            if home is None or other.instance == member.instance:
                continue
            if (member.must and other.must) == must:
                for domain in breaks(member, other, (node, home), self.domains):
                    yield member, other, domain

    def newly_broken(
        self, moved: Mapping[str, int | None], where: Where, rule_counts: RuleCounts
    ) -> Iterator[tuple[str, Constraint]]:
        """Musts of `moved` instances that held where they were (name -> node), and are broken now.

        All others are where they were.  Who is bound to whom; once for each that moved.
        """
        for name, before in moved.items():
            if name not in where:
                continue
            now = where[name][0]
            yield from ((name, must) for must in self._out(name, now) if now != before)
            for member in self.memberships(name):
                if not member.must:
                    continue
                for one, other, domain in newly_parted(
                    member, before, now, moved, rule_counts, self.domains
                ):
                    if other.must:
                        yield name, bond_between(one, other, domain)

    def mending(
        self, instance: str, node: int, targets: Iterable[int], rule_counts: RuleCounts
    ) -> dict[int, int]:
        """How many more musts `instance` breaks on `targets` than on `node`, where it is fewer.

        Only where it keeps all that hold, as the others are.
        """
        violations = self._violations(instance, rule_counts)
        present = self.musts_broken(instance, node, rule_counts)
        more = {
            target: sum(one.musts(target) for one in violations) - present
            for target in targets
            if not self._out(instance, target)
            and not any(one.parts(node, target) for one in violations)
        }
        return {target: count for target, count in more.items() if count < 0}

    def apart_musts(self, instance: str) -> Iterator[Pair]:
        """All that `instance` must be apart from."""
        for member in self.memberships(instance):
            if member.must and member.rule.kind == APART:
                for other in member.rule.members:
                    if other.must and other.instance != instance:
                        for domain in domains_between(member.domain, other.domain):
                            yield member, other, domain

    def apart(self, instances: Iterable[str]) -> list[tuple[str, str, str]]:
        """(instance, instance, domain) of those that must be apart, one of them in `instances`."""
        pairs = (pair for name in instances for pair in self.apart_musts(name))
        names = {(*sorted((one.instance, other.instance)), domain) for one, other, domain in pairs}
        return sorted((one, other, domain) for one, other, domain in names)

    def part(self, one: str, at: int, other: str, there: int) -> bool:
        """Whether two instances, each on that node, break a must between them."""
        return any(
            mine.must and theirs.must and any(breaks(mine, theirs, (at, there), self.domains))
            for rule, members in self.members_of.get(one, {}).items()
            for mine in members
            for theirs in self.members_of.get(other, {}).get(rule, ())
        )

    # Who comes first

    def unsupported(self, coming: Collection[str] = ()) -> dict[str, str]:
        """Instances that start after something that cannot run, and through which musts.

        `coming` are instances that the request makes.
        """
        return unsupported(self.cluster, self._orders, self._bound, coming)

    def dependents_of_failed(
        self, done: Sequence[str], failed: Collection[str], ordered: bool
    ) -> dict[str, str]:
        """Those of `done` that depend on one of `failed`, and through which musts.

        `ordered`: to follow another is to depend on it.
        """
        bonds = self._orders if ordered else lambda name: []
        return dependents_of_failed(done, failed, bonds, self.members_of)

    def in_order(self, instances: Sequence[Instance]) -> list[Instance]:
        """`instances` by priority, higher first; those after another follow it; else as given.

        Those that must be on one node follow each other, unless something must start between.
        """
        return in_order(instances, self.priorities, self._orders, self.units())

    def _orders(self, name: str) -> list[Constraint]:
        return self.of(name, ORDER)


def _place(pair: Pair) -> tuple[int, str]:
    """In the order of members."""
    return pair[1].position, pair[2]
