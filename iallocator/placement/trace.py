"""The interface of a trace, which records the decisions while a request is answered.

Requests are answered without a trace. A context with a trace calls the trace while the state is as
it was for the decision: the trace must store at once what it needs of the state (amounts, scores,
which failure is not tolerated), and must leave the state unchanged. `iallocator.explain.recorder`
is the only trace.

For each instance and each group that is queried, the calls are, in this order:

``asked``
    The candidate nodes, and the nodes that were rejected before their limits were tested.
``placed`` or ``ranked``
    The candidates in their order; for new instances also the chosen placements, after N+1.
``preferred``
    With ``--n1 no-worse``, after ``ranked``: the placements after which failures lose least.
``exchanged``
    Instead of ``placed`` and ``ranked``: whether the two nodes of an instance can exchange roles.
``compared``
    The offers of all groups, for a new instance or for one that changes its group.
``decided``
    The result for an instance to move.

A search can query nodes several times; the last query decides.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from iallocator.aliases import Nodes
    from iallocator.limits.node import RoleLimits
    from iallocator.limits.rejection import Rejection
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.n1 import Rules
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.options.settings import Settings
    from iallocator.placement.limit_policy import LimitPolicies, LimitPolicy
    from iallocator.placement.results import (
        AllocationRequest,
        GroupPlacements,
        MoveResult,
        NodeQuery,
        RankedGroups,
        RankedMoves,
    )
    from iallocator.placement.score_scope import ScoreScope
    from iallocator.placement.what_if import KnownNodes, WhatIf
    from iallocator.scoring.candidates import Candidates, Placement

    Accepts = Callable[[Instance, Nodes], bool]

    class TracedEvaluator(Protocol):
        """The evaluator that decides, as far as a trace needs it."""

        group: Group
        settings: Settings
        limit_policies: LimitPolicies
        rules: Rules
        scope: ScoreScope

        def what_if(
            self,
            instance: Instance,
            limit_policy: LimitPolicy,
            known: KnownNodes | None = None,
            **limits: RoleLimits,
        ) -> WhatIf:
            """Return an object that tests single nodes for every limit, with amounts."""

        def keeps_n1(self, instance: Instance, nodes: Nodes) -> bool:
            """Return whether N+1 still holds after placing `instance` on `nodes`."""

    class Trace(Protocol):
        """Receives the decisions of a request and their reasons."""

        @property
        def n1_check(self) -> type[FailureTolerance]:
            """Return the class that checks N+1, and records the placements that it rejects."""

        def begin(self, context: Any) -> None:
            """Record that the decisions of the request in `context` begin."""

        def asked(
            self, evaluator: TracedEvaluator, query: NodeQuery, candidates: Candidates
        ) -> None:
            """Record that nodes are tested for an instance; `candidates` are those that pass."""

        def placed(
            self,
            evaluator: TracedEvaluator,
            instance: Instance,
            candidates: Candidates,
            accepts: Accepts,
            placements: GroupPlacements,
        ) -> None:
            """Record `placements` of a new instance, made of ranked `candidates`; `accepts` checked
            N+1.
            """

        def ranked(
            self, evaluator: TracedEvaluator, instance: Instance, ranked_moves: RankedMoves
        ) -> None:
            """Record the ranked placements of an instance to move, which is not on the state."""

        def preferred(
            self,
            evaluator: TracedEvaluator,
            instance: Instance,
            ranked: RankedMoves,
            places: Sequence[Placement],
            check: FailureTolerance,
        ) -> None:
            """Record that, of all placements `ranked`, failures lose least after `places`."""

        def exchanged(
            self,
            evaluator: TracedEvaluator,
            instance: Instance,
            present: Nodes,
            rejection: Rejection | None,
        ) -> None:
            """Record whether the roles of the nodes `present` can be exchanged; `rejection`: why
            not.
            """

        def compared(self, allocation: AllocationRequest, offers: RankedGroups) -> None:
            """Record the `offers` of the groups of `allocation`."""

        def decided(self, instance: Instance, outcome: MoveResult) -> None:
            """Record `outcome`, the result for an instance to move."""

        def ended(self) -> None:
            """Record that the time was up before there was an answer."""
