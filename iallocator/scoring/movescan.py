"""All moves of all instances of one step, evaluated in array passes.

Between two steps only the nodes of the executed move change, so only the moves of
their instances, and those to them, are evaluated again.  The arithmetic is that of
`iallocator.scoring.kernel`, the limits those of `iallocator.filters`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.filters.migration import may_not_receive
from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.kernel import terms
from iallocator.scoring.movekinds import KINDS
from iallocator.scoring.moveshifts import Block
from iallocator.scoring.movestore import MoveStore
from iallocator.scoring.movetable import Crowd, NodeTable
from iallocator.scoring.movetags import MoveTags, tags_matter
from iallocator.scoring.movetwins import find_twins

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.movekinds import MoveKind, MoveRules
    from iallocator.scoring.movetable import Floats, Whole
    from iallocator.scoring.movetwins import Twins

    Measure = Callable[[Floats, Floats], Floats]
    _Keyed = tuple[float, tuple[int, int, int], "FoundMove"]

__all__ = ["FoundMove", "MoveScan"]

BLOCK = 200_000
"""Moves that are evaluated at a time, so that the arrays stay in the cache's reach."""

SLACK = 1e-9
"""By how much rounding may lift a bound above the score, per unit of score."""


class FoundMove:
    """A move of `instance` (on the nodes `before`) with, or to, the node `target`."""

    __slots__ = ("before", "instance", "kind", "score", "target")

    def __init__(
        self, score: float, instance: Instance, before: tuple[int, ...], kind: MoveKind, target: int
    ) -> None:
        self.score = score
        self.instance = instance
        self.before = before
        self.kind = kind
        self.target = target


class MoveScan:
    """The moves of `instances` among the nodes of `scope`, as `state` is now.

    `fixed` holds the capacities of every node of the cluster.  After a change of the
    state call `refresh` with the nodes that changed.
    """

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        fixed: Sequence[tuple[float, ...]],
        instances: Sequence[Instance],
        rules: MoveRules,
    ) -> None:
        self.state = state
        self.table = NodeTable(state, scope, fixed)
        tagged = tags_matter(self.table)
        kinds: dict[tuple[bool, ...], list[Instance]] = {}
        for instance in instances:
            kinds.setdefault(Crowd.kind(instance), []).append(instance)
        crowds = [Crowd(members) for members in kinds.values()]
        order = {instance.name: k for k, instance in enumerate(instances)}
        twins = find_twins(self.table, crowds, tagged)
        migration = _migration(self.table)
        self._scans = [
            _CrowdScan(self.table, crowd, twins, rules, migration, order, tagged)
            for crowd in crowds
        ]

    def score(self) -> float:
        """The score as things are."""
        return float(sum(terms(self.table.totals, (), np.sqrt)))

    def refresh(self, nodes: Iterable[int]) -> None:
        """Evaluate anew what depends on these nodes of the cluster."""
        positions = sorted({self.table.position[index] for index in nodes})
        self.table.refresh(positions)
        for scan in self._scans:
            scan.refresh(np.array(positions, dtype=np.intp))

    def set_prices(self, price: Callable[[Instance, Sequence[str]], float]) -> None:
        """Let `price` say what an instance costs for the letters of a kind of move."""
        for scan in self._scans:
            for store in scan.stores:
                costs = [price(i, store.kind.letters) for i in scan.instances]
                store.prices = np.array(costs, dtype=np.float64).reshape(-1, 1)

    def best(
        self, measure: Measure = lambda scores, prices: scores, budget: float = np.inf
    ) -> FoundMove | None:
        """The move whose measure is lowest, of those that cost at most `budget`.

        `measure` makes a number of scores and prices; it must not fall when the
        score rises.  By default it is the score itself.  Of equals the first wins.
        """
        bounds = self._bounds(measure, budget)
        limit = np.inf
        for scan, store, bound in bounds:
            first = np.array([bound.argmin()], dtype=np.intp)
            if np.isfinite(bound.ravel()[first[0]]):
                limit = min(limit, float(scan.measured(store, first, measure)[0]))
        if not np.isfinite(limit):
            return None
        slack = SLACK * max(1.0, abs(limit), abs(self.score()))
        found: list[_Keyed] = []
        for scan, store, bound in bounds:
            moves = np.flatnonzero(bound.ravel() <= limit + slack)
            if moves.size:
                found.append(scan.lowest(store, moves, measure))
        return min(found, key=_key)[2]

    def lowest(self, count: int, each: int) -> list[FoundMove]:
        """Moves with low scores, best first: about `count`, at most `each` of an instance."""
        measure: Measure = lambda scores, prices: scores
        found: list[_Keyed] = []
        for scan, store, bound in self._bounds(measure, np.inf):
            flat = bound.ravel()
            near = np.argpartition(flat, min(count * each, flat.size) - 1)[: count * each]
            moves = near[np.isfinite(flat[near])]
            found += [scan.lowest(store, moves[k : k + 1], measure) for k in range(moves.size)]
        found.sort(key=_key)
        taken: dict[str, int] = {}
        chosen = []
        for *_, move in found:
            name = move.instance.name
            taken[name] = taken.get(name, 0) + 1
            if taken[name] <= each:
                chosen.append(move)
        return chosen[:count]

    def _bounds(
        self, measure: Measure, budget: float
    ) -> list[tuple[_CrowdScan, MoveStore, Floats]]:
        """Per kind of moves what their measures are not below."""
        present = self.score()
        found = []
        for scan in self._scans:
            for store in scan.stores:
                bound = measure(store.bounds(self.table.totals, present), store.prices)
                if np.isfinite(budget):
                    bound = np.where(store.prices <= budget, bound, np.inf)
                found.append((scan, store, bound))
        return found


