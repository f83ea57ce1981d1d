"""Record the decisions of a request: the trace from which explanations are made.

The engine reports its queries and its choices (see `iallocator.placement.trace`). For each report,
the recorder keeps the results of every node and the terms of the best scores in the present state.
It makes no decisions, and repeats no queries later.
"""

from __future__ import annotations

from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar, cast

from iallocator.deadline import SIMULATIONS, check
from iallocator.explain.facts import Placed, Term
from iallocator.explain.group_responses import (
    MANY_PLACEMENTS,
    Choice,
    Contributions,
    GroupResponse,
    best_of_nodes,
    present_terms,
)
from iallocator.explain.n1 import RecordingTolerance
from iallocator.explain.survey import Survey
from iallocator.model.state import derived
from iallocator.n1 import WORK_PER_SECOND
from iallocator.placement.results import NodeQuery
from iallocator.placement.what_if import NodeHistory
from iallocator.scoring.scalar import kernel_of
from iallocator.tolerances import MOST_KERNEL_RENEWALS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.limits.rejection import Rejection
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.placement.context import Context
    from iallocator.placement.results import (
        AllocationRequest,
        GroupPlacements,
        MoveResult,
        RankedGroups,
        RankedMoves,
    )
    from iallocator.placement.trace import Accepts, TracedEvaluator
    from iallocator.scoring.candidates import Candidates, NodeBest, Placement
    from iallocator.scoring.scalar import EarlierNodes, ScalarKernel

__all__ = ["Recorder"]

Note = TypeVar("Note", bound="Callable[..., None]")

MOST_CHECKED, MOST_ROUNDS = 100, 10
"""The limits of N+1 checks that only the explanation needs: placements, and rounds of checks."""

WORK_OF_CHECKS = 2 * WORK_PER_SECOND
"""The work for N+1 checks that only the explanation needs: about two seconds."""

AT_LEAST = 2
"""How many placements are recorded for each group: the best, and another to compare with it."""


def without_budget(note: Note) -> Note:
    """Return the method `note` of the recorder, changed so that it uses no budget of the request.

    Therefore the answer is the same with and without an explanation, unless the time limit ends the
    search: recording takes time, too.
    """

    @wraps(note)
    def noted(recorder: Recorder, *about: Any) -> None:
        check()  # here, and not in the middle of a record
        effort = recorder.context.effort
        before = dict(effort.work), effort.undecided, effort.used
        try:
            note(recorder, *about)
        finally:
            work, effort.undecided, effort.used = before
            effort.work.update(work)

    return cast("Note", noted)


