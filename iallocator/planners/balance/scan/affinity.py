"""Affinity constraints in scans of many moves: forbidden nodes, and penalties on each node.

The members of a rule are grouped by shape: the weight and the failure domain that their tags name.
Arrays have shapes × nodes, whatever the number of instances is.
"""

from __future__ import annotations

from functools import partial
from itertools import permutations
from math import fsum
from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.constraints import APART, HARD_WEIGHT, domains_between, weight_between
from iallocator.model.state import derived

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.constraints.relations import Relations
    from iallocator.constraints.rule_counts import Domains, LiveRuleCounts, Zones
    from iallocator.model.constraints import Rule
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.arrays import NodeTable, Whole

__all__ = ["AffinityCosts", "MoveAffinity", "RuleCosts", "ShareMatrices", "location_costs"]

if TYPE_CHECKING:
    Shape = tuple[float, str]

    Costs = tuple[Floats, Floats]

    """Shapes × nodes: number of violated hard constraints, and penalties of violated soft ones."""


class ShareMatrices:
    """For each prefix of node tags, a matrix nodes × nodes: 1 if both share a failure domain."""

    def __init__(self, domains: Domains, nodes: int) -> None:
        self._domains = domains
        self._nodes = nodes
        self._known: dict[Zones, Floats] = {}
        self._alone: dict[int, bool] = {}

    def of(self, domain: str) -> Floats:
        """Return the matrix of a failure domain; domains with equal zones share one matrix."""
        zones = self._domains.zones(domain)
        matrix = self._known.get(zones)
        if matrix is None:
            inside = np.zeros((len(zones.touching), self._nodes))
            inside[zones.of, np.arange(self._nodes)] = 1
            touching = np.zeros((len(zones.touching),) * 2)
            for zone, others in enumerate(zones.touching):
                touching[zone, list(others)] = 1
            matrix = np.asarray((inside.T @ touching @ inside > 0) * 1.0, np.float64)
            self._known[zones] = matrix
            self._alone[id(matrix)] = bool((matrix == np.eye(self._nodes)).all())
        return matrix

    def is_identity(self, share: Floats) -> bool:
        """Return whether no two nodes share a failure domain by `share`, a matrix from `of`."""
        return self._alone[id(share)]


