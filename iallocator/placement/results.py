"""The results of a search: placements of new instances, moves, and the offers of groups."""

from __future__ import annotations

from iallocator.constraints.table import REASONS
from iallocator.tolerances import WRITTEN_DECIMALS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from iallocator.aliases import Nodes
    from iallocator.constraints.checks import Check
    from iallocator.limits.rejection import Rejection
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.placement.limit_policy import LimitPolicy
    from iallocator.ranking.base import NodeRanking
    from iallocator.ranking.pairs import OrderedCandidates
    from iallocator.scoring.candidates import Candidates, LimitResults, Placement


__all__ = [
    "POLICY_PENALTY",
    "POLICY_RANK",
    "AllocationRequest",
    "GroupPlacements",
    "GroupSolution",
    "MoveResult",
    "NodeQuery",
    "RankedGroups",
    "RankedMoves",
    "ScoredMove",
    "penalty_in",
    "tally",
]  # fmt: skip

POLICY_RANK = {"preferred": 0, "last_resort": 1, "unallocable": 2}

POLICY_PENALTY = 1000.0
"""The amount that each less preferred allocation policy adds to the score; more than any score."""


class AllocationRequest:
    """An instance to place, and the groups and nodes where it may be placed.

    Attributes
    ----------
    groups:
        The groups to search.
    named:
        Whether the request names the group. Then its allocation policy has no effect, and scores
        include only its nodes.
    allowed:
        Names of the nodes that may be used; None: all.
    new:
        Whether the instance is new. An instance that only changes its group is not ranked by lost
        allocations.
    counted:
        Whether to count all placements that N+1 rejects.
    """

    __slots__ = ("allowed", "counted", "groups", "instance", "named", "new")

    def __init__(
        self,
        instance: Instance,
        groups: Sequence[Group],
        named: bool = False,
        allowed: Sequence[str] | None = None,
        new: bool = True,
        counted: bool = True,
    ) -> None:
        self.new = new
        self.counted = counted
        self.instance = instance
        self.groups = [group for group in groups if group.nodes or named]
        self.named = named
        self.allowed = allowed

    def reluctance(self, group: Group) -> float:
        """Return the penalty for the allocation policy of `group`; it is larger than any score."""
        return 0.0 if self.named else POLICY_PENALTY * POLICY_RANK[group.alloc_policy]

    def scope(self, all_nodes: Sequence[int]) -> Sequence[int]:
        """Return the nodes that scores include; `all_nodes`: the nodes of the cluster."""
        return self.groups[0].nodes if self.named else all_nodes


class NodeQuery:
    """A query for nodes that can host `instance`, which is not placed.

    Attributes
    ----------
    kind:
        The kind of placement: ``new``, ``moved``, ``secondary``, ``pair``, or ``exchange`` of the
        roles of its two nodes.
    present:
        The present nodes of the instance, primary first; () for a new instance.
    primaries, secondaries:
        The nodes that are tested in each role.
    rejections, barred_secondaries:
        Node -> failure reason, for nodes that are rejected before their limits are tested.
    limit_policy:
        The limits that are enforced.
    bound:
        The nodes of `rejections` that affinity constraints reject.
    as_secondaries, behind:
        For ``pair``: new primary -> the limit that it fails as the secondary of the old primary;
        and new primary -> the limit that the old primary fails as its secondary.
    answer:
        For ``exchange`` the rejection of the exchange of roles; None if it is allowed.
    limit_results:
        Returns which nodes the kernel rejected; None if that is not known.
    """

    __slots__ = (
        "answer",
        "as_secondaries",
        "barred_secondaries",
        "behind",
        "bound",
        "instance",
        "kind",
        "limit_policy",
        "limit_results",
        "present",
        "primaries",
        "rejections",
        "secondaries",
    )  # fmt: skip

    def __init__(
        self,
        kind: str,
        instance: Instance,
        present: Nodes,
        primaries: Sequence[int],
        secondaries: Sequence[int],
        rejections: Mapping[int, str],
        barred_secondaries: Mapping[int, str],
        limit_policy: LimitPolicy,
    ) -> None:
        self.kind = kind
        self.instance = instance
        self.present = present
        self.primaries = primaries
        self.secondaries = secondaries
        self.rejections = rejections
        self.barred_secondaries = barred_secondaries
        self.limit_policy = limit_policy
        self.bound: Mapping[int, str] = {}
        self.as_secondaries: Mapping[int, Check] = {}
        self.behind: Mapping[int, Check] = {}
        self.answer: Rejection | None = None
        self.limit_results: Callable[[], LimitResults | None] = lambda: None

    @classmethod
    def of_exchange(
        cls,
        instance: Instance,
        present: Nodes,
        limit_policy: LimitPolicy,
        rejection: Rejection | None,
    ) -> NodeQuery:
        """Return the query for an exchange of the roles of the nodes `present`."""
        rejections = {present[1]: rejection.reason} if rejection else {}
        query = cls("exchange", instance, present, present[1:], (), rejections, {}, limit_policy)
        query.answer = rejection
        return query


