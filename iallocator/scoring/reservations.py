"""What nodes reserve for whose failure, as arrays that are kept while nodes stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats, Indices
    from iallocator.model.state import State

__all__ = ["Reservations"]


class Reservations:
    """Peers of nodes of one state; what is kept of a node counts while its stamp is the same."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Indices, Floats]] = {}

    def matrix(
        self, state: State, primaries: Sequence[int], secondaries: Sequence[int], memory: float
    ) -> Floats:
        """Primaries × secondaries: MiB reserved on the secondary for the primary.

        Zero where `memory` MiB more for that primary would not be more than is reserved anyway.
        """
        found = np.zeros((len(primaries), len(secondaries)))
        if not found.size:
            return found
        known = [self._peers(state, index) for index in secondaries]
        peers = np.concatenate([one[1] for one in known])
        amounts = np.concatenate([one[2] for one in known])
        columns = np.repeat(np.arange(len(known)), [len(one[1]) for one in known])
        limits = np.array([state.reserved[index] - memory for index in secondaries])
        place = np.full(len(state.cluster.nodes), -1, dtype=np.intp)
        place[list(primaries)] = np.arange(len(primaries))
        rows = place[peers]
        asked = (amounts > limits[columns]) & (rows >= 0)
        found[rows[asked], columns[asked]] = amounts[asked]
        return found

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