class RuleCosts:
    """Penalties of one affinity rule as arrays, with one row for each shape (weight and domain).

    Attributes
    ----------
    row:
        Shape -> index of its row in the arrays.
    """

    def __init__(self, rule: Rule, shares: ShareMatrices) -> None:
        self._apart = rule.kind == APART
        self._shares = shares
        self._shapes: list[Shape] = sorted({member.shape for member in rule.members})
        self.row = {shape: row for row, shape in enumerate(self._shapes)}
        self._weights: Floats = np.array([weight for weight, _ in self._shapes])
        self._rows_of: dict[str, Whole] = {}
        for domain in sorted({domain for _, domain in self._shapes}):
            rows = [row for row, shape in enumerate(self._shapes) if shape[1] == domain]
            self._rows_of[domain] = np.array(rows, dtype=np.intp)

    def matrix(self, counts: Mapping[Shape, Mapping[int, int]], nodes: int) -> Floats:
        """Return `counts` (shape -> node -> number of members) as an array, shapes × `nodes`."""
        costs = np.zeros((len(self.row), nodes))
        row = self.row
        cells = [
            (row[shape], node, n) for shape, some in counts.items() for node, n in some.items()
        ]
        if cells:
            rows, columns, numbers = np.array(cells).T
            costs[rows, columns] = numbers
        return costs

    def costs(self, counts: Floats) -> Costs:
        """Return the violations that one more member of each shape adds on each node.

        `counts` (shapes × nodes) are the numbers of present members. The result has two arrays,
        shapes × nodes: the number of violated hard constraints, and the penalties of violated soft
        ones.

        Cost: shapes × nodes × nodes for each failure domain.
        """
        hard, costs = np.zeros_like(counts), np.zeros_like(counts)
        own = np.zeros_like(counts)
        by_share: dict[int, tuple[Floats, list[Whole]]] = {}
        for domain, rows in self._rows_of.items():
            share = self._shares.of(domain)
            by_share.setdefault(id(share), (share, []))[1].append(rows)
        for share, some in by_share.values():
            together = np.concatenate(some)
            own[together] = self._broken(counts[together], share)
        named = [rows for domain, rows in self._rows_of.items() if domain]
        others = np.concatenate(named) if named else np.zeros(0, dtype=np.intp)
        others.sort()
        sums: dict[int, _Sums] = {}
        for domain, rows in self._rows_of.items():
            if not domain:
                self._add(hard, costs, rows, _Sums(self._weights, own), 1)
                continue
            share = self._shares.of(domain)
            if id(share) not in sums:
                sums[id(share)] = _Sums(self._weights, self._broken(counts, share))
            self._add(hard, costs, rows, sums[id(share)], 1)
            if len(named) > 1:  # a pair that names two domains has a constraint for each
                if 0 not in sums:
                    sums[0] = _Sums(self._weights[others], own[others])
                self._add(hard, costs, rows, sums[0], 1)
                self._add(hard, costs, rows, _Sums(self._weights[rows], own[rows]), -1)
        return hard, costs

    def _add(self, hard: Floats, costs: Floats, rows: Whole, sums: _Sums, sign: int) -> None:
        more, more_costs = sums.asked_by(self._weights[rows])
        hard[rows] += sign * more
        costs[rows] += sign * more_costs

    def _broken(self, counts: Floats, share: Floats) -> Floats:
        alone = self._shares.is_identity(share)
        near: Floats = counts.copy() if alone else counts @ share
        return near if self._apart else counts.sum(axis=1, keepdims=True) - near

    def broken_between(self, one: str, other: str) -> Floats:
        """Return nodes × nodes: how often a pair of members on two nodes violates the rule.

        The members name the domains `one` and `other`; a pair can violate the rule once for each
        domain.
        """
        shares = self._shares_between(one, other)
        broken = [share if self._apart else 1 - share for share in shares]
        return sum(broken[1:], broken[0])

    def newly_broken(self, counts: Floats, rows: Whole, homes: Whole) -> Floats:
        """Return how many more hard constraints each member would violate on each node.

        They are the constraints that the member does not violate on its present primary node,
        ``homes[k]`` for member k. Its shape is that of row ``rows[k]``, and has infinite weight.
        `counts` (shapes × nodes) are the numbers of present members. The result has members ×
        nodes.

        Cost: nodes³ for each pair of failure domains, unless no two nodes share one.
        """
        newly = np.zeros((len(rows), counts.shape[1]))
        places, place = np.unique(homes, return_inverse=True)
        hard = np.flatnonzero(~np.isfinite(self._weights))
        for row in np.unique(rows):
            found = np.zeros((len(places), counts.shape[1]))
            for other in hard:
                for share in self._shares_between(self._shapes[row][1], self._shapes[other][1]):
                    found += self._leaving(counts[other], share, places)
            own = np.flatnonzero(rows == row)
            newly[own] = found[place[own]]
        return newly

    def _leaving(self, members: Floats, share: Floats, places: Whole) -> Floats:
        """Return how many of `members` violate the rule on a node, but not on one of `places`.

        `members`: node -> their number. The result has places × nodes.
        """
        near = share[places]
        kept = (1 - near if self._apart else near) * members
        reached: Floats = kept if self._shares.is_identity(share) else kept @ share
        return reached if self._apart else kept.sum(axis=1, keepdims=True) - reached

    def _shares_between(self, one: str, other: str) -> list[Floats]:
        return [self._shares.of(domain) for domain in domains_between(one, other)]

    def own(self, inside: Floats) -> float:
        """Return the penalty of all pairs of a member with itself, which are no real pairs.

        The penalty of the real pairs is the sum over all pairs less this penalty. `inside` (shapes
        × nodes): the number of members of the rule on each node. The result is 0 for rules of
        colocation.
        """
        penalties = np.where(np.isfinite(self._weights), self._weights, 0.0)
        return float(penalties @ inside.sum(axis=1)) if self._apart else 0.0