class GroupSolution:
    """The offer of one group for a new instance.

    Attributes
    ----------
    penalties:
        For each placement, the penalty of violated soft constraints in its score.
    placements:
        (score, node names) of the best placements, best first; empty if there is none.
    nodes:
        The node indices of `placements`.
    shown_score:
        The score of the best placement as text, in the words of the ``info`` line.
    obstacle:
        Why the group as a whole is rejected before any node is tested; "" if nodes are tested.
    secondaries:
        For an instance on shared storage, the nodes that it could fail over to from the best
        placement, best first; else None.
    rejected:
        The first placement that N+1 alone rejected; None: there is none.
    query:
        The query; None if no node was queried.
    ranked_by:
        The name of the strategy that ranked the placements.
    exactly:
        The exact score of the best placement, if rounding decides between groups; else None.
    order:
        The order of the placements by the strategy, if the strategy can compare them.
    extra:
        The members that the strategy adds to the entry, for the best placement.
    top:
        The number of placements that the group must return; None: the number for all groups.
    """

    __slots__ = (
        "alloc_policy",
        "exactly",
        "extra",
        "failures",
        "group",
        "key",
        "nodes",
        "obstacle",
        "order",
        "penalties",
        "placements",
        "query",
        "ranked_by",
        "rejected",
        "secondaries",
        "shown_score",
        "successes",
        "top",
        "uuid",
    )

    def __init__(self, group: str, uuid: str, alloc_policy: str) -> None:
        self.group = group
        self.uuid = uuid
        self.alloc_policy = alloc_policy
        self.placements: list[tuple[float, list[str]]] = []
        self.penalties: list[float] = []
        self.nodes: list[tuple[int, ...]] = []
        self.secondaries: list[str] | None = None
        self.key: Any = None
        self.exactly: float | None = None
        self.shown_score = ""
        self.successes = 0
        self.failures: dict[str, int] = {}
        self.obstacle = ""
        self.rejected: tuple[int, ...] | None = None
        self.query: NodeQuery | None = None
        self.ranked_by = "score"
        self.order: Any = None
        self.extra: dict[str, Any] = {}
        self.top: int | None = None

    def line(self) -> str:
        """Return the offer in one clause, with the name of the group."""
        if self.obstacle:
            return self.obstacle
        return f"Group {self.group} ({self.alloc_policy}): {self.clause()}"

    def clause(self) -> str:
        """Return the offer in one clause, without the name of the group."""
        if not self.placements:
            reasons = f", failure reasons: {tally(self.failures)}" if self.failures else ""
            return f"No valid allocation solutions{reasons}"
        penalty = f"penalty: {self.penalties[0]:.12g}, " if any(self.penalties[:1]) else ""
        return (
            f"score: {self.shown_score}, {penalty}successes {self.successes}, "
            f"failures {sum(self.failures.values())} ({tally(self.failures)}) "
            f"for node(s) {'/'.join(self.placements[0][1])}"
        )

    def document(self, top: int) -> dict[str, Any]:
        """Return the group as an entry of ``solutions``."""
        entry: dict[str, Any] = {
            "group": self.group,
            "group_uuid": self.uuid,
            "alloc_policy": self.alloc_policy,
        }
        if self.placements:
            score, nodes = self.placements[0]
            entry |= {
                "nodes": nodes,
                "score": round(score, WRITTEN_DECIMALS),
                **_penalty(self.penalties[0]),
            }
        else:
            entry |= {"nodes": [], "score": None, "reason": self.obstacle or self.line()}
        entry |= {"successes": self.successes, "failures": dict(sorted(self.failures.items()))}
        if self.secondaries is not None:
            entry["secondaries"] = self.secondaries
        entry |= self.extra
        if (top if self.top is None else self.top) > 1:
            entry["placements"] = [
                {"nodes": nodes, "score": round(score, WRITTEN_DECIMALS), **_penalty(penalty)}
                for (score, nodes), penalty in zip(self.placements, self.penalties)
            ]
        return entry


