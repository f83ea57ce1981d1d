"""Score pairs of nodes without arrays: a row of numbers for each primary.

The change that a secondary makes does not depend on the primary, except for reserved memory and
location tags. Therefore the changes of all secondaries are prepared once. The row of a primary is a
few passes over them, each a single expression.
"""

from __future__ import annotations

from _operator import add  # the part in C, which is in the interpreter
from math import sqrt

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
    """Scores as rows of numbers, one for each primary; rounded and sorted when they are read.

    `rows[i][j]` is the score of the primary `prefixes[i]` and the secondary `nodes[j]`. It is
    `NOWHERE` if the pair is not feasible. The row is empty if the primary is not feasible.
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
    """The score with a primary but no secondary.

    Attributes
    ----------
    terms, total:
        The weighted terms, one for each statistic, and their sum.
    sums, squares:
        For each statistic, with the change by the primary.
    """

    __slots__ = ("_counts", "squares", "sums", "terms", "total")

    def __init__(self, totals: Totals, first: Change) -> None:
        self._counts = totals.counts
        self.terms: list[float] = terms(totals, (first,), sqrt)
        self.total = sum(self.terms)
        self.sums: list[float] = [s + change[0] for s, change in zip(totals.sums, first)]
        self.squares: list[float] = [s + change[1] for s, change in zip(totals.squares, first)]

    def term(self, k: int, added: float, square: float) -> float:
        """Return the weighted term of statistic `k` after another change."""
        statistic = STATISTICS[k]
        if not statistic.spread:
            return statistic.weight * (self.sums[k] + added)
        if not (added or square):
            return self.terms[k]
        variance: float = spread(self.sums[k] + added, self.squares[k] + square, self._counts[k])
        return statistic.weight * sqrt(variance)


class MirrorNode:
    """A node as the secondary: `after` is its view with the instance, `failed` what rejects it."""

    __slots__ = ("after", "change", "checks", "failed", "index")

    def __init__(
        self,
        index: int,
        after: NodeView,
        failed: Check | None,
        change: Change,
        checks: Sequence[Check],
    ) -> None:
        self.index = index
        self.after = after
        self.failed = failed
        self.change = change
        self.checks = checks


class Mirrors:
    """The changes by some secondaries, prepared for one primary after the other.

    `changes` has those of each secondary and statistic; `firsts` those of the primaries.
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
        """Return the score with each secondary."""
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
    """Deviations that always change by the same amounts: `twins`.

    With a primary that makes the sums S and Q, and a secondary that adds s and q to them, the
    variance is ``(Q/n - S²/n²) + (q/n - s²/n²) - 2Ss/n²``: a number of the primary, one of the
    secondary, and a product. Equal changes are computed once: `places` has the position of the
    change of each secondary.
    """

    __slots__ = ("_added", "_changes", "_count", "_own", "_square", "_weight", "places", "twins")

    def __init__(self, twins: list[int], column: Sequence[tuple[float, float]], count: int) -> None:
        self.twins = twins
        self._count = count
        self._weight = sum([STATISTICS[k].weight for k in twins])
        known = {change: k for k, change in enumerate(dict.fromkeys(column))}
        self.places = tuple([known[change] for change in column])
        self._changes = list(known)
        scale = self._weight**2  # is multiplied under the root
        self._own = [scale * (q / count - (s / count) ** 2) for s, q in known]
        added = [s for s, _ in known]
        even = max(added) - min(added) <= ROUNDING * max(*added, -min(added))
        self._added = added[:1] if even else added
        self._square = max([q for _, q in known])

    def terms(self, start: Start) -> list[float]:
        """Return the sum of the weighted terms for each different change."""
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
        return [  # a variance may be zero with a rounding error
            self._weight * sqrt(spread(total + s, squares + q, count)) for s, q in self._changes
        ]
