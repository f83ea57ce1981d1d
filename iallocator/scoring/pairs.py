"""Scores of pairs without the array library: a row of numbers per primary.

What a secondary changes does not depend on the primary, but for the memory that it
reserves and for location tags.  So the changes of all secondaries are prepared once,
and the row of a primary is a few passes over them, each a single expression.
"""

from __future__ import annotations

from math import sqrt
from operator import add

from iallocator.scoring.candidates import DECIMALS, Candidates
from iallocator.scoring.metrics import ROUNDING, STATISTICS, spread, terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.constraints.checks import Check
    from iallocator.model.node_view import NodeView
    from iallocator.scoring.candidates import LimitResults, Placement
    from iallocator.scoring.metrics import Change, Totals

__all__ = ["NOWHERE", "MirrorNode", "Mirrors", "RowCandidates", "Start"]

NOWHERE = float("inf")
"""The score of a pair that is not feasible."""

NEAR = 2 * 10.0**-DECIMALS
"""Scores that are further apart differ after rounding."""


class RowCandidates(Candidates):
    """Scores as rows of numbers, one per primary; rounded and sorted where they are looked at.

    `rows[i][j]` belongs to the primary `prefixes[i]` and the secondary `nodes[j]`; it is
    `NOWHERE` where the pair is not feasible, and the row is empty where the primary is not.
    """

    def __init__(
        self,
        prefixes: Sequence[int],
        nodes: Sequence[int],
        rows: Sequence[list[float]],
        failures: dict[str, int],
        results: LimitResults,
    ) -> None:
        self._results = results
        self._prefixes = prefixes
        self._nodes = nodes
        self._rows = rows
        self.failures = failures
        self.feasible = sum([len(row) - row.count(NOWHERE) for row in rows])

    def limit_results(self) -> LimitResults:
        return self._results

    def rows(self) -> int:
        return len(self._rows)

    def row(self, number: int) -> Iterator[Placement]:
        row, nodes, primary = self._rows[number], self._nodes, self._prefixes[number]
        lowest = min(row, default=NOWHERE)
        if lowest == NOWHERE:
            return
        place = row.index(lowest)
        near, others = [place], row[:place] + row[place + 1 :]
        if min(others, default=NOWHERE) <= lowest + NEAR:
            near = [k for k, score in enumerate(row) if score <= lowest + NEAR]
        score, first = min([(round(row[k], DECIMALS), k) for k in near])
        yield score, (primary, nodes[first])
        ranked = [(round(s, DECIMALS), k) for k, s in enumerate(row) if s < NOWHERE and k != first]
        ranked.sort()
        for score, k in ranked:
            yield score, (primary, nodes[k])


class Start:
    """The score with a primary in place, before there is a secondary.

    Attributes
    ----------
    terms, total:
        The weighted terms, one per statistic, and their sum.
    sums, squares:
        Per statistic, with the change that the primary makes.
    """

    __slots__ = ("_counts", "squares", "sums", "terms", "total")

    def __init__(self, totals: Totals, first: Change) -> None:
        self._counts = totals.counts
        self.terms: list[float] = terms(totals, (first,), sqrt)
        self.total = sum(self.terms)
        self.sums: list[float] = [s + change[0] for s, change in zip(totals.sums, first)]
        self.squares: list[float] = [s + change[1] for s, change in zip(totals.squares, first)]

    def term(self, k: int, added: float, square: float) -> float:
        """The weighted term of statistic `k` after another change."""
        statistic = STATISTICS[k]
        if not statistic.spread:
            return statistic.weight * (self.sums[k] + added)
        if not (added or square):
            return self.terms[k]
        variance: float = spread(self.sums[k] + added, self.squares[k] + square, self._counts[k])
        return statistic.weight * sqrt(variance)


