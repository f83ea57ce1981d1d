"""Bonds between instances in scans of many moves: where one must not, or should not, run.

A rule between many instances tells its members apart by what their tags ask (weight and failure
domain), not by who they are: arrays are shapes × nodes, whatever the number of instances.
"""

from __future__ import annotations

from functools import partial
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.constraints import ALWAYS, APART, domains_between, weight_between
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

__all__ = ["BondCosts", "MoveBonds", "RuleCosts", "ShareMatrices"]

if TYPE_CHECKING:
    Shape = tuple[float, str]

    Costs = tuple[Floats, Floats]

    """Shapes × nodes: how many musts are broken there, and what the broken shoulds cost."""


class ShareMatrices:
    """Per failure domain the matrix nodes × nodes: 1 where they share one."""

    def __init__(self, domains: Domains, nodes: int) -> None:
        self._domains = domains
        self._nodes = nodes
        self._known: dict[Zones, Floats] = {}
        self._alone: dict[int, bool] = {}

    def of(self, domain: str) -> Floats:
        """That of one prefix: the same object for all that mean the same."""
        zones = self._domains.zones(domain)
        found = self._known.get(zones)
        if found is None:
            inside = np.zeros((len(zones.touching), self._nodes))
            inside[zones.of, np.arange(self._nodes)] = 1
            touching = np.zeros((len(zones.touching),) * 2)
            for zone, others in enumerate(zones.touching):
                touching[zone, list(others)] = 1
            found = np.asarray((inside.T @ touching @ inside > 0) * 1.0, np.float64)
            self._known[zones] = found
            self._alone[id(found)] = bool((found == np.eye(self._nodes)).all())
        return found

    def is_identity(self, share: Floats) -> bool:
        """Whether `share`, one of these, says that every node is alone."""
        return self._alone[id(share)]


