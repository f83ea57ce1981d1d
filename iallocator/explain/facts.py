"""The facts of an explanation as data: placements, nodes, and node groups.

The method ``document()`` of a class returns its form in JSON; programs rely on the keys. Lower
scores and contributions are better. Memory and disk are in MiB.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from iallocator.aliases import Json, Nodes
from iallocator.tolerances import SCORE_DECIMALS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from iallocator.model.cluster import Cluster

    class Survey(Protocol):
        """The interface of an object that computes the reports on the nodes of a group."""

        def reports(self) -> list[NodeReport]:
            """Return a report on every node of the group."""

        def roles(self, index: int) -> Roles:
            """Return the result of the limits of node `index`, in each of its roles."""


__all__ = [
    "PENALTY",
    "GroupReport",
    "N1Rejection",
    "NodeRank",
    "NodeReport",
    "Placed",
    "RoleRejection",
    "RoleReport",
    "Roles",
    "Term",
    "rounded",
    "scored",
]

PENALTY = "penalty"
"""The name of the term with the amount that violated soft constraints add to a score."""


def rounded(value: float) -> float:
    """Return a score or a part of one, rounded as scores are; zero has no sign."""
    return round(value, SCORE_DECIMALS) + 0.0 if value else 0.0


class Term(NamedTuple):
    """One statistic of the score, before and after a placement.

    ``before`` and ``after`` are the values of the statistic.  Its contribution to the score is the
    value times ``weight``.
    """

    name: str
    weight: float
    before: float
    after: float

    @property
    def contribution_before(self) -> float:
        """Return the contribution to the score before the placement."""
        return self.weight * self.before

    @property
    def contribution_after(self) -> float:
        """Return the contribution to the score after the placement."""
        return self.weight * self.after

    def document(self) -> Json:
        """Return the term as JSON."""
        return {
            "name": self.name,
            "weight": self.weight,
            "before": rounded(self.before),
            "after": rounded(self.after),
            "contribution_before": rounded(self.contribution_before),
            "contribution_after": rounded(self.contribution_after),
        }


class Placed(NamedTuple):
    """A feasible placement and the terms of its score.

    ``penalty`` is the amount that violated soft constraints add to the score; if it is not 0, it is
    one of the ``terms``. ``rank`` is the rank in words if the score does not decide, else "".
    ``over``: nodes of another placement -> the criterion by which a strategy prefers this placement
    to it.
    """

    group: str
    nodes: list[str]
    score: float
    terms: list[Term]
    over: dict[str, str]
    rank: str = ""
    penalty: float = 0.0

    @property
    def total(self) -> float:
        """Return the score plus the penalty; lower is better."""
        return self.score + self.penalty

    @property
    def scored(self) -> str:
        """Return the score in words, with its penalty."""
        return scored(self.score, self.penalty)

    @property
    def where(self) -> str:
        """Return the node names in one word, primary first: ``node1/node2``."""
        return "/".join(self.nodes)

    def document(self, scored: bool) -> Json:
        """Return the placement as JSON; `scored`: whether to include its score and the terms."""
        document: Json = {"nodes": self.nodes}
        if self.rank:
            document["rank"] = self.rank
        if not scored:
            return document
        terms = [term.document() for term in self.terms]
        document["score"] = rounded(self.score)
        if self.penalty:
            document["penalty"] = self.penalty
        return document | {"terms": terms}


def scored(score: float, penalty: float) -> str:
    """Return a score in words: ``1.25000000``, or with a penalty ``1.25000000 + 2``."""
    return f"{score:.8f}" + (f" + {penalty:.12g}" if penalty else "")


class RoleRejection(NamedTuple):
    """The rejection of a node in a role: the name of the reason, and text with numbers.

    ``beside``: the only primary with which the node is rejected; "" if it is rejected with every
    primary. ``placements``: the number of placements that are counted for this reason. ``step``:
    the step of a move that fails, in words; "" if the move is one step.
    """

    reason: str
    text: str
    beside: str = ""
    placements: int = 0
    step: str = ""

    @property
    def wording(self) -> str:
        """Return the reason and the text in one line."""
        step = f" {self.step}" if self.step else ""
        return f"{self.reason}{step}: {self.text}"

    def document(self) -> Json:
        """Return the rejection as JSON."""
        document: Json = {
            "failure_reason": self.reason, "text": self.text, "placement_count": self.placements,
        }  # fmt: skip
        if self.beside:
            document["beside"] = self.beside
        return {**document, "step": self.step} if self.step else document


class RoleReport:
    """A node in one role: "primary", "secondary", or "only" for one-node templates.

    Attributes
    ----------
    placements:
        How many placements pass every limit with the node in this role, before global N+1 is
        checked.
    reasons:
        Why the node cannot have the role, in words.
    document:
        The role as JSON.
    """

    __slots__ = ("document", "placements", "reasons", "rejections", "role")

    def __init__(
        self, role: str, placements: int, rejections: Sequence[RoleRejection] = ()
    ) -> None:
        self.role = role
        self.placements = placements
        self.rejections = rejections
        words = "" if role == "only" else f" as {role}"
        self.reasons = []
        for rejection in rejections:
            beside = f" of {rejection.beside}" if rejection.beside else ""
            where = f"{words}, {rejection.step}" if rejection.step else words + beside
            self.reasons.append(f"{rejection.reason}{where}: {rejection.text}")
        if not (placements or rejections):
            other = "secondary" if role == "primary" else "primary"
            self.reasons.append(f"could be {role}, but no other node can be {other} beside it")
        self.document: Json = {
            "role": role,
            "placement_count": placements,
            "refusals": [rejection.document() for rejection in rejections],
        }


class Roles(tuple[RoleReport, ...]):
    """The reports on a node in each role; nodes without rejections share one object."""

    @cached_property
    def possible(self) -> bool:
        """Return whether some placement with the node passes every limit."""
        return any(role.placements for role in self)

    @cached_property
    def reasons(self) -> list[str]:
        """Return the reasons why the node cannot have some role, in words."""
        return [text for role in self for text in role.reasons]

    @cached_property
    def document(self) -> list[Json]:
        """Return the roles as JSON."""
        return [role.document for role in self]


NO_ROLES = Roles()


class NodeReport:
    """A node of a group: why it was not considered, or its limits in each role.

    The results in each role are read from `survey`, if there is one, for the node `index`.
    """

    __slots__ = ("_index", "_roles", "_survey", "excluded", "name")

    def __init__(
        self,
        name: str,
        excluded: Sequence[str] = (),
        survey: Survey | None = None,
        index: int = 0,
    ) -> None:
        self.name = name
        self.excluded = excluded
        self._survey = survey
        self._index = index
        self._roles: Roles | None = None

    @property
    def roles(self) -> Roles:
        """Return the result of the node's limits in each role; empty if it was not considered."""
        if self._roles is None:
            self._roles = NO_ROLES if self._survey is None else self._survey.roles(self._index)
        return self._roles


