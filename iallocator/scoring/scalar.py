"""The kernel for small requests: one candidate after the other, without the array library.

Loading that library takes longer than scoring a few hundred candidates this way.
"""

from __future__ import annotations

from math import sqrt

from iallocator.filters.node import ALL_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.scoring.candidates import DECIMALS, ListedCandidates
from iallocator.scoring.kernel import (
    DOMAINS,
    LOCATION,
    Totals,
    after_primary,
    after_secondary,
    scope_group,
    spread,
    terms,
    values,
)
from iallocator.scoring.statistics import STATISTICS
from iallocator.scoring.view import View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.filters.node import Check
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.candidates import Placement

    Sparse = list[tuple[int, float, float]]
    """The statistics that change: position, added to the sum, added to the sum of squares."""
    from iallocator.scoring.kernel import Change

__all__ = ["ScalarKernel"]



class ScalarKernel:
    """Scores over the nodes in `scope`, as `state` is now.

    `fixed` holds the capacities of every node of the cluster, see
    `iallocator.scoring.view.capacities`.
    """

    def __init__(
        self, state: State, scope: Sequence[int], fixed: Sequence[tuple[float, ...]]
    ) -> None:
        self.state = state
        self._fixed = fixed
        self._group = scope_group(state.cluster, scope) if scope else None
        self._views: dict[int, View] = {}
        self._seconds_of: Instance | None = None
        self._seconds: dict[tuple[int, float], tuple[str | None, Sparse]] = {}
        views = [self.view(index) for index in scope]
        online = sum(1 for view in views if view.online)
        zero = [0.0] * len(STATISTICS)
        raw = list(zip(*[values(view, zero) for view in views])) or [()] * len(STATISTICS)
        counts = [(len(views) - online if s.offline else online) or 1 for s in STATISTICS]
        centres = [
            sum(column) / count if s.spread else 0.0
            for s, column, count in zip(STATISTICS, raw, counts)
        ]
        self._values: dict[int, list[float]] = {
            index: values(view, centres) for index, view in zip(scope, views)
        }
        columns = list(zip(*self._values.values())) or raw
        self.totals = Totals(
            online,
            len(views) - online,
            centres,
            [sum(column) for column in columns],
            [sum([v * v for v in column]) for column in columns],
        )
        self.totals.sums[DOMAINS] = state.domain_conflicts(self._group)

    def view(self, index: int) -> View:
        """Node `index` as it is now."""
        view = self._views.get(index)
        if view is None:
            view = View(self.state.row(index), self._fixed[index], self.state.reserved[index])
            self._views[index] = view
        return view

    def score(self) -> float:
        """The score as things are."""
        return float(sum(terms(self.totals, (), sqrt)))

    def terms_of(self, instance: Instance, nodes: tuple[int, ...]) -> list[float]:
        """The weighted terms of the score once `instance` is on `nodes`."""
        changes = [self._primary(instance, nodes[0])[1]]
        if len(nodes) > 1:
            changes.append(_dense(self._second(instance, nodes[0], nodes[1], ())[1]))
        return terms(self.totals, changes, sqrt)

    def singles(
        self,
        instance: Instance,
        nodes: Sequence[int],
        refusals: Mapping[int, str],
        limits: int = ALL_LIMITS,
    ) -> ListedCandidates:
        """Every node of `nodes` as the only node of `instance`.

        `refusals` names the nodes that are out for a reason of their own.
        """
        checks = checks_for(PRIMARY, instance, limits)
        failures: dict[str, int] = {}
        row: list[Placement] = []
        for index in nodes:
            reason = refusals.get(index) or self.primary_refusal(instance, index, checks)
            if reason is not None:
                failures[reason] = failures.get(reason, 0) + 1
                continue
            change = self._primary(instance, index)[1]
            row.append((round(sum(terms(self.totals, (change,), sqrt)), DECIMALS), (index,)))
        return ListedCandidates([row], failures)

    def pairs(
        self,
        instance: Instance,
        primaries: Sequence[int],
        secondaries: Sequence[int],
        refusals: Mapping[int, str],
        limits: int = ALL_LIMITS,
        secondary_limits: int | None = None,
    ) -> ListedCandidates:
        """Every ordered pair of different nodes; `refusals` is about primaries.

        `limits` count for the primary; for the secondary too, unless its own are given.
        """
        on_primary = checks_for(PRIMARY, instance, limits)
        own = limits if secondary_limits is None else secondary_limits
        on_secondary = checks_for(SECONDARY, instance, own)
        failures: dict[str, int] = {}
        rows: list[list[Placement]] = []
        for primary in primaries:
            others = [index for index in secondaries if index != primary]
            reason = refusals.get(primary) or self.primary_refusal(instance, primary, on_primary)
            if reason is not None:
                if others:
                    failures[reason] = failures.get(reason, 0) + len(others)
                rows.append([])
            else:
                rows.append(self._row(instance, primary, others, on_secondary, failures))
        return ListedCandidates(rows, failures)

    def secondaries(
        self, instance: Instance, primary: int, nodes: Sequence[int], limits: int = ALL_LIMITS
    ) -> ListedCandidates:
        """Every node of `nodes` as the secondary of an instance that stays on `primary`."""
        failures: dict[str, int] = {}
        checks = checks_for(SECONDARY, instance, limits)
        return ListedCandidates(
            [self._row(instance, primary, nodes, checks, failures)], failures
        )

    def mirror_refusals(
        self, instance: Instance, primary: int, nodes: Sequence[int], limits: int
    ) -> dict[int, str]:
        """Why some of `nodes` cannot be the secondary of an instance on `primary`."""
        checks = checks_for(SECONDARY, instance, limits)
        reasons = {node: self.secondary_refusal(instance, primary, node, checks) for node in nodes}
        return {node: reason for node, reason in reasons.items() if reason is not None}

    def _row(
        self,
        instance: Instance,
        primary: int,
        nodes: Sequence[int],
        checks: Sequence[Check],
        failures: dict[str, int],
    ) -> list[Placement]:
        """The pairs of one primary that pass `checks` on the secondary; counts the others."""
        row: list[Placement] = []
        start = _Start(self.totals, self._primary(instance, primary)[1])
        for index in nodes:
            reason, change = self._second(instance, primary, index, checks)
            if reason is not None:
                failures[reason] = failures.get(reason, 0) + 1
            else:
                score = start.score(change)
                row.append((round(score, DECIMALS), (primary, index)))
        return row

    def primary_refusal(
        self, instance: Instance, index: int, checks: Sequence[Check]
    ) -> str | None:
        """The first of `checks` that node `index` fails as the primary, or None."""
        return _refusal(checks, self.view(index), self._primary(instance, index)[0], instance)

    def secondary_refusal(
        self, instance: Instance, primary: int, index: int, checks: Sequence[Check]
    ) -> str | None:
        """The first of `checks` that node `index` fails as the secondary, or None."""
        return _refusal(checks, self.view(index), self._after(instance, primary, index), instance)

    def _primary(self, instance: Instance, index: int) -> tuple[View, Change]:
        before = self.view(index)
        after = after_primary(before, instance)
        if instance.exclusion or instance.desired:
            conflicts, misplaced = self.state.tag_amounts(instance, index, None)
            after.conflicts += conflicts
            after.misplaced += misplaced
            after.domain_conflicts = self.state.added_domain_conflicts(
                instance, index, self._group
            )
        return after, self._change(index, after)

    def _after(self, instance: Instance, primary: int, index: int) -> View:
        peers = self.state.peers[index].get(primary, 0)
        return after_secondary(self.view(index), instance, peers, max)

    def _second(
        self, instance: Instance, primary: int, index: int, checks: Sequence[Check]
    ) -> tuple[str | None, Sparse]:
        """Why node `index` cannot be the secondary, or what it changes then.

        Most primaries reserve too little on a node to matter there: for those the
        answer is worked out once.
        """
        peers = self.state.peers[index].get(primary, 0)
        matters = instance.reserves and peers + instance.memory > self.state.reserved[index]
        key = (index, peers if matters else -1)
        if self._seconds_of is not instance:
            self._seconds_of, self._seconds = instance, {}
        known = self._seconds.get(key)
        if known is None:
            after = self._after(instance, primary, index)
            reason = _refusal(checks, self.view(index), after, instance)
            known = self._seconds[key] = reason, _sparse(self._change(index, after))
        nodes = self.state.cluster.nodes
        counts = nodes[primary].online and not instance.forthcoming
        if nodes[index].locations and counts and known[0] is None:
            shared = len(nodes[primary].locations & nodes[index].locations)
            return None, [*known[1], (LOCATION, shared, 0.0)]
        return known

    def _change(self, index: int, after: View) -> Change:
        before = self._values.get(index)
        if before is None:  # outside the statistics
            return _NO_CHANGE
        return [
            (new - old, new * new - old * old)
            for old, new in zip(before, values(after, self.totals.centres))
        ]


