"""Score candidates of small requests one after the other, without the array library.

Loading the array library takes longer than scoring a few hundred candidates.

For pairs of nodes, the change that a secondary makes does not depend on the primary, except for
reserved memory and location tags. Therefore the changes of all secondaries are prepared once. The
scores of a primary are then computed in a few passes over the secondaries.
"""

from __future__ import annotations

from _operator import add  # the part in C, which is in the interpreter
from math import inf, sqrt

from iallocator.limits.node import ALL_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.node_view import Capacities, NodeView, OneSite, after_primary, after_secondary
from iallocator.model.state import derived
from iallocator.scoring.candidates import (
    Candidates,
    LimitResults,
    ListedCandidates,
    keep_best,
)
from iallocator.scoring.metrics import (
    DOMAINS,
    LOCATION,
    NO_CENTRES,
    RESERVING,
    STATISTICS,
    VARIANCE_ROUNDING,
    Totals,
    counting,
    node_counts,
    scope_group,
    spread,
    terms,
    value_of,
    values,
)
from iallocator.tolerances import SCORE_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from iallocator.constraints.checks import Check
    from iallocator.limits.node import LimitSet
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Quantity
    from iallocator.model.state import Kept, State
    from iallocator.scoring.candidates import NodeBest, Placement
    from iallocator.scoring.metrics import Change

    Failing = tuple[Check, NodeView, NodeView]
    """The check of a limit that fails, and the views of the node before and after."""

    EarlierNodes = tuple[Kept[int, NodeView], dict[int, tuple[NodeView, list[Quantity]]]]
    """The view of each node, and the values of statistics in that view."""

__all__ = ["ScalarKernel", "kernel_of", "score_of", "terms_of"]

ROUNDED_DIFFERENCE = 2 * 10.0**-SCORE_DECIMALS
"""The difference above which two scores are certainly different after rounding."""