class _CrowdScan:
    """The moves of one crowd."""

    def __init__(
        self,
        table: NodeTable,
        crowd: Crowd,
        twins: Twins,
        rules: MoveRules,
        migration: Floats | None,
        order: dict[str, int],
        tagged: bool,
    ) -> None:
        self._table = table
        self._crowd = crowd
        self._twins = twins
        self._rules = rules
        self._migration = migration
        self._order = [order[instance.name] for instance in crowd.instances]
        self._tagged = tagged
        self._tags: MoveTags | None = None
        count = len(crowd.instances)
        self._targets: Whole = np.flatnonzero(table.online)
        self.stores = [
            MoveStore(kind, twins, (count, self._targets.size if kind.targeted else 1))
            for kind in KINDS
            if kind.drbd == crowd.drbd and (self._targets.size or not kind.targeted)
        ]
        self._primary: Whole = np.zeros(count, dtype=np.intp)
        self._secondary: Whole = np.zeros(count, dtype=np.intp)
        self._left: Floats = np.zeros(count)
        everyone = np.arange(count, dtype=np.intp)
        self._locate(everyone)
        self._evaluate_rows(everyone)

    def refresh(self, changed: Whole) -> None:
        """Evaluate anew the moves of instances on `changed` nodes, and those to them."""
        everyone = np.arange(len(self._crowd.instances), dtype=np.intp)
        before = np.isin(self._primary, changed) | np.isin(self._secondary, changed)
        self._locate(np.flatnonzero(before))
        touched = before | np.isin(self._primary, changed) | np.isin(self._secondary, changed)
        cells = touched.sum() * self._targets.size + changed.size * everyone.size
        if self._tagged or cells > 0.5 * everyone.size * self._targets.size:
            self._evaluate_rows(everyone)
            return
        self._evaluate_rows(np.flatnonzero(touched))
        columns = np.flatnonzero(np.isin(self._targets, changed))
        if columns.size:
            self._evaluate(np.flatnonzero(~touched), columns)

    def _locate(self, rows: Whole) -> None:
        """Where the instances in `rows` are."""
        table = self._table
        for row in rows.tolist():
            nodes = table.state.where[self._crowd.instances[row].name]
            self._primary[row] = table.position[nodes[0]]
            self._secondary[row] = table.position[nodes[-1]]

    def _left_reserved(self, rows: Whole) -> Floats:
        """Per instance, the memory reserved on its secondary once it is gone."""
        secondary = self._secondary[rows]
        if not (self._crowd.drbd and self._crowd.reserves):
            return self._table.reserved[secondary]
        peers = self._table.peers[secondary]
        peers[np.arange(rows.size), self._primary[rows]] -= self._crowd.memory[rows, 0]
        left: Floats = peers.max(axis=1)
        return left

    def _evaluate_rows(self, rows: Whole) -> None:
        """All moves of the instances in `rows`."""
        if self._tagged:
            self._tags = MoveTags(self._table, self._crowd)
        every = max(1, BLOCK // max(1, self._targets.size))
        for start in range(0, rows.size, every):
            part = rows[start : start + every]
            self._left[part] = self._left_reserved(part)
            self._evaluate(part, None)

    def _evaluate(self, rows: Whole, columns: Whole | None) -> None:
        """The moves of `rows` to the targets at `columns`; None: all moves."""
        for online, mirrored, part in self._by_condition(rows):
            stores = [s for s in self.stores if columns is None or s.kind.targeted]
            allowed = [s for s in stores if self._rules.allows(s.kind, online, mirrored)]
            for store in stores:
                if store not in allowed:
                    store.forbid(part)
            if allowed:
                self._write(allowed, part, columns)

    def _write(self, stores: list[MoveStore], rows: Whole, columns: Whole | None) -> None:
        targets = self._targets if columns is None else self._targets[columns]
        block = Block(
            self._table, self._crowd.take(rows), self._tags, self._twins.leaders, self._rules,
            self._migration, rows, targets, self._primary[rows], self._secondary[rows],
            self._left[rows],
        )  # fmt: skip
        targeted = [store for store in stores if store.kind.targeted]
        for store in stores:
            if not store.kind.targeted:
                store.write(rows, slice(None), *block.failovers())
        if targeted:
            where = slice(None) if columns is None else columns
            found = block.moves([store.kind for store in targeted])
            for store, (forbidden, shifts) in zip(targeted, found):
                store.write(rows, where, forbidden, shifts)

    def _by_condition(self, rows: Whole) -> Iterator[tuple[bool, bool, Whole]]:
        """Rows by whether their primaries, and their secondaries, are online."""
        if not rows.size:
            return
        primary = self._table.online[self._primary[rows]]
        secondary = self._table.online[self._secondary[rows]]
        for p in (True, False):
            for s in (True, False):
                part = rows[(primary == p) & (secondary == s)]
                if part.size:
                    yield p, s, part

    @property
    def instances(self) -> Sequence[Instance]:
        """In the order of the rows."""
        return self._crowd.instances

    def measured(self, store: MoveStore, moves: Whole, measure: Measure) -> Floats:
        """The measures of the moves at these flat positions, rounded for comparison."""
        scores = store.rounded(moves, self._table.totals)
        return np.round(measure(scores, store.prices_of(moves)), DECIMALS)

    def lowest(self, store: MoveStore, moves: Whole, measure: Measure) -> _Keyed:
        """The best of `moves` (flat positions), with its measure and its place among ties."""
        measures = self.measured(store, moves, measure)
        best = measures.min()
        width = store.shape[1]
        position, column, row = min(
            (self._order[row], column if store.kind.targeted else -1, row)
            for row, column in (divmod(int(m), width) for m in moves[measures == best])
        )
        instance = self._crowd.instances[row]
        before = self._table.state.where[instance.name]
        target = int(self._targets[column]) if store.kind.targeted else self._secondary[row]
        cell = np.array([row * width + max(column, 0)], dtype=np.intp)
        score = float(store.rounded(cell, self._table.totals)[0])
        move = FoundMove(score, instance, before, store.kind, self._table.nodes[target])
        return float(best), (position, column, KINDS.index(store.kind)), move


def _key(one: _Keyed) -> tuple[float, tuple[int, int, int]]:
    return one[:2]


def _migration(table: NodeTable) -> Floats | None:
    """Matrix source × target: whether migration tags allow it; None if they always do."""
    cluster = table.state.cluster
    refused = [may_not_receive(cluster, source, table.nodes) for source in table.nodes]
    if not any(refused):
        return None
    return np.array([[index not in row for index in table.nodes] for row in refused], dtype=bool)


