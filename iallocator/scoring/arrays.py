"""The kernel for large requests: all candidates at once, in array operations.

Pairs of many nodes are scored best first, with a lower bound for each primary. The score of a pair
is a sum of the changes by the primary, the changes by the secondary, and square roots of variances
that both change. A square root is never below its chord over the range of all pairs. Therefore the
score of a pair is at least one number for its primary plus one number for its secondary. Primaries
are scored in the order of this bound, some at a time, until no other primary can be better.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from iallocator.limits.node import ALL_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.columns import MEMORY
from iallocator.model.node_view import CAPACITIES, NodeView, after_primary, after_secondary
from iallocator.model.state import derived
from iallocator.scoring.array_candidates import (
    SCORES_AT_ONCE,
    ArrayCandidates,
    PeerMemory,
    PrunedPairs,
    RejectionCodes,
    Reservations,
)
from iallocator.scoring.candidates import LimitResults
from iallocator.scoring.metrics import (
    DOMAINS,
    LOCATION,
    NO_CENTRES,
    NO_EQUAL,
    RESERVING,
    STATISTICS,
    VARIANCE_ROUNDING,
    Totals,
    counting,
    node_counts,
    scope_group,
    spread,
    terms,
    values,
)
from iallocator.tolerances import SCORE_DECIMALS, SCORE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Floats, Indices, Truths
    from iallocator.constraints.checks import Check
    from iallocator.limits.node import LimitSet
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Quantity
    from iallocator.model.state import Kept, State
    from iallocator.model.storage import NodeAccess
    from iallocator.scoring.metrics import Change

    Changed = Callable[[NodeView], Change]
    """Returns the change of the statistics if nodes become like the given view."""


__all__ = [
    "ArrayKernel", "ManyStates", "capacity_matrix", "counted_by", "means_of", "scores_of_states",
    "scores_of_sums", "totals_of", "values_of",
]  # fmt: skip

STATISTIC_POSITIONS = range(len(STATISTICS))
"""The positions of all statistics in `STATISTICS`."""


WEIGHTS = np.array([[float(statistic.weight)] for statistic in STATISTICS])
IS_SPREAD = np.array([[statistic.spread] for statistic in STATISTICS])
"""The weight of each statistic, and whether it is a deviation: columns of an array."""


SCORE_BOUND_SLACK = 10 * SCORE_TOLERANCE
"""The most by which rounding may raise a lower bound of scores; scores have no unit."""

MANY_SCORED_PAIRS = 10_000
"""The number of pairs above which only the best are scored, until the caller reads more."""


def capacity_matrix(fixed: Sequence[tuple[float, ...]]) -> Floats:
    """Return the capacities of nodes as an array, `CAPACITIES` × nodes.

    `fixed`: the capacities of each node.
    """
    return np.array(fixed, dtype=np.float64).T.reshape(len(CAPACITIES), -1)


def values_of(view: NodeView, centres: Sequence[float], shape: tuple[int, ...]) -> Floats:
    """Return the values of the nodes of `view` less `centres`: an array of statistics × `shape`.

    `shape`: the shape of the quantities of `view`.
    """
    statistic_values = np.empty((len(STATISTICS), *shape))
    for row, value in zip(statistic_values, values(view, centres)):
        row[...] = value
    return statistic_values


def counted_by(view: NodeView, size: int) -> Floats:
    """Return statistics × nodes: 1 where a statistic includes one of the `size` nodes, else 0."""
    rows = [np.broadcast_to(counting(k, view), (size,)) for k in STATISTIC_POSITIONS]
    return np.stack(rows).astype(np.float64)


def means_of(plain: Floats, counts: Sequence[int]) -> list[float]:
    """Return the centre of each statistic: the mean of its values, or 0 for statistics that are
    sums.
    """
    sums = plain.sum(axis=1).tolist()
    return [
        total / count if statistic.spread else 0.0
        for statistic, total, count in zip(STATISTICS, sums, counts)
    ]


def totals_of(own: Floats, counts: Sequence[int], centres: list[float], conflicts: float) -> Totals:
    """Return the sums and sums of squares of `own`, the values less the centres, as `Totals`.

    `conflicts`: the value of the statistic of failure domains.
    """
    sums, squares = own.sum(axis=1).tolist(), (own * own).sum(axis=1).tolist()
    sums[DOMAINS] = conflicts
    return Totals(counts, centres, sums, squares)


def scores_of_states(view: NodeView, counts: Sequence[int], shape: tuple[int, int]) -> Floats:
    """Return the score of each state in `view`, which has quantities of shape states × nodes.

    `counts`: the number of nodes that each statistic includes. Conflicts of failure domains are
    left out, because no view has them.
    """
    values = values_of(view, NO_CENTRES, shape)
    return scores_of_sums(values.sum(axis=2), (values * values).sum(axis=2), counts)


def scores_of_sums(sums: Floats, squares: Floats, counts: Sequence[int]) -> Floats:
    """Return the score of each of several states.

    `sums`, `squares` (statistics × states): the sums of the values of all nodes, and of their
    squares. `counts`: the number of nodes that each statistic includes.
    """
    deviations = np.sqrt(spread(sums, squares, np.array(counts)[:, None]))
    scores: Floats = (WEIGHTS * np.where(IS_SPREAD, deviations, sums)).sum(axis=0)
    return scores


class ManyStates:
    """Computes the scores of many states at once, over the nodes of a group.

    The states change at single nodes. Quantities are states × nodes. Tags, peers and failure
    domains do not change, and are left out. Cost: O(1) for each state that changes; O(f n) for
    scores of *f* states and *n* nodes.

    Parameters
    ----------
    columns:
        `COLUMNS` × states × nodes; `add` changes them.
    fixed:
        `CAPACITIES` × nodes.
    reserved:
        The memory reserved for peers in MiB, states × nodes.
    """

    def __init__(self, columns: Floats, fixed: Floats, reserved: Floats) -> None:
        self.columns = columns
        self._fixed, self._reserved = fixed[:, None, :], reserved
        view = NodeView(list(columns), list(self._fixed), reserved)
        shape = reserved.shape
        raw = values_of(view, NO_CENTRES, shape)
        online = fixed[CAPACITIES.index("online")].sum()
        stored = fixed[CAPACITIES.index("stored")].sum()
        counts = node_counts(int(online), shape[1] - int(online), int(stored))
        self._centres = [
            float(v.sum() / (shape[0] * count)) if s.spread else 0.0
            for s, v, count in zip(STATISTICS, raw, counts)
        ]
        self._values = values_of(view, self._centres, shape)
        self._sums = self._values.sum(axis=2, keepdims=True)
        self._squares = (self._values * self._values).sum(axis=2, keepdims=True)
        self._counts = counts

    def scores(self, vectors: Floats) -> Floats:
        """Return states × nodes: the rounded score if an instance is added to each node.

        `vectors`: the amounts of the instance of each state, `COLUMNS` × states.
        """
        more = list(self.columns + vectors[:, :, None])
        after = NodeView(more, list(self._fixed), self._reserved)
        new = values_of(after, self._centres, self._reserved.shape)
        added = new - self._values
        totals = Totals(self._counts, self._centres, list(self._sums), list(self._squares))
        change = list(zip(added, added * (new + self._values)))
        return np.round(sum(terms(totals, (change,), np.sqrt)), SCORE_DECIMALS)  # type: ignore[no-any-return]

    def add(self, nodes: Indices, vectors: Floats) -> None:
        """Add an instance to one node of each state.

        `nodes`: the position of the node in each state. `vectors`: the amounts of the instance of
        each state, `COLUMNS` × states.
        """
        rows = np.arange(nodes.size)
        self.columns[:, rows, nodes] += vectors
        view = NodeView(
            list(self.columns[:, rows, nodes]),
            list(self._fixed[:, 0, nodes]),
            self._reserved[rows, nodes],
        )
        new = values_of(view, self._centres, rows.shape)
        old = self._values[:, rows, nodes]
        self._values[:, rows, nodes] = new
        self._sums[:, rows, 0] += new - old
        self._squares[:, rows, 0] += new * new - old * old

    def keep(self, states: Truths) -> None:
        """Keep only the states for which `states` has True."""
        self._reserved = self._reserved[states]
        self.columns, self._values = self.columns[:, states], self._values[:, states]
        self._sums, self._squares = self._sums[:, states], self._squares[:, states]


class ArrayKernel:
    """Scores candidates over the nodes in `scope` of `state`, all of them at once in arrays.

    `capacity` holds the capacities of all nodes, see `capacity_matrix`. `reservations` is shared by
    the kernels of one state.
    """

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        capacity: Floats,
        reservations: Reservations | None = None,
    ) -> None:
        self.state = state
        self._reservations = Reservations() if reservations is None else reservations
        self._group = scope_group(state.cluster, scope)
        everything = np.array(state.columns, dtype=np.float64)
        reserved = np.array(state.reserved, dtype=np.float64)
        self._columns, self._fixed, self._reserved = everything, capacity, reserved
        self._viewed: Kept[None, NodeView] = {}
        self.renewals = 0
        self._in_scope = np.zeros(reserved.size, dtype=bool)
        self._in_scope[list(scope)] = True
        view = self._view(scope)
        online = int(view.online.sum())
        values = values_of(view, NO_CENTRES, (len(scope),))
        counts = node_counts(online, len(scope) - online, int(view.stored.sum()))
        centres = means_of(values, counts)
        for k, centre in enumerate(centres):
            if centre:
                values[k] -= centre * counting(k, view)
        self._values: Floats = np.zeros((len(STATISTICS), reserved.size))
        self._values[:, list(scope)] = values
        self.totals = totals_of(values, counts, centres, state.domain_conflicts(self._group))
        self._scope = scope
        self._stamps = list(state.stamps)

    def follow(self) -> None:
        """Update the nodes of the scope to the present state; the cost is O(1) for each changed
        node.
        """
        state, seen = self.state, self._stamps
        if state.stamps == seen:
            return
        nodes = [index for index in self._scope if state.stamps[index] != seen[index]]
        index = np.asarray(nodes, dtype=np.intp)
        self._stamps = list(state.stamps)
        self.renewals += 1
        self._columns[:, index] = [[column[i] for i in nodes] for column in state.columns]
        self._reserved[index] = [state.reserved[i] for i in nodes]
        before = self._values[:, index]
        after = values_of(self._view(nodes), self.totals.centres, index.shape)
        self._values[:, index] = after
        added = (after - before).sum(axis=1).tolist()
        more = (after * after - before * before).sum(axis=1).tolist()
        totals = self.totals
        totals.sums = [total + one for total, one in zip(totals.sums, added)]
        totals.squares = [total + one for total, one in zip(totals.squares, more)]
        totals.sums[DOMAINS] = state.domain_conflicts(self._group)

    def _view(self, nodes: Sequence[int]) -> NodeView:
        """Return a view of `nodes`; the last view is cached."""
        counter = self.renewals, list(nodes)
        return derived(self._viewed, None, counter, lambda: self._fresh_view(nodes))

    def _fresh_view(self, nodes: Sequence[int]) -> NodeView:
        index = np.asarray(nodes, dtype=np.intp)
        columns, fixed = self._columns[:, index], self._fixed[:, index]
        access = self.state.access
        site = None if access is None else Sites(access, nodes)
        return NodeView(list(columns), list(fixed), self._reserved[index], site)

    def changes(self, instance: Instance) -> tuple[Floats, Floats, Floats]:
        """Return the values of all nodes, and what `instance` adds as primary and as secondary.

        The three arrays are statistics × nodes. The centre of each statistic is subtracted from the
        values. It is assumed that a secondary reserves nothing for the primary yet. Tags are
        left out.
        """
        nodes = range(self._reserved.size)
        view = self._view(nodes)
        centres = self.totals.centres
        primary, secondary = (
            values_of(after, centres, self._reserved.shape)
            for after in (
                after_primary(view, instance), after_secondary(view, instance, 0, np.maximum)
            )
        )  # fmt: skip
        if instance.required_nodes == 1:
            secondary = self._values
        return self._values.copy(), primary - self._values, secondary - self._values

    def counted(self) -> Floats:
        """Return statistics × nodes: 1 where a statistic includes a node, else 0."""
        return counted_by(self._view(range(self._reserved.size)), self._reserved.size)

    def memory(self) -> Floats:
        """Return the free memory of each node in MiB."""
        amounts: Floats = self._columns[MEMORY].copy()
        return amounts

    def per_memory(self) -> Floats:
        """Return 1 / total memory of each node, per MiB."""
        factors: Floats = self._fixed[CAPACITIES.index("per_memory")]
        return factors

    def score(self) -> float:
        """Return the score of the state."""
        return float(sum(terms(self.totals, (), np.sqrt)))

    def singles(
        self,
        instance: Instance,
        nodes: Sequence[int],
        rejections: Mapping[int, str],
        limits: LimitSet = ALL_LIMITS,
    ) -> ArrayCandidates:
        """Return candidates with each of `nodes` as the only node of `instance`."""
        after, reasons = self._rejected(instance, nodes, rejections, limits)

        def results() -> LimitResults:
            return LimitResults(reasons.rejected(nodes))

        if (reasons.codes > 0).all():
            scores = np.full(len(nodes), np.inf)
        else:
            scores = total_scores(self.totals, (self._change(nodes)(after),), (len(nodes),))
            scores[reasons.codes > 0] = np.inf
        return ArrayCandidates([()], nodes, scores[None, :], reasons.counts(), results)

    def taking(
        self,
        instance: Instance,
        nodes: Sequence[int],
        rejections: Mapping[int, str],
        limits: LimitSet = ALL_LIMITS,
    ) -> tuple[list[int], dict[str, int]]:
        """Return the nodes of `nodes` that can be the only node of `instance`, and counts of the
        others.

        The counts are reason -> number of nodes. `rejections`: node -> reason, for nodes that are
        rejected already.
        """
        reasons = self._rejected(instance, nodes, rejections, limits)[1]
        return [nodes[k] for k in np.flatnonzero(reasons.codes == 0).tolist()], reasons.counts()

    def _rejected(
        self,
        instance: Instance,
        nodes: Sequence[int],
        rejections: Mapping[int, str],
        limits: LimitSet,
    ) -> tuple[NodeView, RejectionCodes]:
        """Return the amounts of `nodes` with `instance` on each, and why limits reject some of
        them.

        The first reason is recorded for each rejected node. `rejections`: node -> reason, for nodes
        that are rejected already.
        """
        before = self._view(nodes)
        after = self._primary(instance, before, nodes)
        reasons = RejectionCodes(len(nodes), rejections, nodes)
        reasons.apply(checks_for(PRIMARY, instance, limits), before, after, instance)
        return after, reasons

    def pairs(
        self,
        instance: Instance,
        primaries: Sequence[int],
        secondaries: Sequence[int],
        rejections: Mapping[int, str],
        limits: LimitSet = ALL_LIMITS,
        secondary_limits: LimitSet | None = None,
    ) -> ArrayCandidates:
        """Return candidates with each ordered pair of a primary and a different secondary node.

        `rejections`: node -> reason, for nodes that cannot be primaries. `limits` are checked on
        the primary, and on the secondary unless `secondary_limits` are given.
        """
        own = limits if secondary_limits is None else secondary_limits
        on_primary = checks_for(PRIMARY, instance, limits)
        on_secondary = checks_for(SECONDARY, instance, own)
        return self._pairs(instance, primaries, secondaries, rejections, on_primary, on_secondary)

    def secondaries(
        self, instance: Instance, primary: int, nodes: Sequence[int], limits: LimitSet = ALL_LIMITS
    ) -> ArrayCandidates:
        """Return candidates with each of `nodes` as the secondary of an instance on `primary`."""
        checks = checks_for(SECONDARY, instance, limits)
        return self._pairs(instance, [primary], nodes, {}, (), checks)

    def secondary_rejections(
        self, instance: Instance, primary: int, nodes: Sequence[int], limits: LimitSet
    ) -> dict[int, Any]:
        """Return node -> the check that it fails as the secondary of an instance on `primary`.

        Nodes that pass every check are left out.
        """
        before = self._view(nodes)
        peers = self._peers(instance, [primary], nodes).of(slice(None))[0]
        after = after_secondary(before, instance, peers, np.maximum)
        reasons = RejectionCodes(len(nodes), {}, ())
        reasons.apply(checks_for(SECONDARY, instance, limits), before, after, instance)
        return reasons.rejected(nodes)

    def _pairs(
        self,
        instance: Instance,
        primaries: Sequence[int],
        secondaries: Sequence[int],
        rejections: Mapping[int, str],
        on_primary: Sequence[Check],
        on_secondary: Sequence[Check],
    ) -> ArrayCandidates:
        first = self._view(primaries)
        first_after = self._primary(instance, first, primaries)
        rejected = RejectionCodes(len(primaries), rejections, primaries)
        rejected.apply(on_primary, first, first_after, instance)
        if (rejected.codes > 0).all():
            return self._no_pairs(primaries, secondaries, rejected)

        # Pairs differ only by peers, and few have any: test each node alone, and each such pair
        peers = self._peers(instance, primaries, secondaries)
        apart = [*secondaries, *(secondaries[k] for k in peers.columns.tolist())]
        before = self._fresh_view(apart)
        amounts = np.hstack([np.zeros(len(secondaries)), peers.amounts])
        after = after_secondary(before, instance, amounts, np.maximum)
        last = rejected.others(len(apart))
        last.apply(on_secondary, before, after, instance)
        reasons = rejected.paired(last, peers)
        position = {index: k for k, index in enumerate(secondaries)}
        same = [(r, position[p]) for r, p in enumerate(primaries) if p in position]
        diagonal = tuple(np.array(same, dtype=np.intp).reshape(-1, 2).T)
        reasons.codes[diagonal] = RejectionCodes.NO_CANDIDATE

        first_change, second_change = self._change(primaries)(first_after), self._change(apart)
        wide = RESERVING if instance.reserves else ()
        pairs = PairScores(self.totals, peers, wide, first_change, lambda: second_change(after))
        shared = self._shared_domains(instance, primaries, secondaries)
        prefixes, failures = [(p,) for p in primaries], reasons.counts()

        def scores(rows: slice | Indices) -> Floats:
            pair_scores = pairs.scores(rows, shared)
            pair_scores[reasons.codes[rows] != 0] = np.inf
            return pair_scores

        renewals = self.renewals

        def bounds() -> Floats | None:
            return None if self.renewals != renewals or not some else pairs.bounds()

        def results() -> LimitResults:
            codes = last.codes[len(secondaries) :]
            pairs: dict[tuple[int, int], Any] = {}
            for k in np.flatnonzero(codes > 0).tolist():
                pair = primaries[int(peers.rows[k])], secondaries[int(peers.columns[k])]
                pairs[pair] = last.checks[int(codes[k])]
            out: Any = last.rejected(secondaries)
            return LimitResults(rejected.rejected(primaries), out, pairs)

        some = len(primaries) * len(secondaries) > MANY_SCORED_PAIRS and shared is None
        return PrunedPairs(prefixes, secondaries, scores, reasons.codes, bounds, failures, results)

    def _no_pairs(
        self, primaries: Sequence[int], secondaries: Sequence[int], rejected: RejectionCodes
    ) -> ArrayCandidates:
        """Return candidates without any feasible pair: every primary is rejected already."""
        held = frozenset(secondaries)
        failures: dict[str, int] = {}
        for primary, code in zip(primaries, rejected.codes.tolist()):
            count = len(secondaries) - (primary in held)
            if count:
                reason = rejected.names[code]
                failures[reason] = failures.get(reason, 0) + count
        scores = np.full((len(primaries), len(secondaries)), np.inf)
        prefixes = [(p,) for p in primaries]
        return ArrayCandidates(
            prefixes,
            secondaries,
            scores,
            failures,
            lambda: LimitResults(rejected.rejected(primaries)),
        )

    def _primary(self, instance: Instance, before: NodeView, nodes: Sequence[int]) -> NodeView:
        after = after_primary(before, instance)
        if instance.exclusion or instance.desired:
            amounts = np.array(
                [self.state.tag_amounts(instance, index, None) for index in nodes],
                dtype=np.float64,
            ).reshape(-1, 2)
            after.conflicts = after.conflicts + amounts[:, 0]
            after.misplaced = after.misplaced + amounts[:, 1]
            after.domain_conflicts = np.array(
                [self.state.added_domain_conflicts(instance, i, self._group) for i in nodes],
                dtype=np.float64,
            )
        return after

    def _peers(
        self, instance: Instance, primaries: Sequence[int], secondaries: Sequence[int]
    ) -> PeerMemory:
        """Return the MiB that each secondary reserves for each primary: primaries × secondaries.

        An entry is zero where `instance` does not change how much the secondary reserves.
        """
        if not instance.reserves:
            return PeerMemory.none((len(primaries), len(secondaries)))
        return self._reservations.among(self.state, primaries, secondaries, instance.memory)

    def _shared_domains(
        self, instance: Instance, primaries: Sequence[int], secondaries: Sequence[int]
    ) -> Change | None:
        nodes = self.state.cluster.nodes
        if instance.forthcoming or not any(nodes[index].locations for index in secondaries):
            return None
        shared = np.array(
            [
                [
                    len(nodes[p].locations & nodes[s].locations) if nodes[p].online else 0
                    for s in secondaries
                ]
                for p in primaries
            ],
            dtype=np.float64,
        )
        change: list[tuple[Quantity, Quantity]] = [(0.0, 0.0)] * len(STATISTICS)
        change[LOCATION] = (shared, 0.0)
        return change

    def _change(self, nodes: Sequence[int]) -> Changed:
        """Return a function that computes how statistics change if `nodes` change."""
        index = np.asarray(nodes, dtype=np.intp)
        counted = self._in_scope[index]
        before, centres = self._values[:, index], self.totals.centres

        def changed(after: NodeView) -> Change:
            change: list[tuple[Quantity, Quantity]] = []
            for old, new in zip(before, values(after, centres)):
                difference = (new - old) * counted
                if not difference.any():
                    change.append((0.0, 0.0))
                else:
                    change.append((difference, difference * (new + old)))
            return change

        return changed


class PairScores:
    """Computes the scores of all pairs of nodes, some primaries at a time.

    Where reserved memory matters, `peers` is primaries × secondaries; the statistics `wide` depend
    on it. `first` is the change of the statistics by each primary. `second` returns the change by
    each secondary without peers, followed by the change for each entry of `peers`; it is called
    once, when scores are needed.
    """

    def __init__(
        self,
        totals: Totals,
        peers: PeerMemory,
        wide: Sequence[int],
        first: Change,
        second: Callable[[], Change],
    ) -> None:
        self._totals = Totals(totals.counts, totals.centres, totals.sums, totals.squares)
        self._peers = peers
        self._wide = wide
        self._first = first
        self._compute_second = second

    @cached_property
    def _second(self) -> Change:
        return self._compute_second()

    def scores(self, rows: slice | Indices, shared: Change | None) -> Floats:
        """Return the score of each pair of a primary node of `rows` and a secondary node.

        `shared` is the change of the statistics that both nodes of a pair cause together. Some rows
        are scored at a time, so that intermediate arrays stay in the processor's cache.
        """
        wanted = np.arange(self._peers.shape[0])[rows]
        total = np.empty((len(wanted), self._peers.shape[1]))
        height = max(1, SCORES_AT_ONCE // max(1, total.shape[1]))
        for begin in range(0, len(wanted), height):
            some = wanted[begin : begin + height]
            first = [(_upright(a, some), _upright(square, some)) for a, square in self._first]
            changes: list[Change] = [first, self._second_in(some)]
            if shared is not None:
                changes.append([(_rows(a, some), _rows(square, some)) for a, square in shared])
            shape = len(some), total.shape[1]
            total[begin : begin + height] = total_scores(self._totals, changes, shape, self._equal)
        return total

    @cached_property
    def _equal(self) -> dict[int, int]:
        """Return statistic -> an earlier statistic with the same deviation in all states
        (positions).

        Without forthcoming instances and measured loads, half of the deviations equal another one.
        """
        leaders: dict[int, int] = {}
        earlier: dict[Hashable, int] = {}
        totals = self._totals
        for k, statistic in enumerate(STATISTICS):
            if statistic.spread and k not in self._wide:
                changes = (*self._first[k], *self._second[k])
                numbers = totals.counts[k], totals.sums[k], totals.squares[k]
                key = numbers, tuple([np.asarray(one).tobytes() for one in changes])
                if key in earlier:
                    leaders[k] = earlier[key]
                else:
                    earlier[key] = k
        return leaders

    def _second_in(self, rows: Indices) -> Change:
        """Return how each secondary changes the statistics, beside the primaries `rows`.

        A change that depends on both nodes is a matrix, rows × secondaries.
        """
        width = self._peers.shape[1]
        at, columns, entries = self._peers.entries(rows)
        entries = entries + width
        changes: list[tuple[Quantity, Quantity]] = []
        for k, change in enumerate(self._second):
            more, square = change
            if not isinstance(more, np.ndarray):
                changes.append(change)
            elif k not in self._wide:
                changes.append((more[:width], square[:width]))
            else:
                matrices = np.empty((2, len(rows), width))
                for matrix, one in zip(matrices, (more, square)):
                    matrix[:] = one[:width]
                    matrix[at, columns] = one[entries]
                changes.append((matrices[0], matrices[1]) if matrices[0].any() else (0.0, 0.0))
        return changes

    def bounds(self) -> Floats:
        """Return for each primary a lower bound of the cluster score with any secondary."""
        size = self._peers.shape[1] + len(self._peers.amounts)
        totals = self._totals
        first = self._first
        second = self._second
        lows, others, slack = np.zeros(1), np.zeros(size), SCORE_BOUND_SLACK
        for k, statistic in enumerate(STATISTICS):
            count, weight = totals.counts[k], statistic.weight
            (added, squares), (more, more_squares) = first[k], second[k]
            if not statistic.spread:
                lows = lows + weight * (totals.sums[k] + added)
                others += weight * more
                continue
            mean = totals.sums[k] / count
            square = totals.squares[k] / count - mean * mean
            own = _variance(added, squares, mean, count)
            other = _variance(more, more_squares, mean, count)
            cross = 2 * np.abs(added).max() * np.abs(more).max() / count**2
            lowest = max(0.0, square + own.min() + other.min() - cross)
            highest = max(lowest, square + own.max() + other.max() + cross)
            slope = weight / (lowest**0.5 + highest**0.5) if highest > 0 else 0.0
            lows = lows + weight * lowest**0.5 + slope * (square - cross - lowest + own)
            others += slope * other
            most = totals.squares[k] + np.max(squares) + np.max(more_squares)
            slack += weight * (VARIANCE_ROUNDING * max(0.0, float(most) / count)) ** 0.5
        bounds: Floats = lows + others.min() - slack
        return np.broadcast_to(bounds, self._peers.shape[0])


def total_scores(
    totals: Totals,
    changes: Sequence[Change],
    shape: tuple[int, ...],
    equal: Mapping[int, int] = NO_EQUAL,
) -> Floats:
    """Return the rounded scores, an array of `shape`, after `changes` of `totals`.

    `equal`: statistic -> an earlier statistic with the same deviation (positions). Terms of equal
    shape are added before they are broadcast.
    """
    by_shape: dict[tuple[int, ...], Quantity] = {}
    for term in terms(totals, changes, np.sqrt, _spread, equal):
        key = np.shape(term)
        by_shape[key] = by_shape[key] + term if key in by_shape else term
    total = np.zeros(shape)
    for key in sorted(by_shape, key=len):
        total += by_shape[key]
    return np.round(total, SCORE_DECIMALS, out=total)


def _spread(added: Quantity, square: Quantity, count: Quantity) -> Quantity:
    """Return the variance of `count` values with sum `added` and sum of squares `square`.

    For arrays of one shape, this takes half the time of `iallocator.scoring.metrics.spread`.
    """
    if not isinstance(added, np.ndarray) or np.shape(square) != added.shape:
        return spread(added, square, count)
    variance, mean_square = added / count, square / count
    np.multiply(variance, variance, out=variance)
    np.subtract(mean_square, variance, out=variance)
    np.multiply(mean_square, VARIANCE_ROUNDING, out=mean_square)
    rounding = variance <= mean_square
    if rounding.any():
        variance[rounding] = 0.0
    return variance


def _rows(quantity: Quantity, rows: Indices) -> Quantity:
    """Return the `rows` of a matrix; return other quantities unchanged."""
    return quantity[rows] if np.ndim(quantity) == 2 else quantity


def _upright(quantity: Quantity, rows: Indices) -> Quantity:
    """Return `rows` of an array over primaries as a column; return other quantities unchanged."""
    return quantity[rows][:, None] if np.ndim(quantity) == 1 else quantity


def _variance(added: Quantity, square: Quantity, mean: float, count: int) -> Floats:
    """Return how much a change of values raises the variance of `count` values.

    `added` and `square`: the change of the sum, and of the sum of squares. `mean`: the mean before
    the change. For two changes at once, the term with the product of both is missing.
    """
    added, square = np.atleast_1d(added), np.atleast_1d(square)
    variance: Floats = square / count - added * (added / count + 2 * mean) / count
    return variance


class Sites:
    """Access constraints of several nodes at once, as an array kernel needs them."""

    def __init__(self, access: NodeAccess, nodes: Sequence[int]) -> None:
        self._access = access
        self._nodes = nodes

    def bars(self, instance: Instance, by: str) -> Truths:
        """Return for each node whether the constraint called `by` excludes `instance`."""
        bars = self._access.bars
        return np.array([bars(index, instance, by) for index in self._nodes], dtype=bool)

    def why(self, instance: Instance, by: str) -> str:
        """Return why the constraint `by` excludes `instance` from the only node of this object."""
        return self._access.why(self._nodes[0], instance, by)
