"""Evaluate swaps of two instances with array operations.

A swap moves one instance from node A to node B, and another one from B to A. Each instance takes
the place of the other one; its second node stays. A swap changes the statistics of A and B.

A rotation moves three instances: from A to B, from B to C, and from C to A. Its gain is estimated:
the root of a variance is at most its tangent, and with tangents the gain is a sum over the three
nodes.

For each pair of nodes, the table keeps the best swap, with what it adds to the sum and to the sum
of squares of each statistic. These amounts depend on the two nodes only. A step changes a few
nodes, so only their pairs are evaluated again. The score after each kept swap is computed anew from
the sums.

With few instances, all swaps are evaluated exactly. With many, the swap of two nodes with the best
estimate is evaluated, and the best few of them after `permit_all`. An estimate replaces roots by
lines, so that most of it is one product of two small matrices.

The scores are exact in the state in which a pair was evaluated, except for tags. Later, the memory
that other nodes reserve for failovers may differ. So a caller computes the score again before it
makes a swap.

Cost: for n nodes and m instances, O(m²) at first, then O(m² / n) for each changed node, and O(n²)
for the scores. The rotations cost O(m³), so they are found for few instances only.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.model.columns import COLUMNS, DISK, MEMORY
from iallocator.scoring.metrics import RESERVED, RESERVED_TOTAL, STATISTICS, spread
from iallocator.scoring.proportional_statistics import coefficients
from iallocator.tolerances import GAIN_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.model.instance import Instance
    from iallocator.planners.balance.scan.arrays import NodeTable, Whole
    from iallocator.planners.balance.scan.proportional_statistics import ProportionalStatistics

__all__ = ["Swap", "SwapTable"]

MOST_ROTATIONS = 4_000_000
"""The largest number of rotations, instances³, that are evaluated."""

SMALLEST_DEVIATION = 1e-6
"""The tangents of smaller deviations are those of this deviation, as that of 0 is vertical."""

SWAPS_AT_ONCE = 65_536
"""The number of swaps, in all roles, that are evaluated at once; a pair of nodes is not divided.

Larger arrays are slower.
"""

MOST_EXACT_ROLES = 160
"""With more roles, not all swaps are evaluated exactly; see the module.