class MirrorNode:
    """A node as the secondary: `after` with the instance, why not, and what changes."""

    __slots__ = ("after", "change", "checks", "index", "reason")

    def __init__(
        self,
        index: int,
        after: NodeView,
        reason: str | None,
        change: Change,
        checks: Sequence[Check],
    ) -> None:
        self.index = index
        self.after = after
        self.reason = reason
        self.change = change
        self.checks = checks


class Mirrors:
    """The changes of some secondaries, ready for one primary after the other.

    `changes`: per secondary and statistic.  `firsts`: those of the primaries that will come.
    """

    def __init__(self, totals: Totals, changes: Sequence[Change], firsts: Sequence[Change]) -> None:
        self._linear = [0.0] * len(changes)
        columns = list(zip(*changes))
        twins: dict[object, list[int]] = {}
        for k, column in enumerate(columns):
            if column.count((0.0, 0.0)) == len(column):
                continue
            if STATISTICS[k].spread:
                first = tuple([change[k] for change in firsts])
                alike = (totals.sums[k], totals.squares[k], totals.counts[k], column, first)
                twins.setdefault(alike, []).append(k)
            else:
                weight = STATISTICS[k].weight
                self._linear = [s + weight * c[0] for s, c in zip(self._linear, column)]
        self._spreads: dict[tuple[int, ...], list[_Spread]] = {}
        for group in twins.values():
            one = _Spread(group, columns[group[0]], totals.counts[group[0]])
            self._spreads.setdefault(one.places, []).append(one)

    def row(self, start: Start) -> list[float]:
        """The score with each secondary."""
        base = start.total
        for alike in self._spreads.values():
            for one in alike:
                base -= sum([start.terms[k] for k in one.twins])
        row = [base + amount for amount in self._linear]
        for places, alike in self._spreads.items():
            found = alike[0].terms(start)
            for one in alike[1:]:
                found = list(map(add, found, one.terms(start)))
            spread_out = map(found.__getitem__, places) if len(found) < len(row) else found
            row = list(map(add, row, spread_out))
        return row


class _Spread:
    """Statistics of the spread kind that always change alike: `twins`.

    The variance with a primary that makes the sums S and Q, and a secondary that adds s
    and q to them, is ``(Q/n - S²/n²) + (q/n - s²/n²) - 2Ss/n²``: a number of the primary,
    one of the secondary, and a product.  Equal changes are worked out once: `places` says
    which of them is whose.
    """

    __slots__ = ("_added", "_changes", "_count", "_own", "_square", "_weight", "places", "twins")

    def __init__(self, twins: list[int], column: Sequence[tuple[float, float]], count: int) -> None:
        self.twins = twins
        self._count = count
        self._weight = sum([STATISTICS[k].weight for k in twins])
        known = {change: k for k, change in enumerate(dict.fromkeys(column))}
        self.places = tuple([known[change] for change in column])
        self._changes = list(known)
        scale = self._weight**2  # goes under the root
        self._own = [scale * (q / count - (s / count) ** 2) for s, q in known]
        added = [s for s, _ in known]
        even = max(added) - min(added) <= ROUNDING * max(*added, -min(added))
        self._added = added[:1] if even else added
        self._square = max([q for _, q in known])

    def terms(self, start: Start) -> list[float]:
        """Their weighted terms together, for each different change."""
        count, scale = self._count, self._weight**2
        total, squares = start.sums[self.twins[0]], start.squares[self.twins[0]]
        fixed = scale * (squares / count - (total / count) ** 2)
        slope = -2 * scale * total / count**2
        if len(self._added) == 1:
            fixed += slope * self._added[0]
            variances = [fixed + own for own in self._own]
        else:
            variances = [fixed + own + slope * s for own, s in zip(self._own, self._added)]
        if min(variances) > scale * ROUNDING * (squares + self._square) / count:
            return list(map(sqrt, variances))
        return [  # one may be zero that was rounded
            self._weight * sqrt(spread(total + s, squares + q, count)) for s, q in self._changes
        ]
