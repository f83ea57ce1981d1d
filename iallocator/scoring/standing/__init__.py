"""Where the next of equal instances goes: scores that stay while one after the other is placed.

What a placement adds to a statistic of a node is the same for every instance of that kind,
so a placement changes one column of the values, and the sums.  The scores of all candidates
follow from those in a few array operations, without the limits and formulas of
`iallocator.scoring.arrays`, which are asked again only for nodes that change and come close
to a limit.

The scores agree with those of the kernel to `NOISE`.  Where that does not tell which
candidate comes first once scores are rounded, `best` says so, and the kernel has to be asked.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.arrays import ArrayKernel
from iallocator.scoring.candidates import DECIMALS
from iallocator.scoring.equivalent import SPREADS, merged
from iallocator.scoring.horizon import Horizon
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import ROUNDING, terms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iallocator.aliases import Floats, Indices, Nodes, Truths
    from iallocator.limits.node import LimitSet
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State


__all__ = ["N1_COUNT", "NOISE", "TIE", "Standing", "pick", "picks", "roots"]

NOISE = 2e-13
"""By how much scores may differ from those of the kernel."""

TIE = 10.0**-DECIMALS + 4 * NOISE
"""Scores further apart than this are never equal once they are rounded."""

GRID = 2.0**43
"""Scores that are the same to so small a part are those of nodes that are alike."""

N1_COUNT = next(k for k, statistic in enumerate(STATISTICS) if statistic.name == "n1_cnt")
"""Position of the statistic of nodes that could not take over the instances of a peer."""


def roots(variance: Floats, square: Floats | float) -> Floats:
    """Standard deviations; a `variance` that is small beside the mean `square` is rounding."""
    return np.sqrt(variance * (variance > ROUNDING * square))


def pick(scores: Floats) -> int | None:
    """Position of the first of the lowest scores once they are rounded; None: too close to tell.

    There must be a finite one.
    """
    flat = scores.ravel()
    first = int(flat.argmin())
    near = np.flatnonzero(flat <= flat[first] + TIE)
    if near.size == 1:
        return first
    found = flat[near]
    if found.min() == found.max():
        return int(near[0])
    scaled = found * 10.0**DECIMALS
    if (np.abs(scaled - np.floor(scaled) - 0.5) < NOISE * 10.0**DECIMALS).any():
        return None
    return int(near[np.round(found, DECIMALS).argmin()])


def picks(scores: Floats) -> tuple[Indices, Truths]:
    """The same of each row, and whether it can be told; rows without a finite one: of no use."""
    found = scores.argmin(axis=1)
    near = scores <= scores.min(axis=1, keepdims=True) + TIE
    rows = np.flatnonzero(np.count_nonzero(near, axis=1) > 1)
    certain = np.ones(len(scores), dtype=bool)
    if not rows.size:
        return found, certain
    columns = np.flatnonzero(near[rows].any(axis=0))
    part = np.ix_(rows, columns)
    scores, near = scores[part], near[part]
    unit = 10.0**DECIMALS
    with np.errstate(invalid="ignore"):  # infinite ones are near where there is no finite one
        scaled = scores * unit
        split = near & (np.abs(scaled - np.floor(scaled) - 0.5) < NOISE * unit)
    fine = np.rint(scores * GRID)
    alike = (near == (fine == fine.min(axis=1, keepdims=True))).all(axis=1)
    certain[rows] = alike | ~split.any(axis=1)
    rounded = np.where(near, np.round(scores, DECIMALS), np.inf)
    found[rows] = columns[rounded.argmin(axis=1)]
    return found, certain


class Standing:
    """The statistics that more of `instance` change, over all nodes, while they are placed.

    `groups` holds the nodes that may take it, by group and ascending; `fixed` and `matrix`
    are the capacities of all nodes, see `iallocator.scoring.Kernels`.
    """

    def __init__(
        self,
        state: State,
        fixed: Capacities,
        matrix: Floats,
        instance: Instance,
        groups: Sequence[Sequence[int]],
        limits: LimitSet,
    ) -> None:
        self._state = state
        self._matrix = matrix
        self._instance = instance
        self._groups = [np.array(nodes, dtype=np.intp) for nodes in groups]
        self._horizon = Horizon(state, fixed, instance, limits)
        self._prepare()
        size = len(state.cluster.nodes)
        self._ahead = [0] * size
        self._takes_primary = np.zeros(size, dtype=bool)
        self._takes_secondary = np.zeros(size, dtype=bool)
        self._failing = np.zeros(size, dtype=bool)
        self._near: set[int] = set()
        for nodes in groups:
            for index in nodes:
                self._look(index)
        self._left = 0
        self._x: Floats = np.empty(0)
        self._renew()

    def _prepare(self) -> None:
        """Make what kinds of this have of their own, before anything is looked at."""

    @property
    def lifetime(self) -> int:
        """How many placements are followed until everything is taken from the state again.

        Rounding adds up.
        """
        raise NotImplementedError

    def best(self) -> Nodes | None:
        """The nodes of the next instance; () where none takes it, None: ask the kernel."""
        raise NotImplementedError

    def course(self, most: int) -> list[Nodes]:
        """The nodes of the next ones as far as can be told at once, `most` at most.

        None where no node takes the next one, or the kernel has to be asked.
        """
        nodes = self.best() if most else None
        return [nodes] if nodes else []

    def best_but(self, barred: Collection[int]) -> tuple[int | None, list[int]]:
        """The best single node that is not in `barred`, and those of `barred` that may be better.

        None where none takes it, and where the kernel has to be asked.
        """
        raise NotImplementedError

    def nearest(self, count: int) -> list[int]:
        """At most so many of the single nodes that take it, those with the lowest scores."""
        raise NotImplementedError

    @property
    def left(self) -> int:
        """How many more are followed until everything is taken from the state again."""
        return self._left - 1

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Forget at the end what is placed meanwhile, `left` at most; as in a trial of a state."""
        kept = self._x.copy(), self._left, list(self._ahead), set(self._near)
        looked = [one.copy() for one in (self._takes_primary, self._takes_secondary, self._failing)]
        yield
        self._x, self._left, self._ahead, self._near = kept
        self._takes_primary, self._takes_secondary, self._failing = looked

    def placed(self, nodes: Nodes) -> None:
        """`instance`, or one like it, has been placed on `nodes`."""
        self._left -= 1
        if self._left <= 0:
            self._renew()
        else:
            self._follow(nodes)
        for index in nodes:
            self._ahead[index] -= 1
            if self._ahead[index] <= 0:
                self._look(index)

    def placed_along(self, path: Sequence[Nodes]) -> None:
        """The same of several, all placed by now: those of one `course`, or `left` at most."""
        for nodes in path:
            self.placed(nodes)

    def _look(self, index: int) -> None:
        """See what node `index` takes now, and how soon that has to be asked again."""
        found = self._horizon.look(index)
        self._ahead[index] = found.ahead
        self._takes_primary[index] = found.primary
        self._takes_secondary[index] = found.secondary
        self._failing[index] = found.failing
        if found.ahead:
            self._near.discard(index)
        else:
            self._near.add(index)

    def _renew(self) -> None:
        """Take everything from the state, as it is now."""
        state = self._state
        kernel = ArrayKernel(state, range(len(state.cluster.nodes)), self._matrix)
        values, primary, secondary = kernel.changes(self._instance)
        primary = self._exact(primary)
        counted = kernel.counted()
        changing = [k for k in SPREADS if primary[k].any() or secondary[k].any()]
        changing.sort(key=lambda k: bool(secondary[k].any()))
        whole = np.concatenate((values, primary, secondary), axis=1)
        weights, _ = merged(changing, whole, counted)
        kept = list(weights)
        counts = np.array([kernel.totals.counts[k] for k in kept], dtype=np.float64)
        self._weights = np.array([weights[k] for k in kept])
        self._counts = counts
        self._x = values[kept]
        self._primary = primary[kept]
        self._secondary = secondary[kept]
        share = counted[kept] / counts[:, None]
        self._share = share
        self._p_slope, self._p_rest = _parabola(self._primary, counts[:, None])
        self._s_slope, self._s_rest = _parabola(self._secondary, counts[:, None])
        self._split = sum(1 for k in kept if not secondary[k].any())
        rest = terms(kernel.totals, (), np.sqrt)
        self._rest = sum(float(rest[k]) for k in range(len(rest)) if k not in changing)
        self._renew_reserved(kernel)
        self._x -= self._share * self._x.sum(axis=1, keepdims=True)
        self._left = self.lifetime

    def _exact(self, change: Floats) -> Floats:
        """What one more adds as a primary, from the difference that it made this time."""
        return change

    def _renew_reserved(self, kernel: ArrayKernel) -> None:
        """The same for the memory that secondaries reserve."""

    def _follow(self, nodes: Nodes) -> None:
        """What a placement changes; values stay relative to their mean."""
        x = self._x
        x[:, nodes[0]] += self._primary[:, nodes[0]]
        if len(nodes) > 1:
            x[:, nodes[1]] += self._secondary[:, nodes[1]]
        x -= self._share * x.sum(axis=1, keepdims=True)

    def _squares(self) -> Floats:
        """Mean square of each statistic: its variance, as values are relative to the mean."""
        x = self._x
        return np.einsum("kn,kn->k", x, x) / self._counts  # type: ignore[no-any-return]


def _parabola(change: Floats, count: Floats) -> tuple[Floats, Floats]:
    """Slope and rest of the variance that `change` adds at a value, which is linear in that."""
    mean = change / count
    return 2 * mean, change * mean - mean * mean