class N1Rejection(NamedTuple):
    """A placement that global N+1 rejects.

    If the nodes ``failing`` fail, ``instance`` cannot be restarted; ``why`` has the reason.
    ``already``: the instance cannot be restarted without the placement either.
    """

    nodes: list[str]
    score: float
    failing: str
    instance: str
    memory: int
    why: str
    already: bool

    def document(self) -> Json:
        """Return the rejected placement as JSON."""
        return {
            "nodes": self.nodes,
            "score": rounded(self.score),
            "failing_node": self.failing,
            "stranded_instance": self.instance,
            "stranded_memory": self.memory,
            "reason": self.why,
            "already_without_it": self.already,
        }


class NodeRank:
    """The rank of a node: the best placement that uses it.

    Attributes
    ----------
    lost:
        Whether global N+1 rejects the placement, and every other checked placement with this node.
    score, penalty:
        The score if it decides the rank, else None; the amount that violated soft constraints add.
    """

    __slots__ = ("_cluster", "_nodes", "_rank_words", "_unchecked", "lost", "penalty", "score")

    def __init__(
        self,
        cluster: Cluster,
        nodes: Nodes,
        lost: bool,
        score: float | None,
        penalty: float,
        words: str,
        unchecked: bool,
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self.lost = lost
        self.score = score
        self.penalty = penalty
        self._rank_words = words
        self._unchecked = unchecked

    def words(self, node: str) -> str:
        """Return in words the rank of the placement, and the role of the node `node` in it."""
        words = self._rank_words
        if self.penalty and self.score is not None:
            words = f"score {scored(self.score, self.penalty)} for violated soft constraints"
        elif self.score is not None:
            words = f"score {self.score:.8f}"
        if self._unchecked:
            words += "; N+1 not checked"
        if len(self._nodes) > 1:
            nodes = self._cluster.nodes
            primary = nodes[self._nodes[0]].name
            if node == primary:
                words += f", as primary, with {nodes[self._nodes[1]].name}"
            else:
                words += f", as secondary of {primary}"
        return words


class GroupReport:
    """The result of a node group: its best placements, and the reasons against others.

    Attributes
    ----------
    obstacle:
        Why the whole group is rejected; "" if its nodes were tested.
    placements:
        The best placements, best first.
    successes, failures:
        The counts of placements, as in the response.
    n1_rejections:
        The best placements that global N+1 rejects.
    closest:
        If no placement is feasible, the closest node and the amounts that it lacks.
    comparison:
        Why the group of the answer is preferred to this group; "" for the group of the answer.
    strategy:
        The strategy that ranked its nodes; "" for the score.
    ranking:
        The order of the nodes by the strategy, each with its criteria in order.
    rejected_by_strategy:
        Node -> why the strategy rejects it.
    node_ranks:
        Node -> its best placement, for the nodes with a feasible placement.
    """

    def __init__(self, name: str, uuid: str, alloc_policy: str, obstacle: str = "") -> None:
        self.name = name
        self.uuid = uuid
        self.alloc_policy = alloc_policy
        self.obstacle = obstacle
        self.by_losses = False
        self.strategy = ""
        self.ranking: list[tuple[str, list[tuple[str, str]]]] = []
        self.rejected_by_strategy: dict[str, str] = {}
        self.placements: list[Placed] = []
        self.successes = 0
        self.failures: dict[str, int] = {}
        self.n1_rejections: list[N1Rejection] = []
        self.closest = ""
        self.comparison = ""
        self.node_ranks: dict[str, NodeRank] = {}
        self.survey: Survey | None = None
        self._nodes: list[NodeReport] | None = None

    @property
    def nodes(self) -> list[NodeReport]:
        """Return a report on each node; the survey makes the reports unless they are set."""
        if self._nodes is None:
            self._nodes = [] if self.survey is None else self.survey.reports()
        return self._nodes

    @nodes.setter
    def nodes(self, nodes: list[NodeReport]) -> None:
        self._nodes = nodes

    @property
    def ranked_by(self) -> str:
        """Return the name of the criterion that ranks the placements: a strategy, or ``score``."""
        return self.strategy or ("lost_allocations" if self.by_losses else "score")
