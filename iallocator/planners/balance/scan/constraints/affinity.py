"""Bonds between instances in scans of many moves: where one must not, or should not, run."""

from __future__ import annotations

from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.constraints import ALWAYS, weight_between
from iallocator.planners.balance.scan.constraints.rule_costs import RuleCosts, ShareMatrices

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.constraints.census import LiveCensus
    from iallocator.constraints.relations import Relations
    from iallocator.model.constraints import Rule
    from iallocator.model.instance import Instance
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.constraints.rule_costs import Costs
    from iallocator.planners.balance.scan.node_table import NodeTable, Whole


__all__ = ["BondCosts", "MoveBonds"]


class BondCosts:
    """What the rules of `relations` cost on each node of the cluster, as things are on a state.

    What did not change since one last asked is not counted again.
    """

    def __init__(self, relations: Relations, census: LiveCensus) -> None:
        self.relations = relations
        self.census = census
        self.nodes = len(relations.cluster.nodes)
        self._shares = ShareMatrices(relations.domains, self.nodes)
        self._rules: dict[Rule, RuleCosts] = {}
        self._counts: dict[Rule, tuple[int, Floats]] = {}
        self._costs: dict[Rule, tuple[int, Costs]] = {}
        self._penalties: dict[Rule, tuple[int, float]] = {}
        self._wished = [r for r in relations.rules if any(not m.must for m in r.members)]

    def rule(self, rule: Rule) -> RuleCosts:
        """The arrays of one rule."""
        found = self._rules.get(rule)
        if found is None:
            found = self._rules[rule] = RuleCosts(rule, self._shares)
        return found

    def costs(self, rule: Rule) -> Costs:
        """What one more member of each shape would break, all that are there counted."""
        version = self.census.now().versions.get(rule, 0)
        known = self._costs.get(rule)
        if known is None or known[0] != version:
            known = self._costs[rule] = version, self.rule(rule).costs(self._matrix(rule))
        return known[1]

    def _matrix(self, rule: Rule) -> Floats:
        """Shapes × nodes: how many members are there."""
        version = self.census.versions.get(rule, 0)
        known = self._counts.get(rule)
        if known is None or known[0] != version:
            counts = self.rule(rule).matrix(self.census.counts(rule), self.nodes)
            known = self._counts[rule] = version, counts
        return known[1]

    def penalty(self, scope: Mapping[int, int]) -> float:
        """What the broken wishes of instances with primaries in `scope` cost, each pair once.

        `scope` has to be the same whenever one asks.
        """
        versions = self.census.now().versions
        total = 0.0
        for rule in self._wished:
            version = versions.get(rule, 0)
            known = self._penalties.get(rule)
            if known is None or known[0] != version:
                known = self._penalties[rule] = version, self._penalty(rule, scope)
            total += known[1]
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
            home = self.census.homes.get(name)
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
        versions = self._bonds.census.now().versions
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
        """Memberships with each of the same instance's, itself among them, by their domains.

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
        arrays, homes = self._bonds.rule(self.rule), self._bonds.census.homes
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
