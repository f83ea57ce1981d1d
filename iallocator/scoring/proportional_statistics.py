"""Find statistics and columns that are proportional, so that one of them represents all.

Each formula of `iallocator.scoring.metrics` is evaluated on symbols once. The formula is a sum of
products of one column with capacities. So the evaluation yields the coefficient of each column at
each node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import COLUMNS
from iallocator.scoring.metrics import RESERVING, STATISTICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats
    from iallocator.model.node_view import NodeView

__all__ = ["LINEAR", "SPREADS", "SUMMED", "coefficients", "joined", "merged"]

PROPORTIONALITY_TOLERANCE = 4e-15
"""The share by which the scaled values of two proportional statistics may differ."""

CHANGING = frozenset((*COLUMNS, "reserved", "fails_n1", "domain_conflicts"))
"""The attributes of a `NodeView` that placements change."""


class _Formula:
    """A sum of products of attributes: the sorted names of each product -> its factor."""

    def __init__(self, products: dict[tuple[str, ...], float]) -> None:
        self.products = products

    def __add__(self, other: _Formula | float) -> _Formula:
        products = dict(self.products)
        for names, factor in _formula(other).products.items():
            products[names] = products.get(names, 0.0) + factor
        return _Formula(products)

    def __mul__(self, other: _Formula | float) -> _Formula:
        products: dict[tuple[str, ...], float] = {}
        for names, factor in self.products.items():
            for others, more in _formula(other).products.items():
                both = tuple(sorted(names + others))
                products[both] = products.get(both, 0.0) + factor * more
        return _Formula(products)

    def __neg__(self) -> _Formula:
        return self * -1.0

    def __sub__(self, other: _Formula | float) -> _Formula:
        return self + _formula(other) * -1.0

    def __rsub__(self, other: float) -> _Formula:
        return _formula(other) + self * -1.0

    __radd__ = __add__
    __rmul__ = __mul__


def _formula(value: _Formula | float) -> _Formula:
    return value if isinstance(value, _Formula) else _Formula({(): float(value)})


class _Symbols:
    """Stands in for a `NodeView` to derive formulas: each attribute is a symbol, not a number."""

    def __getattr__(self, name: str) -> _Formula:
        return _Formula({(name,): 1.0})


def _linear(k: int) -> dict[str, dict[tuple[str, ...], float]] | None:
    """Return column -> names of capacities -> factor of statistic `k`; None if it is not linear.

    The statistic is linear if it is a sum of products of one column, capacities and a factor.
    """
    by_column: dict[str, dict[tuple[str, ...], float]] = {}
    for names, factor in STATISTICS[k].value(_Symbols()).products.items():  # type: ignore[arg-type]
        columns = [name for name in names if name in CHANGING]
        if len(columns) > 1 or columns in (["fails_n1"], ["domain_conflicts"]):
            return None
        if columns:
            capacities = tuple(name for name in names if name not in CHANGING)
            by_column.setdefault(columns[0], {})[capacities] = factor
    return by_column


LINEAR = [_linear(k) for k in range(len(STATISTICS))]
"""For each statistic, column -> names of capacities -> factor. The statistic is the sum of the
products of column, capacities and factor.

The entry is None for a statistic that equal instances do not change by equal amounts."""


def coefficients(k: int, view: NodeView) -> dict[str, Floats]:
    """Return column -> the change of statistic `k` by one unit of the column, at each node of
    `view`.

    A key is a column, or ``reserved``; a value is an array of nodes, or one number for all. The
    statistic must be linear, see `LINEAR`.
    """
    linear = LINEAR[k]
    assert linear is not None
    by_column: dict[str, Floats] = {}
    for column, products in linear.items():
        total: Floats = np.zeros(())
        for capacities, factor in products.items():
            amount: Floats = np.asarray(factor)
            for name in capacities:
                amount = amount * getattr(view, name)
            total = total + amount
        by_column[column] = total
    return by_column


SPREADS = [k for k, statistic in enumerate(STATISTICS) if statistic.spread and k not in RESERVING]
"""The positions of the deviations that do not depend on memory reserved for failovers."""

SUMMED = [k for k, one in enumerate(STATISTICS) if not one.spread and k not in RESERVING]
"""The positions of the sums that do not depend on memory reserved for failovers."""


def merged(changing: Sequence[int], whole: Floats, counted: Floats) -> dict[int, float]:
    """Return the first statistic of each proportional set -> the weight of the whole set.

    `changing`: the positions of the statistics to compare. `whole`: for each statistic a row with
    its values on nodes less their mean, and all amounts that may be added to them. `counted`
    (statistics × nodes): 1 where a statistic includes a node, else 0.
    """
    weights: dict[int, float] = {}
    for k in changing:
        row = whole[k]
        for leader in weights:
            other = whole[leader]
            if (counted[k] != counted[leader]).any():
                continue
            at = int(np.abs(other).argmax())
            factor = row[at] / other[at]
            limit = PROPORTIONALITY_TOLERANCE * max(1.0, float(np.abs(row).max()))
            if factor > 0 and float(np.abs(row - factor * other).max()) <= limit:
                weights[leader] += STATISTICS[k].weight * factor
                break
        else:
            weights[k] = STATISTICS[k].weight
    return weights


def joined(vectors: Floats, per_amount: Floats) -> tuple[list[int], Floats]:
    """Return the columns of `vectors` that represent all others, and what they add to statistics.

    `vectors` (instances × columns): the amounts that instances add to a node. If two columns are
    proportional in all rows, the first column represents both; columns of zeros are left out.
    `per_amount`: the change of the statistics by one unit of each column. The second result is this
    change for each returned column, including the proportional changes of the columns that it
    represents.
    """
    by_column: dict[int, Floats] = {}
    for column in np.flatnonzero(vectors.any(axis=0)).tolist():
        amounts = vectors[:, column]
        at = int(np.abs(amounts).argmax())
        for leader, known in by_column.items():
            other = vectors[:, leader]
            factor = amounts[at] / other[at] if other[at] else 0.0
            if (amounts == factor * other).all():
                by_column[leader] = known + factor * per_amount[column]
                break
        else:
            by_column[column] = per_amount[column]
    shape = len(by_column), *per_amount.shape[1:]
    return list(by_column), np.array(list(by_column.values())).reshape(shape)
