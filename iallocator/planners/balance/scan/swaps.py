"""Evaluate swaps of two instances with array operations.

A swap moves one instance from node A to node B, and another one from B to A. Each instance takes
the role of the other one, as primary or as secondary; its second node stays. A swap changes the
statistics of A and B.

For each pair of nodes, the table keeps the best swap, with what it adds to the sum and to the sum
of squares of each statistic. These amounts depend on the two nodes only. A step changes a few
nodes, so only their pairs are evaluated again. The score after each kept swap is computed anew from
the sums.

The scores are exact in the state in which a pair was evaluated, except for tags. Later, the memory
that other nodes reserve for failovers may differ. So a caller computes the score again before it
makes a swap.

Cost: for n nodes and m instances, O(m²) at first, then O(m² / n) for each changed node, and O(n²)
for the scores.
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

SWAPS_AT_ONCE = 16_384
"""The least number of swaps that are evaluated at once, if there are as many.

Larger arrays are slower.
"""


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
        self._spreads = [k for k in statistics.spreads if k != RESERVED]
        self._weights = [statistics.weights[k] for k in self._spreads]
        self._reserved: _ReservedMemory | None = None
        if RESERVED in statistics.spreads and any(map(_is_reserved_for, instances)):
            self._spreads.append(RESERVED)
            self._weights.append(statistics.weights[RESERVED])
            self._reserved = _ReservedMemory(table, instances, self._rows, self._roles)
        # For each statistic: what roles add in each column, and the factor of each node
        self._terms: list[list[tuple[Floats, Floats]]] = [
            [
                (amounts[COLUMNS.index(column)], np.broadcast_to(factor, (count,)))
                for column, factor in coefficients(k, everywhere).items()
                if amounts[COLUMNS.index(column)].any()
            ]
            for k in self._spreads
            if k != RESERVED
        ]
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

    def _evaluate(self, one: int, others: Whole) -> None:
        """Find the best swaps of the roles on node `one` with the roles `others`, for each node."""
        table, own, node = self._table, self._on[one], self._nodes[others]
        total: Floats = np.zeros((own.size, others.size))
        squares: list[Floats] = []
        sums: list[Floats] = []
        for k, weight, by_column in zip(self._spreads, self._weights, self._terms):
            here = there = None
            for amounts, factor in by_column:
                more = amounts[others] - amounts[own][:, None]
                added = more * factor[one]
                lost = more * factor[node]
                here = added if here is None else here + added
                there = lost if there is None else there + lost
            if here is None or there is None:
                squares.append(np.zeros_like(total))
                sums.append(squares[-1])
                continue
            values = table.values[k]
            sums.append(here - there)
            here *= here + 2 * values[one]
            there *= there - 2 * values[node]
            here += there
            squares.append(here)
            total += self._deviations(k, weight, sums[-1], here)
        added = self._added_penalties(own, others, one)
        if self._reserved is not None:
            more, square = self._reserved.changes(one, own, others, node)
            sums.append(more)
            squares.append(square)
            total += self._deviations(RESERVED, self._weights[-1], more, square)
            added = added + STATISTICS[RESERVED_TOTAL].weight * more
        total += added
        # After a swap, both nodes need capacity, and no instance may have both roles on one node
        for free, amounts in self._free:
            more = amounts[others][None, :] - amounts[own][:, None]
            total[((free[one] + more <= 0) & (more < 0)) | ((free[node] <= more) & (more > 0))] = (
                np.inf
            )
        total[self._partners[own][:, None] == node] = np.inf
        total[:, self._partners[others] == one] = np.inf
        for place, row in enumerate(self._rows[own].tolist()):
            if row in self._barred:
                total[place, np.isin(self._rows[others], self._barred[row])] = np.inf
        rows, columns = _lowest_of_nodes(total, node)
        nodes = node[columns]
        self._best[0, one, nodes] = own[rows]
        self._best[1, one, nodes] = others[columns]
        self._best[:, nodes, one] = -1
        for k in range(len(squares)):
            self._squares[k, one, nodes] = squares[k][rows, columns]
            self._sums[k, one, nodes] = sums[k][rows, columns]
        self._added[one, nodes] = added[rows, columns]

    def _deviations(self, k: int, weight: float, added: Floats, square: Floats) -> Floats:
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
        peers, reserved = self._table.peers, self._table.reserved
        # The roles of `own` are rows, those of `others` are columns
        here, there = self._secondaries[own][:, None], self._secondaries[others]
        mine, other = self._rows[own][:, None], self._rows[others]
        memory, other_memory = self._memory[mine], self._memory[other]
        primary, other_primary = self._primary[mine], self._primary[other]
        alike = here & there & (primary == other_primary)  # both count for one failure
        sums = np.zeros((own.size, others.size))
        squares = np.zeros_like(sums)

        def add(at: Whole | int, after: Floats) -> None:
            more = (after - reserved[at]) * self._factor[at]
            sums[...] += more
            squares[...] += more * (more + 2 * self._table.values[RESERVED][at])

        arriving = peers[one, other_primary] + other_memory - memory * alike
        after = np.where(here, self._without[mine], reserved[one])
        add(one, np.where(there, np.maximum(after, arriving), after))
        arriving = peers[node, primary] + memory - other_memory * alike
        after = np.where(there, self._without[other], reserved[node])
        add(node, np.where(here, np.maximum(after, arriving), after))
        # The nodes of the secondaries, if primaries move
        at, other_at = self._secondary[mine], self._secondary[other]
        shared = ~here & ~there & (at == other_at)
        after = np.maximum(self._without[mine], peers[at, node] + memory)
        add(at, np.where(here | shared, reserved[at], after))
        after = np.maximum(self._without[other], peers[other_at, one] + other_memory)
        add(other_at, np.where(there | shared, reserved[other_at], after))
        rows, columns = np.nonzero(shared)
        if rows.size:
            at = at[rows, 0]
            every = np.arange(rows.size, dtype=np.intp)
            kept, more = peers[at], memory[rows, 0] - other_memory[columns]
            kept[every, one] -= more
            kept[every, node[columns]] += more
            change = (kept.max(axis=1) - reserved[at]) * self._factor[at]
            sums[rows, columns] += change
            squares[rows, columns] += change * (change + 2 * self._table.values[RESERVED][at])
        return sums, squares


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
