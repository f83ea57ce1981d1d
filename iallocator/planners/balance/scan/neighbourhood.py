"""All moves of all instances of one step, evaluated in array passes.

Between two steps only the nodes of the executed move change, so only the moves of
their instances, and those to them, are evaluated again.  The arithmetic is that of
`iallocator.scoring.score_delta`, the limits those of `iallocator.limits`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.limits.migration import may_not_receive
from iallocator.planners.balance.move_kinds import KINDS
from iallocator.planners.balance.scan.affinity import BondCosts, MoveBonds
from iallocator.planners.balance.scan.equivalent_metrics import find_twins
from iallocator.planners.balance.scan.exclusion import MoveTags, tags_matter
from iallocator.planners.balance.scan.found_move import FoundMove
from iallocator.planners.balance.scan.instance_batch import InstanceBatch
from iallocator.planners.balance.scan.metric_changes import Block
from iallocator.planners.balance.scan.move_bounds import CurrentScore, MoveStore, write_moves
from iallocator.planners.balance.scan.node_table import NodeTable
from iallocator.planners.balance.scan.prefilter import RelevantChecks
from iallocator.planners.balance.scan.snapshot import Snapshot
from iallocator.scoring.candidates import DECIMALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from iallocator.constraints.relations import Relations
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.balance.move_kinds import MoveRules
    from iallocator.planners.balance.scan.equivalent_metrics import Twins
    from iallocator.planners.balance.scan.node_table import Floats, Whole

    Measure = Callable[[Floats, Floats], Floats]
    _Keyed = tuple[float, tuple[int, int, int], "FoundMove"]

__all__ = ["MoveScan"]

BLOCK = 200_000
"""Moves that are evaluated at a time, so that the arrays stay in the cache's reach."""

GONE, LEAVING, ONLINE = range(3)
"""Conditions of a node: not online; online, but to be powered down; online to stay."""

SLACK = 1e-9
"""By how much rounding may lift a bound above the score, per unit of score."""