These are 80 drbd instances, or 160 on shared storage.
"""

LAST_SWAPS_TRIED = 8
"""The number of swaps of two nodes, by estimates, that are evaluated after `permit_all`."""

SMALLEST = float(np.nextafter(0, 1))
"""The smallest number above 0."""


class Swap:
    """Two instances that take each other's place.

    Attributes
    ----------
    first, second:
        The instances.
    one, other:
        Indices of nodes: `first` moves from `one` to `other`, and `second` from `other` to `one`.
    gain:
        By how much the swap lowers the score, without tags; see the module.
    """

    __slots__ = ("first", "gain", "one", "other", "second")

    def __init__(
        self, first: Instance, second: Instance, one: int, other: int, gain: float
    ) -> None:
        self.first = first
        self.second = second
        self.one = one
        self.other = other
        self.gain = gain


class SwapTable:
    """The best swap of each pair of nodes in `table`.

    A *role* is an instance as primary or as secondary. It is on one node.

    Parameters
    ----------
    statistics:
        The groups of statistics; only their leaders are computed.
    instances:
        The instances that can move.
    movable:
        Returns whether an instance can be replaced in a role: 0 as primary, 1 as secondary.
    penalties:
        The penalties of node labels and scores, instances × nodes; None if there are none.
    """

    def __init__(
        self,
        table: NodeTable,
        statistics: ProportionalStatistics,
        instances: Sequence[Instance],
        movable: Callable[[Instance, int], bool],
        penalties: Floats | None = None,
    ) -> None:
        self._table = table
        self._instances = instances
        roles = [
            (row, role)
            for role in (0, 1)
            for row, instance in enumerate(instances)
            if (role == 0 or instance.needs_secondary) and movable(instance, role)
        ]
        both = np.array(roles, dtype=np.intp).reshape(-1, 2)
        self._rows: Whole = both[:, 0]
        self._roles: Whole = both[:, 1]
        vectors = [
            (instances[row].as_secondary if role else instances[row].as_primary)
            for row, role in roles
        ]
        amounts: Floats = np.array(vectors, dtype=np.float64).reshape(-1, len(COLUMNS)).T
        self._free = [
            (table.columns[column], amounts[column], float(np.ptp([*amounts[column], 0.0])))
            for column in (MEMORY, DISK)
        ]
        count = len(table.nodes)
        everywhere = table.view(np.arange(count, dtype=np.intp))
        # For each statistic: what roles add in each column, and the factor of each node
        terms: dict[int, list[tuple[Floats, Floats]]] = {
            k: [
                (amounts[COLUMNS.index(column)], np.broadcast_to(factor, (count,)))
                for column, factor in coefficients(k, everywhere).items()
                if amounts[COLUMNS.index(column)].any() and np.any(factor)
            ]
            for k in statistics.spreads
            if k != RESERVED
        }
        self._spreads = [k for k in terms if terms[k]]
        self._terms = [terms[k] for k in self._spreads]
        self._exact = len(roles) <= MOST_EXACT_ROLES
        # The statistics that depend on one column: amounts (statistics × roles), and factors
        # (statistics × nodes)
        self._single = [j for j, by_column in enumerate(self._terms) if len(by_column) == 1]
        single = [self._terms[j][0] for j in self._single]
        self._amounts: Floats = np.array([one for one, _ in single]).reshape(
            len(single), len(roles)
        )
        self._factors: Floats = np.array([factor for _, factor in single]).reshape(
            len(single), count
        )
        self._powers: Floats = np.concatenate(
            [np.ones((1, len(roles))), self._amounts, self._amounts**2]
        ).T
        self._reserved: _ReservedMemory | None = None
        if RESERVED in statistics.spreads and any(map(_is_reserved_for, instances)):
            self._spreads.append(RESERVED)
            self._reserved = _ReservedMemory(table, instances, self._rows, self._roles)
        self._weights = [statistics.weights[k] for k in self._spreads]
        # The variance of what a role adds on a node, for each of `_spreads`
        self._varied = [
            sum(float(a.var() * np.square(f).mean()) for a, f in by_column)
            for by_column in self._terms
        ]
        if self._reserved is not None:
            self._varied.append(self._reserved.variance)
        self._slopes: list[float] = []  # of the lines in estimates, for each of `_spreads`
        self._squares: Floats = np.zeros((len(self._spreads), count, count))
        self._sums: Floats = np.zeros_like(self._squares)
        self._penalties: Floats | None = None  # roles × nodes; a secondary has none
        if penalties is not None:
            self._penalties = penalties[self._rows] * (self._roles == 0)[:, None]
        self._added: Floats = np.zeros((count, count))  # by the best swaps, to sums and penalties
        self._best: Whole = np.full((2, count, count), -1, dtype=np.intp)
        self._barred: dict[int, list[int]] = {}  # row of an instance -> rows of the others
        self._places: Whole = np.zeros((len(instances), 2), dtype=np.intp)  # of instances
        self._nodes: Whole = np.zeros(len(roles), dtype=np.intp)  # those of the roles
        self._partners: Whole = np.zeros(len(roles), dtype=np.intp)
        self._on: list[Whole] = []  # node -> the roles on it, primaries first
        self.refresh(range(count))

    def refresh(self, positions: Iterable[int], depth: int = 1) -> None:
        """Evaluate the swaps of the nodes at `positions` of the table again.

        `depth`: how many swaps of two nodes are evaluated exactly, if not all are.
        """
        table, places = self._table, self._places
        where, position = table.state.where, table.position
        count = len(table.nodes)
        changed = sorted(set(positions))
        marked: Truths = np.zeros(count, dtype=bool)
        marked[changed] = True
        for row in np.flatnonzero(marked[places].any(axis=1)).tolist():
            nodes = where[self._instances[row].name]
            places[row] = position[nodes[0]], position[nodes[-1]]
        self._nodes = places[self._rows, self._roles]
        self._partners = places[self._rows, 1 - self._roles]
        if self._reserved is not None:
            self._reserved.refresh(places)
        self._slopes = self._slopes_now()
        order = np.lexsort((self._roles, self._nodes))
        edges = np.searchsorted(self._nodes[order], np.arange(count + 1))
        self._on = [
            order[start:end] if online else order[:0]
            for start, end, online in zip(edges[:-1], edges[1:], table.online.tolist())
        ]
        self._best[:, changed, :] = self._best[:, :, changed] = -1
        sizes = np.array([one.size for one in self._on], dtype=np.intp)
        left = set(changed)
        for one in changed:
            check()
            left.remove(one)
            # Each pair once, with the later node as `one`
            others = [node for node in range(count) if node != one and node not in left]
            parts = sizes[one] * np.cumsum(sizes[others]) // SWAPS_AT_ONCE
            ends = [0, *(np.flatnonzero(np.diff(parts)) + 1).tolist(), count]
            for start, end in itertools.pairwise(ends):
                self._evaluate(one, others[start:end], depth)

    def bar(self, swap: Swap) -> None:
        """Leave out `swap` until `permit_all` is called; find the next best swap of its nodes."""
        names = {instance.name: row for row, instance in enumerate(self._instances)}
        first, second = names[swap.first.name], names[swap.second.name]
        self._barred.setdefault(first, []).append(second)
        self._barred.setdefault(second, []).append(first)
        one, other = (self._table.position[index] for index in (swap.one, swap.other))
        self._best[:, one, other] = self._best[:, other, one] = -1
        self._evaluate(one, [other], LAST_SWAPS_TRIED)

    def evaluate_again(self, swap: Swap) -> bool:
        """Evaluate the swaps of the two nodes of `swap` again; return whether its gain changes."""
        one, other = (self._table.position[index] for index in (swap.one, swap.other))
        self._best[:, one, other] = self._best[:, other, one] = -1
        self._evaluate(one, [other], LAST_SWAPS_TRIED)
        after = self.lowest()
        return after is None or abs(after.gain - swap.gain) > GAIN_TOLERANCE

    def permit_all(self) -> None:
        """Permit all swaps again that `bar` left out."""
        self._barred.clear()
        self.refresh(range(len(self._on)), LAST_SWAPS_TRIED)

    def lowest(self) -> Swap | None:
        """Return the swap that lowers the score most; None if no swap lowers it."""
        totals = self._table.totals
        change: Floats = self._added.copy()
        for k, weight, squares, sums in zip(
            self._spreads, self._weights, self._squares, self._sums
        ):
            now = float(spread(totals.sums[k], totals.squares[k], totals.counts[k]))
            after = spread(totals.sums[k] + sums, totals.squares[k] + squares, totals.counts[k])
            change += weight * (np.sqrt(np.maximum(after, 0.0)) - max(now, 0.0) ** 0.5)
        change[self._best[0] < 0] = 0.0
        one, other = divmod(int(change.argmin()), change.shape[1])
        if not change[one, other] < 0:
            return None
        first, second = (self._instances[self._rows[k]] for k in self._best[:, one, other])
        nodes = self._table.nodes
        return Swap(first, second, nodes[one], nodes[other], -float(change[one, other]))

    def rotations(self, most: int) -> list[tuple[tuple[Instance, int, int], ...]]:
        """Return up to `most` rotations that lower the score, the largest gain first.

        A rotation is three instances, each with the index of the node that it leaves and of the
        node to which it moves. Instances with a secondary are left out: their rotation copies three
        disks for a small gain. The list is empty if there are too many instances.
        """
        roles: Whole = np.sort(np.concatenate([self._nodes[:0], *self._on]))
        secondary = [self._instances[row].needs_secondary for row in self._rows[roles].tolist()]
        roles = roles[~np.array(secondary, dtype=bool)]
        if roles.size**3 > MOST_ROTATIONS:
            return []
        costs = self._replacements(roles)
        found: list[tuple[float, int, int, int]] = []
        for last in range(2, roles.size):
            # The costs of all rotations of which `last` is the last role
            cycles = costs[:last, :last] + costs[:last, last] + costs[last, :last][:, None]
            first, second = divmod(int(cycles.argmin()), last)
            found.append((float(cycles[first, second]), first, second, last))
        nodes = self._table.nodes
        rotations = []
        for cost, *cycle in sorted(found)[:most]:
            if cost >= 0:
                break
            ways = zip(roles[cycle].tolist(), roles[[*cycle[1:], cycle[0]]].tolist())
            rotations.append(
                tuple(
                    (
                        self._instances[self._rows[role]],
                        nodes[self._nodes[role]],
                        nodes[self._nodes[other]],
                    )
                    for role, other in ways
                )
            )
        return rotations

    def _replacements(self, roles: Whole) -> Floats:
        """Return what each role (row) adds to the score if it takes the place of another (column).

        The score is computed by tangents. The amount is infinite if limits forbid it. `roles` are
        instances without secondaries.
        """
        table, node = self._table, self._nodes[roles]
        totals = table.totals
        costs: Floats = np.zeros((roles.size, roles.size))
        for k, weight, by_column in zip(self._spreads, self._weights, self._terms):
            added: Floats = np.zeros_like(costs)
            for amounts, factor in by_column:
                added += (amounts[roles][:, None] - amounts[roles]) * factor[node]
            mean = totals.sums[k] / totals.counts[k]
            variance = max(0.0, spread(totals.sums[k], totals.squares[k], totals.counts[k]))
            slope = weight / (2 * max(variance**0.5, SMALLEST_DEVIATION) * totals.counts[k])
            costs += slope * added * (added + 2 * (table.values[k][node] - mean))
        if self._penalties is not None:
            penalties = self._penalties[roles][:, node]
            costs += penalties - np.diag(penalties)[:, None]
        forbidden = node[:, None] == node
        for free, amounts, _ in self._free:
            more = amounts[roles] - amounts[roles][:, None]  # free on the node of the other role
            forbidden |= (more < 0) & (free[node] + more <= 0)
        costs[forbidden] = np.inf
        return costs

    def _evaluate(self, one: int, nodes: Sequence[int], depth: int) -> None:
        """Find the best swap of the roles on node `one` with those on each of `nodes`.

        `depth`: how many swaps of two nodes are evaluated exactly, if not all are.
        """
        own = self._on[one]
        others = np.concatenate([own[:0], *(self._on[k] for k in nodes)])
        if not (own.size and others.size):
            return
        first, second = self._promising(one, own, others, depth)
        sums, squares, added = self._changes(one, first, second)
        cost = added.copy()
        for k, weight, more, square in zip(self._spreads, self._weights, sums, squares):
            cost += self._root(k, weight, more, square)
        node = self._nodes[second]
        order = np.lexsort((cost, node))
        best = order[_starts(node[order])]
        node = node[best]
        self._best[:, one, node] = first[best], second[best]
        self._best[:, node, one] = -1
        self._sums[:, one, node] = sums[:, best]
        self._squares[:, one, node] = squares[:, best]
        self._added[one, node] = added[best]

    def _promising(self, one: int, own: Whole, others: Whole, depth: int) -> tuple[Whole, Whole]:
        """Return the swaps of `own` roles on node `one` with `others` that may be the best ones.

        These are all swaps of a small table. Otherwise they are the `depth` swaps with the best
        estimates for each node of `others`, as many for primaries there as for secondaries.
        """
        column, node = own[:, None], self._nodes[others]
        # After a swap, both nodes need capacity, and no instance may have both roles on one node
        forbidden: Truths = np.zeros((own.size, others.size), dtype=bool)
        starts, ends = np.searchsorted(node, [self._partners[own], self._partners[own] + 1])
        for row, start, end in zip(forbidden, starts.tolist(), ends.tolist()):
            row[start:end] = True
        forbidden[:, self._partners[others] == one] = True
        for free, amounts, widest in self._free:
            if min(free[one], free[node].min()) <= widest:
                more = amounts[others] - amounts[column]
                forbidden |= more <= min(-free[one], -SMALLEST)
                forbidden |= more >= np.maximum(free[node], SMALLEST)
        for place, row in enumerate(self._rows[own].tolist()):
            if row in self._barred:
                forbidden[place] |= np.isin(self._rows[others], self._barred[row])
        if self._exact:
            rows, columns = np.nonzero(~forbidden)
        else:
            estimates = self._estimates(one, own, others)
            estimates[forbidden] = np.inf
            rows, columns = _lowest(estimates, 2 * node + self._roles[others], depth)
        return own[rows], others[columns]

    def _changes(self, one: int, own: Whole, others: Whole) -> tuple[Floats, Floats, Floats]:
        """Return what swaps of roles `own` on node `one` with roles `others` add.

        The first two results have what they add to the sum and to the sum of squares of each
        statistic, statistics × swaps. The last one has penalties and weighted sums.
        """
        changes = [self._change(j, one, own, others) for j in range(len(self._terms))]
        added = self._added_penalties(own, others, one)
        if self._reserved is not None:
            changes.append(self._reserved.changes(one, own, others))
            added = added + STATISTICS[RESERVED_TOTAL].weight * changes[-1][0]
        both = np.array(changes).reshape(len(changes), 2, own.size)
        return both[:, 0], both[:, 1], added

    def _change(self, j: int, one: int, own: Whole, others: Whole) -> tuple[Floats, Floats]:
        """Return what swaps add to the sum and to the sum of squares of statistic `j`.

        A role of `own` on node `one` takes the place of a role of `others`. `j` is a position in
        `_terms`. The shapes of `own` and `others` broadcast.
        """
        values, node = self._table.values[self._spreads[j]], self._nodes[others]
        here: Floats = np.zeros(1)
        there: Floats = np.zeros(1)
        for amounts, factor in self._terms[j]:
            more = amounts[others] - amounts[own]
            here = here + more * factor[one]
            there = there + more * factor[node]
        return here - there, here * (here + 2 * values[one]) + there * (there - 2 * values[node])

    def _slopes_now(self) -> list[float]:
        """Return by how much the score rises for each unit of the sum of squares of a statistic.

        The list has an element for each statistic. It is the slope of a line instead of a root. At
        a deviation of 0, the slope would be infinite. So the least deviation is half of that which
        a swap of average instances causes.
        """
        totals, slopes = self._table.totals, []
        for k, weight, varied in zip(self._spreads, self._weights, self._varied):
            now = max(0.0, float(spread(totals.sums[k], totals.squares[k], totals.counts[k])))
            least = max(varied / totals.counts[k], SMALLEST_DEVIATION**2)
            slopes.append(weight / (2 * max(now, least) ** 0.5 * totals.counts[k]))
        return slopes

    def _estimates(self, one: int, own: Whole, others: Whole) -> Floats:
        """Return estimates of what swaps of `own` roles on node `one` with `others` add.

        They add to the score; the result has own × others. A swap of amounts a and b changes the
        sum of squares of a statistic by a quadratic function of b - a. It is the product of
        (1, a, a²) and three numbers that depend on b and its node.
        """
        totals, node = self._table.totals, self._nodes[others]
        keys = [self._spreads[j] for j in self._single]
        values: Floats = np.array([self._table.values[k] for k in keys]).reshape(
            self._factors.shape
        )
        counts: Floats = np.array([[totals.counts[k]] for k in keys]).reshape(-1, 1)
        means = np.array([[totals.sums[k]] for k in keys]).reshape(-1, 1) / counts
        slopes = np.array([[self._slopes[j]] for j in self._single]).reshape(-1, 1)
        factors, here = self._factors, self._factors[:, [one]]
        apart = here - factors
        square = slopes * (here * here + factors * factors - apart * apart / counts)
        linear = slopes * (here * values[:, [one]] - factors * values - apart * means)
        square, linear, amounts = square[:, node], linear[:, node], self._amounts[:, others]
        by = amounts * square
        first = (amounts * (by + 2 * linear)).sum(axis=0)
        reserved: Floats | None = None
        if self._reserved is not None:
            reserved, by_others = self._reserved.estimates(one, own, others, self._slopes[-1])
            first += by_others
        estimates: Floats = self._powers[own] @ np.concatenate(
            [first[None], -2 * (by + linear), square]
        )
        if reserved is not None:
            estimates += reserved.take(node, axis=1)
        column = own[:, None]
        for j, by_column in enumerate(self._terms):
            if len(by_column) != 1:
                k = self._spreads[j]
                sums, squares = self._change(j, one, column, others)
                sums *= 2 * totals.sums[k] / totals.counts[k]
                estimates += (squares - sums) * self._slopes[j]
        if self._penalties is not None:
            estimates += self._added_penalties(column, others, one)
        return estimates

    def _root(self, k: int, weight: float, added: Floats, square: Floats) -> Floats:
        """Return the weighted deviations of statistic `k` after changes of its sums."""
        totals = self._table.totals
        after = spread(totals.sums[k] + added, totals.squares[k] + square, totals.counts[k])
        result: Floats = weight * np.sqrt(np.maximum(after, 0.0))
        return result

    def _added_penalties(self, own: Whole, others: Whole, one: int) -> Floats:
        """Return what each swap of a role of `own` on node `one` with a role of `others` adds.

        The result has penalties; the shapes of `own` and `others` broadcast.
        """
        if self._penalties is None:
            return np.zeros(np.broadcast_shapes(own.shape, others.shape))
        node = self._nodes[others]
        stays = self._penalties[own, one] + self._penalties[others, node]
        penalties: Floats = self._penalties[own, node] + self._penalties[others, one] - stays
        return penalties


class _ReservedMemory:
    """How swaps change the memory that nodes reserve for failovers.

    A secondary that moves changes what two nodes reserve. If a primary moves, the node of its
    secondary reserves memory for the failure of another node.

    Parameters
    ----------
    table, instances:
        The nodes, and the instances that can move.
    rows, roles:
        For each role the position of its instance in `instances`; and 0 as primary, 1 as secondary.
    """

    def __init__(
        self, table: NodeTable, instances: Sequence[Instance], rows: Whole, roles: Whole
    ) -> None:
        self._table = table
        everywhere = table.view(np.arange(len(table.nodes), dtype=np.intp))
        # The change of the statistic by one MiB
        self._factor: Floats = coefficients(RESERVED, everywhere)["reserved"] * table.online
        self._memory = np.array([float(i.memory) * _is_reserved_for(i) for i in instances])
        self.variance = float(self._memory.var() * np.square(self._factor).mean())
        self._rows = rows
        self._secondaries: Truths = roles == 1

    def refresh(self, places: Whole) -> None:
        """Read the present state; `places` (instances × 2) has the nodes of each instance."""
        table, (self._primary, self._secondary) = self._table, places.T
        peers = table.peers[self._secondary]
        peers[np.arange(len(places), dtype=np.intp), self._primary] -= self._memory
        # What the node of the secondary reserves without the instance
        self._without: Floats = np.where(
            self._memory > 0, peers.max(axis=1, initial=0.0), table.reserved[self._secondary]
        )

    def changes(self, one: int, own: Whole, others: Whole) -> tuple[Floats, Floats]:
        """Return what swaps add to the sum and to the sum of squares of the statistic.

        A role of `own` on node `one` takes the place of a role of `others`, and the reverse. The
        shapes of `own` and `others` broadcast.
        """
        mine, theirs = self._rows[own], self._rows[others]
        leaves, comes = self._secondaries[own], self._secondaries[others]
        memory, more = self._memory[mine], self._memory[theirs]
        without, without_other = self._without[mine], self._without[theirs]
        primary, other_primary = self._primary[mine], self._primary[theirs]
        partner, other_partner = self._secondary[mine], self._secondary[theirs]
        peers, reserved = self._table.peers, self._table.reserved
        node = np.where(comes, other_partner, other_primary)
        # A node reserves memory for two secondaries if their primaries are on one node
        alike = leaves & comes & (primary == other_primary)
        here = np.maximum(
            np.where(leaves, without, reserved[one]),
            np.where(comes, peers[one, other_primary] + more - memory * alike, 0.0),
        )
        there = np.maximum(
            np.where(comes, without_other, reserved[node]),
            np.where(leaves, peers[node, primary] + memory - more * alike, 0.0),
        )
        # The node of the secondary of a primary reserves memory for the failure of another node
        for_mine = np.maximum(peers[partner, node] + memory, without)
        for_other = np.maximum(peers[other_partner, one] + more, without_other)
        sums, squares = (
            a + b + c * ~leaves + d * ~comes
            for a, b, c, d in zip(
                self._at(one, here),
                self._at(node, there),
                self._at(partner, for_mine),
                self._at(other_partner, for_other),
            )
        )
        # Both secondaries are on one node
        same = np.nonzero((partner == other_partner) & ~leaves & ~comes)
        if same[0].size:
            at, to = (np.broadcast_to(some, sums.shape)[same] for some in (partner, node))
            less = np.broadcast_to(memory - more, sums.shape)[same]
            kept, every = peers[at], np.arange(at.size, dtype=np.intp)
            kept[every, one] -= less
            kept[every, to] += less
            sums[same], squares[same] = self._at(at, kept.max(axis=1, initial=0.0))
        return sums, squares

    def estimates(self, one: int, own: Whole, others: Whole, slope: float) -> tuple[Floats, Floats]:
        """Return estimates of what the moves of swaps add to the score: `own` to each node, and
        `others` to node `one`.

        The results are own × nodes, and one value for each of `others`. A swap adds the sum of
        both. It counts the arrival and the departure of secondaries separately. `slope`: see
        `SwapTable._slopes_now`.
        """
        mine, theirs = self._rows[own][:, None], self._rows[others]
        memory, more = self._memory[mine], self._memory[theirs]
        partner, primary = self._secondary[mine], self._primary[mine]
        peers, reserved = self._table.peers, self._table.reserved
        every = np.arange(reserved.size, dtype=np.intp)
        totals = self._table.totals
        mean = totals.sums[RESERVED] / totals.counts[RESERVED]
        total = STATISTICS[RESERVED_TOTAL].weight

        def cost(nodes: Whole | int, after: Floats) -> Floats:
            sums, squares = self._at(nodes, after)
            result: Floats = slope * squares + (total - 2 * slope * mean) * sums
            return result

        leaves, comes = self._secondaries[own], self._secondaries[others]
        here = self._without[mine]
        count = reserved.size
        mine_there: Floats = np.empty((own.size, count))
        p, s = np.flatnonzero(~leaves), np.flatnonzero(leaves)
        mine_there[p] = cost(
            partner[p], np.maximum(peers[partner[p, 0], :count] + memory[p], here[p])
        )
        arriving = np.maximum(peers[:, primary[s, 0]].T + memory[s], reserved)
        mine_there[s] = cost(every, arriving) + cost(one, here[s])
        at, without = self._secondary[theirs], self._without[theirs]
        arriving = np.maximum(peers[one, self._primary[theirs]] + more, reserved[one])
        others_here = np.where(
            comes,
            cost(one, arriving) + cost(at, without),
            cost(at, np.maximum(peers[at, one] + more, without)),
        )
        return mine_there, others_here

    def _at(self, nodes: Whole | int, after: Floats) -> tuple[Floats, Floats]:
        """Return the changes of both sums if `nodes` reserve `after` MiB."""
        more = (after - self._table.reserved[nodes]) * self._factor[nodes]
        return more, more * (more + 2 * self._table.values[RESERVED][nodes])


def _is_reserved_for(instance: Instance) -> bool:
    """Return whether a node reserves memory for the failover of `instance`."""
    return instance.needs_secondary and instance.reserves


def _lowest(values: Floats, part: Whole, depth: int) -> tuple[Whole, Whole]:
    """Return the rows and the columns of the `depth` lowest finite values of each part.

    Of equal values, the first one is used. `values` is rows × columns, and is changed. `part` has
    the part of each column, in increasing order.
    """
    starts = _starts(part)
    which = np.cumsum(np.bincount(starts, minlength=part.size)) - 1  # a number for each part
    found: list[tuple[Whole, Whole]] = []
    while len(found) < depth:
        lowest = values.min(axis=0)
        least = np.minimum.reduceat(lowest, starts)[which]
        columns = np.flatnonzero((lowest == least) & np.isfinite(lowest))
        if not columns.size:
            break
        columns = columns[_starts(part[columns])]
        rows = values[:, columns].argmin(axis=0)
        values[rows, columns] = np.inf
        found.append((rows, columns))
    none = starts[:0]
    return (
        np.concatenate([none, *(rows for rows, _ in found)]),
        np.concatenate([none, *(columns for _, columns in found)]),
    )


def _starts(part: Whole) -> Whole:
    """Return the position of the first element of each part; equal elements are adjacent."""
    return np.flatnonzero(np.concatenate([[True], part[1:] != part[:-1]])[: part.size])
