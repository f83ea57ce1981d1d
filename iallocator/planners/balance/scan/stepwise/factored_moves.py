"""The moves of one kind, none of which is kept: what they change is a sum of products.

Kept is, per instance, what a move changes where the instance is, and what no move of it is
below.  What the target adds follows from `Factors`; only the memory that is reserved for
failovers, a maximum over peers, is looked up (`Reserves`).  Bounds of many moves are a product
of matrices; what is worth an exact score is worked out move by move.

Once found, the bounds of an instance stand until one of its nodes changes.  When other nodes
change they only fall with the score as a whole (`Drift`), and to new moves to these nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.planners.balance.scan.changes import Changes
from iallocator.planners.balance.scan.move_bounds import MoveStore, chords_between
from iallocator.planners.balance.scan.row_bounds import extremes
from iallocator.planners.balance.scan.stepwise.drift import Drift
from iallocator.planners.balance.scan.stepwise.reserves import Reserves
from iallocator.scoring.score_delta import spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.aliases import Floats, Truths
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.equivalent_metrics import Twins
    from iallocator.planners.balance.scan.move_bounds import CurrentScore
    from iallocator.planners.balance.scan.node_table import Whole
    from iallocator.planners.balance.scan.stepwise.factors import Common


__all__ = ["FactoredMoves"]

PART = 100_000
"""So many moves are bounded at a time."""

MARGIN = 0.05
"""By how much of their range values of nodes may leave it before all bounds are found anew."""


class FactoredMoves(MoveStore):
    """A store whose moves are bounded by products; see `MoveStore`.

    Matrices of many moves are targets × instances here: those of many instances stand together.

    Attributes
    ----------
    leaving:
        What moves change where the instances are, instances × 1: see `Block.leaving`.
    barred:
        Row and column of moves that are forbidden until they are evaluated anew.
    """

    def __init__(self, kind: MoveKind, twins: Twins, common: Common, ground: CurrentScore) -> None:
        rows, spreads = common.primary.size, len(twins.spreads)
        width = common.targets.size if kind.targeted else 1
        super().__init__(kind, twins, (rows, width), kept=0)
        self._common = common
        self._ground = ground
        self.leaving = Changes(kind, twins, (rows, 1))
        self.barred: list[tuple[int, int]] = []
        mirrors = kind.letters in {("r",), ("f", "r")}
        self._amounts = common.factors.mirrors if mirrors else common.factors.leads
        self._uneven = twins.moved == spreads  # sums of steady statistics change
        reserves = kind.targeted and common.memory.any()
        self._reserves = Reserves(common, kind, twins) if reserves else None
        self._slopes: Floats = np.zeros((spreads, rows))  # by which bounds were found
        self._tilts: Floats = np.zeros((spreads, rows))
        self._products: Floats = np.zeros((len(self._amounts) * (2 + self._uneven), rows))
        self._base: Floats = np.zeros(rows)
        self._drift = Drift(rows, spreads)
        self._ends: tuple[Floats, Floats] | None = None
        self._renew_nodes()

    # Kept up to date

    def refresh(self, ground: CurrentScore) -> None:
        """Take the score, and the values of the nodes, anew."""
        self._drift.fall(self._ground, ground)
        self._ground = ground
        self._renew_nodes()

    def _renew_nodes(self) -> None:
        """Take the values of the nodes anew; all bounds, too, where they are beyond their ends."""
        common = self._common
        scales = common.factors.scales
        valued = 2 * scales * common.table.values[self.twins.steady][:, common.targets]
        if not self.kind.targeted:
            scales, valued = np.zeros((len(scales), 1)), np.zeros((len(scales), 1))
        self._nodes = np.concatenate([scales * scales, valued, *([scales] * self._uneven)])
        low, high = extremes(self._nodes)
        if self._ends is not None:
            known = self._ends
            if (low < known[0]).any() or (high > known[1]).any():
                self._drift.forget()
            elif (high - low > (1 - 4 * MARGIN) * (known[1] - known[0])).all():
                return
        margin = MARGIN * (high - low)
        self._ends = low - margin, high + margin

    def bar(self, row: int, column: int) -> None:
        """Forbid this move."""
        self.barred.append((row, column))

    def unbar(self, rows: Truths, columns: Truths) -> None:
        """Forbid no more the moves of `rows`, nor those to `columns`."""
        self.barred = [(r, c) for r, c in self.barred if not (rows[r] or columns[c])]

    def forbid(self, rows: Whole) -> None:
        """No move of these instances."""
        self.leaving.forbid(rows)

    def forget(self, rows: Whole, left: Floats) -> None:
        """All moves of `rows` are new; `left`: reserved on their secondaries without them."""
        self._drift.forget(rows)
        if self._reserves is not None:
            self._reserves.renew(rows, left)

    def lower(self, columns: Whole) -> None:
        """The moves of all instances to `columns` are new; limits are not asked."""
        if not self.kind.targeted:
            return
        bound = self._nodes[:, columns].T @ self._products
        if self._reserves is not None:
            more = self._reserves.added(slice(None), self._common.targets[columns, None])
            self._drift.forget(self._reserves.beyond(more))
            bound += self._reserves.bound(more, self._slopes, self._tilts)
        self._drift.lower(bound.min(axis=0) + self._base)

    # Bounds

    def floors(self, ground: CurrentScore) -> Floats:
        """As of `MoveStore`; who is not known is looked at."""
        for _, part in self._parts(np.flatnonzero(self._drift.floor == -np.inf)):
            self._look(part)
        return self._drift.floor + ground.present

    def look(self, rows: Whole) -> Floats:
        """As of `MoveStore`."""
        found = np.empty((rows.size, self.shape[1]))
        for start, part in self._parts(rows):
            found[start : start + part.size] = self._look(part).T
        return found

    def _parts(self, rows: Whole) -> Iterator[tuple[int, Whole]]:
        size = max(1, PART // self.shape[1])
        for start in range(0, rows.size, size):
            check()
            yield start, rows[start : start + size]

    def _look(self, rows: Whole) -> Floats:
        """The bounds of all moves of `rows`; what they are not below is noted."""
        more = None if self._reserves is None else self._reserves.known(rows)
        low, high = self._extremes(rows)
        chords, least, most = chords_between(low, high, self._ground)
        self._note(rows, chords.slopes, chords.tilts, chords.constant)
        bound: Floats = self._nodes.T @ self._products[:, rows]
        if self._reserves is not None and more is not None:
            bound += self._reserves.bound(more, chords.slopes, chords.tilts)
        if self.kind.targeted:
            self._limit(bound, rows)
        self._close(bound, rows)
        bound += self._base[rows]
        widest = np.maximum(-low[1], high[1]).max(axis=1)
        self._drift.found(rows, bound.min(axis=0), least, most, widest)
        bound += self._ground.present
        return bound

    def _note(self, rows: Whole, slopes: Floats, tilts: Floats, constant: Floats) -> None:
        """Keep the coefficients of bounds, and what of them does not depend on the target."""
        own, count = self._amounts[:, rows], len(self._amounts)
        by_square = slopes[:count] * own
        parts = [by_square * own, by_square, *([tilts[:count] * own] * self._uneven)]
        self._products[:, rows] = np.concatenate(parts)
        self._slopes[:, rows], self._tilts[:, rows] = slopes, tilts
        base = self.leaving.linear[rows, 0] + constant - self._ground.present
        base += (slopes * self.leaving.squares[rows, 0].T).sum(axis=0)
        for j, k in enumerate(self.twins.spreads):
            if k in self.leaving.sums:
                base += tilts[j] * self.leaving.sums[k][rows, 0]
        self._base[rows] = base

    def _extremes(self, rows: Whole) -> tuple[Floats, Floats]:
        """Least and most of what moves of `rows` add: (squares, sums) × spreads × rows."""
        own, count = self._amounts[:, rows], len(self._amounts)
        low: Floats = np.stack([self.leaving.squares[rows, 0].T, self._leaving_sums(rows)])
        high = low.copy()
        assert self._ends is not None
        ends = [end[:, None] for end in self._ends]
        for side, flat, choose in ((low, 0, np.minimum), (high, 1, np.maximum)):
            side[0][:count] += own * own * ends[flat][:count]
            values = (end[count : 2 * count] for end in ends)
            side[0][:count] += choose(*(own * value for value in values))
            if self._uneven:
                side[1][:count] += choose(*(own * end[2 * count :] for end in ends))
        if self._reserves is not None:
            low[:, count] += self._reserves.low[:, rows]
            high[:, count] += self._reserves.high[:, rows]
        return low, high

    def _limit(self, bound: Floats, rows: Whole) -> None:
        """Forbid moves to nodes that do not take the instances, or where these are."""
        common = self._common
        limits = common.limits(self.kind, rows)
        if limits is not None:
            bound += limits[1].T
            bound[limits[0].T] = np.inf
        for nodes in (common.primary, common.secondary):
            columns = common.column[nodes[rows]]
            there = np.flatnonzero(columns >= 0)
            bound[columns[there], there] = np.inf

    def _close(self, bound: Floats, rows: Whole) -> None:
        """Forbid moves that are barred."""
        place = {row: k for k, row in enumerate(rows.tolist())} if self.barred else {}
        for row, column in self.barred:
            if row in place:
                bound[column, place[row]] = np.inf

    # Scores

    def scores(self, moves: Whole, ground: CurrentScore) -> Floats:
        """As of `MoveStore`, of moves whose bounds are finite."""
        rows, columns = np.divmod(moves, self.shape[1])
        squares, sums, linear = self._changes(rows, columns)
        variances = spread(ground.sums + sums, ground.squares + squares, ground.counts)
        roots: Floats = ground.weights * np.sqrt(variances)
        score: Floats = ground.rest + linear + roots.sum(axis=0)
        return score

    def _changes(self, rows: Whole, columns: Whole) -> tuple[Floats, Floats, Floats]:
        """What moves add to squares and sums, spreads × moves, and to the rest of the score."""
        own, count = self._amounts[:, rows], len(self._amounts)
        nodes = self._nodes[:, columns]
        squares = self.leaving.squares[rows, 0].T.copy()
        squares[:count] += own * (own * nodes[:count] + nodes[count : 2 * count])
        sums, linear = self._leaving_sums(rows), self.leaving.linear[rows, 0]
        if self._uneven:
            sums[:count] += own * nodes[2 * count :]
        if self._reserves is not None:
            more, added = self._reserves.added(rows, self._common.targets[columns])
            squares[count] += more
            sums[count] += added
            linear = linear + self._reserves.weight * added
        if self.kind.targeted:
            linear = linear + self._common.failing(self.kind, rows, columns)
        return squares, sums, linear

    def _leaving_sums(self, rows: Whole) -> Floats:
        """What moves of `rows` add to sums where the instances are, spreads × rows."""
        found: Floats = np.zeros((len(self.twins.spreads), rows.size))
        for j, k in enumerate(self.twins.spreads):
            if k in self.leaving.sums:
                found[j] = self.leaving.sums[k][rows, 0]
        return found

    def lowest(self, ground: CurrentScore, count: int) -> tuple[Whole, Floats]:
        """As of `MoveStore`."""
        moves, bounds = np.zeros(0, dtype=np.intp), np.zeros(0)
        for _, part in self._parts(np.arange(self.shape[0], dtype=np.intp)):
            found = self._look(part).T.ravel()
            here = np.flatnonzero(np.isfinite(found))
            cells = part[here // self.shape[1]] * self.shape[1] + here % self.shape[1]
            moves, bounds = np.concatenate([moves, cells]), np.concatenate([bounds, found[here]])
            best = np.argsort(bounds, kind="stable")[:count]
            moves, bounds = moves[best], bounds[best]
        return moves, bounds