class ScalarKernel:
    """Scores candidates one by one, over the nodes in `scope`, without arrays.

    The scores are of the state at creation, or at the last `follow`.

    Parameters
    ----------
    fixed:
        The capacities of every node of the cluster; see `iallocator.model.node_view.capacities`.
    earlier:
        A cache of the views and values of nodes. A kernel of a later state and the same scope then
        computes only those of changed nodes.

    Attributes
    ----------
    renewals:
        How often `follow` has found changes.
    """

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        fixed: Capacities,
        earlier: EarlierNodes | None = None,
    ) -> None:
        self.state = state
        self.renewals = 0
        self._fixed = fixed
        self._group = scope_group(state.cluster, scope) if scope else None
        self._views, plain = ({}, {}) if earlier is None else earlier
        views = [self.view(index) for index in scope]
        for index, view in zip(scope, views):
            if index not in plain or plain[index][0] is not view:
                plain[index] = view, values(view, NO_CENTRES)
        online = sum(1 for view in views if view.online)
        stored = sum(1 for view in views if view.stored)
        counts = node_counts(online, len(views) - online, stored)
        values_by_node = [plain[index][1] for index in scope]
        columns: list[Sequence[Quantity]] = [*zip(*values_by_node)] or [()] * len(STATISTICS)
        centres = [
            sum(column) / count if s.spread else 0.0
            for s, column, count in zip(STATISTICS, columns, counts)
        ]
        kinds: dict[tuple[bool, bool], list[Quantity]] = {}
        for k, centre in enumerate(centres):
            if centre:
                kind = STATISTICS[k].offline, STATISTICS[k].disk
                if kind not in kinds:
                    kinds[kind] = [counting(k, view) for view in views]
                columns[k] = [v - centre * one for v, one in zip(columns[k], kinds[kind])]
        self._values = dict(zip(scope, map(list, zip(*columns))))
        self.totals = Totals(
            counts,
            centres,
            [sum(column) for column in columns],
            [sum([v * v for v in column]) for column in columns],
        )
        self.totals.sums[DOMAINS] = state.domain_conflicts(self._group)
        self._stamps = {index: state.stamps[index] for index in scope}

    def follow(self) -> None:
        """Update the nodes of the scope from the state; the cost is O(1) for each changed node.

        The centres of statistics stay unchanged, so that after many renewals a new kernel is more
        exact.
        """
        totals, stamps = self.totals, self.state.stamps
        changed = [index for index, stamp in self._stamps.items() if stamps[index] != stamp]
        self.renewals += bool(changed)
        for index in changed:
            self._stamps[index] = stamps[index]
            before, after = self._values[index], values(self.view(index), totals.centres)
            for k, (old, new) in enumerate(zip(before, after)):
                totals.sums[k] += new - old
                totals.squares[k] += new * new - old * old
            before[:] = after
        totals.sums[DOMAINS] = self.state.domain_conflicts(self._group)

    def view(self, index: int) -> NodeView:
        """Return the view of node `index` in the present state."""
        state = self.state

        def compute() -> NodeView:
            site = None if state.access is None else OneSite(state.access, index)
            return NodeView.of(state, index, self._fixed[index], site)

        return derived(self._views, index, state.stamps[index], compute)

    def score(self) -> float:
        """Return the score of the state."""
        return float(sum(terms(self.totals, (), sqrt)))

    def terms_of(self, instance: Instance, nodes: tuple[int, ...]) -> list[float]:
        """Return the weighted terms of the score with `instance` on `nodes`."""
        changes = [self._change(nodes[0], self._as_primary(instance, nodes[0]))]
        if len(nodes) > 1:
            after = self._as_secondary(instance, *nodes)
            changes.append(self._change(nodes[1], after))
            shared = list(_NO_CHANGE)
            shared[LOCATION] = self._shared(instance, *nodes), 0.0
            changes.append(shared)
        return terms(self.totals, changes, sqrt)

    def singles(
        self,
        instance: Instance,
        nodes: Sequence[int],
        rejections: Mapping[int, str],
        limits: LimitSet = ALL_LIMITS,
    ) -> ListedCandidates:
        """Return candidates with each of `nodes` as the only node of `instance`.

        `rejections`: node -> reason, for nodes that are rejected already.
        """
        checks = checks_for(PRIMARY, instance, limits)
        failures: dict[str, int] = {}
        rejected: dict[int, Check | None] = {}
        row: list[Placement] = []
        for index in nodes:
            after = self._as_primary(instance, index)
            reason = rejections.get(index)
            if reason is None:
                check = _failing(checks, self.view(index), after, instance)
                reason = None if check is None else check.reason
            else:
                check = None
            if reason is not None:
                failures[reason] = failures.get(reason, 0) + 1
                rejected[index] = check
                continue
            change = self._change(index, after)
            row.append((round(sum(terms(self.totals, (change,), sqrt)), SCORE_DECIMALS), (index,)))
        return ListedCandidates([row], failures, LimitResults(rejected))

    def pairs(
        self,
        instance: Instance,
        primaries: Sequence[int],
        secondaries: Sequence[int],
        rejections: Mapping[int, str],
        limits: LimitSet = ALL_LIMITS,
        secondary_limits: LimitSet | None = None,
    ) -> RowCandidates:
        """Return candidates with each ordered pair of a primary and a different secondary node.

        `rejections`: node -> reason, for nodes that cannot be primaries. `limits` are checked on
        the primary, and on the secondary unless `secondary_limits` are given.
        """
        on_primary = checks_for(PRIMARY, instance, limits)
        own = limits if secondary_limits is None else secondary_limits
        failures: dict[str, int] = {}
        firsts: dict[int, Change] = {}
        rejected: dict[int, Check | None] = {}
        for primary in primaries:
            after = self._as_primary(instance, primary)
            reason = rejections.get(primary)
            if reason is None:
                check = _failing(on_primary, self.view(primary), after, instance)
                if check is None:
                    firsts[primary] = self._change(primary, after)
                    continue
                reason = check.reason
            else:
                check = None
            rejected[primary] = check
            others = len(secondaries) - (primary in secondaries)
            if others:
                failures[reason] = failures.get(reason, 0) + others
        if not firsts:
            results = LimitResults(rejected)
            return RowCandidates(primaries, secondaries, [[] for _ in primaries], failures, results)
        checks = checks_for(SECONDARY, instance, own)
        return self._rows(instance, primaries, firsts, secondaries, checks, failures, rejected)

    def secondaries(
        self, instance: Instance, primary: int, nodes: Sequence[int], limits: LimitSet = ALL_LIMITS
    ) -> RowCandidates:
        """Return candidates with each of `nodes` as the secondary of an instance on `primary`."""
        checks = checks_for(SECONDARY, instance, limits)
        firsts = {primary: self._change(primary, self._as_primary(instance, primary))}
        return self._rows(instance, [primary], firsts, nodes, checks, {}, {})

    def secondary_rejections(
        self, instance: Instance, primary: int, nodes: Sequence[int], limits: LimitSet
    ) -> dict[int, Check]:
        """Return node -> the check that it fails as the secondary of an instance on `primary`.

        Nodes that pass every check are left out.
        """
        checks = checks_for(SECONDARY, instance, limits)
        failed = {node: self.secondary_rejection(instance, primary, node, checks) for node in nodes}
        return {node: check for node, check in failed.items() if check is not None}

    def _rows(
        self,
        instance: Instance,
        primaries: Sequence[int],
        firsts: Mapping[int, Change],
        nodes: Sequence[int],
        checks: Sequence[Check],
        failures: dict[str, int],
        rejected_primaries: Mapping[int, Check | None],
    ) -> RowCandidates:
        """Return candidates with a row for each of `primaries`; it is empty for infeasible
        primaries.

        Parameters
        ----------
        instance:
            The instance to place.
        primaries:
            The primaries, one for each row.
        firsts:
            Feasible primary -> the change of the statistics by it.
        nodes:
            The secondaries.
        checks:
            The checks that a secondary must pass.
        failures:
            Reason -> number of rejected pairs; the method adds those that it finds.
        rejected_primaries:
            Infeasible primary -> the check that it fails.
        """
        as_secondary = {index: self._secondary_node(instance, index, checks) for index in nodes}
        fitting = [index for index in nodes if as_secondary[index].failed is None]
        place = {index: k for k, index in enumerate(fitting)}
        ready = Secondaries(
            self.totals, [as_secondary[index].change for index in fitting], list(firsts.values())
        )
        out = {index: m.failed for index, m in as_secondary.items() if m.failed is not None}
        rejected: dict[str, int] = {}
        for check in out.values():
            rejected[check.reason] = rejected.get(check.reason, 0) + 1
        heavy = self._heavy(instance, firsts, nodes)
        located = any(self.state.cluster.nodes[index].locations for index in fitting)
        rows: list[list[float]] = []
        pairs: dict[tuple[int, int], Check] = {}
        for primary in primaries:
            if primary not in firsts:
                rows.append([])
                continue
            start = Start(self.totals, firsts[primary])
            row = ready.row(start)
            reasons = dict(rejected)
            for index, amount in heavy.get(primary, ()):
                why, more = self._with_more_reserved(instance, as_secondary[index], amount, start)
                if index in out:
                    reasons[out[index].reason] -= 1
                elif why is None:
                    row[place[index]] += more
                else:
                    row[place[index]] = inf
                if why is not None:
                    reasons[why.reason] = reasons.get(why.reason, 0) + 1
                    pairs[primary, index] = why
            if primary in place:
                row[place[primary]] = inf
            elif primary in out:
                reasons[out[primary].reason] -= 1
            if located:
                weight = STATISTICS[LOCATION].weight
                shared = [self._shared(instance, primary, index) for index in fitting]
                row = [score + weight * number for score, number in zip(row, shared)]
            for reason, number in reasons.items():
                if number:
                    failures[reason] = failures.get(reason, 0) + number
            rows.append(row)
        results = LimitResults(rejected_primaries, out, pairs)
        return RowCandidates(primaries, fitting, rows, failures, results)

    def _secondary_node(
        self, instance: Instance, index: int, checks: Sequence[Check]
    ) -> SecondaryNode:
        """Return node `index` as the secondary of a primary for which it reserves no memory yet."""
        before = self.view(index)
        after = after_secondary(before, instance, 0, max)
        failed = _failing(checks, before, after, instance)
        change = self._change(index, after) if failed is None else _NO_CHANGE
        return SecondaryNode(index, after, failed, change, checks)

    def _heavy(
        self, instance: Instance, primaries: Mapping[int, Change], nodes: Sequence[int]
    ) -> dict[int, list[tuple[int, float]]]:
        """Return primary -> (position of a secondary, MiB) for each one that must reserve more
        memory.
        """
        heavy: dict[int, list[tuple[int, float]]] = {}
        if not instance.reserves:
            return heavy
        memory = instance.memory
        for index in nodes:
            reserved = self.state.reserved[index]
            for primary, amount in self.state.peers[index].items():
                total = amount + memory
                if amount and total > reserved and primary in primaries and primary != index:
                    heavy.setdefault(primary, []).append((index, total))
        return heavy

    def _with_more_reserved(
        self, instance: Instance, secondary: SecondaryNode, amount: float, start: Start
    ) -> tuple[Check | None, float]:
        """Return the check that a secondary fails if it reserves `amount` MiB, or None.

        The second result is the increase of the score by the reservation if it fails none.
        """
        usual = secondary.after.reserved
        secondary.after.reserved = amount
        failed = _failing(secondary.checks, self.view(secondary.index), secondary.after, instance)
        more = 0.0
        present = self._values.get(secondary.index)
        if failed is None and present is not None:
            for k in RESERVING:
                old = present[k]
                new = value_of(k, secondary.after, self.totals.centres[k])
                more += start.term(k, new - old, new * new - old * old)
                more -= start.term(k, *secondary.change[k])
        secondary.after.reserved = usual
        return failed or secondary.failed, more

    def _shared(self, instance: Instance, primary: int, secondary: int) -> int:
        """Return the number of common location tags of two nodes; 0 where the tags do not count."""
        one, other = self.state.cluster.nodes[primary], self.state.cluster.nodes[secondary]
        if not other.locations or not one.online or instance.forthcoming:
            return 0
        return len(one.locations & other.locations)

    def primary_rejection(
        self, instance: Instance, index: int, checks: Sequence[Check]
    ) -> Check | None:
        """Return the first of `checks` that node `index` fails as the primary, or None."""
        return _failing(checks, self.view(index), self._as_primary(instance, index), instance)

    def secondary_rejection(
        self, instance: Instance, primary: int, index: int, checks: Sequence[Check]
    ) -> Check | None:
        """Return the first of `checks` that node `index` fails as the secondary, or None."""
        after = self._as_secondary(instance, primary, index)
        return _failing(checks, self.view(index), after, instance)

    def failing_primary(
        self, instance: Instance, index: int, checks: Sequence[Check]
    ) -> Failing | None:
        """Return the first check that node `index` fails as the primary, and its views; or None.

        The views are the node before and after `instance` is placed.
        """
        before, after = self.view(index), self._as_primary(instance, index)
        check = _failing(checks, before, after, instance)
        return None if check is None else (check, before, after)

    def failing_secondary(
        self, instance: Instance, primary: int, index: int, checks: Sequence[Check]
    ) -> Failing | None:
        """Return the first check that node `index` fails as the secondary, and its views; or None.

        The views are the node before and after `instance` is placed.
        """
        before, after = self.view(index), self._as_secondary(instance, primary, index)
        check = _failing(checks, before, after, instance)
        return None if check is None else (check, before, after)

    def failing_under_new_primary(
        self, instance: Instance, old: int, primary: int, index: int, checks: Sequence[Check]
    ) -> Failing | None:
        """Return the first check that secondary `index` fails under a new primary, or None.

        `primary` replaces `old`; the views of the node before and after are returned, too.
        """
        before = self._as_secondary(instance, old, index)
        after = self._as_secondary(instance, primary, index)
        check = _failing(checks, before, after, instance)
        return None if check is None else (check, before, after)

    def _as_primary(self, instance: Instance, index: int) -> NodeView:
        after = after_primary(self.view(index), instance)
        if instance.exclusion or instance.desired:
            conflicts, misplaced = self.state.tag_amounts(instance, index, None)
            after.conflicts += conflicts
            after.misplaced += misplaced
            after.domain_conflicts = self.state.added_domain_conflicts(instance, index, self._group)
        return after

    def _as_secondary(self, instance: Instance, primary: int, index: int) -> NodeView:
        peers = self.state.peers[index].get(primary, 0)
        return after_secondary(self.view(index), instance, peers, max)

    def _change(self, index: int, after: NodeView) -> Change:
        before = self._values.get(index)
        if before is None:  # outside the statistics
            return _NO_CHANGE
        return [
            (new - old, new * new - old * old)
            for old, new in zip(before, values(after, self.totals.centres))
        ]


