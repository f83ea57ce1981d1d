"""What playbacks of the same kinds of instances have in common: columns and statistics that count.

Of those in proportion one stands for all.  Which columns are, follows from the kinds alone; of
statistics it is looked at again as the state changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.scoring.equivalent import SPREADS, joined, merged, still_merged
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import RESERVING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.aliases import Floats
    from iallocator.n1.counting.queues import Vector
    from iallocator.scoring.equivalent import Stood

__all__ = ["Form", "Forms"]

SUMMED = [k for k, one in enumerate(STATISTICS) if not one.spread and k not in RESERVING]


MOST = 64
"""So many sets of kinds are known at a time."""


class Form(NamedTuple):
    """What is played with.

    Attributes
    ----------
    used, kept:
        Positions of the columns, and of the statistics.
    weights, counts:
        Of those statistics; and how many nodes count for each.
    everywhere:
        Nodes × columns × statistics: what one more in a column adds to a statistic.
    plain:
        Columns × nodes: what one more adds to the part of the score that is summed up.
    """

    used: list[int]
    kept: list[int]
    weights: Floats
    counts: Floats
    everywhere: Floats
    plain: Floats


class _Kinds:
    """What is known of some kinds: columns, and which statistics stood for others last."""

    __slots__ = ("form", "linear", "most", "others", "used", "version")

    def __init__(self, used: list[int], linear: Floats) -> None:
        self.used = used
        self.linear = linear
        self.most = np.abs(linear).max(axis=(0, 2), initial=0.0)
        self.others: list[Stood] = []
        self.form: Form | None = None
        self.version = -1


class Forms:
    """Keeps a form for each set of kinds; for `per_amount` and `counted` see `Ground`."""

    def __init__(self, per_amount: Floats, counted: Floats) -> None:
        self._per_amount = per_amount
        self._counted = counted
        self._known: dict[frozenset[Vector], _Kinds] = {}

    def of(self, kinds: Iterable[Vector], values: Floats, version: int) -> Form:
        """The form for instances that add these vectors, with `values` as of `version`."""
        key = frozenset(kinds)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= MOST:
                self._known.clear()
            vectors = np.array(list(key), dtype=np.float64).reshape(-1, len(self._per_amount))
            known = self._known[key] = _Kinds(*joined(vectors, self._per_amount))
        fresh = known.version == version or still_merged(known.others, values, known.most)
        if known.form is None or not fresh:
            known.form = self._make(known, values)
        known.version = version
        return known.form

    def _make(self, kinds: _Kinds, values: Floats) -> Form:
        linear, counted = kinds.linear, self._counted
        changing = [k for k in SPREADS if linear[:, k].any()]
        whole = np.concatenate((values, *linear), axis=1)
        weights, kinds.others = merged(changing, whole, counted)
        kept = list(weights)
        summed = np.array([STATISTICS[k].weight for k in SUMMED])
        return Form(
            kinds.used,
            kept,
            np.array([weights[k] for k in kept]),
            np.array([max(float(counted[k].sum()), 1.0) for k in kept]),
            np.ascontiguousarray(linear[:, kept].transpose(2, 0, 1)),
            np.einsum("k,ckn->cn", summed, linear[:, SUMMED]),
        )
