"""What the kernel in arrays says of all candidates: a matrix of scores, and of rejections."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.candidates import Candidates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from iallocator.aliases import Floats
    from iallocator.limits.node import Check
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView
    from iallocator.scoring.candidates import Placement
    from iallocator.scoring.reservations import PeerMemory

    Codes = NDArray[np.int8]

__all__ = ["ArrayCandidates", "RejectionCodes"]


class ArrayCandidates(Candidates):
    """Scores as a matrix of rows × `columns`; infinite where a placement is not feasible."""

    def __init__(
        self,
        prefixes: Sequence[tuple[int, ...]],
        columns: Sequence[int],
        scores: Floats,
        failures: dict[str, int],
    ) -> None:
        self._prefixes = prefixes
        self._columns = columns
        self._scores = scores
        self._firsts: list[int] | None = None
        self.failures = failures
        self.feasible = int(np.isfinite(scores).sum())

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
        """The scores of a row."""
        found: Floats = self._scores[number]
        return found

    def _first_of(self, number: int) -> tuple[float, int]:
        """The lowest score of a row, and the first position that has it."""
        if self._firsts is None:
            self._firsts = self._scores.argmin(axis=1).tolist()
        first = self._firsts[number]
        return float(self._scores[number, first]), first

    def open(self, number: int) -> tuple[tuple[int, ...], list[int]]:
        feasible = np.flatnonzero(np.isfinite(self._scores[number])).tolist()
        columns = self._columns
        return self._prefixes[number], [columns[position] for position in feasible]

    def score_of(self, number: int, last: int) -> float:
        return float(self._row(number)[list(self._columns).index(last)])

    def ranked(self) -> Iterator[Placement]:
        flat = self._scores.ravel()
        if not flat.size:
            return
        width = self._scores.shape[1]
        first = int(flat.argmin())  # the first of equals: by row, then by column
        if not np.isfinite(flat[first]):
            return
        yield self._placement(flat[first], *divmod(first, width))
        for position in np.argsort(flat, kind="stable")[1:].tolist():
            if not np.isfinite(flat[position]):
                return
            yield self._placement(flat[position], *divmod(position, width))

    def _placement(self, score: float, number: int, position: int) -> Placement:
        return float(score), (*self._prefixes[number], self._columns[position])


class RejectionCodes:
    """Per candidate the number of the first reason that rejected it; 0 if none did."""

    NO_CANDIDATE = -1

    def __init__(
        self, shape: int | tuple[int, int], rejections: Mapping[int, str], nodes: Sequence[int]
    ) -> None:
        self.codes: Codes = np.zeros(shape, dtype=np.int8)
        self.names: list[str] = [""]
        for position, index in enumerate(nodes if rejections else ()):
            if index in rejections:
                self.codes[position] = self._number(rejections[index])

    def others(self, size: int) -> RejectionCodes:
        """Return as many codes of other candidates, whose reasons have the same numbers."""
        reasons = RejectionCodes(size, {}, ())
        reasons.names = self.names
        return reasons

    def paired(self, last: RejectionCodes, peers: PeerMemory) -> RejectionCodes:
        """Return the reasons of all pairs with other nodes; those of these nodes come first.

        `last` has the reasons of each other node without peers, and then of each entry of `peers`.
        """
        pairs = self.others(0)
        first, width = self.codes[:, None], peers.shape[1]
        pairs.codes = np.where(first != 0, first, last.codes[:width])
        own = self.codes[peers.rows]
        pairs.codes[peers.rows, peers.columns] = np.where(own != 0, own, last.codes[width:])
        return pairs

    def _number(self, reason: str) -> int:
        if reason not in self.names:
            self.names.append(reason)
        return self.names.index(reason)

    def apply(
        self, checks: Sequence[Check], before: NodeView, after: NodeView, instance: Instance
    ) -> None:
        """Note where each of `checks` is the first to fail."""
        for check in checks:
            failed = check.fails(before, after, instance)
            if np.any(failed):
                self.codes[(self.codes == 0) & failed] = self._number(check.reason)

    def counts(self) -> dict[str, int]:
        """Reason -> candidates it rejected."""
        return {
            name: count
            for number, name in enumerate(self.names)
            if name and (count := int(np.count_nonzero(self.codes == number)))
        }
