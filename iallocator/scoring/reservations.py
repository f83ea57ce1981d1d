"""What nodes reserve for whose failure, as arrays that are kept while nodes stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats, Indices
    from iallocator.model.state import State

__all__ = ["PeerMemory", "Reservations"]


class PeerMemory:
    """MiB reserved on secondaries for primaries: a matrix that is zero almost everywhere.

    `rows`, `columns` and `amounts` are those of the other entries, row by row.
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
        """Return these rows with all columns."""
        wanted = np.arange(self.shape[0])[rows]
        found = np.zeros((len(wanted), self.shape[1]))
        place = np.full(self.shape[0], -1, dtype=np.intp)
        place[wanted] = np.arange(len(wanted))
        at = place[self.rows]
        asked = at >= 0
        found[at[asked], self.columns[asked]] = self.amounts[asked]
        return found


class Reservations:
    """Peers of nodes of one state; what is kept of a node counts while its stamp is the same."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Indices, Floats]] = {}

    def among(
        self, state: State, primaries: Sequence[int], secondaries: Sequence[int], memory: float
    ) -> PeerMemory:
        """Primaries × secondaries: MiB reserved on the secondary for the primary.

        Zero where `memory` MiB more for that primary would not be more than is reserved anyway.
        """
        shape = len(primaries), len(secondaries)
        if not all(shape):
            return PeerMemory.none(shape)
        known = [self._peers(state, index) for index in secondaries]
        peers = np.concatenate([one[1] for one in known])
        amounts = np.concatenate([one[2] for one in known])
        columns = np.repeat(np.arange(len(known)), [len(one[1]) for one in known])
        limits = np.array([state.reserved[index] - memory for index in secondaries])
        place = np.full(len(state.cluster.nodes), -1, dtype=np.intp)
        place[list(primaries)] = np.arange(len(primaries))
        rows = place[peers]
        asked = (amounts > limits[columns]) & (rows >= 0)
        return PeerMemory(shape, rows[asked], columns[asked], amounts[asked])

    def _peers(self, state: State, index: int) -> tuple[int, Indices, Floats]:
        """Stamp of a node, those it reserves memory for, and how much for each, MiB."""
        known = self._known.get(index)
        if known is None or known[0] != state.stamps[index]:
            peers = state.peers[index]
            known = (
                state.stamps[index],
                np.fromiter(peers.keys(), dtype=np.intp, count=len(peers)),
                np.fromiter(peers.values(), dtype=np.float64, count=len(peers)),
            )
            self._known[index] = known
        return known