class _Sums:
    """Sums of violations over shapes, cumulated by weight: for a pair, the lower weight counts.

    `broken` (shapes × nodes): how many members of each shape violate the rule together with a
    member on each node.
    """

    def __init__(self, weights: Floats, broken: Floats) -> None:
        self._weights = weights
        finite = np.isfinite(weights)
        nothing = np.zeros((1, broken.shape[1]))
        penalties = np.where(finite, weights, 0.0)[:, None] * broken
        self._lower_costs = np.concatenate([nothing, np.cumsum(penalties, axis=0)])
        self._fewer_violations = np.concatenate([nothing, np.cumsum(broken, axis=0)])
        self._hard = broken[~finite].sum(axis=0)

    def asked_by(self, weights: Floats) -> tuple[Floats, Floats]:
        """Return the violated hard constraints and the penalties of members with these `weights`.

        An infinite weight stands for a hard constraint. Both arrays have weights × nodes.
        """
        upto = np.searchsorted(self._weights, weights, side="right")
        finite = np.isfinite(weights)
        own = np.where(finite, weights, 0.0)[:, None]
        costs = self._lower_costs[upto] + own * (
            self._fewer_violations[-1] - self._fewer_violations[upto]
        )
        hard = np.where(finite[:, None], 0.0, self._hard[None, :])
        return hard, costs


class AffinityCosts:
    """The penalties of the rules of `relations` on each node of the cluster, in the present state.

    A rule is counted again only if its members have moved since the last call.
    """

    def __init__(self, relations: Relations, rule_counts: LiveRuleCounts) -> None:
        self.relations = relations
        self.rule_counts = rule_counts
        self.nodes = len(relations.cluster.nodes)
        self._shares = ShareMatrices(relations.domains, self.nodes)
        self._rules: dict[Rule, RuleCosts] = {}
        self._counts: Kept[Rule, Floats] = {}
        self._costs: Kept[Rule, Costs] = {}
        self._penalties: Kept[Rule, float] = {}
        self._on_nodes: Kept[int, float] = {}
        self._soft_rules = [r for r in relations.rules if any(not m.must for m in r.members)]

    def rule(self, rule: Rule) -> RuleCosts:
        """Return the arrays of penalties of one affinity rule, which are made at the first call."""
        costs = self._rules.get(rule)
        if costs is None:
            costs = self._rules[rule] = RuleCosts(rule, self._shares)
        return costs

    def costs(self, rule: Rule) -> Costs:
        """Return the violations of `rule` that one more member of each shape adds on each node."""
        version = self.rule_counts.now().versions.get(rule, 0)
        return derived(
            self._costs, rule, version, lambda: self.rule(rule).costs(self._matrix(rule))
        )

    def newly_broken(self, rule: Rule, shapes: Whole, homes: Whole) -> Floats:
        """Return how many more hard constraints of `rule` each member would violate on each node.

        `shapes`, `homes`: for each member, the row of its shape, and its present primary node. The
        result has members × nodes, see `RuleCosts.newly_broken`.
        """
        return self.rule(rule).newly_broken(self._matrix(rule), shapes, homes)

    def _matrix(self, rule: Rule) -> Floats:
        """Return the number of present members of `rule`, shapes × nodes."""
        rule_counts, version = self.rule_counts, self.rule_counts.versions.get(rule, 0)
        return derived(
            self._counts,
            rule,
            version,
            lambda: self.rule(rule).matrix(rule_counts.counts(rule), self.nodes),
        )

    def penalty(self, scope: Mapping[int, int]) -> float:
        """Return the penalty of violated soft constraints of instances with primaries in `scope`.

        Each pair of instances counts once. All calls must have equal `scope`: index of a node ->
        position.
        """
        versions = self.rule_counts.now().versions
        total = 0.0
        for rule in self._soft_rules:
            compute = partial(self._penalty, rule, scope)
            total += derived(self._penalties, rule, versions.get(rule, 0), compute)
        if not self.relations.preferring:
            return total
        return total + sum(map(self._located, scope))

    def _located(self, index: int) -> float:
        """Return the penalty of node labels and scores for the primary instances of a node."""
        state = self.rule_counts.state

        def compute() -> float:
            penalty = self.relations.node_penalty
            return fsum(penalty(name, index) for name in state.primaries[index])

        return derived(self._on_nodes, index, state.stamps[index], compute)

    def _penalty(self, rule: Rule, scope: Mapping[int, int]) -> float:
        arrays = self.rule(rule)
        counts = self._matrix(rule)
        share: Floats = np.ones(self.nodes)  # pairs with a member outside of `scope` count in full
        share[list(scope)] = 0.5
        inside = counts * (share == 0.5)
        total = float((inside * arrays.costs(counts * share)[1]).sum())
        # Subtract the pairs of an instance with itself, which several of its tags can form, too
        between = 0.0
        several: dict[str, None] = {}
        seen: set[str] = set()
        for member in rule.members:
            if member.instance in seen:
                several[member.instance] = None
            seen.add(member.instance)
        for name in several:
            home = self.rule_counts.homes.get(name)
            members = self.relations.members_of[name][rule]
            for one, other in permutations(members, 2) if home in scope else ():
                weight = weight_between(one.weight, other.weight)
                broken = arrays.broken_between(one.domain, other.domain)
                between += weight * float(broken[home, home]) if weight != HARD_WEIGHT else 0.0
        return total - 0.5 * (arrays.own(inside) + between)


