"""The changes that moves of one kind make, kept in arrays, and undone at the end of a trial.

A trial copies small arrays and forgets their changes.  The arrays of all moves are large and
change little, so what is overwritten of them is written down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iallocator.tolerances import VARIANCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats
    from iallocator.model.node_view import Quantity
    from iallocator.planners.balance.move_kinds import MoveKind
    from iallocator.planners.balance.scan.blocks import MoveEffects, Shift
    from iallocator.planners.balance.scan.equivalent_metrics import Twins
    from iallocator.planners.balance.scan.node_table import Whole

__all__ = ["Changes", "Snapshot", "write_moves"]

if TYPE_CHECKING:
    Where = tuple[Whole, Whole | slice]

    """Rows and columns, as arrays are indexed."""


class Changes:
    """Changes of the moves of one `kind`, instances × nodes (or × 1 without target).

    `shape`: how many of both; `kept`: of how many instances the moves are kept, None: of all.

    Attributes
    ----------
    sums, squares:
        Per leading statistic that is a spread, what is added; 0 for forbidden moves.
        ``sums`` has only those that were ever not 0; ``squares`` is instances × nodes ×
        statistics: what is written at once stands together.
    linear:
        What all other statistics add to the score; infinite for forbidden moves.
    journal:
        In a trial: what has been overwritten of these, the last last (array, where, what it was).
    """

    JOURNALED = ("squares", "sums", "linear")

    def __init__(
        self, kind: MoveKind, twins: Twins, shape: tuple[int, int], kept: int | None = None
    ) -> None:
        kept = shape[0] if kept is None else kept
        self.kind = kind
        self.twins = twins
        self.shape = shape
        self.squares: Floats = np.zeros((kept, shape[1], len(twins.spreads)))
        self.sums: dict[int, Floats] = {}
        self.linear: Floats = np.full((kept, shape[1]), np.inf)
        self.journal: list[tuple[Floats, Any, Floats]] | None = None

    def _put(self, array: Floats, where: Any, value: Floats | float) -> None:
        """Write `value` at `where` of an array of moves, in a trial so that it can be undone."""
        if self.journal is not None:
            self.journal.append((array, where, np.array(array[where])))
        array[where] = value

    def undo(self) -> None:
        """Let all moves be as they were when the journal began."""
        for array, where, before in reversed(self.journal or ()):
            array[where] = before

    def write(self, where: Where, added: Floats, squares: Floats, linear: Floats) -> None:
        """Note the changes of some moves; `added` only of the last spreads, see `Twins.moved`."""
        self._put(self.squares, where, np.moveaxis(squares, 0, -1))
        self._put(self.linear, where, linear)
        for k, more in zip(reversed(self.twins.spreads), added[::-1]):
            if k in self.sums or np.abs(more).max() > VARIANCE:
                self._write_sums(k, where, more)

    def _write_sums(self, k: int, where: Where, added: Floats) -> None:
        if k not in self.sums:
            self.sums[k] = np.zeros(self.shape)
        self._put(self.sums[k], where, added)

    def forbid(self, rows: Whole) -> None:
        """No move of these instances."""
        self._put(self.linear, rows, np.inf)
        self._put(self.squares, rows, 0.0)
        for added in self.sums.values():
            self._put(added, rows, 0.0)


def write_moves(
    stores: Sequence[Changes], rows: Whole, columns: Whole | slice, found: Sequence[MoveEffects]
) -> None:
    """Note the changes of a block of moves, of several kinds at once."""
    where = (rows[:, None], columns) if isinstance(columns, np.ndarray) else (rows, columns)
    twins = stores[0].twins
    width = columns.size if isinstance(columns, np.ndarray) else stores[0].shape[1]
    shape = rows.size, width
    forbidden = np.empty((len(found), *shape), dtype=bool)
    linear = np.zeros((len(found), *shape))
    skipped = len(twins.spreads) - twins.moved
    added = np.zeros((len(found), twins.moved, *shape))
    squares = np.empty((len(found), len(twins.spreads), *shape))
    for n, one in enumerate(found):
        forbidden[n] = one.forbidden
        if not skipped:
            _add_up(added[n, : len(twins.steady)], [more for more, _ in one.stacks])
        _add_up(squares[n, : len(twins.steady)], [more for _, more in one.stacks])
        for j in range(len(twins.steady), len(twins.spreads)):
            added[n, j - skipped], squares[n, j] = _gathered(one.shifts, twins.spreads[j])
        for k in twins.sums:
            linear[n] += twins.weights[k] * _gathered(one.shifts, k)[0]
    linear[forbidden] = np.inf
    for n, store in enumerate(stores):
        added[n][:, forbidden[n]] = 0
        squares[n][:, forbidden[n]] = 0
        store.write(where, added[n], squares[n], linear[n])


def _add_up(into: Floats, stacks: Sequence[Floats]) -> None:
    """Have `into` hold the sum of `stacks`, some of which are only of the first statistics."""
    whole = [stack for stack in stacks if len(stack) == len(into)]
    into[:] = whole[0] if whole else 0.0
    for stack in whole[1:]:
        into += stack
    for stack in stacks:
        if len(stack) < len(into):
            into[: len(stack)] += stack


def _gathered(shifts: Sequence[Shift], k: int) -> tuple[Quantity, Quantity]:
    """All changes of one statistic, narrow arrays first."""
    found = [shift[k] for shift in shifts if k in shift]
    if len(found) > 2:
        found.sort(key=lambda change: np.size(change[0]))
    added: Quantity = 0.0
    square: Quantity = 0.0
    for more, more_square in found:
        added = added + more
        square = square + more_square
    return added, square


class Snapshot:
    """A context at whose end all attributes of `parts` are as at its beginning.

    Arrays, and lists and dicts of them, are copied, but for those that `Changes` keep a journal
    of; everything else must not be changed but replaced.
    """

    def __init__(self, parts: Sequence[object]) -> None:
        self._parts = parts

    def __enter__(self) -> None:
        self._saved = [_attributes(part) for part in self._parts]
        for part in self._parts:
            if isinstance(part, Changes):
                part.journal = []

    def __exit__(self, *_: object) -> None:
        for part, attributes in zip(self._parts, self._saved):
            if isinstance(part, Changes):
                part.undo()
            vars(part).update(attributes)


def _attributes(part: object) -> dict[str, Any]:
    """What `part` has: of what there is a journal of, only which arrays there are."""
    journaled = part.JOURNALED if isinstance(part, Changes) else ()
    found = {name: _copy(v) for name, v in vars(part).items() if name not in journaled}
    for name in journaled:
        value = vars(part)[name]
        found[name] = dict(value) if isinstance(value, dict) else value
    return found


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value