class _Start:
    """The score with a primary in place, ready to take one secondary after the other.

    Only the few statistics that a secondary changes are worked out anew for each.
    """

    __slots__ = ("_count", "_squares", "_sums", "_terms", "_total")

    def __init__(self, totals: Totals, first: Change) -> None:
        self._count = totals.count(offline=False)
        self._terms = terms(totals, (first,), sqrt)
        self._total: float = sum(self._terms)
        self._sums = [s + change[0] for s, change in zip(totals.sums, first)]
        self._squares = [s + change[1] for s, change in zip(totals.squares, first)]

    def score(self, second: Sparse) -> float:
        """The score once the change of the secondary is made as well."""
        total = self._total
        for k, added, square in second:
            statistic = STATISTICS[k]
            if statistic.spread:
                variance = spread(
                    self._sums[k] + added, self._squares[k] + square, self._count
                )
                total += statistic.weight * sqrt(variance) - self._terms[k]
            else:
                total += statistic.weight * added
        return total


def _sparse(change: Change) -> Sparse:
    return [(k, added, square) for k, (added, square) in enumerate(change) if added or square]


def _dense(sparse: Sparse) -> Change:
    change: list[tuple[float, float]] = [(0.0, 0.0)] * len(STATISTICS)
    for k, added, square in sparse:
        change[k] = (change[k][0] + added, change[k][1] + square)
    return change


_NO_CHANGE: Change = [(0.0, 0.0)] * len(STATISTICS)


def _refusal(
    checks: Sequence[Check], before: View, after: View, instance: Instance
) -> str | None:
    for check in checks:
        if check.fails(before, after, instance):
            return check.reason
    return None
