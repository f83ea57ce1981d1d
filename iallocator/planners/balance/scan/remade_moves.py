"""The moves of one kind where there is no room to keep them all: made anew to be looked at.

Kept is what no move of an instance is below (`RowBounds`).  Few instances' bounds are low
enough to be looked at in a step, so few moves are made anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.planners.balance.scan.move_bounds import MoveStore, extremes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iallocator.aliases import Floats, Truths
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.changes import Where
    from iallocator.planners.balance.scan.equivalent_metrics import Twins
    from iallocator.planners.balance.scan.move_bounds import CurrentScore, RowChords
    from iallocator.planners.balance.scan.node_table import Whole

    Maker = Callable[["RemadeMoves", Whole], "Page"]

__all__ = ["PAGE", "Page", "RemadeMoves"]

PAGE = 200_000
"""So many moves are made at a time."""


class Page(MoveStore):
    """The moves of some `rows` of `store`, to its targets at `columns` (None: to all)."""

    def __init__(self, store: RemadeMoves, rows: Whole, columns: Whole | None = None) -> None:
        width = store.shape[1] if columns is None else columns.size
        super().__init__(store.kind, store.twins, (rows.size, width))
        self._place: Whole = np.zeros(store.shape[0], dtype=np.intp)
        self._place[rows] = np.arange(rows.size)

    def _here(self, where: Where) -> Where:
        rows, columns = where
        if isinstance(columns, np.ndarray):
            columns = np.arange(columns.size, dtype=np.intp)
        return self._place[rows], columns

    def write(self, where: Where, added: Floats, squares: Floats, linear: Floats) -> None:
        """As of `MoveStore`, by rows and columns of the store."""
        super().write(self._here(where), added, squares, linear)

    def add(self, where: Where, forbidden: Truths, costs: Floats) -> None:
        """As of `MoveStore`, by rows and columns of the store."""
        super().add(self._here(where), forbidden, costs)

    def forbid(self, rows: Whole) -> None:
        """As of `MoveStore`, by rows of the store."""
        super().forbid(self._place[rows])

    def close(self, row: int, column: int) -> None:
        """Forbid the move of this row of the store."""
        self.linear[self._place[row], column] = np.inf

    def everything(self) -> tuple[Floats, dict[int, Floats]]:
        """What is added to the squares, and to the sums, as of `RowBounds.renew`.

        To the sums of all spreads whose sums moves may change, if only with nothing: what was
        known of them before counts no more.
        """
        where = np.arange(self.shape[0], dtype=np.intp), slice(None)
        count = len(self.twins.spreads)
        nothing = np.zeros(self.shape)
        sums = dict.fromkeys(range(count - self.twins.moved, count), nothing)
        return self._squares_at(where), sums | self._sums_at(where)


class RemadeMoves(MoveStore):
    """A store that keeps no move; `make` makes those of some rows anew, as things are.

    Attributes
    ----------
    barred:
        Row and column of moves that are forbidden until they are evaluated anew.
    """

    def __init__(self, kind: MoveKind, twins: Twins, shape: tuple[int, int], make: Maker) -> None:
        super().__init__(kind, twins, shape, kept=0)
        self._make = make
        self.barred: list[tuple[int, int]] = []

    def bar(self, row: int, column: int) -> None:
        """Forbid this move."""
        self.barred.append((row, column))

    def unbar(self, rows: Truths, columns: Truths) -> None:
        """Forbid no more the moves of `rows`, nor those to `columns`."""
        self.barred = [(r, c) for r, c in self.barred if not (rows[r] or columns[c])]

    def learn(self, rows: Whole, page: Page, ground: CurrentScore) -> None:
        """Note what no move of `rows` is below; `page` has all their moves, which are new."""
        self._widen(page)
        squares, sums = page.everything()
        self.rows.rewrite(rows, extremes(squares), sums)
        self._look(page, rows, self.row_chords(ground, rows))

    def learn_some(self, rows: Whole, page: Page) -> None:
        """Note that the moves of `rows` in `page` are new."""
        self._widen(page)
        self.rows.renew(rows, page.linear, *page.everything())

    def _widen(self, page: Page) -> None:
        """Take what moves add, at least and at most, from `page`."""
        self._low = np.minimum(self._low, page._low)
        self._high = np.maximum(self._high, page._high)
        for k, (low, high) in page._widest.items():
            least, most = self._widest.get(k, (0.0, 0.0))
            self._widest[k] = min(low, least), max(high, most)

    def _look(self, page: Page, rows: Whole, here: RowChords) -> Floats:
        """The bounds of the moves of `rows`, which are in `page`, noted."""
        bound = page.linear_bounds(np.arange(rows.size, dtype=np.intp), here)
        self.rows.looked_at(rows, here, bound.min(axis=1))
        found: Floats = bound + here.constant[:, None]
        return found

    def bounds_of(self, rows: Whole, chords: RowChords) -> Floats:
        """As of `MoveStore`."""
        found = np.empty((rows.size, self.shape[1]))
        for part, page in self._pages(rows):
            found[part] = self._look(page, rows[part], chords.of(rows[part]))
        return found

    def scores(self, moves: Whole, ground: CurrentScore) -> Floats:
        """As of `MoveStore`."""
        found = np.empty(moves.size)
        width = self.shape[1]
        rows, places = np.unique(moves // width, return_inverse=True)
        for part, page in self._pages(rows):
            here = np.flatnonzero((places >= part.start) & (places < part.stop))
            cells = (places[here] - part.start) * width + moves[here] % width
            found[here] = page.scores(cells, ground)
        return found

    def lowest(self, ground: CurrentScore, count: int) -> tuple[Whole, Floats]:
        """As of `MoveStore`."""
        moves, bounds = np.zeros(0, dtype=np.intp), np.zeros(0)
        for part, page in self._pages(np.arange(self.shape[0], dtype=np.intp)):
            page._low, page._high, page._widest = self._low, self._high, self._widest
            more, low = page.lowest(ground, count)
            moves = np.concatenate([moves, more + part.start * self.shape[1]])
            bounds = np.concatenate([bounds, low])
            best = np.argsort(bounds, kind="stable")[:count]
            moves, bounds = moves[best], bounds[best]
        return moves, bounds

    def _pages(self, rows: Whole) -> Iterator[tuple[slice, Page]]:
        """The moves of `rows`, a part of them at a time."""
        size = max(1, PAGE // max(1, self.shape[1]))
        for start in range(0, rows.size, size):
            part = slice(start, min(start + size, rows.size))
            page = self._make(self, rows[part])
            here = set(rows[part].tolist()) if self.barred else set()
            for row, column in self.barred:
                if row in here:
                    page.close(row, column)
            yield part, page