def location_costs(
    relations: Relations | None, names: Sequence[str], nodes: Sequence[int]
) -> Floats | None:
    """Return penalties of node labels and scores, instances × `nodes`; None if there are none."""
    if relations is None or not relations.preferring:
        return None
    costs: Floats = np.zeros((len(names), len(nodes)))
    by_labels: dict[object, list[float]] = {}  # equal preferences have equal penalties
    for row, name in enumerate(names):
        if not relations.prefers(name):
            continue
        if relations.locations is not None and name in relations.locations.preferring:
            costs[row] = [relations.locations.penalty(name, index) for index in nodes]
        wanted = tuple((label, one.weight) for label, one in relations.preferred.get(name, ()))
        if wanted:
            if wanted not in by_labels:
                by_labels[wanted] = relations.label_penalties(name, nodes)
            costs[row] += by_labels[wanted]
    return costs


class MoveAffinity:
    """The affinity of `instances` (rows) on the nodes of `table` (columns), in the present state.

    Attributes
    ----------
    barred:
        Whether a hard constraint forbids the instance to run on the node. A constraint between
        instances forbids a node if the instance would violate it there, and satisfies it now.
    closed:
        Whether the instance must have no role on the node.
    costs:
        The penalties of soft constraints that the instance would violate on the node.
    """

    def __init__(
        self, table: NodeTable, instances: Sequence[Instance], affinity: AffinityCosts
    ) -> None:
        self._table = table
        self._affinity = affinity
        self._names = [instance.name for instance in instances]
        shape = (len(instances), len(table.nodes))
        self.barred: Truths = np.zeros(shape, dtype=bool)
        self.costs: Floats = np.zeros(shape)
        self.closed: Truths = np.zeros(shape, dtype=bool)
        self._staying: Truths = np.zeros(shape, dtype=bool)
        # The nodes that tags forbid, and those to which tags confine an instance
        position, relations = self._table.position, self._affinity.relations
        for row, name in enumerate(self._names):
            forbidden = relations.forbidden(name)
            self.closed[row, [position[i] for i in forbidden if i in position]] = True
            confined = relations.confined(name)
            if confined is not None:
                self._staying[row] = True
                self._staying[row, [position[i] for i in confined if i in position]] = False
        # Penalties of labels and scores, which never change
        self._locations = location_costs(relations, self._names, self._table.nodes)
        rows = {name: row for row, name in enumerate(self._names)}
        every = {r for n in rows for r in relations.members_of.get(n, ())}
        rules = [r for r in relations.rules if r in every and relations.varies_within_groups(r)]
        self._entries = tuple(_Entries(rule, rows, affinity) for rule in rules)
        self._seen: Whole = self._versions()
        self._look_at(np.arange(len(instances)))

    def refresh(self) -> Whole:
        """Evaluate the instances with affinity to moved instances again; return their rows."""
        versions = self._versions()
        moved = np.flatnonzero(versions != self._seen)
        self._seen = versions
        if not moved.size:
            return np.zeros(0, dtype=np.intp)
        rows: Whole = np.unique(np.concatenate([self._entries[k].rows for k in moved]))
        self._look_at(rows)
        return rows

    def _versions(self) -> Whole:
        versions = self._affinity.rule_counts.now().versions
        rule_versions = [versions.get(entries.rule, 0) for entries in self._entries]
        return np.array(rule_versions, dtype=np.intp)

    def forbidden_and_penalties(
        self, kind: MoveKind, rows: Whole, primary: Whole, secondary: Whole, targets: Whole
    ) -> tuple[Truths, Floats] | None:
        """Return which moves of `kind` of instances in `rows` are forbidden, and their penalties.

        Both arrays broadcast to rows × `targets`; None: no move is forbidden or has a penalty. A
        penalty is the difference from the present penalty. A move is also forbidden if the instance
        would run for a while on a node on which it must not run.
        """
        row = rows[:, None]
        if kind.letters == ("r",):
            closed = self.closed[row, targets[None, :]]
            return (closed, np.zeros(closed.shape)) if closed.any() else None
        on_secondary = secondary[rows][:, None]
        node = on_secondary if kind.letters in (("f",), ("f", "r")) else targets[None, :]
        barred: Truths = self.barred[row, node]
        if kind.secondary_leads:
            barred = barred | self.barred[row, on_secondary]
        if kind.letters == ("f", "r"):
            barred = barred | self.closed[row, targets[None, :]]
        costs: Floats = self.costs[row, node] - self.costs[row, primary[rows][:, None]]
        return barred, costs

    def _look_at(self, rows: Whole) -> None:
        wanted = np.zeros(len(self._names), dtype=bool)
        wanted[rows] = True
        hard: Floats = np.zeros((len(self._names), self._affinity.nodes))
        costs = np.zeros_like(hard)
        for entries in self._entries:
            entries.add_to(hard, costs, wanted)
        nodes = self._table.nodes
        some = hard[rows][:, nodes] > 0
        self.barred[rows] = self.closed[rows] | self._staying[rows] | some
        self.costs[rows] = costs[rows][:, nodes]
        if self._locations is not None:
            self.costs[rows] += self._locations[rows]