class RuleCosts:
    """One rule, whose shapes stand by weight.

    Attributes
    ----------
    row:
        Shape -> its row in all arrays here.
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
        """Counts by shape and node as an array."""
        found = np.zeros((len(self.row), nodes))
        row = self.row
        cells = [
            (row[shape], node, n) for shape, some in counts.items() for node, n in some.items()
        ]
        if cells:
            rows, columns, numbers = np.array(cells).T
            found[rows, columns] = numbers
        return found

    def costs(self, counts: Floats) -> Costs:
        """What one more of each shape breaks on each node, `counts` (shapes × nodes) being there.

        Cost: shapes × nodes × nodes for each failure domain that nodes have.
        """
        musts, costs = np.zeros_like(counts), np.zeros_like(counts)
        own = self._own(counts)
        named = [rows for domain, rows in self._rows_of.items() if domain]
        others = np.concatenate(named) if named else np.zeros(0, dtype=np.intp)
        others.sort()
        sums: dict[int, _Sums] = {}
        for domain, rows in self._rows_of.items():
            if not domain:
                self._add(musts, costs, rows, _Sums(self._weights, own), 1)
                continue
            share = self._shares.of(domain)
            if id(share) not in sums:
                sums[id(share)] = _Sums(self._weights, self._broken(counts, share))
            self._add(musts, costs, rows, sums[id(share)], 1)
            if len(named) > 1:  # what other domains ask of the two, they ask besides
                if 0 not in sums:
                    sums[0] = _Sums(self._weights[others], own[others])
                self._add(musts, costs, rows, sums[0], 1)
                self._add(musts, costs, rows, _Sums(self._weights[rows], own[rows]), -1)
        return musts, costs

    def _add(self, musts: Floats, costs: Floats, rows: Whole, sums: _Sums, sign: int) -> None:
        more, dearer = sums.asked_by(self._weights[rows])
        musts[rows] += sign * more
        costs[rows] += sign * dearer

    def _own(self, counts: Floats) -> Floats:
        """With how many of each shape a bond is broken on each node, in the domain they name."""
        found = np.zeros_like(counts)
        by_share: dict[int, tuple[Floats, list[Whole]]] = {}
        for domain, rows in self._rows_of.items():
            share = self._shares.of(domain)
            by_share.setdefault(id(share), (share, []))[1].append(rows)
        for share, some in by_share.values():
            together = np.concatenate(some)
            found[together] = self._broken(counts[together], share)
        return found

    def _broken(self, counts: Floats, share: Floats) -> Floats:
        alone = self._shares.is_identity(share)
        near: Floats = counts.copy() if alone else counts @ share
        return near if self._apart else counts.sum(axis=1, keepdims=True) - near

    def broken_between(self, one: str, other: str) -> Floats:
        """Nodes × nodes: by how many domains the bond of members that name these is broken."""
        shares = [self._shares.of(domain) for domain in domains_between(one, other)]
        broken = [share if self._apart else 1 - share for share in shares]
        return sum(broken[1:], broken[0])

    def own(self, inside: Floats) -> float:
        """What the shoulds of members with themselves add to costs; `inside`: shapes × nodes."""
        priced = np.where(np.isfinite(self._weights), self._weights, 0.0)
        return float(priced @ inside.sum(axis=1)) if self._apart else 0.0


class _Sums:
    """Sums over shapes by weight, so that the weaker of two weights can be asked for at once.

    `broken`: shapes × nodes, with how many of each shape the bond is broken.
    """

    def __init__(self, weights: Floats, broken: Floats) -> None:
        self._weights = weights
        finite = np.isfinite(weights)
        nothing = np.zeros((1, broken.shape[1]))
        priced = np.where(finite, weights, 0.0)[:, None] * broken
        self._cheaper = np.concatenate([nothing, np.cumsum(priced, axis=0)])
        self._fewer = np.concatenate([nothing, np.cumsum(broken, axis=0)])
        self._musts = broken[~finite].sum(axis=0)

    def asked_by(self, weights: Floats) -> tuple[Floats, Floats]:
        """Musts that are broken, and what the shoulds cost, for members of these weights."""
        upto = np.searchsorted(self._weights, weights, side="right")
        finite = np.isfinite(weights)
        own = np.where(finite, weights, 0.0)[:, None]
        costs = self._cheaper[upto] + own * (self._fewer[-1] - self._fewer[upto])
        musts = np.where(finite[:, None], 0.0, self._musts[None, :])
        return musts, costs


class BondCosts:
    """What the rules of `relations` cost on each node of the cluster, as things are on a state.

    What did not change since one last asked is not counted again.
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
        self._wished = [r for r in relations.rules if any(not m.must for m in r.members)]

    def rule(self, rule: Rule) -> RuleCosts:
        """The arrays of one rule."""
        found = self._rules.get(rule)
        if found is None:
            found = self._rules[rule] = RuleCosts(rule, self._shares)
        return found

    def costs(self, rule: Rule) -> Costs:
        """What one more member of each shape would break, all that are there counted."""
        version = self.rule_counts.now().versions.get(rule, 0)
        return derived(
            self._costs, rule, version, lambda: self.rule(rule).costs(self._matrix(rule))
        )

    def _matrix(self, rule: Rule) -> Floats:
        """Shapes × nodes: how many members are there."""
        rule_counts, version = self.rule_counts, self.rule_counts.versions.get(rule, 0)
        return derived(
            self._counts,
            rule,
            version,
            lambda: self.rule(rule).matrix(rule_counts.counts(rule), self.nodes),
        )

    def penalty(self, scope: Mapping[int, int]) -> float:
        """What the broken wishes of instances with primaries in `scope` cost, each pair once.

        `scope` has to be the same whenever one asks.
        """
        versions = self.rule_counts.now().versions
        total = 0.0
        for rule in self._wished:
            compute = partial(self._penalty, rule, scope)
            total += derived(self._penalties, rule, versions.get(rule, 0), compute)
        return total

    def _penalty(self, rule: Rule, scope: Mapping[int, int]) -> float:
        arrays = self.rule(rule)
        counts = self._matrix(rule)
        share: Floats = np.ones(self.nodes)  # bonds that leave the scope count in full
        share[list(scope)] = 0.5
        inside = counts * (share == 0.5)
        total = float((inside * arrays.costs(counts * share)[1]).sum())
        # what an instance has to do with itself is no bond
        return total - 0.5 * (arrays.own(inside) + self._between_own(rule, scope))

    def _between_own(self, rule: Rule, scope: Mapping[int, int]) -> float:
        """What the tags of instances that have several in one rule cost among themselves."""
        several: dict[str, None] = {}
        seen: set[str] = set()
        for member in rule.members:
            if member.instance in seen:
                several[member.instance] = None
            seen.add(member.instance)
        total = 0.0
        for name in several:
            home = self.rule_counts.homes.get(name)
            members = self.relations.members_of[name][rule]
            for one, other in permutations(members, 2) if home in scope else ():
                weight = weight_between(one.weight, other.weight)
                broken = self.rule(rule).broken_between(one.domain, other.domain)
                total += weight * float(broken[home, home]) if weight != ALWAYS else 0.0
        return total