class Recorder:
    """Records the decisions on one request; `left`: the nodes that instances must leave.

    `late`: whether the time was up before there was an answer.
    """

    def __init__(self, left: Collection[int] = ()) -> None:
        self.left = left
        self.responses_of: dict[str, list[GroupResponse]] = {}
        self.choices: dict[str, list[Choice]] = {}
        self.outcomes: list[tuple[Instance, MoveResult]] = []
        self.late = False
        self._context: Context | None = None
        self._open: GroupResponse | None = None
        self._turn = 0
        self._indices: dict[str, int] | None = None
        self._as_read: dict[str, Instance] | None = None
        self._earlier: dict[int, EarlierNodes] = {}
        self._kernels: dict[int, tuple[Sequence[int], ScalarKernel]] = {}
        self._present_terms: Kept[tuple[int, str], list[Term]] = {}
        self._nodes = NodeHistory()

    @property
    def n1_check(self) -> type[RecordingTolerance]:
        """Return the class that checks N+1."""
        return RecordingTolerance

    @property
    def context(self) -> Context:
        """Return the context of the request: its cluster, state and settings."""
        assert self._context is not None
        return self._context

    def begin(self, context: Context) -> None:
        """Record the context of the request."""
        self._context = context

    def ended(self) -> None:
        """Record that the search ended without an answer to explain."""
        self.late = True

    @without_budget
    def asked(self, evaluator: TracedEvaluator, query: NodeQuery, candidates: Candidates) -> None:
        """Record the result of `query` for every node of the group of `evaluator`."""
        instance, state = query.instance, self.context.state
        if candidates.feasible <= MANY_PLACEMENTS:
            candidates.score_all()
        group_response = self._begin(evaluator, query)
        lasting = state.access is None and not instance.exclusion  # for these, known nodes suffice
        known = None
        if lasting:
            nodes = {*group_response.group.nodes, *query.present}
            known = self._nodes.known(state, self.context.kernels, nodes)
        # Nodes that are not queried again keep the previous report of the group
        earlier_responses = reversed(self.responses_of[instance.name][:-1])
        earlier = (
            o
            for o in earlier_responses
            if o.group is group_response.group and o.kind == group_response.kind
        )
        previous = next((one.report for one in earlier), None)
        survey = group_response.survey = group_response.report.survey = Survey(
            self.context, evaluator, query, known, self.left, previous
        )
        if not lasting:
            survey.settle()
        scope = evaluator.scope.nodes
        before = self._before(instance, scope)
        kernel: Any = evaluator.scope.kernel
        if self.context.kernels.arrays:  # arrays do not have the terms of one placement
            kernel = self._kernel(scope)
        group_response.scores = Contributions(kernel, instance, before)
        if instance.nodes and instance.name not in state.where:
            home = instance.nodes[0]
            group_response.penalty_before = self.context.affinity.costs(instance, [home]).get(
                home, 0.0
            )
        self._open = group_response

    @without_budget
    def placed(
        self,
        evaluator: TracedEvaluator,
        instance: Instance,
        candidates: Candidates,
        accepts: Accepts,
        placements: GroupPlacements,
    ) -> None:
        """Record the placements of a new instance in a group, and those that N+1 rejects."""
        group_response, report = self._opened(), self._opened().report
        assert group_response.scores is not None
        check = evaluator.scope.tolerance(evaluator.rules)
        assert isinstance(check, RecordingTolerance)
        unchecked: set[Nodes] = set()
        best_of = None
        if accepts == evaluator.keeps_n1:
            best_of, unchecked = self._check_best(candidates, check, instance, group_response.group)
        rejected = check.rejected(instance, group_response.group)
        report.successes, report.failures = placements.successes, placements.failures
        nearest = check.best_rejected(
            instance, group_response.group, group_response.scores.score, candidates
        )
        report.n1_rejections = check.obstacles(instance, nearest)
        best = placements.best
        if best and evaluator.settings.top < AT_LEAST:  # `best` holds one for each primary
            best = [best[0], *self._runner_up(candidates, accepts, instance, best[0][1])]
        group_response.note(
            self.context.cluster, placements, best, candidates, rejected, unchecked, best_of
        )
        if not placements.best:
            assert group_response.survey is not None
            report.closest = group_response.survey.closest(
                check, nearest[0] if nearest else None, instance
            )

    def _check_best(
        self,
        candidates: Candidates,
        check: RecordingTolerance,
        instance: Instance,
        group: Group,
    ) -> tuple[dict[int, NodeBest], set[Nodes]]:
        """Check N+1 for the best placement of every node, even if the answer does not need it.

        If N+1 rejects the best placement of a node, the next placement of that node is checked.
        `check` records the results. Return the best placement of each node, and the placements that
        were not checked because of `MOST_CHECKED` or `WORK_OF_CHECKS`.
        """
        effort = self.context.effort
        # `without_budget` gives it back
        effort.work[SIMULATIONS] = min(effort.work[SIMULATIONS], WORK_OF_CHECKS)
        left = MOST_CHECKED
        unchecked: set[Nodes] = set()
        rejected = check.rejected(instance, group)
        for _ in range(MOST_ROUNDS):
            best = best_of_nodes(candidates, rejected)
            candidates_left = {nodes for lost, _, nodes in best.values() if not lost}
            unchecked = set()
            unknown = check.unknown(instance, candidates_left)
            if not effort.spent:
                check.clear(instance, unknown[:left])
            for nodes in unknown:
                if not left or effort.spent or not check.decides(instance, nodes):
                    unchecked.add(nodes)
                left -= bool(left)
            known, rejected = rejected, check.rejected(instance, group)
            if len(known) == len(rejected):
                return best, unchecked
        return best_of_nodes(candidates, rejected), unchecked

    @without_budget
    def ranked(
        self, evaluator: TracedEvaluator, instance: Instance, ranked_moves: RankedMoves
    ) -> None:
        """Record the placements for the move of an instance, in the order of their rank."""
        group_response, candidates = self._opened(), ranked_moves.candidates
        assert group_response.survey is not None
        group_response.report.successes = group_response.survey.possible
        group_response.report.failures = dict(candidates.failures)
        best = list(islice(candidates.ranked(), max(AT_LEAST, evaluator.settings.top)))
        group_response.note(self.context.cluster, ranked_moves, best, candidates, ())
        if not best:
            group_response.report.closest = group_response.survey.closest()

    @without_budget
    def preferred(
        self,
        evaluator: TracedEvaluator,
        instance: Instance,
        ranked: RankedMoves,
        places: Sequence[Placement],
        check: FailureTolerance,
    ) -> None:
        """Record the placements with the smallest losses in failures, and the losses of others."""
        group_response = self._opened()
        assert group_response.scores is not None
        assert isinstance(check, RecordingTolerance)
        if len(places) == 1:
            first = places[0][1]
            others = self._runner_up(ranked.candidates, check.accepts, instance, first)
            places = [*places, *others]
        rejected = check.rejected(instance, group_response.group).difference(
            nodes for _, nodes in places
        )
        scored = check.best_rejected(
            instance, group_response.group, group_response.scores.score, ranked.candidates
        )
        obstacles = check.obstacles(instance, scored)
        chosen = [self.context.cluster.node_names(nodes) for _, nodes in places[:1]]
        group_response.report.n1_rejections = [one for one in obstacles if one.nodes not in chosen]
        if not places:
            group_response.report.failures |= {"FailN1": ranked.candidates.feasible}
        group_response.note(self.context.cluster, ranked, places, ranked.candidates, rejected)

    @without_budget
    def exchanged(
        self,
        evaluator: TracedEvaluator,
        instance: Instance,
        present: Nodes,
        rejection: Rejection | None,
    ) -> None:
        """Record whether the nodes of an instance can exchange their roles."""
        state, nodes = self.context.state, evaluator.scope.nodes
        with state.trial():
            state.remove(instance, present)
            limit_policy = evaluator.limit_policies.off(self.context.cluster.nodes[present[0]])
            query = NodeQuery.of_exchange(instance, present, limit_policy, rejection)
            group_response = self._begin(evaluator, query)
            survey = Survey(self.context, evaluator, query, None, self.left, None)
            survey.settle()
            group_response.survey = group_response.report.survey = survey
            before = self._before(instance, nodes)
            if rejection is None:
                group_response.best = present[::-1]
                state.place(instance, group_response.best)
                after = present_terms(kernel_of(state, nodes))
                terms = [Term(a.name, a.weight, a.before, b.after) for a, b in zip(before, after)]
                score = sum(term.contribution_after for term in terms)
                names = self.context.cluster.node_names(group_response.best)
                group_response.report.placements = [
                    Placed(group_response.group.name, names, score, terms, {})
                ]
                group_response.report.successes = 1
            else:
                group_response.report.failures = {rejection.reason: 1}
                group_response.report.closest = survey.closest()

    @without_budget
    def compared(self, allocation: AllocationRequest, offers: RankedGroups) -> None:
        """Record the rank of the groups that were compared for a new placement."""
        name = allocation.instance.name
        latest = {
            group_response.group.uuid: group_response
            for group_response in self.responses_of.get(name, ())
        }
        since = max((c.number for c in self.choices.get(name, ())), default=0)
        group_responses = [latest.get(offer.uuid) for offer in offers.ranked]
        fresh = [one if one is not None and one.number > since else None for one in group_responses]
        self.choices.setdefault(name, []).append(Choice(self._next(), allocation, offers, fresh))

    def decided(self, instance: Instance, outcome: MoveResult) -> None:
        """Record the result for an instance that was to move."""
        self.outcomes.append((instance, outcome))

    def response_for(
        self, instance: Instance, outcome: MoveResult, together: bool
    ) -> GroupResponse | None:
        """Return the response of the group that led to `outcome`; None if no nodes were queried.

        A search for several instances queries a group repeatedly. For instances that were placed
        `together`, the last response led to the outcome; for others, the first response did.
        """
        every = [one for one in self.responses_of.get(instance.name, ()) if one.led_to(outcome)]
        return every[-1 if together else 0] if every else None

    def index_of(self, name: str) -> int:
        """Return the index of the node called `name`."""
        if self._indices is None:
            self._indices = {node.name: node.index for node in self.context.cluster.nodes}
        return self._indices[name]

    def comparison_number(self, name: str, together: bool) -> int:
        """Return the number of the record about the comparison of groups for an instance.

        `together`: of several comparisons, take the last one; else the first. The number is 0 if no
        groups were compared.
        """
        choices = self.choices.get(name)
        return choices[-1 if together else 0].number if choices else 0

    def _next(self) -> int:
        self._turn += 1
        return self._turn

    def _opened(self) -> GroupResponse:
        assert self._open is not None
        return self._open

    def _begin(self, evaluator: TracedEvaluator, query: NodeQuery) -> GroupResponse:
        group_response = GroupResponse(self._next(), query, evaluator.group)
        self.responses_of.setdefault(query.instance.name, []).append(group_response)
        return group_response

    def _before(self, instance: Instance, scope: Sequence[int]) -> list[Term]:
        """Return the statistics before the placement, with the instance on its initial nodes."""
        state = self.context.state
        if self._as_read is None:
            self._as_read = {one.name: one for one in self.context.cluster.instances}
        known = self._as_read.get(instance.name)
        if known is not None and (
            instance.name in state.where or set(known.nodes).isdisjoint(scope)
        ):
            known = None

        def compute() -> list[Term]:
            with state.trial():
                if known is not None:
                    state.place(known, known.nodes)
                return present_terms(self._kernel(scope))

        key = id(scope), "" if known is None else known.name
        stamps = [state.stamps[index] for index in scope]
        return derived(self._present_terms, key, stamps, compute)

    def _kernel(self, scope: Sequence[int]) -> ScalarKernel:
        """Return the kernel that scores the nodes of `scope` in the present state.

        It is renewed only for the nodes that have changed: an allocation queries many groups with
        one scope, and a move to another group changes few of the scopes.
        """
        _, kernel = self._kernels.get(id(scope), (scope, None))
        if kernel is None or kernel.renewals >= MOST_KERNEL_RENEWALS:
            earlier = self._earlier.setdefault(id(scope), ({}, {}))
            kernel = kernel_of(
                self.context.state, scope, earlier=earlier, fixed=self.context.kernels.fixed
            )
            self._kernels[id(scope)] = scope, kernel  # with its scope, so that the id stays taken
        else:
            kernel.follow()
        return kernel

    def _runner_up(
        self,
        candidates: Candidates,
        accepts: Accepts,
        instance: Instance,
        best: Nodes,
    ) -> Iterator[Placement]:
        """Yield the best placement other than `best` that N+1 accepts, if there is one."""
        for place in candidates.ranked():
            if place[1] != best and accepts(instance, place[1]):
                yield place
                return