class MoveScan:
    """The moves of `instances` among the nodes of `scope`, as `state` is now.

    `fixed` holds the capacities of every node of the cluster, `relations` the bonds between
    instances: musts forbid moves, broken wishes count in scores.  After a change of the
    state call `refresh` with the nodes that changed.
    """

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        fixed: Sequence[tuple[float, ...]],
        instances: Sequence[Instance],
        rules: MoveRules,
        relations: Relations | None = None,
    ) -> None:
        self.state = state
        self._bonds = None if relations is None else BondCosts(relations, relations.live(state))
        self.table = NodeTable(state, scope, fixed)
        tagged = tags_matter(self.table)
        kinds: dict[tuple[bool, ...], list[Instance]] = {}
        for instance in instances:
            kinds.setdefault(InstanceBatch.kind(instance), []).append(instance)
        crowds = [InstanceBatch(members) for members in kinds.values()]
        order = {instance.name: k for k, instance in enumerate(instances)}
        twins = self._twins = find_twins(self.table, crowds, tagged)
        self._ground = CurrentScore(self.table.totals, twins, self._penalty())
        migration = _migration(self.table)
        self._scans = [
            _CrowdScan(self.table, crowd, twins, rules, migration, order, tagged, self._bonds)
            for crowd in crowds
        ]

    def score(self) -> float:
        """The score as things are."""
        return self._ground.present

    def refresh(self, nodes: Iterable[int]) -> None:
        """Evaluate anew what depends on these nodes of the cluster."""
        positions = sorted({self.table.position[index] for index in nodes})
        self.table.refresh(positions)
        self._ground = CurrentScore(self.table.totals, self._twins, self._penalty())
        for scan in self._scans:
            scan.refresh(np.array(positions, dtype=np.intp))

    def _penalty(self) -> float:
        return 0.0 if self._bonds is None else self._bonds.penalty(self.table.position)

    def bar(self, move: FoundMove) -> None:
        """Find `move` no more, until it is evaluated anew because a node of it has changed."""
        for scan in self._scans:
            scan.bar(move)

    def trial(self) -> Snapshot:
        """A time of changes that are forgotten at its end; the state must be as before then."""
        stores = [store for scan in self._scans for store in scan.stores]
        bonds = [scan.bonds for scan in self._scans if scan.bonds is not None]
        return Snapshot([self, self.table, *self._scans, *stores, *bonds])

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
        promising = []
        for scan, store, bound in self._bounds(measure, budget):
            first = int(bound.argmin())
            low = float(bound.ravel()[first])
            if low < np.inf:
                promising.append((low, first, scan, store, bound.ravel()))
        promising.sort(key=_low)
        limit, slack = np.inf, 0.0
        for low, first, scan, store, _ in promising:
            if low <= limit + slack:
                move = np.array([first], dtype=np.intp)
                limit = min(limit, float(scan.measured(store, move, measure, self._ground)[0]))
                slack = SLACK * max(1.0, abs(limit), abs(self.score()))
        found: list[_Keyed] = []
        for low, _, scan, store, bound in promising:
            if low <= limit + slack:
                moves = np.flatnonzero(bound <= limit + slack)
                found.append(scan.lowest(store, moves, measure, self._ground))
        return min(found, key=_key)[2] if found else None

    def lowest(self, count: int, each: int) -> list[FoundMove]:
        """Moves with low scores, best first: about `count`, at most `each` of an instance."""
        measure: Measure = lambda scores, prices: scores
        near: list[tuple[float, int, _CrowdScan, MoveStore]] = []
        for scan, store, bound in self._bounds(measure, np.inf):
            flat = bound.ravel()
            moves = np.argpartition(flat, min(count * each, flat.size) - 1)[: count * each]
            moves = moves[np.isfinite(flat[moves])]
            scores = scan.measured(store, moves, measure, self._ground)
            near += [(float(score), int(move), scan, store) for score, move in zip(scores, moves)]
        near.sort(key=_low)
        taken: dict[str, int] = {}
        chosen: list[_Keyed] = []
        for score, cell, scan, store in near:
            if len(chosen) >= count and score > chosen[-1][0]:
                break  # those of equal score may stand before it
            name = scan.instances[cell // store.shape[1]].name
            taken[name] = taken.get(name, 0) + 1
            if taken[name] <= each:
                one = np.array([cell], dtype=np.intp)
                chosen.append(scan.lowest(store, one, measure, self._ground))
        chosen.sort(key=_key)
        return [move for *_, move in chosen[:count]]

    def pair_scores(self, firsts: Sequence[FoundMove], seconds: Sequence[FoundMove]) -> Floats:
        """Matrix of the scores after one of each, nearly exact; see `movepairs`."""
        from iallocator.planners.balance.scan.move_pairs import pair_scores

        return pair_scores(self.table, firsts, seconds)

    def _bounds(
        self, measure: Measure, budget: float
    ) -> list[tuple[_CrowdScan, MoveStore, Floats]]:
        """Per kind of moves what their measures are not below."""
        found = []
        for scan in self._scans:
            for store in scan.stores:
                bound = measure(store.bounds(self._ground), store.prices)
                if np.isfinite(budget):
                    bound = np.where(store.prices <= budget, bound, np.inf)
                found.append((scan, store, bound))
        return found


class _CrowdScan:
    """The moves of one crowd."""

    def __init__(
        self,
        table: NodeTable,
        crowd: InstanceBatch,
        twins: Twins,
        rules: MoveRules,
        migration: Floats | None,
        order: dict[str, int],
        tagged: bool,
        bonds: BondCosts | None,
    ) -> None:
        self._table = table
        bound = bonds and any(bonds.relations.binds(i.name) for i in crowd.instances)
        self.bonds = MoveBonds(table, crowd.instances, bonds) if bonds and bound else None
        self._crowd = crowd
        self._twins = twins
        self._rules = rules
        self._migration = migration
        self._order = [order[instance.name] for instance in crowd.instances]
        self._rows = {instance.name: row for row, instance in enumerate(crowd.instances)}
        self._tagged = tagged
        self._tags: MoveTags | None = None
        count = len(crowd.instances)
        self._targets: Whole = np.flatnonzero(table.online)
        self._condition = _conditions(table, rules)
        self.stores = [
            MoveStore(kind, twins, (count, self._targets.size if kind.targeted else 1))
            for kind in KINDS
            if kind.drbd == crowd.drbd and (self._targets.size or not kind.targeted)
        ]
        self._primary: Whole = np.zeros(count, dtype=np.intp)
        self._secondary: Whole = np.zeros(count, dtype=np.intp)
        self._left: Floats = np.zeros(count)
        self._breakable = RelevantChecks(table, crowd, tagged)
        everyone = np.arange(count, dtype=np.intp)
        self._locate(everyone)
        self._evaluate_rows(everyone)

    def bar(self, move: FoundMove) -> None:
        """Forbid `move`, if it is of an instance of the crowd."""
        row = self._rows.get(move.instance.name)
        for store in self.stores if row is not None else ():
            if store.kind is move.kind:
                target = self._table.position[move.target]
                column = np.flatnonzero(self._targets == target) if store.kind.targeted else 0
                store.linear[row, column] = np.inf

    def refresh(self, changed: Whole) -> None:
        """Evaluate anew the moves of instances on `changed` nodes, and those to them."""
        self._breakable = RelevantChecks(self._table, self._crowd, self._tagged)
        everyone = np.arange(len(self._crowd.instances), dtype=np.intp)
        marked = np.zeros(len(self._table.nodes), dtype=bool)
        marked[changed] = True
        before = marked[self._primary] | marked[self._secondary]
        self._locate(np.flatnonzero(before))
        touched = before | marked[self._primary] | marked[self._secondary]
        if self.bonds is not None:
            touched[self.bonds.refresh()] = True
        cells = touched.sum() * self._targets.size + changed.size * everyone.size
        if self._tagged or cells > 0.5 * everyone.size * self._targets.size:
            self._evaluate_rows(everyone)
            return
        self._evaluate_rows(np.flatnonzero(touched))
        columns = np.flatnonzero(marked[self._targets])
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
            self._table, self._crowd.take(rows), self._tags, self._twins, self._rules,
            self._breakable, self._migration, rows, targets, self._primary[rows],
            self._secondary[rows], self._left[rows], self._condition > GONE,
        )  # fmt: skip
        targeted = [store for store in stores if store.kind.targeted]
        for store in stores:
            if not store.kind.targeted:
                write_moves([store], rows, slice(None), [block.failovers()])
                self._bind(store, rows, slice(None), targets)
        if targeted:
            where = slice(None) if columns is None else columns
            found = block.moves([store.kind for store in targeted])
            write_moves(targeted, rows, where, found)
            for store in targeted:
                self._bind(store, rows, where, targets)

    def _bind(self, store: MoveStore, rows: Whole, columns: Whole | slice, targets: Whole) -> None:
        """Have the bonds of the instances in `rows` heeded."""
        if self.bonds is None:
            return
        found = self.bonds.verdict(store.kind, rows, self._primary, self._secondary, targets)
        if found is not None:
            where = (rows, columns) if isinstance(columns, slice) else (rows[:, None], columns)
            store.add(where, *found)

    def _by_condition(self, rows: Whole) -> Iterator[tuple[bool, bool, Whole]]:
        """Rows by the condition of both nodes; whether primaries, and secondaries, are online."""
        if not rows.size:
            return
        primary = self._condition[self._primary[rows]]
        secondary = self._condition[self._secondary[rows]]
        for p in (ONLINE, LEAVING, GONE):
            for s in (ONLINE, LEAVING, GONE):
                part = rows[(primary == p) & (secondary == s)]
                if part.size:
                    yield p == ONLINE, s == ONLINE, part

    @property
    def instances(self) -> Sequence[Instance]:
        """In the order of the rows."""
        return self._crowd.instances

    def measured(
        self, store: MoveStore, moves: Whole, measure: Measure, ground: CurrentScore
    ) -> Floats:
        """The measures of the moves at these flat positions, rounded for comparison."""
        scores = store.rounded(moves, ground)
        return np.round(measure(scores, store.prices_of(moves)), DECIMALS)

    def lowest(
        self, store: MoveStore, moves: Whole, measure: Measure, ground: CurrentScore
    ) -> _Keyed:
        """The best of `moves` (flat positions), with its measure and its place among ties."""
        scores = store.rounded(moves, ground)
        measures = np.round(measure(scores, store.prices_of(moves)), DECIMALS)
        best = measures.min()
        width = store.shape[1]
        position, column, row, place = min(
            (self._order[row], column if store.kind.targeted else -1, row, k)
            for row, column, k in (
                (*divmod(int(moves[k]), width), k) for k in np.flatnonzero(measures == best)
            )
        )
        instance = self._crowd.instances[row]
        before = self._table.state.where[instance.name]
        target = int(self._targets[column]) if store.kind.targeted else self._secondary[row]
        index, score = self._table.nodes[target], float(scores[place])
        move = FoundMove(score, instance, before, store.kind, index)
        return float(best), (position, column, KINDS.index(store.kind)), move


def _low(promising: tuple[Any, ...]) -> float:
    low: float = promising[0]
    return low


def _key(one: _Keyed) -> tuple[float, tuple[int, int, int]]:
    return one[:2]


def _conditions(table: NodeTable, rules: MoveRules) -> Whole:
    """The condition of each node of the table."""
    found: Whole = np.where(table.online, ONLINE, GONE).astype(np.intp)
    found[[table.position[index] for index in rules.leaving if index in table.position]] = LEAVING
    return found


def _migration(table: NodeTable) -> Floats | None:
    """Matrix source × target: whether migration tags allow it; None if they always do."""
    cluster = table.state.cluster
    refused = [may_not_receive(cluster, source, table.nodes) for source in table.nodes]
    if not any(refused):
        return None
    return np.array([[index not in row for index in table.nodes] for row in refused], dtype=bool)
