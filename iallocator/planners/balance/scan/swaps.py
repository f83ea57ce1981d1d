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

The scores are exact in the state in which a pair was evaluated, except for tags. Later, the memory
that other nodes reserve for failovers may differ. So a caller computes the score again before it
makes a swap.

Cost: for n nodes and m instances, O(m²) at first, then O(m² / n) for each changed node, and O(n²)
for the scores. The rotations cost O(m³), so they are found for few instances only.
"""

from __future__ import annotations

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

SWAPS_AT_ONCE = 16_384
"""The least number of swaps that are evaluated at once, if there are as many.

Larger arrays are slower.
"""


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
        self._free = [(table.columns[column], amounts[column]) for column in (MEMORY, DISK)]
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
        self._reserved: _ReservedMemory | None = None
        if RESERVED in statistics.spreads and any(map(_is_reserved_for, instances)):
            self._spreads.append(RESERVED)
            self._reserved = _ReservedMemory(table, instances, self._rows, self._roles)
        self._weights = [statistics.weights[k] for k in self._spreads]
        self._squares: Floats = np.zeros((len(self._spreads), count, count))
        self._sums: Floats = np.zeros_like(self._squares)
        self._penalties: Floats | None = None  # roles × nodes; a secondary has none
        if penalties is not None:
            self._penalties = penalties[self._rows] * (self._roles == 0)[:, None]
        self._added: Floats = np.zeros((count, count))  # by the best swaps, to sums and penalties
        self._best: Whole = np.full((2, count, count), -1, dtype=np.intp)
        self._barred: dict[int, list[int]] = {}  # row of an instance -> rows of the others
        self._nodes: Whole = np.zeros(len(roles), dtype=np.intp)
        self._partners: Whole = np.zeros(len(roles), dtype=np.intp)
        self._on: list[Whole] = []
        self.refresh(range(count))

    def refresh(self, positions: Iterable[int]) -> None:
        """Evaluate the swaps of the nodes at `positions` of the table again."""
        table = self._table
        where, position = table.state.where, table.position
        places = np.array(
            [[position[where[i.name][0]], position[where[i.name][-1]]] for i in self._instances],
            dtype=np.intp,
        ).reshape(-1, 2)
        self._nodes = places[self._rows, self._roles]
        self._partners = places[self._rows, 1 - self._roles]
        if self._reserved is not None:
            self._reserved.refresh(places)
        order = np.argsort(self._nodes, kind="stable")
        edges = np.searchsorted(self._nodes[order], np.arange(len(table.nodes) + 1))
        self._on = [
            order[start:end] if online else order[:0]
            for start, end, online in zip(edges[:-1], edges[1:], table.online.tolist())
        ]
        changed = sorted(set(positions))
        self._best[:, changed, :] = self._best[:, :, changed] = -1
        left = set(changed)
        for one in changed:
            check()
            left.remove(one)
            if not len(self._on[one]):
                continue
            part: list[Whole] = []
            for node, roles in enumerate(self._on):
                if node == one or node in left:  # each pair once, with the later node as `one`
                    continue
                if len(roles):
                    part.append(roles)
                if sum(map(len, part)) * len(self._on[one]) >= SWAPS_AT_ONCE:
                    self._evaluate(one, np.concatenate(part))
                    part = []
            if part:
                self._evaluate(one, np.concatenate(part))

    def bar(self, swap: Swap) -> None:
        """Leave out `swap` until `permit_all` is called; find the next best swap of its nodes."""
        names = {instance.name: row for row, instance in enumerate(self._instances)}
        first, second = names[swap.first.name], names[swap.second.name]
        self._barred.setdefault(first, []).append(second)
        self._barred.setdefault(second, []).append(first)
        one, other = (self._table.position[index] for index in (swap.one, swap.other))
        self._best[:, one, other] = self._best[:, other, one] = -1
        self._evaluate(one, self._on[other])

    def evaluate_again(self, swap: Swap) -> bool:
        """Evaluate the swaps of the two nodes of `swap` again; return whether its gain changes."""
        one, other = (self._table.position[index] for index in (swap.one, swap.other))
        self._best[:, one, other] = self._best[:, other, one] = -1
        self._evaluate(one, self._on[other])
        after = self.lowest()
        return after is None or abs(after.gain - swap.gain) > GAIN_TOLERANCE

    def permit_all(self) -> None:
        """Permit all swaps again that `bar` left out."""
        self._barred.clear()
        self.refresh(range(len(self._on)))

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
        for free, amounts in self._free:
            more = amounts[roles] - amounts[roles][:, None]  # free on the node of the other role
            forbidden |= (more < 0) & (free[node] + more <= 0)
        costs[forbidden] = np.inf
        return costs

    def _evaluate(self, one: int, others: Whole) -> None:
        """Find the best swaps of the roles on node `one` with the roles `others`, for each node."""
        own, node = self._on[one], self._nodes[others]
        added = self._added_penalties(own, others, one)
        total: Floats = np.zeros((own.size, others.size))
        for k, weight, by_column in zip(self._spreads, self._weights, self._terms):
            total += self._deviations(k, weight, by_column, one, others)
        reserved: tuple[Floats, Floats] | None = None
        if self._reserved is not None:
            reserved = self._reserved.changes(one, own, others, node)
            total += self._root(RESERVED, self._weights[-1], *reserved)
            added = added + STATISTICS[RESERVED_TOTAL].weight * reserved[0]
        total += added
        # After a swap, both nodes need capacity, and no instance may have both roles on one node
        forbidden = self._partners[own][:, None] == node
        forbidden |= self._partners[others] == one
        for free, amounts in self._free:
            more = amounts[others] - amounts[own][:, None]
            forbidden |= more <= min(-free[one], -SMALLEST)
            forbidden |= more >= np.maximum(free[node], SMALLEST)
        total[forbidden] = np.inf
        for place, row in enumerate(self._rows[own].tolist()):
            if row in self._barred:
                total[place, np.isin(self._rows[others], self._barred[row])] = np.inf
        rows, columns = _lowest_of_nodes(total, node)
        nodes = node[columns]
        self._best[0, one, nodes] = own[rows]
        self._best[1, one, nodes] = others[columns]
        self._best[:, nodes, one] = -1
        changes = [
            self._changes(k, by_column, one, own[rows], others[columns])
            for k, by_column in zip(self._spreads, self._terms)
        ]
        if reserved is not None:
            sums, squares = reserved
            changes.append((sums[rows, columns], squares[rows, columns]))
        for k, (sums, squares) in enumerate(changes):
            self._sums[k, one, nodes] = sums
            self._squares[k, one, nodes] = squares
        self._added[one, nodes] = added[rows, columns]

    def _changes(
        self,
        k: int,
        by_column: Sequence[tuple[Floats, Floats]],
        one: int,
        own: Whole,
        others: Whole,
    ) -> tuple[Floats, Floats]:
        """Return what swaps add to the sum and to the sum of squares of statistic `k`.

        A role of `own` on node `one` takes the place of a role of `others`. `by_column`: see
        `_terms`. The shapes of `own` and `others` broadcast.
        """
        values, node = self._table.values[k], self._nodes[others]
        here: Floats = np.zeros(1)
        there: Floats = np.zeros(1)
        for amounts, factor in by_column:
            more = amounts[others] - amounts[own]
            here = here + more * factor[one]
            there = there + more * factor[node]
        return here - there, here * (here + 2 * values[one]) + there * (there - 2 * values[node])

    def _deviations(
        self,
        k: int,
        weight: float,
        by_column: Sequence[tuple[Floats, Floats]],
        one: int,
        others: Whole,
    ) -> Floats:
        """Return the weighted deviations of statistic `k` after swaps with node `one`.

        The result has the roles on `one` × `others`. If swaps change one column only, the variance
        is a quadratic function of the change of the column on `one`. This function takes fewer
        passes than the sums.
        """
        own = self._on[one][:, None]
        if len(by_column) != 1:
            return self._root(k, weight, *self._changes(k, by_column, one, own, others))
        ((amounts, factor),) = by_column
        totals, values, node = self._table.totals, self._table.values[k], self._nodes[others]
        count, scale = totals.counts[k], weight * weight / totals.counts[k]
        sums = factor[one] - factor[node]  # for each unit
        linear = factor[one] * values[one] - factor[node] * values[node]
        linear -= sums * (totals.sums[k] / count)
        square = factor[one] ** 2 + factor[node] ** 2 - sums * sums / count
        more = amounts[others] - amounts[own]
        after: Floats = more * (square * scale)
        after += linear * (2 * scale)
        after *= more
        after += scale * (totals.squares[k] - totals.sums[k] ** 2 / count)
        np.maximum(after, 0.0, out=after)
        return np.sqrt(after, out=after)

    def _root(self, k: int, weight: float, added: Floats, square: Floats) -> Floats:
        """Return the weighted deviations of statistic `k` after changes of its sums."""
        totals, count = self._table.totals, self._table.totals.counts[k]
        after = (added + totals.sums[k]) * (1 / count)
        after *= -after
        after += square * (1 / count)
        after += totals.squares[k] / count
        np.maximum(after, 0.0, out=after)
        np.sqrt(after, out=after)
        after *= weight
        return after

    def _added_penalties(self, own: Whole, others: Whole, one: int) -> Floats:
        """Return what each swap of a role of `own` on node `one` with a role of `others` adds.

        The result has penalties, own × others. A role is an instance as primary or as secondary.
        """
        if self._penalties is None:
            return np.zeros((own.size, others.size))
        node = self._nodes[others]
        stays = self._penalties[own, one][:, None] + self._penalties[others, node]
        penalties: Floats = self._penalties[own][:, node] + self._penalties[others, one] - stays
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

    def changes(self, one: int, own: Whole, others: Whole, node: Whole) -> tuple[Floats, Floats]:
        """Return what swaps add to the sum and to the sum of squares of the statistic.

        A role of `own` on node `one` takes the place of a role of `others`, and the reverse. The
        roles `others` are on the nodes `node`. The results are arrays own × others.
        """
        changes: Floats = np.empty((2, own.size, others.size))
        primaries = own.size - int(np.count_nonzero(self._secondaries[own]))  # they come first
        self._set_primaries(changes[:, :primaries], one, own[:primaries], others, node)
        self._set_secondaries(changes[:, primaries:], one, own[primaries:], others, node)
        return changes[0], changes[1]

    def _change(self, at: Whole | int, after: Floats) -> Floats:
        """Return the changes of both sums if the nodes `at` reserve `after` MiB."""
        more = (after - self._table.reserved[at]) * self._factor[at]
        return np.stack([more, more * (more + 2 * self._table.values[RESERVED][at])])

    def _by_primaries(self, one: int, rows: Whole) -> Floats:
        """Return the changes at the nodes of the secondaries if primaries move to node `one`."""
        at = self._secondary[rows]
        moved = self._table.peers[at, one] + self._memory[rows]
        return self._change(at, np.maximum(moved, self._without[rows]))

    def _set_primaries(
        self, changes: Floats, one: int, own: Whole, others: Whole, node: Whole
    ) -> None:
        """Set the changes by swaps of primaries on node `one`; for the arguments, see `changes`."""
        mine, theirs, secondary = self._rows[own], self._rows[others], self._secondaries[others]
        peers, memory = self._table.peers, self._memory
        by_column: Floats = np.empty((2, others.size))
        by_column[:, ~secondary] = self._by_primaries(one, theirs[~secondary])
        rows = theirs[secondary]
        arriving = peers[one, self._primary[rows]] + memory[rows]
        by_column[:, secondary] = self._change(node[secondary], self._without[rows])
        by_column[:, secondary] += self._change(
            one, np.maximum(arriving, self._table.reserved[one])
        )
        # The nodes of the secondaries reserve memory for the failure of another node
        at = self._secondary[mine]
        after = peers[at].take(node, axis=1)
        after += memory[mine][:, None]
        np.maximum(after, self._without[mine][:, None], out=after)
        np.add(self._change(at[:, None], after), by_column[:, None], out=changes)
        # Two primaries with their secondaries on one node
        places, columns = np.nonzero((at[:, None] == self._secondary[theirs]) & ~secondary)
        at, every = at[places], np.arange(places.size, dtype=np.intp)
        kept, more = peers[at], memory[mine[places]] - memory[theirs[columns]]
        kept[every, one] -= more
        kept[every, node[columns]] += more
        changes[:, places, columns] = self._change(at, kept.max(axis=1, initial=0.0))

    def _set_secondaries(
        self, changes: Floats, one: int, own: Whole, others: Whole, node: Whole
    ) -> None:
        """Set the changes by swaps of secondaries on node `one`; see `changes`."""
        mine, theirs, secondary = self._rows[own], self._rows[others], self._secondaries[others]
        memory, without, primary = self._memory[mine], self._without[mine], self._primary[mine]
        peers = self._table.peers[:, primary].T  # what all nodes reserve for the primaries
        # With primaries
        at = node[~secondary]
        after = peers.take(at, axis=1)
        after += memory[:, None]
        np.maximum(after, self._table.reserved[at], out=after)
        some = self._change(at, after)
        some += self._change(one, without)[:, :, None]
        some += self._by_primaries(one, theirs[~secondary])[:, None]
        changes[:, :, ~secondary] = some
        # With secondaries; the nodes reserve memory for both if their primaries are on one node
        at, rows = node[secondary], theirs[secondary]
        alike = primary[:, None] == self._primary[rows]
        arriving = self._table.peers[one, self._primary[rows]] + self._memory[rows]
        here = np.maximum(arriving - memory[:, None] * alike, without[:, None])
        after = peers.take(at, axis=1)
        after += memory[:, None] - self._memory[rows] * alike
        np.maximum(after, self._without[rows], out=after)
        changes[:, :, secondary] = self._change(at, after) + self._change(one, here)


def _is_reserved_for(instance: Instance) -> bool:
    """Return whether a node reserves memory for the failover of `instance`."""
    return instance.needs_secondary and instance.reserves


def _lowest_of_nodes(total: Floats, node: Whole) -> tuple[Whole, Whole]:
    """Return the row and the column of the lowest finite value of each node.

    Of equal values, the first one is used. `total` is rows × columns, and `node` has the node of
    each column, in increasing order.
    """
    rows = total.argmin(axis=0)
    lowest = total[rows, np.arange(node.size)]
    starts = np.flatnonzero(np.diff(node, prepend=-1))
    least = np.repeat(np.minimum.reduceat(lowest, starts), np.diff(starts, append=node.size))
    columns = np.flatnonzero((lowest == least) & np.isfinite(lowest))
    columns = columns[np.diff(node[columns], prepend=-1) > 0]
    return rows[columns], columns