class _Entries:
    """The members of one rule that are instances of the scan.

    Attributes
    ----------
    rule:
        The rule.
    rows:
        For each member, the row of its instance.
    """

    def __init__(self, rule: Rule, rows: Mapping[str, int], affinity: AffinityCosts) -> None:
        self.rule = rule
        self._affinity = affinity
        arrays = affinity.rule(rule)
        members = [member for member in rule.members if member.instance in rows]
        self.rows: Whole = np.array([rows[m.instance] for m in members], dtype=np.intp)
        self._shapes: Whole = np.array([arrays.row[m.shape] for m in members], dtype=np.intp)
        self._members = members
        # Two members of one instance, and each member with itself: domains -> positions in `rows`,
        # and the weights of the pairs
        pairs: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for number, member in enumerate(members):
            for other in affinity.relations.members_of[member.instance][rule]:
                weight = weight_between(member.weight, other.weight)
                pairs.setdefault((member.domain, other.domain), []).append((number, weight))
        self._pairs: dict[tuple[str, str], tuple[Whole, Floats]] = {
            domains: (np.array([n for n, _ in some], np.intp), np.array([w for _, w in some]))
            for domains, some in pairs.items()
        }

    def add_to(self, hard: Floats, costs: Floats, wanted: Truths) -> None:
        """Add the violations of the `wanted` rows on each node to `hard` and `costs`."""
        chosen: Whole = np.flatnonzero(wanted[self.rows])
        if not chosen.size:
            return
        more, more_costs = self._affinity.costs(self.rule)
        rows, shapes = self.rows[chosen], self._shapes[chosen]
        broken: Floats = more[shapes]
        own_broken = np.zeros_like(broken)
        np.add.at(costs, rows, more_costs[shapes])
        # Subtract what each instance violates with itself
        arrays, homes = self._affinity.rule(self.rule), self._affinity.rule_counts.homes
        home: Whole = np.array([homes.get(m.instance, -1) for m in self._members], np.intp)
        counts = wanted[self.rows] & (home >= 0)
        place = np.cumsum(wanted[self.rows]) - 1  # member -> its position in `chosen`
        for domains, (numbers, weights) in self._pairs.items():
            some = counts[numbers]
            own, penalties = numbers[some], weights[some]
            with_itself = arrays.broken_between(*domains)[home[own]]
            must = penalties == HARD_WEIGHT
            np.add.at(own_broken, place[own[must]], with_itself[must])
            np.subtract.at(
                costs, self.rows[own[~must]], penalties[~must][:, None] * with_itself[~must]
            )
        broken -= own_broken
        # Constraints that an instance violates on its present node may be violated elsewhere, too
        home = home[chosen]
        violated = (home >= 0) & (broken[np.arange(chosen.size), home] > 0)
        if violated.any():
            newly = self._affinity.newly_broken(self.rule, shapes[violated], home[violated])
            if self.rule.kind != APART:
                newly -= own_broken[violated]
            broken[violated] = newly
        np.add.at(hard, rows, broken)
