"""Candidates of the array kernel: a matrix of scores, and a matrix of rejections."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from iallocator.deadline import check
from iallocator.model.state import derived
from iallocator.scoring.candidates import Candidates, keep_best

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from iallocator.aliases import Floats, Indices, Truths
    from iallocator.constraints.checks import Check
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView
    from iallocator.model.state import Kept, State
    from iallocator.scoring.candidates import LimitResults, NodeBest, Placement

    Codes = NDArray[np.int8]

    Scores = Callable[[slice | Indices], Floats]
    """Returns the scores of some rows, infinite where a pair is not feasible."""

__all__ = [
    "SCORES_AT_ONCE", "ArrayCandidates", "PeerMemory", "PrunedPairs", "RejectionCodes",
    "Reservations",
]  # fmt: skip

SCORES_AT_ONCE = 32_768
"""The number of scores computed at a time: a quarter of a megabyte in each array."""

FIRST_SCORED_ROWS = 8
"""The number of rows that are scored first; each further block has twice as many."""

MOST_KEPT_SCORES = 1_000_000
"""The most scores that are kept at once if all of them are needed; they take 8 MB."""


BEST_FOUND_FIRST = 16
"""The number of best placements that are found before all are sorted."""


class ArrayCandidates(Candidates):
    """Candidates with a matrix of scores, rows × `columns`; infinite for infeasible placements."""

    def __init__(
        self,
        prefixes: Sequence[tuple[int, ...]],
        columns: Sequence[int],
        scores: Floats,
        failures: dict[str, int],
        results: Callable[[], LimitResults],
    ) -> None:
        self._results = results
        self._prefixes = prefixes
        self._columns = columns
        self._scores = scores
        self._firsts: list[int] | None = None
        self.failures = failures
        self.feasible = int(np.isfinite(scores).sum())

    def limit_results(self) -> LimitResults:
        return self._results()

    def rows(self) -> int:
        return len(self._prefixes)

    def row(self, number: int) -> Iterator[Placement]:
        if not self._columns:
            return
        score, first = self._first_of(number)
        if score == np.inf:
            return
        yield self._placement(score, number, first)
        scores = self._row(number)
        for position in np.argsort(scores, kind="stable")[1:].tolist():
            if not np.isfinite(scores[position]):
                return
            yield self._placement(scores[position], number, position)

    def _row(self, number: int) -> Floats:
        """Return the scores of row `number`."""
        scores: Floats = self._scores[number]
        return scores

    def _first_of(self, number: int) -> tuple[float, int]:
        """Return the lowest score of row `number`, and the first position with this score."""
        if self._firsts is None:
            self._firsts = self._scores.argmin(axis=1).tolist()
        first = self._firsts[number]
        return float(self._scores[number, first]), first

    def open(self, number: int) -> tuple[tuple[int, ...], list[int]]:
        feasible = np.flatnonzero(np.isfinite(self._scores[number])).tolist()
        columns = self._columns
        return self._prefixes[number], [columns[position] for position in feasible]

    def open_primaries(self) -> set[int]:
        feasible = self._all_feasible()
        if not any(self._prefixes):  # single nodes, in one row
            return {self._columns[k] for k in np.flatnonzero(feasible.any(axis=0)).tolist()}
        return {self._prefixes[k][0] for k in np.flatnonzero(feasible.any(axis=1)).tolist()}

    def _all_feasible(self) -> Truths:
        """Return the matrix of whether each placement is feasible."""
        feasible: Truths = np.isfinite(self._scores)
        return feasible

    def score_of(self, number: int, last: int) -> float:
        return float(self._row(number)[list(self._columns).index(last)])

    def ranked(self) -> Iterator[Placement]:
        flat = self._scores.ravel()
        if not flat.size:
            return
        width = self._scores.shape[1]
        first = int(flat.argmin())  # of equal scores the first: by row, then by column
        if not np.isfinite(flat[first]):
            return
        yield self._placement(flat[first], *divmod(first, width))
        given = 1
        if flat.size > 4 * BEST_FOUND_FIRST:  # few placements are asked for most often
            some = self._scores.min(axis=1) if len(self._scores) > BEST_FOUND_FIRST else flat
            highest = np.partition(some, BEST_FOUND_FIRST)[
                BEST_FOUND_FIRST
            ]  # not below the score that has this rank among all scores
            low = np.flatnonzero((flat <= highest) & np.isfinite(flat))
            for position in low[np.argsort(flat[low], kind="stable")][1:].tolist():
                yield self._placement(flat[position], *divmod(position, width))
                given += 1
        for position in np.argsort(flat, kind="stable")[given:].tolist():
            if not np.isfinite(flat[position]):
                return
            yield self._placement(flat[position], *divmod(position, width))

    def _blocks(self) -> Iterator[tuple[int, Floats]]:
        """Yield all scores, some rows at a time, each block with the number of its first row."""
        yield 0, self._scores

    def known_scores(self, placements: Collection[tuple[int, ...]]) -> list[float] | None:
        if len(self._prefixes) * len(self._columns) > MOST_KEPT_SCORES:
            return None
        row_of = {prefix: number for number, prefix in enumerate(self._prefixes)}
        position = {index: k for k, index in enumerate(self._columns)}
        rows = [row_of[nodes[:-1]] for nodes in placements]
        columns = [position[nodes[-1]] for nodes in placements]
        scores: list[float] = self._scores[rows, columns].tolist()
        return scores

    def best_of_nodes(self, rejected: Collection[tuple[int, ...]]) -> dict[int, NodeBest]:
        columns = self._columns
        if not columns or not self._prefixes:
            return {}
        position = {index: k for k, index in enumerate(columns)}
        row_of = {prefix: number for number, prefix in enumerate(self._prefixes)}
        marked = [
            (row_of[nodes[:-1]], position[nodes[-1]])
            for nodes in rejected
            if nodes[:-1] in row_of and nodes[-1] in position
        ]
        best: dict[int, NodeBest] = {}
        lost: list[tuple[int, float, int]] = []  # row, score and column of rejected placements
        lowest, at = np.full(len(columns), np.inf), np.zeros(len(columns), dtype=np.intp)
        for begin, block in self._blocks():
            scores = block
            here = [(row - begin, k) for row, k in marked if 0 <= row - begin < len(block)]
            if here:
                scores = block.copy()
                lost += ((row + begin, float(scores[row, k]), k) for row, k in here)
                scores[tuple(np.array(here).T)] = np.inf
            last = scores.argmin(axis=1).tolist()
            lows = scores.min(axis=1).tolist()
            for number, (low, k) in enumerate(zip(lows, last), begin):
                if low != np.inf:
                    placement = self._placement(low, number, k)
                    for index in self._prefixes[number]:
                        best[index] = False, low, placement[1]
            first = scores.argmin(axis=0)
            low_columns = scores[first, np.arange(len(columns))]
            better = low_columns < lowest  # of equals the first row
            lowest[better], at[better] = low_columns[better], first[better] + begin
        for k, (low, number) in enumerate(zip(lowest.tolist(), at.tolist())):
            index = columns[k]
            known = best.get(index)
            own = row_of.get((index,), -1) if known is not None else -1
            if low != np.inf and (
                known is None or low < known[1] or (low == known[1] and number < own)
            ):
                best[index] = False, low, (*self._prefixes[number], index)
        lost.sort()
        keep_best(
            best, (self._placement(low, row, k) for row, low, k in lost if low != np.inf), rejected
        )
        return best

    def _placement(self, score: float, number: int, position: int) -> Placement:
        return float(score), (*self._prefixes[number], self._columns[position])


class PrunedPairs(ArrayCandidates):
    """Candidates on two nodes that are scored only as far as the caller reads them.

    All scores are kept at once only if all pairs are ranked without bounds; otherwise only the
    lowest score of each row is kept.

    Parameters
    ----------
    prefixes:
        The primary of each row.
    columns:
        The secondary of each column.
    scores:
        Returns the scores of some rows.
    codes:
        Rows × columns: 0 where a pair is feasible.
    bounds:
        Returns a lower bound of the scores of each row; None if the kernel has changed.
    failures:
        Reason -> the number of pairs that it rejected.
    results:
        Returns the nodes that the kernel rejected.
    """

    def __init__(
        self,
        prefixes: Sequence[tuple[int, ...]],
        columns: Sequence[int],
        scores: Scores,
        codes: Codes,
        bounds: Callable[[], Floats | None],
        failures: dict[str, int],
        results: Callable[[], LimitResults],
    ) -> None:
        self._results = results
        self._prefixes = prefixes
        self._columns = columns
        self._asked = scores
        self._codes = codes
        self._bounds = bounds
        self._whole: Floats | None = None
        self._firsts: list[int] | None = None
        self._block: tuple[range, Floats] = range(0), np.empty((0, len(columns)))
        self._best: dict[int, tuple[float, int]] = {}
        self.failures = failures
        self.feasible = int(np.count_nonzero(codes == 0))

    @property
    def _scores(self) -> Floats:  # type: ignore[override]
        if self._whole is None:
            self._whole = self._asked(slice(None))
        return self._whole

    def score_all(self) -> None:
        if self._whole is None and len(self._prefixes) * len(self._columns) <= MOST_KEPT_SCORES:
            self._whole = self._asked(slice(None))

    def _row(self, number: int) -> Floats:
        """Return the scores of row `number`; the next rows are scored at the same time."""
        if self._whole is not None:
            return super()._row(number)
        rows, scores = self._block
        if number not in rows and number in self._best:  # rows are read in another order
            alone: Floats = self._asked(np.array([number]))[0]
            return alone
        if number not in rows:
            height = max(1, SCORES_AT_ONCE // len(self._columns))
            begin = number - number % height
            rows = range(begin, min(begin + height, len(self._prefixes)))
            scores = self._asked(np.arange(rows.start, rows.stop))
            self._block = rows, scores
            self._whole = scores if len(rows) == len(self._prefixes) else None
            lowest, firsts = scores.min(axis=1).tolist(), scores.argmin(axis=1).tolist()
            self._best.update(zip(rows, zip(lowest, firsts)))
        row: Floats = scores[number - rows.start]
        return row

    def _first_of(self, number: int) -> tuple[float, int]:
        if number not in self._best:
            self._row(number)
        return self._best[number] if number in self._best else super()._first_of(number)

    def _blocks(self) -> Iterator[tuple[int, Floats]]:
        self.score_all()
        if self._whole is not None:
            yield 0, self._whole
            return
        height = max(1, SCORES_AT_ONCE // len(self._columns))
        for begin in range(0, len(self._prefixes), height):
            check()
            rows = np.arange(begin, min(begin + height, len(self._prefixes)))
            yield begin, self._asked(rows)

    def _all_feasible(self) -> Truths:
        feasible: Truths = self._codes == 0
        return feasible

    def open(self, number: int) -> tuple[tuple[int, ...], list[int]]:
        feasible = np.flatnonzero(self._codes[number] == 0).tolist()
        return self._prefixes[number], [self._columns[position] for position in feasible]

    def ranked(self) -> Iterator[Placement]:
        bounds = self._bounds() if self._whole is None else None
        if bounds is None:
            yield from super().ranked()
            return
        order = np.argsort(bounds, kind="stable")  # rows are scored in this order
        waiting = np.empty((3, 0))  # score, row and column of pairs that another row may precede
        done, size = 0, FIRST_SCORED_ROWS
        while done < order.size or waiting.size:
            check()
            rows = np.sort(order[done : done + size])
            scores = self._asked(rows)
            at = np.nonzero(np.isfinite(scores))
            waiting = np.hstack([waiting, [scores[at], rows[at[0]], at[1]]])
            done, size = done + size, 2 * size
            limit = bounds[order[done]] if done < order.size else np.inf
            ready = waiting[0] < limit
            ready_pairs, waiting = waiting[:, ready], waiting[:, ~ready]
            for position in np.lexsort(ready_pairs[::-1]).tolist():
                score, row, column = ready_pairs[:, position].tolist()
                yield score, (*self._prefixes[int(row)], self._columns[int(column)])


class RejectionCodes:
    """The first reason that rejected each candidate, as a number; 0 for candidates not rejected.

    Attributes
    ----------
    names:
        Number -> the reason.
    checks:
        Number -> the check that failed; None if the candidate was rejected before its limits were
        tested.
    """

    NO_CANDIDATE = -1
    """In `codes`: the candidate was rejected before its limits were tested."""

    def __init__(
        self, shape: int | tuple[int, int], rejections: Mapping[int, str], nodes: Sequence[int]
    ) -> None:
        self.codes: Codes = np.zeros(shape, dtype=np.int8)
        self.names: list[str] = [""]
        self.checks: list[Check | None] = [None]
        for position, index in enumerate(nodes if rejections else ()):
            if index in rejections:
                self.codes[position] = self._number(rejections[index], None)

    def others(self, size: int) -> RejectionCodes:
        """Return empty rejection codes for `size` other candidates; equal numbers mean equal
        reasons.
        """
        reasons = RejectionCodes(size, {}, ())
        reasons.names, reasons.checks = self.names, self.checks
        return reasons

    def paired(self, last: RejectionCodes, peers: PeerMemory) -> RejectionCodes:
        """Return rejection codes for all pairs of one of these nodes and another node.

        The reason of the first node has precedence. `last` has the reasons of the other nodes
        without peers, followed by those of each entry of `peers`.
        """
        pairs = self.others(0)
        first, width = self.codes[:, None], peers.shape[1]
        pairs.codes = np.where(first != 0, first, last.codes[:width])
        own = self.codes[peers.rows]
        pairs.codes[peers.rows, peers.columns] = np.where(own != 0, own, last.codes[width:])
        return pairs

    def _number(self, reason: str, check: Check | None) -> int:
        for number, known in enumerate(self.names):
            if known == reason and self.checks[number] is check:
                return number
        self.names.append(reason)
        self.checks.append(check)
        return len(self.names) - 1

    def apply(
        self, checks: Sequence[Check], before: NodeView, after: NodeView, instance: Instance
    ) -> None:
        """Test each of `checks` on all candidates; record it for those where it is the first to
        fail.
        """
        for limit in checks:
            failed = limit.fails(before, after, instance)
            if np.any(failed):
                self.codes[(self.codes == 0) & failed] = self._number(limit.reason, limit)

    def rejected(self, nodes: Sequence[int]) -> dict[int, Check | None]:
        """Return node -> the check that rejected it; nodes that are not rejected are left out.

        `nodes` are the nodes of the candidates, in order.
        """
        codes = self.codes[: len(nodes)]
        at = np.flatnonzero(codes > 0)
        return {nodes[k]: self.checks[code] for k, code in zip(at.tolist(), codes[at].tolist())}

    def counts(self) -> dict[str, int]:
        """Return reason -> the number of candidates that it rejected."""
        counts: dict[str, int] = {}
        for number, name in enumerate(self.names[1:], 1):
            count = int(np.count_nonzero(self.codes == number))
            if count:
                counts[name] = counts.get(name, 0) + count
        return counts


class PeerMemory:
    """The MiB that secondaries reserve for primaries, as a sparse matrix.

    `rows`, `columns` and `amounts` describe the entries that are not zero, row by row.
    """

    __slots__ = ("amounts", "columns", "rows", "shape")

    def __init__(
        self, shape: tuple[int, int], rows: Indices, columns: Indices, amounts: Floats
    ) -> None:
        order = np.lexsort((columns, rows))
        self.shape = shape
        self.rows = rows[order]
        self.columns = columns[order]
        self.amounts = amounts[order]

    @classmethod
    def none(cls, shape: tuple[int, int]) -> PeerMemory:
        """Return a matrix of zeros."""
        empty = np.empty(0, dtype=np.intp)
        return cls(shape, empty, empty, np.empty(0))

    def of(self, rows: slice | Indices) -> Floats:
        """Return some `rows` of the matrix in dense form, with all columns."""
        wanted = np.arange(self.shape[0])[rows]
        amounts = np.zeros((len(wanted), self.shape[1]))
        at, columns, entries = self.entries(wanted)
        amounts[at, columns] = self.amounts[entries]
        return amounts

    def entries(self, wanted: Indices) -> tuple[Indices, Indices, Indices]:
        """Return three arrays about the entries of the rows `wanted` that are not zero.

        They have for each entry the position of its row in `wanted`, its column, and its position
        in `amounts`.
        """
        place = np.full(self.shape[0], -1, dtype=np.intp)
        place[wanted] = np.arange(len(wanted))
        at = place[self.rows]
        entries = np.flatnonzero(at >= 0)
        return at[entries], self.columns[entries], entries


class Reservations:
    """The MiB of memory that each node reserves for failovers from each other node."""

    def __init__(self) -> None:
        self._peers: Kept[int, tuple[Indices, Floats]] = {}

    def among(
        self, state: State, primaries: Sequence[int], secondaries: Sequence[int], memory: float
    ) -> PeerMemory:
        """Return the MiB that each secondary reserves for each primary: primaries × secondaries.

        An entry is zero where the secondary need not reserve more if the primary has `memory` MiB
        more.
        """
        shape = len(primaries), len(secondaries)
        if not all(shape):
            return PeerMemory.none(shape)
        known = [
            derived(self._peers, index, state.stamps[index], partial(_peers_of, state, index))
            for index in secondaries
        ]
        peers = np.concatenate([one for one, _ in known])
        amounts = np.concatenate([one for _, one in known])
        columns = np.repeat(np.arange(len(known)), [len(one) for one, _ in known])
        limits = np.array([state.reserved[index] - memory for index in secondaries])
        place = np.full(len(state.cluster.nodes), -1, dtype=np.intp)
        place[list(primaries)] = np.arange(len(primaries))
        rows = place[peers]
        exceeding = (amounts > limits[columns]) & (rows >= 0)
        return PeerMemory(shape, rows[exceeding], columns[exceeding], amounts[exceeding])


def _peers_of(state: State, index: int) -> tuple[Indices, Floats]:
    """Return the primaries for which node `index` reserves memory, and the MiB for each."""
    peers = state.peers[index]
    return (
        np.fromiter(peers.keys(), dtype=np.intp, count=len(peers)),
        np.fromiter(peers.values(), dtype=np.float64, count=len(peers)),
    )
