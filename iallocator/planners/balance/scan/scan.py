"""Evaluate all moves of all instances of one step with array operations, and find the best.

Between two steps, only the nodes of the executed move change.  So only the moves of instances on
these nodes, and the moves to these nodes, are evaluated again.  The formulas are those of
`iallocator.scoring.metrics`, the limits are those of `iallocator.limits`.  The moves of an instance
are scored only if its lower bound is as low as the best known score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.constraints.table import move_rejections
from iallocator.deadline import check
from iallocator.planners.balance.move_kinds import ScoredMoves
from iallocator.planners.balance.scan.affinity import location_costs
from iallocator.planners.balance.scan.arrays import InstanceBatch, NodeTable, tags_matter
from iallocator.planners.balance.scan.batch_scan import BatchScan, moves_of
from iallocator.planners.balance.scan.blocks import ScanSetting
from iallocator.planners.balance.scan.bounds import CurrentScore
from iallocator.planners.balance.scan.move_table import MoveStore, Snapshot
from iallocator.planners.balance.scan.proportional_statistics import proportional_statistics
from iallocator.planners.balance.scan.swaps import SwapTable
from iallocator.tolerances import BOUND_TOLERANCE, SCORE_DECIMALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.planners.balance.move_kinds import MoveRules
    from iallocator.planners.balance.scan.affinity import AffinityCosts
    from iallocator.planners.balance.scan.arrays import Whole
    from iallocator.planners.balance.scan.batch_scan import Keyed, Measure

    Decision = Callable[[list[ScoredMoves]], ScoredMoves]
    """Chooses one of several moves of equal scores."""

    Placed = tuple[ScoredMoves, MoveStore, int]
    """A move, and its position in one of the stores."""

__all__ = ["MoveScan", "RowSearch"]

FIRST_SEARCHED_MOVES = 4_000
"""The number of moves that are searched first; each further search has twice as many."""

MOST_INDEPENDENT = 200
"""The largest number of moves, best first, among which moves on different nodes are sought."""

MOST_EXACT_SCORES = 32
"""The largest number of these moves that are scored exactly, to find a limit for the others."""


class RowSearch:
    """A search in the moves of `store`, which is one of the stores of `scan`.

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
        current: CurrentScore,
        measure: Measure,
        budget: float,
    ) -> None:
        self.scan = scan
        self.store = store
        self._current = current
        self._measure = measure
        bounds = measure(store.floors(current).reshape(-1, 1), store.traffic)
        if np.isfinite(budget):
            bounds = np.where(store.traffic <= budget, bounds, np.inf)
        self._bounds = bounds[:, 0]
        self._looked: list[tuple[Whole, Floats]] = []

    @property
    def low(self) -> float:
        """Return a lower bound of the measures of all moves."""
        return float(self._bounds.min(initial=np.inf))

    def _within(self, limit: float) -> float:
        """Return `limit` with an allowance for rounding errors of bounds.

        Every move with a measure up to `limit` has a bound up to this number.
        """
        return limit + BOUND_TOLERANCE * max(1.0, abs(limit), abs(self._current.present))

    def narrow(self, limit: float) -> float:
        """Search all moves that can have a measure up to `limit`; return the lowest measure found.

        Return `limit` if no measure is lower.
        """
        store = self.store
        size = max(1, FIRST_SEARCHED_MOVES // store.shape[1])
        left = self._bounds.copy()
        while True:
            check()
            allowed = self._within(limit) if limit < np.inf else np.inf
            rows = np.flatnonzero((left <= allowed) & (left < np.inf))
            if not rows.size:
                return limit
            if rows.size > size:
                rows = rows[np.argpartition(left[rows], size)[:size]]
            left[rows] = np.inf
            size *= 2
            # Measure the most promising moves of these rows
            bounds = self._measure(store.look(rows), store.traffic[rows])
            self._looked.append((rows, bounds))
            places = np.flatnonzero(bounds < limit)
            if not places.size:
                continue
            if places.size > MOST_EXACT_SCORES:
                low = np.take(bounds, places)
                places = places[np.argpartition(low, MOST_EXACT_SCORES)[:MOST_EXACT_SCORES]]
            row, column = np.divmod(places, store.shape[1])
            moves = rows[row] * store.shape[1] + column
            scores = store.rounded(moves, self._current)
            measures = np.round(self._measure(scores, store.traffic_of(moves)), SCORE_DECIMALS)
            limit = min(limit, float(measures.min()))

    def lowest(self, limit: float) -> Keyed | None:
        """Return the best move with a measure near or below `limit`; None if there is none."""
        moves, scores = self.near(limit)
        return self.scan.lowest(self.store, moves, scores, self._measure) if moves.size else None

    def equals(self, limit: float) -> list[Keyed]:
        """Return all moves with the lowest measure, if it is near or below `limit`."""
        moves, scores = self.near(limit)
        return self.scan.equals(self.store, moves, scores, self._measure) if moves.size else []

    def near(self, limit: float, most: int | None = None) -> tuple[Whole, Floats]:
        """Return the moves with a measure near or below `limit`, as positions, and their scores.

        `most`: how many moves are returned of those that were searched at once, those with the
        lowest bounds; None: all.
        """
        places: list[Whole] = [np.zeros(0, dtype=np.intp)]  # flat positions in the store
        for rows, bounds in self._looked if limit < np.inf else ():
            here = np.flatnonzero(bounds <= self._within(limit))
            if most is not None and here.size > most:
                here = here[np.argpartition(bounds.ravel()[here], most)[:most]]
            row, column = np.divmod(here, self.store.shape[1])
            places.append(rows[row] * self.store.shape[1] + column)
        moves = np.concatenate(places)
        return moves, self.store.rounded(moves, self._current) if moves.size else np.zeros(0)


MOST_KEPT_NUMBERS = 4_000_000
"""The largest number of values (8 bytes each) of moves that are kept in memory.

With more moves, no moves are kept, but computed when needed. On 200 nodes with 12 drbd instances
each, `balance` takes 1.1 times as long, and needs 36 MiB less.
"""


class MoveScan:
    """The moves of `instances` among the nodes of `scope` in the present `state`.

    `fixed` has the capacities of every node of the cluster. `affinity` has the violations of
    affinity constraints: hard constraints forbid moves, and the penalties of violated soft
    constraints are part of scores.  `centres` is as for `NodeTable`.  After each change of the
    state, call `follow` with the changed nodes.

    Attributes
    ----------
    size:
        The number of all moves, legal or not.
    """

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        fixed: Capacities,
        instances: Sequence[Instance],
        rules: MoveRules,
        affinity: AffinityCosts | None = None,
        centres: Sequence[float] | None = None,
    ) -> None:
        self.state = state
        self._affinity = affinity
        self.table = NodeTable(state, scope, fixed, centres)
        tagged = self._tagged = tags_matter(self.table)
        self._searches: list[RowSearch] = []  # those of `best` in the present state
        kinds: dict[tuple[bool, ...], list[Instance]] = {}
        for instance in instances:
            kinds.setdefault(InstanceBatch.kind(instance), []).append(instance)
        batches = [InstanceBatch(members) for members in kinds.values()]
        order = {instance.name: k for k, instance in enumerate(instances)}
        statistics = self._statistics = proportional_statistics(self.table, batches, tagged)
        self._current = CurrentScore(self.table.totals, statistics, self._penalty())
        self._changed: frozenset[int] = frozenset()  # positions since moves were evaluated
        self.size = sum(moves_of(self.table, batch) for batch in batches)
        keep = self.size * (1 + 2 * statistics.reserving) <= MOST_KEPT_NUMBERS
        # Source × target: whether migration tags permit a move; None if they always do
        nodes = self.table.nodes
        rejected = [move_rejections(state.cluster, source, nodes) for source in nodes]
        migration: Truths | None = None
        if any(rejected):
            migration = np.array([[k not in row for k in nodes] for row in rejected], dtype=bool)
        setting = ScanSetting(self.table, statistics, rules, migration, order, tagged, keep)
        bound = affinity.relations.binds if affinity is not None else lambda name: False
        self._scans = [
            BatchScan(
                setting,
                batch,
                affinity if any(bound(i.name) for i in batch.instances) else None,
                self._current,
            )
            for batch in batches
        ]

    def score(self) -> float:
        """Return the present score."""
        return self._current.present

    def follow(self, nodes: Iterable[int]) -> None:
        """Compute the score after the instances on `nodes` have changed.

        The moves that depend on these nodes are evaluated when moves are next needed.
        """
        positions = sorted({self.table.position[index] for index in nodes})
        self._changed = self._changed.union(positions)
        self._searches = []
        self.table.refresh(positions)
        self._current = CurrentScore(self.table.totals, self._statistics, self._penalty())

    def _evaluate(self) -> None:
        """Evaluate the moves again that depend on changed nodes."""
        if not self._changed:
            return
        changed = np.array(sorted(self._changed), dtype=np.intp)
        self._changed = frozenset()
        for scan in self._scans:
            check()
            scan.refresh(changed, self._current)

    def _penalty(self) -> float:
        return 0.0 if self._affinity is None else self._affinity.penalty(self.table.position)

    def bar(self, move: Move) -> None:
        """Exclude `move` until a change of one of its nodes causes its evaluation."""
        for scan in self._scans:
            scan.bar(move)

    def trial(self) -> Snapshot:
        """Return a context that undoes all changes of this scan at its end.

        The caller must restore the state at that time.
        """
        self._evaluate()  # once, not in each trial
        stores = [store for scan in self._scans for store in scan.stores]
        affinity = [scan.affinity for scan in self._scans if scan.affinity is not None]
        rows = [store.rows for store in stores]
        return Snapshot([self, self.table, *self._scans, *stores, *rows, *affinity])

    def set_traffic(self, traffic: Callable[[Instance, Sequence[str]], float]) -> None:
        """Set the MiB that each move copies.

        `traffic`: (instance, letters of the kind of move, ``r`` and ``f`` for example) -> MiB.
        """
        for scan in self._scans:
            for store in scan.stores:
                costs = [traffic(i, store.kind.letters) for i in scan.instances]
                store.traffic = np.array(costs, dtype=np.float64).reshape(-1, 1)

    def best(
        self,
        measure: Measure = lambda scores, traffic: scores,
        budget: float = np.inf,
        limit: float = np.inf,
        decide: Decision | None = None,
    ) -> ScoredMoves | None:
        """Return the move with the lowest measure that copies at most `budget` MiB.

        None is returned if there is none. `measure(scores, traffic)` computes the measures of many
        moves, and must not fall if the score rises. By default, the measure is the score. Of equal
        moves, the first one is returned, or the one that `decide` chooses from their sorted list.
        If the lowest measure is above `limit`, the result is any move or None.
        """
        self._evaluate()
        searches = [
            RowSearch(scan, store, self._current, measure, budget) for scan, store in self._stores()
        ]
        self._searches = searches
        for search in sorted(searches, key=lambda one: one.low):
            check()
            limit = search.narrow(limit)
        if decide is not None:
            every = sorted((one for search in searches for one in search.equals(limit)), key=_key)
            equal = [move for measure_of, _, move in every if measure_of == every[0][0]]
            return decide(equal) if len(equal) > 1 else next(iter(equal), None)
        moves = [move for search in searches if (move := search.lowest(limit)) is not None]
        return min(moves, key=_key)[2] if moves else None

    def independent(self, best: ScoredMoves, limit: float) -> list[Placed]:
        """Return further moves with scores up to `limit`, each of which may follow the others.

        No two of them, and none and `best`, share a node. They are found among the moves that the
        last call of `best` searched, best first. There are none if tags or affinity constraints
        matter, because moves on different nodes then depend on one another.
        """
        if self._affinity is not None or self._tagged:
            return []
        near = [one.near(limit, MOST_INDEPENDENT) for one in self._searches]
        scores = np.concatenate([[], *(some for _, some in near)])
        cells = np.concatenate([[], *(some for some, _ in near)]).astype(np.intp)
        of = np.repeat(np.arange(len(near)), [some.size for some, _ in near])
        used, found = set(best.nodes), []
        for k in np.argsort(scores, kind="stable")[:MOST_INDEPENDENT].tolist():
            if scores[k] > limit:
                break
            search, cell = self._searches[of[k]], int(cells[k])
            _, _, scored = search.scan.keyed(search.store, cell, float(scores[k]))
            if used.isdisjoint(scored.nodes):
                used |= scored.nodes
                found.append((scored, search.store, cell))
        return found

    def scored_now(self, placed: Placed) -> ScoredMoves:
        """Return a move of `independent`, with the score after it in the present state.

        Since then, only other moves of the same list may have been made.
        """
        scored, store, cell = placed
        score = float(store.rounded(np.array([cell]), self._current)[0])
        return ScoredMoves(scored.moves, score)

    def lowest(self, count: int, each: int) -> list[ScoredMoves]:
        """Return about `count` moves with low scores, best first, at most `each` per instance."""
        self._evaluate()
        stores = self._stores()
        moves = [store.lowest(self._current, count * each)[0] for _, store in stores]
        rounded = [one[1].rounded(some, self._current) for one, some in zip(stores, moves)]
        scores, cells = np.concatenate([[], *rounded]), np.concatenate([[], *moves]).astype(int)
        of = np.repeat(np.arange(len(stores)), [some.size for some in moves])
        times_moved: dict[str, int] = {}
        chosen: list[Keyed] = []
        for k in np.argsort(scores, kind="stable").tolist():
            score, cell, (scan, store) = float(scores[k]), int(cells[k]), stores[of[k]]
            if len(chosen) >= count and score > chosen[-1][0]:
                break  # moves of equal score may come before it
            name = scan.instances[cell // store.shape[1]].name
            times_moved[name] = times_moved.get(name, 0) + 1
            if times_moved[name] <= each:
                chosen.append(scan.keyed(store, cell, score))
        chosen.sort(key=_key)
        return [move for *_, move in chosen[:count]]

    def swaps(
        self, instances: Sequence[Instance], movable: Callable[[Instance, int], bool]
    ) -> SwapTable:
        """Return a table of the swaps of `instances` in the present state.

        `movable(instance, role)` returns whether an instance can be replaced in a role: 0 as
        primary, 1 as secondary.
        """
        relations = None if self._affinity is None else self._affinity.relations
        names = [instance.name for instance in instances]
        penalties = location_costs(relations, names, self.table.nodes)
        return SwapTable(self.table, self._statistics, instances, movable, penalties)

    def _stores(self) -> list[tuple[BatchScan, MoveStore]]:
        """Return each batch with each of its kinds of moves."""
        return [(scan, store) for scan in self._scans for store in scan.stores]


def _key(one: Keyed) -> tuple[float, tuple[int, int, int]]:
    return one[:2]
