"""The moves of one kind in arrays: what each move adds, lower bounds, and scores.

`MoveStore` keeps all moves, instances × nodes.  `RemadeMoves` keeps no moves, for clusters on which
they need too much memory: it computes moves again when they are needed, and keeps only the lowest
bound of each instance (`RowBounds`).  In each step, few of these bounds are low enough to compute
the moves.

A trial copies small arrays.  The arrays of all moves are large and change little, so a journal
records the values that are overwritten.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from iallocator.planners.balance.scan.bounds import RowBounds, chords_between, extremes
from iallocator.scoring.metrics import spread
from iallocator.tolerances import SCORE_DECIMALS, VARIANCE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.aliases import Floats, Truths
    from iallocator.model.node_view import Quantity
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.arrays import Whole
    from iallocator.planners.balance.scan.blocks import MoveEffects, Shift
    from iallocator.planners.balance.scan.bounds import CurrentScore, RowChords
    from iallocator.planners.balance.scan.proportional_statistics import ProportionalStatistics
    from iallocator.scoring.metrics import Totals

__all__ = ["MOVES_PER_PAGE", "MoveStore", "Page", "RemadeMoves", "Snapshot", "write_moves"]

if TYPE_CHECKING:
    Where = tuple[Whole, Whole | slice]

    """Rows and columns, as indices of an array."""


def write_moves(
    stores: Sequence[MoveStore],
    rows: Whole,
    columns: Whole | slice,
    effects: Sequence[MoveEffects],
    across: bool = False,
) -> None:
    """Write the `effects` of a block of moves, of several kinds, to the `stores` of the kinds.

    `across`: whether the arrays of the effects are targets × instances.
    """
    where = (rows[:, None], columns) if isinstance(columns, np.ndarray) else (rows, columns)
    statistics = stores[0].statistics
    width = columns.size if isinstance(columns, np.ndarray) else stores[0].shape[1]
    shape = (width, rows.size) if across else (rows.size, width)
    forbidden = np.empty((len(effects), *shape), dtype=bool)
    linear = np.zeros((len(effects), *shape))
    skipped = len(statistics.spreads) - statistics.moved
    added = np.zeros((len(effects), statistics.moved, *shape))
    squares = np.empty((len(effects), len(statistics.spreads), *shape))
    for n, one in enumerate(effects):
        forbidden[n] = one.forbidden
        if not skipped:
            _add_up(added[n, : len(statistics.without_reserved)], [more for more, _ in one.stacks])
        _add_up(squares[n, : len(statistics.without_reserved)], [more for _, more in one.stacks])
        for j in range(len(statistics.without_reserved), len(statistics.spreads)):
            added[n, j - skipped], squares[n, j] = _gathered(one.shifts, statistics.spreads[j])
        for k in statistics.sums:
            linear[n] += statistics.weights[k] * _gathered(one.shifts, k)[0]
    linear[forbidden] = np.inf
    for n, store in enumerate(stores):
        added[n][:, forbidden[n]] = 0
        squares[n][:, forbidden[n]] = 0
        parts = added[n], squares[n], linear[n]
        store.write(where, *(part.swapaxes(-2, -1) if across else part for part in parts))


def _add_up(into: Floats, stacks: Sequence[Floats]) -> None:
    """Set `into` to the sum of `stacks`; a shorter stack has only the first statistics."""
    whole = [stack for stack in stacks if len(stack) == len(into)]
    into[:] = whole[0] if whole else 0.0
    for stack in whole[1:]:
        into += stack
    for stack in stacks:
        if len(stack) < len(into):
            into[: len(stack)] += stack


def _gathered(shifts: Sequence[Shift], k: int) -> tuple[Quantity, Quantity]:
    """Return the sum of all changes of statistic `k`: of its sum, and of its sum of squares.

    Narrow arrays are added first.
    """
    changes = [shift[k] for shift in shifts if k in shift]
    if len(changes) > 2:
        changes.sort(key=lambda change: np.size(change[0]))
    added: Quantity = 0.0
    square: Quantity = 0.0
    for more, more_square in changes:
        added = added + more
        square = square + more_square
    return added, square


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
    sums, squares:
        What a move adds to the sum, and to the sum of squares, of each leading statistic that
        is a deviation; 0 for forbidden moves. ``sums`` has only statistics with a sum that some
        move changes. ``squares`` is instances × statistics × nodes, so that the moves of an
        instance are adjacent in memory.
    linear:
        What all other statistics add to the score; infinite for forbidden moves.
    traffic:
        MiB that a move of each instance copies, or another cost, shape (instances, 1).
    rows:
        Lower bounds of the moves of each instance.
    journal:
        In a trial: the overwritten values in order (array, where, values before); else None.
    """

    JOURNALED = ("squares", "sums", "linear")

    def __init__(
        self,
        kind: MoveKind,
        statistics: ProportionalStatistics,
        shape: tuple[int, int],
        kept: int | None = None,
    ) -> None:
        kept = shape[0] if kept is None else kept
        spreads = len(statistics.spreads)
        self.kind = kind
        self.statistics = statistics
        self.shape = shape
        self.squares: Floats = np.zeros((kept, spreads, shape[1]))
        self.sums: dict[int, Floats] = {}
        self.linear: Floats = np.full((kept, shape[1]), np.inf)
        self.journal: list[tuple[Floats, Any, Floats]] | None = None
        self.traffic: Floats = np.zeros((shape[0], 1))
        self._low: Floats = np.zeros(spreads)
        self._high: Floats = np.zeros(spreads)
        self._widest: dict[int, tuple[float, float]] = {}
        self.rows = RowBounds(shape[0], spreads)

    def _put(self, array: Floats, where: Any, value: Floats | float) -> None:
        """Write `value` to the array at `where`; in a trial, record the old values."""
        if self.journal is not None:
            self.journal.append((array, where, np.array(array[where])))
        array[where] = value

    def undo(self) -> None:
        """Restore the values of all moves from before the journal began."""
        for array, where, before in reversed(self.journal or ()):
            array[where] = before

    def write(self, where: Where, added: Floats, squares: Floats, linear: Floats) -> None:
        """Write what the moves at `where` add.

        `added` has only the last `statistics.moved` statistics; the sums of the others never
        change.
        """
        if isinstance(where[1], slice):
            self._put(self.squares, where[0], squares.swapaxes(0, 1))
        else:
            self._put(self.squares, (where[0], slice(None), where[1]), np.moveaxis(squares, 0, -1))
        self._put(self.linear, where, linear)
        for k, more in zip(reversed(self.statistics.spreads), added[::-1]):
            if k in self.sums or np.abs(more).max() > VARIANCE_TOLERANCE:
                if k not in self.sums:
                    self.sums[k] = np.zeros(self.shape)
                self._put(self.sums[k], where, more)
                least, most = self._widest.get(k, (0.0, 0.0))
                self._widest[k] = min(least, float(more.min())), max(most, float(more.max()))
        low, high = extremes(squares)
        self._low = np.minimum(self._low, low.min(axis=1))
        self._high = np.maximum(self._high, high.max(axis=1))
        rows, sums = np.ravel(where[0]), self._sums_at(where)
        if isinstance(where[1], slice):
            self.rows.rewrite(rows, (low, high), sums)
        else:
            self.rows.renew(rows, linear, squares, sums, (low, high))

    def forbid(self, rows: Whole) -> None:
        """Forbid all moves of the instances at `rows`."""
        self._put(self.linear, rows, np.inf)
        self._put(self.squares, rows, 0.0)
        for added in self.sums.values():
            self._put(added, rows, 0.0)
        self.rows.forbid(rows)

    def _sums_at(self, where: Where) -> dict[int, Floats]:
        """Return position of a statistic -> what the moves at `where` add to its sum.

        Each array has rows × columns.
        """
        spreads = enumerate(self.statistics.spreads)
        return {j: self.sums[k][where] for j, k in spreads if k in self.sums}

    def _squares_at(self, where: Where) -> Floats:
        """Return what the moves at `where` add to sums of squares, statistics × rows × columns."""
        if isinstance(where[1], slice):
            squares: Floats = self.squares[where[0]].swapaxes(0, 1)
        else:
            squares = np.moveaxis(self.squares[where[0], :, where[1]], -1, 0)
        return squares

    def add(self, where: Where, forbidden: Truths, costs: Floats) -> None:
        """Forbid the `forbidden` ones of the moves at `where`; add `costs` to the other scores."""
        linear = np.where(forbidden, np.inf, self.linear[where] + costs)
        self._put(self.linear, where, linear)
        if not isinstance(where[1], slice):
            squares, sums = self._squares_at(where), self._sums_at(where)
            self.rows.renew(np.ravel(where[0]), self.linear[where], squares, sums)

    def bar(self, row: int, column: int) -> None:
        """Forbid the move at this row and column."""
        self._put(self.linear, (row, column), np.inf)

    def bounds(self, current: CurrentScore) -> Floats:
        """Return a lower bound of the score of each move."""
        slopes = np.zeros(len(self.statistics.spreads))
        constant = current.present
        bound = self.linear
        for j, k in enumerate(self.statistics.spreads):
            slope, start, tilt = self._chord(j, k, current.totals)
            slopes[j] = slope
            constant += start
            if tilt:
                bound = bound + tilt * self.sums[k]
        linear = slopes @ self.squares
        return bound + (linear + constant)

    def lowest(self, current: CurrentScore, count: int) -> tuple[Whole, Floats]:
        """Return up to `count` moves with the lowest bounds, and these bounds.

        A move is its position in the table, read row by row.
        """
        flat = self.bounds(current).ravel()
        moves = np.argpartition(flat, min(count, flat.size) - 1)[:count]
        moves = moves[np.isfinite(flat[moves])]
        return moves, flat[moves]

    def floors(self, current: CurrentScore) -> Floats:
        """Return for each instance a lower bound of the scores of its moves."""
        self._chords = self.row_chords(current)
        return self.rows.below(self._chords)

    def look(self, rows: Whole) -> Floats:
        """Return the bounds of the moves of `rows`, for the score of the last call of `floors`."""
        return self.bounds_of(rows, self._chords)

    def row_chords(self, current: CurrentScore, rows: Whole | slice = slice(None)) -> RowChords:
        """Return chords between the extremes of each of `rows`; their bounds are close."""
        return chords_between(self.rows.low[:, :, rows], self.rows.high[:, :, rows], current)[0]

    def bounds_of(self, rows: Whole, chords: RowChords) -> Floats:
        """Return the bounds of the moves of `rows`, and store the lowest bound of each row."""
        here = chords.of(rows)
        bound = self.linear_bounds(rows, here)
        self.rows.looked_at(rows, here, bound.min(axis=1))
        bounds: Floats = bound + here.constant[:, None]
        return bounds

    def linear_bounds(self, rows: Whole, here: RowChords) -> Floats:
        """Return lower bounds of the scores of the moves of `rows`, less ``here.constant``.

        `here`: the chords of these rows. The result has rows × moves.
        """
        bound = self.linear[rows] + np.einsum("jr,rjc->rc", here.slopes, self.squares[rows])
        for j, k in enumerate(self.statistics.spreads):
            if k in self.sums:
                bound += here.tilts[j][:, None] * self.sums[k][rows]
        bounds: Floats = bound
        return bounds

    def _chord(self, j: int, k: int, totals: Totals) -> tuple[float, float, float]:
        """Return the chord below the term of statistic `k`, which is a deviation.

        The result has the slope by what moves add to the sum of squares, the constant, and the
        slope by what they add to the sum. `j` is the position of the statistic among the
        deviations.
        """
        count = totals.counts[k]
        total, squares = totals.sums[k], totals.squares[k]
        now = max(0.0, spread(total, squares, count))
        least, most = float(self._low[j]) / count, float(self._high[j]) / count
        tilt = rest = 0.0
        if k in self.sums:
            ends = self._widest[k]
            tilt = -2 * total / count**2
            rest = max(end * end for end in ends) / count**2
            by_sums = [tilt * end for end in ends]
            least, most = least + min(by_sums) - rest, most + max(by_sums)
        low, high = max(least, -now), max(most, 0.0)
        weight = self.statistics.weights[k]
        if high - low <= 0:
            return 0.0, 0.0, 0.0
        at_low = weight * (sqrt(now + low) - sqrt(now))
        at_high = weight * (sqrt(now + high) - sqrt(now))
        slope = (at_high - at_low) / (high - low)
        return slope / count, at_low - slope * low - slope * rest, slope * tilt

    def scores(self, moves: Whole, current: CurrentScore) -> Floats:
        """Return the exact scores after the `moves`, which are positions read row by row."""
        spreads = self.statistics.spreads
        rows, columns = np.divmod(moves, self.shape[1])
        squares = np.ascontiguousarray(self.squares[rows, :, columns].T)
        added = np.zeros(squares.shape)
        for j, k in enumerate(spreads):
            if k in self.sums:
                added[j] = self.sums[k].ravel()[moves]
        variances = spread(current.sums + added, current.squares + squares, current.counts)
        roots: Floats = current.weights * np.sqrt(variances)
        score: Floats = current.rest + self.linear.ravel()[moves] + roots.sum(axis=0)
        return score

    def traffic_of(self, moves: Whole) -> Floats:
        """Return the MiB that each of `moves` copies; they are positions read row by row."""
        traffic: Floats = self.traffic[moves // self.shape[1], 0]
        return traffic

    def rounded(self, moves: Whole, current: CurrentScore) -> Floats:
        """Return the scores after the `moves`, rounded for comparison."""
        result: Floats = np.round(self.scores(moves, current), SCORE_DECIMALS)
        return result


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
        self._place: Whole = np.full(store.shape[0], -1, dtype=np.intp)
        self._place[rows] = np.arange(rows.size)

    def _here(self, where: Where) -> Where:
        return self._place[np.ravel(where[0])], slice(None)

    def write(self, where: Where, added: Floats, squares: Floats, linear: Floats) -> None:
        """Write what the moves at `where` add; `where` has rows and columns of the whole store."""
        super().write(self._here(where), added, squares, linear)

    def add(self, where: Where, forbidden: Truths, costs: Floats) -> None:
        """Forbid the moves at `where`, or add costs; `where` has rows and columns of the whole
        store.
        """
        super().add(self._here(where), forbidden, costs)

    def forbid(self, rows: Whole) -> None:
        """Forbid all moves of these rows of the whole store."""
        super().forbid(self._place[rows])

    def close(self, row: int, column: int) -> None:
        """Forbid the move at this row and column of the whole store, if it is on this page."""
        if self._place[row] >= 0:
            self.linear[self._place[row], column] = np.inf

    def places(self, rows: Whole) -> Whole:
        """Return where each of `rows` of the whole store is on this page; -1: it is not on it."""
        places: Whole = self._place[rows]
        return places

    def everything(self) -> tuple[Floats, dict[int, Floats]]:
        """Return what moves add to sums of squares and to sums, in the form of `RowBounds.renew`.

        Statistics with sums that moves can change are always included, if only with zeros, because
        the bounds must hold for moves that do not change these sums, too.
        """
        where = np.arange(self.shape[0], dtype=np.intp), slice(None)
        count = len(self.statistics.spreads)
        nothing = np.zeros(self.shape)
        sums = dict.fromkeys(range(count - self.statistics.moved, count), nothing)
        return self._squares_at(where), sums | self._sums_at(where)


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
        self._widen(page)
        self.rows.take(rows, page.rows)
        self._look(page, rows, self.row_chords(current, rows))
        self._keep(page)

    def learn_some(self, rows: Whole, page: Page) -> None:
        """Record that the moves of `rows` in `page` have changed."""
        self._widen(page)
        ends = page.rows.low[0], page.rows.high[0]
        self.rows.renew(rows, page.linear, *page.everything(), ends)

    def _widen(self, page: Page) -> None:
        """Include the extremes of the moves of `page`."""
        self._low = np.minimum(self._low, page._low)
        self._high = np.maximum(self._high, page._high)
        for k, (low, high) in page._widest.items():
            least, most = self._widest.get(k, (0.0, 0.0))
            self._widest[k] = min(low, least), max(high, most)

    def _keep(self, page: Page) -> None:
        """Keep `page` until the next step, and remove old pages if there are too many moves."""
        self._kept = [*self._kept, page]
        while sum(one.linear.size for one in self._kept) > MOST_MOVES_ON_PAGES:
            self._kept = self._kept[1:]

    def _look(self, page: Page, rows: Whole, here: RowChords) -> Floats:
        """Return the bounds of the scores of the moves of `rows`, and store the lowest of each row.

        `page` has these moves. `here` has the chords of `rows`.
        """
        bound = page.linear_bounds(page.places(rows), here)
        self.rows.looked_at(rows, here, bound.min(axis=1))
        bounds: Floats = bound + here.constant[:, None]
        return bounds

    def bounds_of(self, rows: Whole, chords: RowChords) -> Floats:
        """Compute the moves of `rows`, store the lowest bound of each row, return all bounds."""
        bounds = np.empty((rows.size, self.shape[1]))
        for part, page in self._found(rows):
            bounds[part] = self._look(page, rows[part], chords.of(rows[part]))
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

    def lowest(self, current: CurrentScore, count: int) -> tuple[Whole, Floats]:
        """Compute all moves; return up to `count` moves with the lowest bounds, and the bounds."""
        moves, bounds = np.zeros(0, dtype=np.intp), np.zeros(0)
        for part, page in self._pages(np.arange(self.shape[0], dtype=np.intp)):
            page._low, page._high, page._widest = self._low, self._high, self._widest
            more, low = page.lowest(current, count)
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