def _penalty(penalty: float) -> dict[str, float]:
    return {"penalty": penalty} if penalty else {}


def tally(failures: dict[str, int]) -> str:
    """Return counts by reason in words, in the order of `REASONS`: ``FailMem: 2, FailDisk: 1``."""
    order = [*REASONS, *(reason for reason in failures if reason not in REASONS)]
    return ", ".join(f"{reason}: {failures[reason]}" for reason in order if failures.get(reason))


class RankedGroups:
    """The offers of all groups, in the order of the groups, and ranked.

    Attributes
    ----------
    usable:
        The offers with a placement, best first.
    ranked:
        All offers: first those with a placement, best first.
    line:
        The offers of all groups in one line, in the order of the groups.
    order:
        The order of the best nodes of the usable offers, if a strategy that ranks nodes compared
        them; else None.
    """

    __slots__ = ("line", "order", "ranked", "usable")

    def __init__(
        self,
        offers: Sequence[GroupSolution],
        named: bool,
        last_wins: bool,
        order: Callable[[Sequence[GroupSolution]], NodeRanking] | None = None,
    ) -> None:
        usable = [o for o in offers if o.placements and (named or o.alloc_policy != "unallocable")]
        if last_wins:
            usable.reverse()
        alike = len({offer.ranked_by for offer in usable}) < 2
        self.order = None
        if order is not None and alike and len(usable) > 1:
            self.order = order(usable)
            rank = {index: k for k, index in enumerate(self.order.ranked)}
            for offer in usable:
                offer.key = rank.get(offer.nodes[0][0], len(rank))
        self.usable = sorted(usable, key=lambda offer: _rank(offer, alike))
        self.ranked = self.usable + [offer for offer in offers if offer not in usable]
        self.line = ", ".join(offer.line() for offer in offers)

    @property
    def best(self) -> GroupSolution | None:
        """Return the best offer; None if no group has one."""
        return self.usable[0] if self.usable else None


def _rank(offer: GroupSolution, alike: bool) -> tuple[int, Any]:
    """Return the rank of an offer: allocation policy, then score or another criterion.

    `alike`: whether all offers are ranked by one criterion.
    """
    if alike and offer.exactly is not None:
        return POLICY_RANK[offer.alloc_policy], offer.exactly
    key = offer.key if alike else offer.placements[0][0]
    if isinstance(key, float):
        key = round(key, WRITTEN_DECIMALS)
    return POLICY_RANK[offer.alloc_policy], key


def penalty_in(rank: Any, score: float) -> float:
    """Return the penalty in `rank`, which is the sum of `score` and the penalty.

    The result is 0 if `rank` is not a score, for example if it is lost allocations.
    """
    return float(round(rank - score, WRITTEN_DECIMALS)) if isinstance(rank, float) else 0.0


