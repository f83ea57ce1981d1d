"""All moves of all instances of one step, evaluated in array passes, and the best of them.

Between two steps, only the nodes of the executed move change.  So only the moves of their
instances, and those to these nodes, are evaluated again.  The arithmetic is that of
`iallocator.scoring.metrics`, the limits are those of `iallocator.limits`.  The moves of an
instance are scored only if its lower bound is as low as the best known score.

Scores of pairs of moves: a move changes the statistics of a few nodes.  The changes of two moves
are added, except for the squares at nodes that both change: there, twice the product of the
changes is added, too.  So one matrix product for each statistic gives all pairs.  This is exact
except for values that are no sum over instances: memory reserved for the worst peer, and tags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.constraints.table import move_rejections
from iallocator.deadline import check
from iallocator.model.node_view import NodeView
from iallocator.planners.balance.scan.affinity import BondCosts
from iallocator.planners.balance.scan.arrays import InstanceBatch, NodeTable, tags_matter
from iallocator.planners.balance.scan.batch_scan import BatchScan, moves_of
from iallocator.planners.balance.scan.blocks import ScanSetting
from iallocator.planners.balance.scan.bounds import CurrentScore
from iallocator.planners.balance.scan.move_table import MoveStore, Snapshot
from iallocator.planners.balance.scan.proportional_statistics import proportional_statistics
from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.metrics import DOMAINS, STATISTICS, spread, values
from iallocator.tolerances import SCORE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove, Move
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.planners.balance.move_kinds import MoveRules, ScoredMoves
    from iallocator.planners.balance.scan.arrays import Whole
    from iallocator.planners.balance.scan.batch_scan import Keyed, Measure

__all__ = ["MoveScan", "RowSearch"]

AT_ONCE = 4_000
"""The instances of so many moves are searched first, then twice as many, and so on."""

MEASURED = 32
"""At most so many of these moves are scored exactly, to find a limit for the others."""

PAIRS_AT_ONCE = 16_384
"""Pairs that are scored at a time: 128 KiB in each temporary array."""


class RowSearch:
    """A search in the moves of `store`, which is one of `scan`.

    `measure` and `budget` are those of `MoveScan.best`.

    Attributes
    ----------
    scan, store:
        The batch and the moves that are searched.
    """

    def __init__(
        self,
        scan: BatchScan,
        store: MoveStore,
        ground: CurrentScore,
        measure: Measure,
        budget: float,
    ) -> None:
        self.scan = scan
        self.store = store
        self._ground = ground
        self._measure = measure
        bounds = measure(store.floors(ground).reshape(-1, 1), store.prices)
        if np.isfinite(budget):
            bounds = np.where(store.prices <= budget, bounds, np.inf)
        self._bounds = bounds[:, 0]
        self._looked: list[tuple[Whole, Floats]] = []
        self._known: dict[int, float] = {}

    @property
    def low(self) -> float:
        """Return a lower bound of all measures."""
        return float(self._bounds.min(initial=np.inf))

    def _within(self, limit: float) -> float:
        """Return the largest bound that a measure up to `limit` can have."""
        return limit + SCORE * max(1.0, abs(limit), abs(self._ground.present))

    def narrow(self, limit: float) -> float:
        """Search all moves that can have a measure up to `limit`; return the lowest one."""
        size = max(1, AT_ONCE // self.store.shape[1])
        left = self._bounds.copy()
        while True:
            check()
            allowed = self._within(limit) if limit < np.inf else np.inf
            rows = np.flatnonzero((left <= allowed) & (left < np.inf))
            if not rows.size:
                return limit
            if rows.size > size:
                rows = rows[np.argpartition(left[rows], size)[:size]]
            limit = min(limit, self._look(rows, limit))
            left[rows] = np.inf
            size *= 2

    def _look(self, rows: Whole, limit: float) -> float:
        """Return the lowest measure of the most promising moves of `rows`; infinity if too high."""
        store = self.store
        bounds = self._measure(store.look(rows), store.prices[rows])
        self._looked.append((rows, bounds))
        places = np.flatnonzero(bounds < limit)
        if not places.size:
            return np.inf
        if places.size > MEASURED:
            low = np.take(bounds, places)
            places = places[np.argpartition(low, MEASURED)[:MEASURED]]
        row, column = np.divmod(places, store.shape[1])
        moves = rows[row] * store.shape[1] + column
        scores = store.rounded(moves, self._ground)
        self._known.update(zip(moves.tolist(), scores.tolist()))
        measures = np.round(self._measure(scores, store.prices_of(moves)), DECIMALS)
        return float(measures.min())

    def lowest(self, limit: float) -> Keyed | None:
        """Return the best move with a bound up to `limit`; None if there is none."""
        places: list[Whole] = [np.zeros(0, dtype=np.intp)]  # flat positions in the store
        for rows, bounds in self._looked if limit < np.inf else ():
            row, column = np.nonzero(bounds <= self._within(limit))
            places.append(rows[row] * self.store.shape[1] + column)
        moves = np.sort(np.concatenate(places))
        if not moves.size:
            return None
        unknown = np.array([m for m in moves.tolist() if m not in self._known], dtype=np.intp)
        if unknown.size:
            found = self.store.rounded(unknown, self._ground)
            self._known.update(zip(unknown.tolist(), found.tolist()))
        scores = np.array([self._known[move] for move in moves.tolist()])
        return self.scan.lowest(self.store, moves, scores, self._measure)


KEPT = 2_000_000
"""At most so many numbers of moves are kept (8 bytes each); else moves are computed when needed.

