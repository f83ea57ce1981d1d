"""The moves of one kind in arrays: what each move adds, lower bounds, and scores.

`MoveStore` keeps all moves, instances × nodes.  `RemadeMoves` keeps no moves, for clusters on which
they need too much memory: it computes moves again when they are needed, and keeps only the lowest
bound of each instance (`RowBounds`).  In each step, few of these bounds are low enough to compute
the moves.

A trial copies small arrays.  The arrays of all moves are large and change little, so a journal
records the values that are overwritten.
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from iallocator.planners.balance.scan.bounds import RowBounds, chords_between
from iallocator.planners.balance.scan.target_terms import no_terms
from iallocator.scoring.metrics import spread
from iallocator.tolerances import SCORE_DECIMALS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.arrays import Whole
    from iallocator.planners.balance.scan.blocks import MoveEffects, RowEffects
    from iallocator.planners.balance.scan.bounds import CurrentScore, Extremes, RowChords
    from iallocator.planners.balance.scan.proportional_statistics import ProportionalStatistics

__all__ = ["MOVES_PER_PAGE", "MoveStore", "Page", "RemadeMoves", "Snapshot"]


class Snapshot:
    """A context that restores all attributes of `parts` at its end.

    It is used beside `State.trial`, because to evaluate the moves again would take 15 % longer with
    80 nodes, and 25 % longer with 8 (``balance --lookahead``).

    Arrays, and lists and dicts of them, are copied, except the arrays with a journal in a
    `MoveStore`. All other values must be replaced, not changed in place.
    """

    def __init__(self, parts: Sequence[object]) -> None:
        self._parts = parts

    def __enter__(self) -> None:
        self._saved = []
        for part in self._parts:
            journaled = part.JOURNALED if isinstance(part, MoveStore) else ()
            copies = {name: _copy(v) for name, v in vars(part).items() if name not in journaled}
            for name in journaled:  # the journal restores the arrays themselves
                value = vars(part)[name]
                copies[name] = dict(value) if isinstance(value, dict) else value
            self._saved.append(copies)
            if isinstance(part, MoveStore):
                part.journal = []

    def __exit__(self, *_: object) -> None:
        for part, attributes in zip(self._parts, self._saved):
            if isinstance(part, MoveStore):
                part.undo()
            vars(part).update(attributes)


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value


class MoveStore:
    """The moves of one `kind`, instances × nodes (or × 1 without target), with lower bounds.

    Bounds are sums of chords: see `iallocator.planners.balance.scan.bounds`.

    Parameters
    ----------
    shape:
        The numbers of instances and nodes.
    kept:
        For how many instances the moves are kept; None: for all.

    Attributes
    ----------
    terms:
        What moves add at their targets to leading statistics that are deviations, without reserved
        memory; the caller sets it in each state.
    moves:
        What each move adds beyond ``rows`` and `terms`, instances × numbers × nodes: to the score,
        infinite for forbidden moves; and to the sum of squares and the sum of reserved memory, 0
        for forbidden moves. The last two are left out if no move changes reserved memory.
    traffic:
        MiB that a move of each instance copies, or another cost, shape (instances, 1).
    rows:
        Lower bounds of the moves of each instance, and what all its moves add.
    journal:
        In a trial: the overwritten values in order (array, where, values before); else None.
    """

    JOURNALED = ("moves",)

    def __init__(
        self,
        kind: MoveKind,
        statistics: ProportionalStatistics,
        shape: tuple[int, int],
        kept: int | None = None,
    ) -> None:
        kept = shape[0] if kept is None else kept
        self.kind = kind
        self.statistics = statistics
        self.shape = shape
        self.terms = no_terms(shape[0], statistics.size)
        self.moves: Floats = np.zeros((kept, 1 + len(statistics.reserved), shape[1]))
        self.moves[:, 0] = np.inf
        self.journal: list[tuple[Floats, Any, Floats]] | None = None
        self.traffic: Floats = np.zeros((shape[0], 1))
        self.rows = RowBounds(shape[0], statistics)

    def _put(self, array: Floats, where: Any, value: Floats | float) -> None:
        """Write `value` to the array at `where`; in a trial, record the old values."""
        if self.journal is not None:
            self.journal.append((array, where, np.array(array[where])))
        array[where] = value

    def undo(self) -> None:
        """Restore the values of all moves from before the journal began."""
        for array, where, before in reversed(self.journal or ()):
            array[where] = before

    def write_rows(self, rows: Whole, effects: MoveEffects, all_add: RowEffects) -> None:
        """Write the `effects` of all moves of `rows`.

        `all_add`: what all moves of an instance add at nodes other than their targets.
        """
        moves = self._moves(effects, (rows.size, self.shape[1]))
        self._put(self.moves, rows, moves.swapaxes(0, 1))
        self.rows.rewrite(rows, all_add, _extremes(moves))

    def write_columns(self, rows: Whole, columns: Whole, effects: MoveEffects) -> None:
        """Write the `effects` of the moves of `rows` to `columns`, as arrays columns × rows."""
        moves = self._moves(effects, (columns.size, rows.size))
        _, numbers, width = self.moves.shape
        first = (rows * numbers + np.arange(numbers)[:, None, None]) * width
        self._put(self.moves.reshape(-1), first + columns[:, None], moves)
        self.learn_some(rows, columns, moves.swapaxes(1, 2))

    def learn_some(self, rows: Whole, columns: Whole, moves: Floats) -> None:
        """Record the new `moves` of `rows` to `columns`, numbers × rows × columns."""
        bounds = self._bounds(rows, self.rows.weights.take(rows, axis=1), columns, moves)
        self.rows.renew(rows, bounds.min(axis=1), _extremes(moves))

    def _moves(self, effects: MoveEffects, shape: tuple[int, int]) -> Floats:
        """Return what moves add beyond `rows` and `terms`, numbers × `shape`."""
        moves: Floats = np.empty((self.moves.shape[1], *shape))
        for into, parts in zip(moves, zip(*effects.shifts)):
            into[:] = reduce(add, parts)
            np.copyto(into, 0.0, where=effects.forbidden)
        np.copyto(moves[0], np.inf, where=effects.forbidden)
        return moves

    def forbid(self, rows: Whole) -> None:
        """Forbid all moves of the instances at `rows`."""
        self._put(self.moves, (rows, 0), np.inf)
        self.rows.forbid(rows)

    def bar(self, row: int, column: int) -> None:
        """Forbid the move at this row and column."""
        self._put(self.moves, (row, 0, column), np.inf)

    def lowest(self, current: CurrentScore, count: int) -> tuple[Whole, Floats]:
        """Return up to `count` moves with the lowest bounds, and these bounds.

        A move is its position in the table, read row by row.
        """
        return self._lowest(chords_between(self._widest(), current), count)

    def _widest(self) -> Extremes:
        """Return the extremes of what all moves add, amounts × 1."""
        low, high = self.rows.ends(self.terms)
        return low.min(axis=1, keepdims=True), high.max(axis=1, keepdims=True)

    def _lowest(self, chord: RowChords, count: int) -> tuple[Whole, Floats]:
        """Return up to `count` moves with the lowest bounds by one `chord` for all rows."""
        rows = np.arange(self.shape[0], dtype=np.intp)
        flat = self.linear_bounds(rows, chord.weights.repeat(rows.size, axis=1)).ravel()
        moves = np.argpartition(flat, min(count, flat.size) - 1)[:count]
        moves = moves[np.isfinite(flat[moves])]
        return moves, flat[moves] + chord.constant

    def floors(self, current: CurrentScore) -> Floats:
        """Return for each instance a lower bound of the scores of its moves."""
        ends = self.rows.ends(self.terms)
        self._chords = chords_between(ends, current)
        return self.rows.below(self._chords, ends)

    def look(self, rows: Whole) -> Floats:
        """Return the bounds of the moves of `rows`, for the score of the last call of `floors`.

        The lowest bound of each row is stored.
        """
        here = self._chords.of(rows)
        bounds = self.linear_bounds(rows, here.weights)
        self.rows.looked_at(rows, here.weights, bounds.min(axis=1))
        bounds += here.constant[:, None]
        return bounds

    def linear_bounds(self, rows: Whole, weights: Floats) -> Floats:
        """Return lower bounds of the scores of the moves of `rows`, without a constant.

        `weights`: the coefficients of the chords of these rows. The result has rows × moves.
        """
        return self._bounds(rows, weights, slice(None), self.moves[rows].swapaxes(0, 1))

    def _bounds(
        self, rows: Whole, weights: Floats, columns: Whole | slice, moves: Floats
    ) -> Floats:
        """Return the bounds of the moves of `rows` to `columns`, without a constant.

        `moves`: what these moves add beyond `rows` and `terms`, numbers × rows × columns.
        """
        bounds = self.terms.weighted(weights, rows, columns)
        all_add = (weights * self.rows.added.take(rows, axis=1)).sum(axis=0)
        all_add += self.rows.linear[rows]
        bounds += all_add[:, None]
        bounds += moves[0]
        for place, more in zip(self.statistics.reserved, moves[1:]):
            bounds += weights[place][:, None] * more
        return bounds

    def scores(self, moves: Whole, current: CurrentScore) -> Floats:
        """Return the exact scores after the `moves`, which are positions read row by row."""
        rows, columns = np.divmod(moves, self.shape[1])
        linear, *reserved = self.moves[rows, :, columns].T
        added = self.rows.added.take(rows, axis=1) + self.terms.added(rows, columns)
        for place, more in zip(self.statistics.reserved, reserved):
            added[place] += more
        spreads, moved = len(self.statistics.spreads), self.statistics.moved
        sums = current.sums.repeat(moves.size, axis=1)
        sums[spreads - moved :] += added[spreads:]
        variances = spread(sums, current.squares + added[:spreads], current.counts)
        roots: Floats = (current.weights * np.sqrt(variances)).sum(axis=0)
        score: Floats = current.rest + self.rows.linear[rows] + linear + roots
        return score

    def traffic_of(self, moves: Whole) -> Floats:
        """Return the MiB that each of `moves` copies; they are positions read row by row."""
        traffic: Floats = self.traffic[moves // self.shape[1], 0]
        return traffic

    def rounded(self, moves: Whole, current: CurrentScore) -> Floats:
        """Return the scores after the `moves`, rounded for comparison."""
        result: Floats = np.round(self.scores(moves, current), SCORE_DECIMALS)
        return result


def _extremes(moves: Floats) -> Extremes:
    """Return the extremes of the amounts of reserved memory that moves add, amounts × rows.

    `moves`: numbers × rows × columns, as in `MoveStore.moves`.
    """
    return moves[1:].min(axis=2), moves[1:].max(axis=2)


if TYPE_CHECKING:
    Maker = Callable[["RemadeMoves", Whole], "Page"]


MOVES_PER_PAGE = 16_384
"""The number of moves that are computed at once."""

MOST_MOVES_ON_PAGES = 131_072
"""The largest number of moves of one kind on pages that are kept until the next step."""


class Page(MoveStore):
    """A part of the table of moves `store`: some of its `rows`, and some of its `columns`.

    A column is a target of the moves. `columns` of None selects all targets.
    """

    def __init__(self, store: RemadeMoves, rows: Whole, columns: Whole | None = None) -> None:
        width = store.shape[1] if columns is None else columns.size
        super().__init__(store.kind, store.statistics, (rows.size, width))
        self.terms = store.terms.part(rows, slice(None) if columns is None else columns)
        self._place: Whole = np.full(store.shape[0], -1, dtype=np.intp)
        self._place[rows] = np.arange(rows.size)

    def write_rows(self, rows: Whole, effects: MoveEffects, all_add: RowEffects) -> None:
        """Write the `effects` of all moves of `rows`, which are rows of the whole store."""
        super().write_rows(self._place[rows], effects, all_add)

    def write_columns(self, rows: Whole, columns: Whole, effects: MoveEffects) -> None:
        """Write the `effects` of the moves of `rows` of the whole store, columns × rows."""
        moves = self._moves(effects, (columns.size, rows.size))
        self.moves[self._place[rows]] = moves.transpose(2, 0, 1)

    def forbid(self, rows: Whole) -> None:
        """Forbid all moves of these rows of the whole store."""
        super().forbid(self._place[rows])

    def close(self, row: int, column: int) -> None:
        """Forbid the move at this row and column of the whole store, if it is on this page."""
        if self._place[row] >= 0:
            self.moves[self._place[row], 0, column] = np.inf

    def places(self, rows: Whole) -> Whole:
        """Return where each of `rows` of the whole store is on this page; -1: it is not on it."""
        places: Whole = self._place[rows]
        return places


class RemadeMoves(MoveStore):
    """A store that keeps no moves; `make` computes the moves of some rows in the present state.

    Attributes
    ----------
    barred:
        Row and column of each move that is forbidden until it is evaluated again.
    """

    def __init__(
        self,
        kind: MoveKind,
        statistics: ProportionalStatistics,
        shape: tuple[int, int],
        make: Maker,
    ) -> None:
        super().__init__(kind, statistics, shape, kept=0)
        self._make = make
        self.barred: list[tuple[int, int]] = []
        self._kept: list[Page] = []  # disjoint pages with the moves of the present state

    def bar(self, row: int, column: int) -> None:
        """Forbid the move at this row and column."""
        self.barred.append((row, column))
        for page in self._kept:
            page.close(row, column)

    def unbar(self, rows: Truths, columns: Truths) -> None:
        """Permit barred moves of `rows` and barred moves to `columns` again, in a new state."""
        self._kept = []
        self.barred = [(r, c) for r, c in self.barred if not (rows[r] or columns[c])]

    def learn(self, rows: Whole, page: Page, current: CurrentScore) -> None:
        """Store lower bounds of the moves of `rows`, which have all changed; `page` has them."""
        self.rows.take(rows, page.rows)
        weights = chords_between(page.rows.ends(page.terms), current).weights
        bounds = page.linear_bounds(np.arange(rows.size, dtype=np.intp), weights)
        self.rows.looked_at(rows, weights, bounds.min(axis=1))
        self._keep(page)

    def _keep(self, page: Page) -> None:
        """Keep `page` until the next step, and remove old pages if there are too many moves."""
        self._kept = [*self._kept, page]
        while sum(one.moves[:, 0].size for one in self._kept) > MOST_MOVES_ON_PAGES:
            self._kept = self._kept[1:]

    def linear_bounds(self, rows: Whole, weights: Floats) -> Floats:
        """Compute the moves of `rows`; return lower bounds of their scores, without a constant."""
        bounds = np.empty((rows.size, self.shape[1]))
        for part, page in self._found(rows):
            bounds[part] = page.linear_bounds(page.places(rows[part]), weights[:, part])
        return bounds

    def scores(self, moves: Whole, current: CurrentScore) -> Floats:
        """Compute `moves`, which are positions read row by row; return the exact scores."""
        width = self.shape[1]
        scores = np.empty(moves.size)
        rows, of = np.unique(moves // width, return_inverse=True)
        for part, page in self._found(rows):
            places = np.full(rows.size, -1, dtype=np.intp)
            places[part] = page.places(rows[part])
            here = np.flatnonzero(places[of] >= 0)
            scores[here] = page.scores(places[of[here]] * width + moves[here] % width, current)
        return scores

    def _lowest(self, chord: RowChords, count: int) -> tuple[Whole, Floats]:
        """Compute all moves; return up to `count` moves with the lowest bounds, and the bounds."""
        moves, bounds = np.zeros(0, dtype=np.intp), np.zeros(0)
        for part, page in self._pages(np.arange(self.shape[0], dtype=np.intp)):
            more, low = page._lowest(chord, count)
            moves = np.concatenate([moves, more + part.start * self.shape[1]])
            bounds = np.concatenate([bounds, low])
            best = np.argsort(bounds, kind="stable")[:count]
            moves, bounds = moves[best], bounds[best]
        return moves, bounds

    def _found(self, rows: Whole) -> Iterator[tuple[Whole, Page]]:
        """Yield the kept pages with moves of `rows`, and new pages, which are kept.

        Each page comes with the positions in `rows` of the rows that are on it.
        """
        left = np.ones(rows.size, dtype=bool)
        for page in self._kept:
            part = np.flatnonzero(left & (page.places(rows) >= 0))
            if part.size:
                left[part] = False
                yield part, page
        others = np.flatnonzero(left)
        for span, page in self._pages(rows[others]):
            self._keep(page)
            yield others[span], page

    def _pages(self, rows: Whole) -> Iterator[tuple[slice, Page]]:
        """Compute the moves of `rows` in parts; yield the position of each part, and its moves."""
        size = max(1, MOVES_PER_PAGE // max(1, self.shape[1]))
        for start in range(0, rows.size, size):
            part = slice(start, min(start + size, rows.size))
            page = self._make(self, rows[part])
            here = set(rows[part].tolist()) if self.barred else set()
            for row, column in self.barred:
                if row in here:
                    page.close(row, column)
            yield part, page