class MoveBonds:
    """The bonds of `instances` (rows) on the nodes of `table` (columns), as the others are now.

    Attributes
    ----------
    barred:
        Where a must forbids an instance to run.
    closed:
        Where it must not come in either role.
    costs:
        What the wishes cost that it would break there.
    """

    def __init__(self, table: NodeTable, instances: Sequence[Instance], bonds: BondCosts) -> None:
        self._table = table
        self._bonds = bonds
        self._names = [instance.name for instance in instances]
        shape = (len(instances), len(table.nodes))
        self.barred: Truths = np.zeros(shape, dtype=bool)
        self.costs: Floats = np.zeros(shape)
        self.closed: Truths = np.zeros(shape, dtype=bool)
        self._staying: Truths = np.zeros(shape, dtype=bool)
        self._close()
        rows = {name: row for row, name in enumerate(self._names)}
        every = {r for n in rows for r in bonds.relations.members_of.get(n, ())}
        rules = [rule for rule in bonds.relations.rules if rule in every]
        self._entries = tuple(_Entries(rule, rows, bonds) for rule in rules)
        self._seen: Whole = self._versions()
        self._look_at(np.arange(len(instances)))

    def refresh(self) -> Whole:
        """Look again at those bound to instances that moved; their rows."""
        versions = self._versions()
        moved = np.flatnonzero(versions != self._seen)
        self._seen = versions
        if not moved.size:
            return np.zeros(0, dtype=np.intp)
        rows: Whole = np.unique(np.concatenate([self._entries[k].rows for k in moved]))
        self._look_at(rows)
        return rows

    def _versions(self) -> Whole:
        versions = self._bonds.rule_counts.now().versions
        found = [versions.get(entries.rule, 0) for entries in self._entries]
        return np.array(found, dtype=np.intp)

    def verdict(
        self, kind: MoveKind, rows: Whole, primary: Whole, secondary: Whole, targets: Whole
    ) -> tuple[Truths, Floats] | None:
        """For moves of `kind` of the instances in `rows`: what is forbidden, what wishes cost.

        Both broadcast to rows × `targets`; None if nothing is.  The cost is the difference to
        the present.  A node that runs an instance only for a while must not be forbidden
        either.
        """
        row = rows[:, None]
        if kind.letters == ("r",):
            closed = self.closed[row, targets[None, :]]
            return (closed, np.zeros(closed.shape)) if closed.any() else None
        on_mirror = secondary[rows][:, None]
        node = on_mirror if kind.letters in (("f",), ("f", "r")) else targets[None, :]
        barred: Truths = self.barred[row, node]
        if kind.mirror_leads:
            barred = barred | self.barred[row, on_mirror]
        if kind.letters == ("f", "r"):
            barred = barred | self.closed[row, targets[None, :]]
        costs: Floats = self.costs[row, node] - self.costs[row, primary[rows][:, None]]
        return barred, costs

    def _close(self) -> None:
        """Note which nodes tags close to whom, and who must stay where it is."""
        position, where = self._table.position, self._table.state.where
        relations = self._bonds.relations
        for row, name in enumerate(self._names):
            forbidden = relations.forbidden(name)
            self.closed[row, [position[i] for i in forbidden if i in position]] = True
            if relations.stays(name):
                self._staying[row] = True
                self._staying[row, position[where[name][0]]] = False

    def _look_at(self, rows: Whole) -> None:
        wanted = np.zeros(len(self._names), dtype=bool)
        wanted[rows] = True
        musts: Floats = np.zeros((len(self._names), self._bonds.nodes))
        costs = np.zeros_like(musts)
        for entries in self._entries:
            entries.add_to(musts, costs, wanted)
        nodes = self._table.nodes
        some = musts[rows][:, nodes] > 0
        self.barred[rows] = self.closed[rows] | self._staying[rows] | some
        self.costs[rows] = costs[rows][:, nodes]


