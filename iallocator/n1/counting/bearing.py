"""What choices could bear: how different things might be, and every one of them still the same.

A change of a variance, which is the same for all nodes, moves the difference of two scores by no
more than the difference of the slopes of their roots.  Nodes that are alike stay so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.scoring.metrics import STATISTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats, Indices, Truths


__all__ = ["Bearing", "Outcome"]

TIE = 1e-9
"""Scores that are nearer than this might change places by rounding."""

NEVER = 1e9
"""So large a weight bears no change at all."""

SLACK = 1.25
"""How much more a root changes at most than its slope says, as long as its variance changes by
no more than an eighth: (7/8) ** -1.5 is 1.22."""


class Outcome(NamedTuple):
    """How rows ended.

    Attributes
    ----------
    lost:
        Per row, whether somebody is left over.
    stuck:
        Per row, whether that happened before the last run.
    path:
        Rows × steps: the position of the node that was chosen; -1 after the last.
    strain:
        Rows × statistics: with these weights, absolute changes of the variances that add up to
        less than 1 change no choice.  Infinite where it cannot be told.
    bend:
        The same for changes of what one more of those that moved adds to a variance at the node
        where the last instance came to, of all nodes: shares of both sums must not exceed 1.
    memory, disk:
        Rows × nodes: what was free before the last run, or where somebody was stuck.
    """

    lost: Truths
    stuck: Truths
    path: Indices
    strain: Floats
    bend: Floats
    memory: Floats
    disk: Floats


class Bearing:
    """Records the choices of some rows.

    `shape`: rows, steps, statistics, nodes.  `weights` are those of the statistics, in a column;
    `even` says of each row whether what moves is the same change wherever it goes: elsewhere
    nothing is known.  `last`: the place of the node where the last instance of a row came to,
    among those that are scored; -1 if it is none.
    """

    def __init__(
        self, shape: tuple[int, int, int, int], weights: Floats, even: Truths, last: Indices
    ) -> None:
        rows, steps, statistics, nodes = shape
        self._weights = weights
        self._even = even
        self._last = last
        self._stuck = np.zeros(rows, dtype=bool)
        self._path = np.full((rows, steps), -1, dtype=np.intp)
        self._strain = np.zeros((rows, statistics))
        self._strain[~even] = np.inf
        self._bend = np.zeros((rows, statistics))
        self._memory, self._disk = np.zeros((2, rows, nodes))

    def choose(self, step: int, rows: Indices, nodes: Indices) -> None:
        """In these rows the step leads to those nodes."""
        self._path[rows, step] = nodes

    def end(self, rows: Indices, memory: Floats, disk: Floats, stuck: bool = False) -> None:
        """These rows end with so much free; see `Outcome`."""
        self._stuck[rows] = stuck
        self._memory[rows], self._disk[rows] = memory, disk

    def bear(
        self, rows: Indices, scores: Floats, roots: Floats, open_to: Truths, best: Indices
    ) -> None:
        """Note what the choice of `best` in these rows can bear.

        `scores` and `open_to`: rows × nodes that are scored; `roots` of variances: statistics ×
        those.
        """
        even = self._even[rows]
        rows, scores, roots = rows[even], scores[even], roots[:, even]
        open_to, best = open_to[even], best[even]
        if not rows.size:
            return
        every = np.arange(rows.size)
        at_best = roots[:, every, best][:, :, None]
        alike = (np.abs(roots - at_best) <= 1e-12 * at_best).all(axis=0)
        gap = scores - scores[every, best][:, None] - TIE
        rival = open_to & ~alike
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = 0.5 * SLACK * self._weights[:, :, None] * np.abs(1 / roots - 1 / at_best)
            share = np.where(rival, slope / gap, 0.0)
            share[:, rival & (gap <= 0)] = np.inf
            least = np.where(open_to, roots, np.inf).min(axis=2)
            found = np.maximum(share.max(axis=2), 8 / least**2)
        _raise(self._strain, rows, found)
        self._bear_elsewhere(rows, gap, roots, open_to, best)

    def _bear_elsewhere(
        self, rows: Indices, gap: Floats, roots: Floats, open_to: Truths, best: Indices
    ) -> None:
        """The same for another value at the node where the last instance of each row came to."""
        column, every = self._last[rows], np.arange(rows.size)
        others = open_to.copy()
        others[every, best] = False
        nearest = np.where(others, gap, np.inf).min(axis=1)
        concerned = (column >= 0) & open_to[every, column]
        room = np.where(column == best, nearest, gap[every, column])[concerned]
        here = roots[:, every, column][:, concerned]
        with np.errstate(divide="ignore", invalid="ignore"):
            found = 0.5 * SLACK * self._weights / here / np.maximum(room, 0.0)
            found = np.maximum(found, 8 / here**2)
        _raise(self._bend, rows[concerned], found)

    def outcome(self, lost: Truths, kept: Sequence[int]) -> Outcome:
        """All of it; `kept` are the positions of the statistics among all."""
        strain, bend = np.zeros((2, len(self._strain), len(STATISTICS)))
        strain[:, kept], bend[:, kept] = self._strain, self._bend
        return Outcome(lost, self._stuck, self._path, strain, bend, self._memory, self._disk)


def _raise(weights: Floats, rows: Indices, found: Floats) -> None:
    """Take `found` (statistics × rows) where it is more."""
    found[~(found < NEVER)] = np.inf
    weights[rows] = np.maximum(weights[rows], found.T)
