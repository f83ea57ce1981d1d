"""Evaluate the moves of a batch of similar instances in arrays, and again only changed moves."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.planners.balance.move_kinds import BY_LETTERS, MOVE_KINDS, ScoredMoves
from iallocator.planners.balance.scan.affinity import MoveAffinity
from iallocator.planners.balance.scan.arrays import MoveTags
from iallocator.planners.balance.scan.blocks import Block, MoveNodes, RelevantChecks, Shift
from iallocator.planners.balance.scan.move_table import MoveStore, Page, RemadeMoves
from iallocator.planners.balance.scan.target_terms import RoleAmounts
from iallocator.tolerances import SCORE_DECIMALS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.affinity import AffinityCosts
    from iallocator.planners.balance.scan.arrays import InstanceBatch, NodeTable, Whole
    from iallocator.planners.balance.scan.blocks import MoveEffects, ScanSetting
    from iallocator.planners.balance.scan.bounds import CurrentScore

    Measure = Callable[[Floats, Floats], Floats]
    Keyed = tuple[float, tuple[int, int, int], ScoredMoves]
    """The measure, the order among moves with an equal measure, and the move."""

__all__ = ["BatchScan", "moves_of"]

MOVES_AT_ONCE = 16_384
"""Moves that are evaluated at once: 128 KiB in each temporary array for each statistic."""

IS_OFFLINE, IS_CLOSED, IS_LEAVING, IS_ONLINE = range(4)
"""Conditions of a node: offline; up, but not online (drained); to be powered down; online."""

CONDITIONS = 4
"""The number of these conditions."""


class BatchScan:
    """All moves of the instances of one batch; the instances differ only in amounts."""

    def __init__(
        self,
        setting: ScanSetting,
        batch: InstanceBatch,
        affinity: AffinityCosts | None,
        current: CurrentScore,
    ) -> None:
        self._setting = setting
        table, rules = setting.table, setting.rules
        self._table = table
        self.affinity = MoveAffinity(table, batch.instances, affinity) if affinity else None
        self._batch = batch
        self._rules = rules
        self._order: Whole = np.array([setting.order[i.name] for i in batch.instances], np.intp)
        rows = {instance.name: row for row, instance in enumerate(batch.instances)}
        self._rows = MappingProxyType(rows)  # read-only, so that a trial does not copy it
        self._tags: MoveTags | None = None
        count = len(batch.instances)
        self._targets: Whole = np.flatnonzero(table.online)
        width = self._targets.size
        closed = [
            IS_OFFLINE if table.state.cluster.nodes[i].offline else IS_CLOSED for i in table.nodes
        ]
        self._condition: Whole = np.where(table.online, IS_ONLINE, closed).astype(np.intp)
        leaving = [table.position[index] for index in rules.leaving if index in table.position]
        self._condition[leaving] = IS_LEAVING
        self._primary: Whole = np.zeros(count, dtype=np.intp)
        self._secondary: Whole = np.zeros(count, dtype=np.intp)
        self._left: Floats = np.zeros(count)
        self._most = batch.most_demanding()
        self._breakable = RelevantChecks(table, batch, self._most, setting.tagged)
        self._amounts = [
            RoleAmounts(table, setting.statistics, batch, amounts, self._targets)
            for amounts in (batch.as_primary, batch.as_secondary)
        ]
        # A store for each kind of moves. It keeps the moves, or computes them when needed.
        self.stores: list[MoveStore] = [
            MoveStore(kind, setting.statistics, (count, width if kind.targeted else 1))
            if setting.keep or not kind.targeted
            else RemadeMoves(kind, setting.statistics, (count, width), self._make)
            for kind in MOVE_KINDS
            if kind.drbd == batch.drbd and (width or not kind.targeted)
        ]
        self._set_terms()
        every_row = np.arange(count, dtype=np.intp)
        self._locate(every_row)
        self._evaluate_rows(every_row, current)

    def bar(self, move: Move) -> None:
        """Exclude `move` until one of its nodes changes, if it moves an instance of the batch."""
        row = self._rows.get(move.instance.name)
        if row is None:
            return
        kind = BY_LETTERS[move.letters]
        for store in self.stores:
            if store.kind is kind:
                columns: Sequence[int] | Whole = [0]
                if kind.targeted:
                    (new,) = move.nodes.difference(move.before)
                    columns = np.flatnonzero(self._targets == self._table.position[new])
                for column in columns:
                    store.bar(row, int(column))

    def refresh(self, changed: Whole, current: CurrentScore) -> None:
        """Evaluate the moves again that depend on the nodes at positions `changed`.

        These are moves of instances on these nodes, moves to them, and moves of instances with
        affinity to moved instances.
        """
        self._breakable = RelevantChecks(self._table, self._batch, self._most, self._setting.tagged)
        self._set_terms()
        every_row = np.arange(len(self._batch.instances), dtype=np.intp)
        marked = np.zeros(len(self._table.nodes), dtype=bool)
        marked[changed] = True
        before = marked[self._primary] | marked[self._secondary]
        self._locate(np.flatnonzero(before))
        touched = before | marked[self._primary] | marked[self._secondary]
        if self.affinity is not None:
            touched[self.affinity.refresh()] = True
        cells = touched.sum() * self._targets.size + changed.size * every_row.size
        if self._setting.tagged or cells > 0.5 * every_row.size * self._targets.size:
            self._unbar(np.ones_like(touched), marked)
            self._evaluate_rows(every_row, current)
            return
        self._unbar(touched, marked)
        self._evaluate_rows(np.flatnonzero(touched), current)
        columns = np.flatnonzero(marked[self._targets])
        if columns.size:
            rows = np.flatnonzero(~touched)
            every = max(1, MOVES_AT_ONCE // columns.size)
            for start in range(0, rows.size, every):
                check()
                part = rows[start : start + every]
                pages = {store: Page(store, part, columns) for store in self._remade()}
                self._evaluate(self._written(pages), part, columns)
                for remade, page in pages.items():
                    remade.learn_some(part, columns, page.moves.swapaxes(0, 1))

    def _set_terms(self) -> None:
        """Set what moves add to deviations at their targets in the present state."""
        if not self._targets.size:
            return
        lead, follow = (amounts.terms() for amounts in self._amounts)
        for store in self.stores:
            if store.kind.targeted:
                store.terms = lead if store.kind.letters[-1] != "r" else follow

    def _unbar(self, rows: Truths, nodes: Truths) -> None:
        """Permit barred moves of `rows`, and barred moves to `nodes` of the table, again."""
        for store in self._remade():
            store.unbar(rows, nodes[self._targets])

    def _remade(self) -> list[RemadeMoves]:
        """Return the stores that keep no moves, but compute them when needed."""
        return [store for store in self.stores if isinstance(store, RemadeMoves)]

    def _make(self, store: RemadeMoves, rows: Whole) -> Page:
        """Compute all moves of `rows` of `store` in the present state; none of them is barred."""
        page = Page(store, rows)
        self._evaluate([page], rows, None)
        return page

    def _locate(self, rows: Whole) -> None:
        """Store the present nodes of the instances in `rows`."""
        table = self._table
        for row in rows.tolist():
            nodes = table.state.where[self._batch.instances[row].name]
            self._primary[row] = table.position[nodes[0]]
            self._secondary[row] = table.position[nodes[-1]]

    def _evaluate_rows(self, rows: Whole, current: CurrentScore) -> None:
        """Evaluate all moves of the instances in `rows`."""
        if self._setting.tagged:
            self._tags = MoveTags(self._table, self._batch)
        every = max(1, MOVES_AT_ONCE // max(1, self._targets.size))
        for start in range(0, rows.size, every):
            check()
            part = rows[start : start + every]
            # The MiB reserved on each secondary after the instance has left
            secondary = self._secondary[part]
            if self._batch.drbd and self._batch.reserves:
                peers = self._table.peers[secondary]
                peers[np.arange(part.size), self._primary[part]] -= self._batch.memory[part, 0]
                self._left[part] = peers.max(axis=1)
            else:
                self._left[part] = self._table.reserved[secondary]
            pages = {store: Page(store, part) for store in self._remade()}
            self._evaluate(self._written(pages), part, None)
            for store, page in pages.items():
                store.learn(part, page, current)

    def _written(self, pages: Mapping[RemadeMoves, Page]) -> list[MoveStore]:
        """Return the stores to write to: `pages` replace the stores that keep no moves."""
        return [pages[s] if isinstance(s, RemadeMoves) else s for s in self.stores]

    def _evaluate(self, stores: list[MoveStore], rows: Whole, columns: Whole | None) -> None:
        """Write to `stores` the moves of `rows` to the targets at `columns`; None: to all."""
        stores = [s for s in stores if columns is None or s.kind.targeted]
        if not rows.size:
            return
        primary = self._condition[self._primary[rows]]
        secondary = self._condition[self._secondary[rows]]
        both = primary * CONDITIONS + secondary
        for number in np.flatnonzero(np.bincount(both)).tolist():
            p, s = divmod(number, CONDITIONS)
            part = rows[both == number]
            condition = p == IS_ONLINE, s == IS_ONLINE, p > IS_OFFLINE
            allowed = [one for one in stores if self._rules.allows(one.kind, *condition)]
            for store in stores:
                if store not in allowed:
                    store.forbid(part)
            if allowed:
                self._write(allowed, part, columns)

    def _write(self, stores: list[MoveStore], rows: Whole, columns: Whole | None) -> None:
        """Write the moves of `rows` to `stores`; the nodes of all rows must be in one condition."""
        targets = self._targets if columns is None else self._targets[columns]
        across = columns is not None  # operations on arrays are slow if the last axis is short
        where = MoveNodes(
            rows,
            targets,
            self._primary[rows],
            self._secondary[rows],
            self._left[rows],
            self._condition > IS_CLOSED,
            across,
        )
        batch = self._batch.take(rows, across)
        block = Block(self._setting, batch, self._amounts, self._tags, self._breakable, where)
        for store in stores:
            check()
            effects = block.moves(store.kind)
            self._bind(effects, store.kind, where)
            if columns is None:
                store.write_rows(rows, effects, block.all_add(store.kind))
            else:
                store.write_columns(rows, columns, effects)

    def _bind(self, effects: MoveEffects, kind: MoveKind, where: MoveNodes) -> None:
        """Add the effects of affinity constraints to those of moves."""
        if self.affinity is None:
            return
        bound = self.affinity.forbidden_and_penalties(
            kind, where.rows, self._primary, self._secondary, where.targets
        )
        if bound is not None:
            forbidden, costs = (part.T if where.across else part for part in bound)
            effects.forbidden = effects.forbidden | forbidden
            effects.shifts = (*effects.shifts, Shift(costs))

    @property
    def instances(self) -> Sequence[Instance]:
        """Return the instances in the order of the rows."""
        return self._batch.instances

    def lowest(self, store: MoveStore, moves: Whole, scores: Floats, measure: Measure) -> Keyed:
        """Return the best of `moves`, with its measure and its order among equal moves.

        `moves`: positions in `store`, read row by row. `scores`: the rounded score after each move.
        """
        best, equal = _lowest_places(measure(scores, store.traffic_of(moves)))
        rows, columns = np.divmod(moves[equal], store.shape[1])
        place = equal[np.lexsort((columns, self._order[rows]))[0]]
        _, key, move = self.keyed(store, int(moves[place]), float(scores[place]))
        return best, key, move

    def equals(
        self, store: MoveStore, moves: Whole, scores: Floats, measure: Measure
    ) -> list[Keyed]:
        """Return all of `moves` with the lowest measure; the parameters are those of `lowest`."""
        best, equal = _lowest_places(measure(scores, store.traffic_of(moves)))
        keyed = (self.keyed(store, int(moves[k]), float(scores[k])) for k in equal.tolist())
        return [(best, key, move) for _, key, move in keyed]

    def _place(self, store: MoveStore, cell: int) -> tuple[int, int]:
        """Return the ranks of instance and target, which order moves of equal scores.

        `cell` is the position of the move in `store`, read row by row. The rank of the target is -1
        for moves without a target.
        """
        row, column = divmod(cell, store.shape[1])
        return int(self._order[row]), column if store.kind.targeted else -1

    def keyed(self, store: MoveStore, cell: int, score: float) -> Keyed:
        """Return the move at position `cell` of `store`, with `score` as its measure."""
        row, column = divmod(cell, store.shape[1])
        position, column_place = self._place(store, cell)
        instance = self._batch.instances[row]
        before = self._table.state.where[instance.name]
        target = int(self._targets[column]) if store.kind.targeted else self._secondary[row]
        move = store.kind.move(instance, before, self._table.nodes[target])
        key = position, column_place, MOVE_KINDS.index(store.kind)
        return score, key, ScoredMoves([move], score)


def moves_of(table: NodeTable, batch: InstanceBatch) -> int:
    """Return the number of moves with a target that the instances of `batch` have."""
    kinds = sum(kind.targeted and kind.drbd == batch.drbd for kind in MOVE_KINDS)
    return len(batch.instances) * int(table.online.sum()) * kinds


def _lowest_places(measures: Floats) -> tuple[float, Whole]:
    """Return the lowest of the rounded `measures`, and the positions of all that are as low."""
    rounded = np.round(measures, SCORE_DECIMALS)
    lowest = rounded.min()
    return float(lowest), np.flatnonzero(rounded == lowest)