With more moves, a search that keeps none takes 1.0 to 1.2 times as long, and needs a quarter of
the memory (200 nodes with 12 drbd instances each).
"""


class MoveScan:
    """The moves of `instances` among the nodes of `scope` in the present `state`.

    `fixed` has the capacities of every node of the cluster, and `relations` the affinity: hard
    constraints forbid moves, violated soft constraints count in scores.  `centres` is that of
    `NodeTable`.  After each change of the state, call `refresh` with the changed nodes.
    """

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        fixed: Capacities,
        instances: Sequence[Instance],
        rules: MoveRules,
        relations: Relations | None = None,
        centres: Sequence[float] | None = None,
    ) -> None:
        self.state = state
        self._bonds = None if relations is None else BondCosts(relations, relations.live(state))
        self.table = NodeTable(state, scope, fixed, centres)
        tagged = tags_matter(self.table)
        kinds: dict[tuple[bool, ...], list[Instance]] = {}
        for instance in instances:
            kinds.setdefault(InstanceBatch.kind(instance), []).append(instance)
        batches = [InstanceBatch(members) for members in kinds.values()]
        order = {instance.name: k for k, instance in enumerate(instances)}
        statistics = self._statistics = proportional_statistics(self.table, batches, tagged)
        self._ground = CurrentScore(self.table.totals, statistics, self._penalty())
        moves = sum(moves_of(self.table, batch) for batch in batches)
        keep = moves * (1 + 2 * len(statistics.spreads)) <= KEPT
        self._keeps = keep and centres is None
        setting = ScanSetting(
            self.table, statistics, rules, _migration(self.table), order, tagged, keep
        )
        bound = relations.binds if relations is not None else lambda name: False
        self._scans = [
            BatchScan(
                setting,
                batch,
                self._bonds if any(bound(i.name) for i in batch.instances) else None,
                self._ground,
            )
            for batch in batches
        ]

    def score(self) -> float:
        """Return the present score."""
        return self._ground.present

    def refresh(self, nodes: Iterable[int]) -> None:
        """Evaluate the moves that depend on these nodes of the cluster again."""
        positions = sorted({self.table.position[index] for index in nodes})
        self.table.refresh(positions)
        self._ground = CurrentScore(self.table.totals, self._statistics, self._penalty())
        for scan in self._scans:
            check()
            scan.refresh(np.array(positions, dtype=np.intp), self._ground)

    def renew(self, nodes: Iterable[int]) -> bool:
        """Become equal to a new scan after changes of these nodes; return whether this is possible.

        The bounds of a new scan depend on the present means and extremes.
        """
        if not self._keeps:
            return False
        self.refresh(nodes)
        shifts = self.table.recentre()
        for _, store in self._stores():
            store.recentre(shifts)
        self._ground = CurrentScore(self.table.totals, self._statistics, self._penalty())
        return True

    def _penalty(self) -> float:
        return 0.0 if self._bonds is None else self._bonds.penalty(self.table.position)

    def bar(self, move: Move) -> None:
        """Skip `move` until a change of one of its nodes causes its evaluation."""
        for scan in self._scans:
            scan.bar(move)

    def trial(self) -> Snapshot:
        """Return a context that undoes all changes at its end; the state must be restored then."""
        stores = [store for scan in self._scans for store in scan.stores]
        bonds = [scan.bonds for scan in self._scans if scan.bonds is not None]
        rows = [store.rows for store in stores]
        return Snapshot([self, self.table, *self._scans, *stores, *rows, *bonds])

    def set_prices(self, price: Callable[[Instance, Sequence[str]], float]) -> None:
        """Set the price of each move: `price` of its instance and the letters of its kind."""
        for scan in self._scans:
            for store in scan.stores:
                costs = [price(i, store.kind.letters) for i in scan.instances]
                store.prices = np.array(costs, dtype=np.float64).reshape(-1, 1)

    def best(
        self,
        measure: Measure = lambda scores, prices: scores,
        budget: float = np.inf,
        limit: float = np.inf,
    ) -> ScoredMoves | None:
        """Return the move with the lowest measure among those with a price up to `budget`.

        `measure` is computed from scores and prices, and must not fall if the score rises.  By
        default it is the score.  Of equal moves, the first is returned.  If the lowest measure is
        above `limit`, the result is any move or None.
        """
        searches = [
            RowSearch(scan, store, self._ground, measure, budget) for scan, store in self._stores()
        ]
        for search in sorted(searches, key=lambda one: one.low):
            check()
            limit = search.narrow(limit)
        found = [move for search in searches if (move := search.lowest(limit)) is not None]
        return min(found, key=_key)[2] if found else None

    def lowest(self, count: int, each: int) -> list[ScoredMoves]:
        """Return about `count` moves with low scores, best first, at most `each` of an instance."""
        stores = self._stores()
        moves = [store.lowest(self._ground, count * each)[0] for _, store in stores]
        found = [one[1].rounded(some, self._ground) for one, some in zip(stores, moves)]
        scores, cells = np.concatenate([[], *found]), np.concatenate([[], *moves]).astype(int)
        of = np.repeat(np.arange(len(stores)), [some.size for some in moves])
        taken: dict[str, int] = {}
        chosen: list[Keyed] = []
        for k in np.argsort(scores, kind="stable").tolist():
            score, cell, (scan, store) = float(scores[k]), int(cells[k]), stores[of[k]]
            if len(chosen) >= count and score > chosen[-1][0]:
                break  # moves of equal score may come before it
            name = scan.instances[cell // store.shape[1]].name
            taken[name] = taken.get(name, 0) + 1
            if taken[name] <= each:
                chosen.append(scan.keyed(store, cell, score))
        chosen.sort(key=_key)
        return [move for *_, move in chosen[:count]]

    def _stores(self) -> list[tuple[BatchScan, MoveStore]]:
        """Return all kinds of moves of all batches."""
        return [(scan, store) for scan in self._scans for store in scan.stores]

    def pair_scores(self, firsts: Sequence[Move], seconds: Sequence[Move]) -> Floats:
        """Return the matrix of the scores after one of `firsts` and one of `seconds`, nearly exact.

        Infinite for two moves of one instance.  Cost: moves × nodes for each statistic for
        the changes, firsts × seconds for the scores.
        """
        table = self.table
        known = {_move_key(move): row for row, move in enumerate(firsts)}
        others = [move for move in seconds if _move_key(move) not in known]
        rows = list(range(len(firsts)))
        known |= {_move_key(move): len(rows) + row for row, move in enumerate(others)}
        deltas, conflicts = _changes(table, [*firsts, *others])
        follow = [known[_move_key(move)] for move in seconds]
        one, domains = deltas[:, rows], conflicts[rows]
        other, more_domains = deltas[:, follow], conflicts[follow]
        total: Floats = np.zeros((len(firsts), len(seconds)))
        weights: dict[bytes, float] = {}
        leaders: dict[bytes, int] = {}
        for k, statistic in enumerate(STATISTICS):
            if statistic.spread:  # statistics with equal changes are computed once
                key = table.values[k].tobytes() + one[k].tobytes() + other[k].tobytes()
                leaders.setdefault(key, k)
                weights[key] = weights.get(key, 0.0) + statistic.weight
                continue
            added, more = one[k].sum(axis=1), other[k].sum(axis=1)
            if k == DOMAINS:
                added, more = domains, more_domains
            total += statistic.weight * (table.totals.sums[k] + added[:, None] + more[None, :])
        for key, k in leaders.items():
            _add_deviations(total, weights[key], table, k, one[k], other[k])
        names = {move.instance.name: k for k, move in enumerate((*firsts, *seconds))}
        numbers = [
            np.array([names[move.instance.name] for move in moves]) for moves in (firsts, seconds)
        ]
        total[numbers[0][:, None] == numbers[1][None, :]] = np.inf
        return total


def _key(one: Keyed) -> tuple[float, tuple[int, int, int]]:
    return one[:2]


def _migration(table: NodeTable) -> Truths | None:
    """Return source × target: whether migration tags permit a move; None if they always do."""
    cluster = table.state.cluster
    rejected = [move_rejections(cluster, source, table.nodes) for source in table.nodes]
    if not any(rejected):
        return None
    return np.array([[index not in row for index in table.nodes] for row in rejected], dtype=bool)


def _move_key(move: Move) -> tuple[str, tuple[ElementaryMove, ...]]:
    """Return what distinguishes a move from all others on one state."""
    return move.instance.name, move.steps


def _add_deviations(
    total: Floats, weight: float, table: NodeTable, k: int, one: Floats, other: Floats
) -> None:
    """Add `weight` times the deviation of a statistic after each pair of changes, moves × nodes.

    Some rows are computed at a time, so that temporary arrays stay in the cache.
    """
    values, totals = table.values[k], table.totals
    first, second = [(2 * values * change + change * change).sum(axis=1) for change in (one, other)]
    added, more = one.sum(axis=1), other.sum(axis=1)
    products = one @ other.T
    height = max(1, PAIRS_AT_ONCE // max(1, len(other)))
    for start in range(0, len(one), height):
        rows = slice(start, start + height)
        square = totals.squares[k] + first[rows, None] + second[None, :]
        square += 2 * products[rows]
        sums = totals.sums[k] + added[rows, None] + more[None, :]
        variance = np.maximum(spread(sums, square, totals.counts[k]), 0.0)
        total[rows] += weight * np.sqrt(variance)


def _changes(table: NodeTable, moves: Sequence[Move]) -> tuple[Floats, Floats]:
    """Return what moves add (statistic × move × node), and conflicts in domains for each move."""
    state = table.state
    where: list[tuple[int, int]] = []
    rows: list[tuple[float, ...]] = []
    reserved: list[float] = []
    domains: Floats = np.zeros(len(moves))
    before = state.domain_conflicts(table.group)
    for number, move in enumerate(moves):
        with state.trial():
            move.apply(state)
            for index in move.nodes:
                where.append((number, table.position[index]))
                rows.append(state.row(index))
                reserved.append(state.reserved[index])
            if state.domains:
                domains[number] = state.domain_conflicts(table.group) - before
    deltas: Floats = np.zeros((len(STATISTICS), len(moves), len(table.nodes)))
    number, position = np.array(where, dtype=np.intp).T
    view = NodeView(
        list(np.array(rows, dtype=np.float64).T),
        list(table.fixed[:, position]),
        np.array(reserved, dtype=np.float64),
    )
    for k, value in enumerate(values(view, table.centres)):
        deltas[k, number, position] = value - table.values[k, position]
    return deltas, domains