class GroupPlacements:
    """The acceptable placements of an instance in a group.

    Attributes
    ----------
    best:
        The requested number of placements, best first.
    successes:
        The number of placements that passed all checks, including global N+1 if it was checked.
    failures:
        Reason -> the number of placements that it rejected.
    others:
        For an instance on shared storage that has a placement, the other possible nodes, best
        first; else None.
    ranked_by, order:
        The strategy that ranked the placements; and its order of the nodes, if it ranks nodes.
    query:
        The query.
    rejected:
        The first placement, by row and then by rank, that global N+1 rejected, if any.
    scores:
        Placement -> its score; empty if the placements are ranked by score.
    """

    __slots__ = (
        "best", "failures", "order", "others", "query", "ranked_by", "rejected", "scores",
        "successes",
    )  # fmt: skip

    def __init__(
        self,
        best: list[Placement],
        successes: int,
        failures: dict[str, int],
        rejected: Placement | None,
        scores: Mapping[tuple[int, ...], float],
        ranked_by: str,
        order: OrderedCandidates | None = None,
    ) -> None:
        self.ranked_by = ranked_by
        self.order = order
        self.best = best
        self.successes = successes
        self.failures = failures
        self.rejected = rejected
        self.others: list[int] | None = None
        self.query: NodeQuery | None = None
        self.scores = scores

    def score(self, placement: Placement) -> float:
        """Return the cluster score of a placement, even if another criterion ranked it."""
        return float(self.scores[placement[1]] if self.scores else placement[0])

    def penalty(self, placement: Placement) -> float:
        """Return the penalty of violated soft constraints in the rank of a placement.

        The penalty is 0 where a strategy ranks nodes, because the score does not decide there.
        """
        return 0.0 if self.order else penalty_in(placement[0], self.score(placement))


class RankedMoves:
    """The candidates for a move, in the order of a strategy.

    Attributes
    ----------
    scores:
        Placement -> its cluster score; empty if the candidates are ranked by score.
    order:
        The order of a strategy that ranks nodes; None for other strategies.
    """

    __slots__ = ("candidates", "order", "scores")

    def __init__(
        self,
        candidates: Candidates,
        scores: dict[Nodes, float] | None = None,
        order: OrderedCandidates | None = None,
    ) -> None:
        self.candidates = candidates
        self.scores = scores or {}
        self.order = order

    def score(self, placement: Placement) -> float:
        """Return the cluster score of a placement, even if another criterion ranked it."""
        return float(self.scores[placement[1]] if self.scores else placement[0])

    def penalty(self, placement: Placement) -> float:
        """Return the penalty of violated soft constraints in the rank of a placement."""
        return 0.0 if self.order else penalty_in(placement[0], self.score(placement))


class ScoredMove:
    """A move with its score, for an entry of ``solutions``.

    Attributes
    ----------
    score:
        The cluster score after the move; lower is better.
    penalty:
        The penalty of violated soft constraints, if it was part of the rank of the move.
    extra:
        The members that a strategy adds to the entry of ``solutions``.
    """

    __slots__ = ("extra", "move", "penalty", "score")

    def __init__(
        self,
        move: Move,
        score: float = 0.0,
        penalty: float = 0.0,
        extra: dict[str, Any] | None = None,
    ) -> None:
        self.move = move
        self.score = score
        self.penalty = penalty
        self.extra: dict[str, Any] = extra or {}


class MoveResult:
    """The moves found for an instance, or the reason why there is none.

    Attributes
    ----------
    scored:
        The moves with their scores, best first.
    message:
        Why there is no move; "" if there is one.
    failures:
        Reason -> the number of nodes, or pairs of nodes, that it rejected.
    others:
        The nodes that an instance on shared storage could fail over to from its new node, best
        first; None for other instances.
    order:
        The order of a strategy that ranks nodes; None for other strategies.
    ranks:
        Nodes of a move -> the lost allocations by which it was ranked.
    nearest:
        The text about the nearest candidate; None: not searched for yet.
    """

    __slots__ = ("failures", "message", "nearest", "order", "others", "ranks", "scored")

    def __init__(
        self,
        scored: Sequence[ScoredMove] = (),
        message: str = "",
        failures: dict[str, int] | None = None,
    ) -> None:
        self.scored = list(scored)
        self.message = message
        self.failures = failures or {}
        self.others: list[int] | None = None
        self.order: OrderedCandidates | None = None
        self.ranks: dict[tuple[int, ...], Any] = {}
        self.nearest: str | None = None

    @property
    def best(self) -> Move | None:
        """Return the best move; None if there is none."""
        return self.scored[0].move if self.scored else None
