"""What nodes reserve for whose failure, as arrays that are kept while nodes stay as they are."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.state import derived

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats, Indices
    from iallocator.model.state import Kept, State

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
    """The peers of the nodes of one state."""

    def __init__(self) -> None:
        self._peers: Kept[int, tuple[Indices, Floats]] = {}

    def among(
        self, state: State, primaries: Sequence[int], secondaries: Sequence[int], memory: float
    ) -> PeerMemory:
        """Primaries × secondaries: MiB reserved on the secondary for the primary.

        Zero where `memory` MiB more for that primary would not be more than is reserved anyway.
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
        asked = (amounts > limits[columns]) & (rows >= 0)
        return PeerMemory(shape, rows[asked], columns[asked], amounts[asked])


def _peers_of(state: State, index: int) -> tuple[Indices, Floats]:
    """Return the primaries that a node reserves memory for, and how many MiB for each."""
    peers = state.peers[index]
    return (
        np.fromiter(peers.keys(), dtype=np.intp, count=len(peers)),
        np.fromiter(peers.values(), dtype=np.float64, count=len(peers)),
    )