_NO_CHANGE: Change = [(0.0, 0.0)] * len(STATISTICS)


def _failing(
    checks: Sequence[Check], before: NodeView, after: NodeView, instance: Instance
) -> Check | None:
    """Return the first of `checks` that a node fails, or None.

    `before`, `after`: the node without and with `instance`.
    """
    for check in checks:
        if check.fails(before, after, instance):
            return check
    return None


class RowCandidates(Candidates):
    """Candidates with rows of scores, one for each primary; rounded and sorted when they are read.

    `rows[i][j]` is the score of the primary `prefixes[i]` and the secondary `nodes[j]`; infinite if
    the pair is not feasible. A row is empty if its primary is not feasible.
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
        self.feasible = sum([len(row) - row.count(inf) for row in rows])

    def limit_results(self) -> LimitResults:
        return self._results

    def rows(self) -> int:
        return len(self._rows)

    def row(self, number: int) -> Iterator[Placement]:
        row, nodes, primary = self._rows[number], self._nodes, self._prefixes[number]
        lowest = min(row, default=inf)
        if lowest == inf:
            return
        place = row.index(lowest)
        near, others = [place], row[:place] + row[place + 1 :]
        if min(others, default=inf) <= lowest + ROUNDED_DIFFERENCE:
            near = [k for k, score in enumerate(row) if score <= lowest + ROUNDED_DIFFERENCE]
        score, first = min([(round(row[k], SCORE_DECIMALS), k) for k in near])
        yield score, (primary, nodes[first])
        ranked = [
            (round(s, SCORE_DECIMALS), k) for k, s in enumerate(row) if s < inf and k != first
        ]
        ranked.sort()
        for score, k in ranked:
            yield score, (primary, nodes[k])

    def open_primaries(self) -> set[int]:
        return {one for one, row in zip(self._prefixes, self._rows) if min(row, default=inf) < inf}

    def best_of_nodes(self, rejected: Collection[tuple[int, ...]]) -> dict[int, NodeBest]:
        best: dict[int, NodeBest] = {}
        for primary, row in zip(self._prefixes, self._rows):
            pairs = zip(row, self._nodes)  # the order within a row does not matter
            scored = [(round(s, SCORE_DECIMALS), (primary, k)) for s, k in pairs if s < inf]
            keep_best(best, scored, rejected)
        return best


class Start:
    """The score with an instance on its primary but without a secondary.

    Attributes
    ----------
    terms, total:
        The weighted terms, one for each statistic, and their sum.
    sums, squares:
        For each statistic, the sum and the sum of squares with the primary.
    """

    __slots__ = ("_counts", "squares", "sums", "terms", "total")

    def __init__(self, totals: Totals, first: Change) -> None:
        self._counts = totals.counts
        self.terms: list[float] = terms(totals, (first,), sqrt)
        self.total = sum(self.terms)
        self.sums: list[float] = [s + change[0] for s, change in zip(totals.sums, first)]
        self.squares: list[float] = [s + change[1] for s, change in zip(totals.squares, first)]

    def term(self, k: int, added: float, square: float) -> float:
        """Return the weighted term of statistic `k` with `added` and `square` added to its sums."""
        statistic = STATISTICS[k]
        if not statistic.spread:
            return statistic.weight * (self.sums[k] + added)
        if not (added or square):
            return self.terms[k]
        variance: float = spread(self.sums[k] + added, self.squares[k] + square, self._counts[k])
        return statistic.weight * sqrt(variance)


class SecondaryNode:
    """A node as the secondary of an instance.

    `after` is the view of the node with the instance; `failed` is the check that the node fails, or
    None.
    """

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


class Secondaries:
    """The changes of the score by some secondaries, prepared for one primary after the other.

    `changes`: for each secondary, its change of each statistic. `firsts`: the changes by the
    primaries.
    """

    def __init__(self, totals: Totals, changes: Sequence[Change], firsts: Sequence[Change]) -> None:
        self._linear = [0.0] * len(changes)
        columns = list(zip(*changes))
        proportional: dict[object, list[int]] = {}
        for k, column in enumerate(columns):
            if column.count((0.0, 0.0)) == len(column):
                continue
            if STATISTICS[k].spread:
                first = tuple([change[k] for change in firsts])
                alike = (totals.sums[k], totals.squares[k], totals.counts[k], column, first)
                proportional.setdefault(alike, []).append(k)
            else:
                weight = STATISTICS[k].weight
                self._linear = [s + weight * c[0] for s, c in zip(self._linear, column)]
        self._spreads: dict[tuple[int, ...], list[_Spread]] = {}
        for group in proportional.values():
            one = _Spread(group, columns[group[0]], totals.counts[group[0]])
            self._spreads.setdefault(one.places, []).append(one)

    def row(self, start: Start) -> list[float]:
        """Return the score of the primary in `start` with each secondary."""
        base = start.total
        for alike in self._spreads.values():
            for one in alike:
                base -= sum([start.terms[k] for k in one.proportional])
        row = [base + amount for amount in self._linear]
        for places, alike in self._spreads.items():
            scores = alike[0].terms(start)
            for one in alike[1:]:
                scores = list(map(add, scores, one.terms(start)))
            spread_out = map(scores.__getitem__, places) if len(scores) < len(row) else scores
            row = list(map(add, row, spread_out))
        return row


class _Spread:
    """Deviations that secondaries change in proportion to each other; they are computed together.

    A primary makes the sums S and Q, and a secondary adds s and q to them. Then the variance is
    ``(Q/n - S²/n²) + (q/n - s²/n²) - 2Ss/n²``: a number for the primary, a number for the
    secondary, and a product. Equal changes are computed once: `places` has the position of the
    change of each secondary.
    """

    __slots__ = (
        "_added",
        "_changes",
        "_count",
        "_own",
        "_square",
        "_weight",
        "places",
        "proportional",
    )

    def __init__(
        self, proportional: list[int], column: Sequence[tuple[float, float]], count: int
    ) -> None:
        self.proportional = proportional
        self._count = count
        self._weight = sum([STATISTICS[k].weight for k in proportional])
        known = {change: k for k, change in enumerate(dict.fromkeys(column))}
        self.places = tuple([known[change] for change in column])
        self._changes = list(known)
        scale = self._weight**2  # a factor under the root
        self._own = [scale * (q / count - (s / count) ** 2) for s, q in known]
        added = [s for s, _ in known]
        even = max(added) - min(added) <= VARIANCE_ROUNDING * max(*added, -min(added))
        self._added = added[:1] if even else added
        self._square = max([q for _, q in known])

    def terms(self, start: Start) -> list[float]:
        """Return the sum of the weighted terms for each different change, after the primary in
        `start`.
        """
        count, scale = self._count, self._weight**2
        total, squares = start.sums[self.proportional[0]], start.squares[self.proportional[0]]
        fixed = scale * (squares / count - (total / count) ** 2)
        slope = -2 * scale * total / count**2
        if len(self._added) == 1:
            fixed += slope * self._added[0]
            variances = [fixed + own for own in self._own]
        else:
            variances = [fixed + own + slope * s for own, s in zip(self._own, self._added)]
        if min(variances) > scale * VARIANCE_ROUNDING * (squares + self._square) / count:
            return list(map(sqrt, variances))
        return [  # a variance may be zero except for a rounding error
            self._weight * sqrt(spread(total + s, squares + q, count)) for s, q in self._changes
        ]


def score_of(state: State, scope: Sequence[int], min_disk: float = 0.0) -> float:
    """Return the cluster score over the nodes in `scope`; lower is better.

    `min_disk`: the share of every node's disk that must stay free, from 0 to 1.
    """
    return kernel_of(state, scope, min_disk).score()


def terms_of(state: State, scope: Sequence[int]) -> list[float]:
    """Return the weighted terms of the score of the nodes in `scope`."""
    return terms(kernel_of(state, scope).totals, (), sqrt)


def kernel_of(
    state: State,
    scope: Sequence[int],
    min_disk: float = 0.0,
    earlier: EarlierNodes | None = None,
    fixed: Capacities | None = None,
) -> ScalarKernel:
    """Return a scalar kernel for `state` over `scope`; call its `follow` after changes.

    `min_disk`: the share of every node's disk that must stay free. `earlier`: a cache of the values
    of nodes. `fixed`: the capacities of the nodes; None: they are computed.
    """
    fixed = Capacities(state.cluster.nodes, min_disk, scope) if fixed is None else fixed
    return ScalarKernel(state, scope, fixed, earlier)