class _Entries:
    """The memberships of instances in one rule.

    Attributes
    ----------
    rows:
        The row of the instance of each membership.
    """

    def __init__(self, rule: Rule, rows: Mapping[str, int], bonds: BondCosts) -> None:
        self.rule = rule
        self._bonds = bonds
        arrays = bonds.rule(rule)
        members = [member for member in rule.members if member.instance in rows]
        self.rows: Whole = np.array([rows[m.instance] for m in members], dtype=np.intp)
        self._shapes: Whole = np.array([arrays.row[m.shape] for m in members], dtype=np.intp)
        self._members = members
        self._pairs = self._own_pairs(bonds)

    def add_to(self, musts: Floats, costs: Floats, wanted: Truths) -> None:
        """Add what the `wanted` rows break on each node of the cluster."""
        chosen: Whole = np.flatnonzero(wanted[self.rows])
        if not chosen.size:
            return
        more, dearer = self._bonds.costs(self.rule)
        rows, shapes = self.rows[chosen], self._shapes[chosen]
        np.add.at(musts, rows, more[shapes])
        np.add.at(costs, rows, dearer[shapes])
        self._leave_out_own(musts, costs, wanted)

    def _own_pairs(self, bonds: BondCosts) -> dict[tuple[str, str], tuple[Whole, Floats]]:
        """AffinityGroups with each of the same instance's, itself among them, by their domains.

        Positions in `rows`, and what the two owe each other.
        """
        pairs: dict[tuple[str, str], list[tuple[int, float]]] = {}
        for number, member in enumerate(self._members):
            for other in bonds.relations.members_of[member.instance][self.rule]:
                weight = weight_between(member.weight, other.weight)
                pairs.setdefault((member.domain, other.domain), []).append((number, weight))
        return {
            domains: (np.array([n for n, _ in some], np.intp), np.array([w for _, w in some]))
            for domains, some in pairs.items()
        }

    def _leave_out_own(self, musts: Floats, costs: Floats, wanted: Truths) -> None:
        """Take away what each of the `wanted` rows was counted for among the others."""
        arrays, homes = self._bonds.rule(self.rule), self._bonds.rule_counts.homes
        home: Whole = np.array([homes.get(m.instance, -1) for m in self._members], np.intp)
        counts = wanted[self.rows] & (home >= 0)
        for domains, (numbers, weights) in self._pairs.items():
            some = counts[numbers]
            chosen, prices = numbers[some], weights[some]
            broken = arrays.broken_between(*domains)[home[chosen]]
            must = prices == ALWAYS
            rows = self.rows[chosen]
            np.subtract.at(musts, rows[must], broken[must])
            np.subtract.at(costs, rows[~must], prices[~must][:, None] * broken[~must])
