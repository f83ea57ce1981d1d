"""The facts of an explanation as data: placements, nodes, and node groups.

Every class has ``document()``, its form in JSON; the keys are a contract.  Scores and
contributions: lower is better.  Memory and disk are in MiB.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iallocator.aliases import Json, Nodes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from iallocator.model.cluster import Cluster

    class Survey(Protocol):
        """What is known of the nodes of a group; see `iallocator.explain.survey.Survey`."""

        def reports(self) -> list[NodeReport]:
            """Return a report on every node of the group."""

        def roles(self, index: int) -> list[RoleReport]:
            """Return what a node says in each of its roles."""


__all__ = [
    "DECIMALS",
    "PENALTY",
    "GroupReport",
    "NodeReport",
    "Placed",
    "RoleRejection",
    "RoleReport",
    "Standing",
    "Term",
    "Unsurvived",
    "scored",
]

PENALTY = "penalty"
"""The name of the term that violated soft constraints add to a score."""

DECIMALS = 10
"""Figures in JSON are rounded to this many decimals."""


class Term(NamedTuple):
    """One statistic of the score, before and after a placement.

    ``before`` and ``after`` are the statistic itself; its contribution to the score
    is that times ``weight``.
    """

    name: str
    weight: float
    before: float
    after: float

    @property
    def contribution_before(self) -> float:
        """What it adds to the score as things are."""
        return self.weight * self.before

    @property
    def contribution_after(self) -> float:
        """What it adds to the score with the instance in place."""
        return self.weight * self.after

    def document(self) -> Json:
        """The term as JSON."""
        return {
            "name": self.name,
            "weight": self.weight,
            "before": round(self.before, DECIMALS),
            "after": round(self.after, DECIMALS),
            "contribution_before": round(self.contribution_before, DECIMALS),
            "contribution_after": round(self.contribution_after, DECIMALS),
        }


class Placed(NamedTuple):
    """A possible placement and what its score is made of.

    ``penalty`` is what violated soft constraints add to the score; it is one of the ``terms``
    then.  ``rank`` is what it was ranked by where that is not the score, else "".  ``over`` says,
    by the nodes of others, what put it before them where a strategy has an order of nodes.
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
        """The score and the penalty: lower is better."""
        return self.score + self.penalty

    @property
    def scored(self) -> str:
        """The score in words, with the penalty if there is one."""
        return scored(self.score, self.penalty)

    @property
    def where(self) -> str:
        """The nodes in one word, primary first."""
        return "/".join(self.nodes)

    def document(self, scored: bool) -> Json:
        """The placement as JSON; `scored`: with its score and what that is made of."""
        found: Json = {"nodes": self.nodes}
        if self.rank:
            found["rank"] = self.rank
        if not scored:
            return found
        terms = [term.document() for term in self.terms]
        found["score"] = round(self.score, DECIMALS)
        if self.penalty:
            found["penalty"] = self.penalty
        return found | {"terms": terms}


def scored(score: float, penalty: float) -> str:
    """Return a score in words: ``1.25000000``, or with a penalty ``1.25000000 + 2``."""
    return f"{score:.8f}" + (f" + {penalty:.12g}" if penalty else "")


class RoleRejection(NamedTuple):
    """Why a node cannot take a role: what it is counted as, and the numbers.

    ``beside`` names the primary for which alone it holds; "" if it holds for any.
    ``placements`` is how many placements are counted under it.  ``step`` is the step
    of a move that fails, in words; "" if it is just the role.
    """

    reason: str
    text: str
    beside: str = ""
    placements: int = 0
    step: str = ""

    @property
    def wording(self) -> str:
        """Reason and text in one."""
        step = f" {self.step}" if self.step else ""
        return f"{self.reason}{step}: {self.text}"

    def document(self) -> Json:
        """The rejection as JSON."""
        found: Json = {"reason": self.reason, "text": self.text, "placements": self.placements}
        if self.beside:
            found["beside"] = self.beside
        return {**found, "step": self.step} if self.step else found


class RoleReport:
    """A node in one role: "primary", "secondary", or "only" for one-node templates.

    Attributes
    ----------
    placements:
        How many placements pass every limit with the node in this role, before global N+1 is
        checked.
    reasons:
        Why the node cannot take the role, in words.
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
            where = f" {rejection.step}" if rejection.step else words + beside
            self.reasons.append(f"{rejection.reason}{where}: {rejection.text}")
        if not (placements or rejections):
            other = "secondary" if role == "primary" else "primary"
            self.reasons.append(f"could be {role}, but no other node can be {other} beside it")
        self.document: Json = {
            "role": role,
            "placements": placements,
            "refusals": [rejection.document() for rejection in rejections],
        }


class NodeReport:
    """A node of a group: why it was not considered, or what each role says.

    What the roles say is read from `survey`, where there is one, for the node `index`.
    """

    __slots__ = ("_index", "_roles", "_survey", "excluded", "name")

    def __init__(
        self,
        name: str,
        excluded: list[str] | None = None,
        survey: Survey | None = None,
        index: int = 0,
    ) -> None:
        self.name = name
        self.excluded = excluded or []
        self._survey = survey
        self._index = index
        self._roles: Sequence[RoleReport] | None = None

    @property
    def roles(self) -> Sequence[RoleReport]:
        """What the node says in each role; empty if it was not considered."""
        if self._roles is None:
            self._roles = () if self._survey is None else self._survey.roles(self._index)
        return self._roles

    @property
    def possible(self) -> bool:
        """Whether some placement with the node passes every limit."""
        return any(role.placements for role in self.roles)


class Unsurvived(NamedTuple):
    """A placement rejected by global N+1.

    If ``failing`` failed, ``instance`` would find no place, and ``why``.  ``already``
    says that this is so without the placement, too.
    """

    nodes: list[str]
    score: float
    failing: str
    instance: str
    memory: int
    why: str
    already: bool

    def document(self) -> Json:
        """The rejected placement as JSON."""
        return {
            "nodes": self.nodes,
            "score": round(self.score, DECIMALS),
            "failing_node": self.failing,
            "stranded_instance": self.instance,
            "stranded_memory": self.memory,
            "why": self.why,
            "already_without_it": self.already,
        }


class Standing:
    """The best placement of those that a node may be part of.

    Attributes
    ----------
    lost:
        Whether global N+1 rejected it, and every other with this node that was checked.
    score, penalty:
        What it was ranked by, where that was the score, else None; and what violated soft
        constraints add to it.
    """

    __slots__ = ("_cluster", "_nodes", "_told", "_unchecked", "lost", "penalty", "score")

    def __init__(
        self,
        cluster: Cluster,
        nodes: Nodes,
        lost: bool,
        score: float | None,
        penalty: float,
        told: str,
        unchecked: bool,
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self.lost = lost
        self.score = score
        self.penalty = penalty
        self._told = told
        self._unchecked = unchecked

    def words(self, node: str) -> str:
        """Return what it was ranked by, and the role of the node called `node` in it."""
        told = self._told
        if self.score is not None:
            told = f"score {scored(self.score, self.penalty)}"
            told += " for violated soft constraints" if self.penalty else ""
        if self._unchecked:
            told += "; N+1 not checked"
        if len(self._nodes) > 1:
            primary, secondary = self._cluster.node_names(self._nodes)
            first = node == primary
            told += f", as primary, with {secondary}" if first else f", as secondary of {primary}"
        return told


class GroupReport:
    """A node group: what it offers, and what stands in the way.

    Attributes
    ----------
    obstacle:
        Why the whole group is out; "" if its nodes were looked at.
    placements:
        The best ones, best first.
    successes, failures:
        As in the response.
    unsurvived:
        The best of the placements that global N+1 rejected.
    closest:
        Where nothing fits: which node came closest and what it lacks.
    verdict:
        Why it comes after the group of the answer, or "".
    strategy:
        The strategy that ranked its nodes, where one did; else "".
    ranking:
        Its order of the nodes, each with the criteria in their order.
    rejected_by_strategy:
        Node -> why the strategy will not have it.
    standings:
        Node -> how it stands, of those that could take the instance by their limits.
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
        self.unsurvived: list[Unsurvived] = []
        self.closest = ""
        self.verdict = ""
        self.standings: dict[str, Standing] = {}
        self.survey: Survey | None = None
        self._nodes: list[NodeReport] | None = None

    @property
    def nodes(self) -> list[NodeReport]:
        """A report on each node, made by the survey unless they are given."""
        if self._nodes is None:
            self._nodes = [] if self.survey is None else self.survey.reports()
        return self._nodes

    @nodes.setter
    def nodes(self, nodes: list[NodeReport]) -> None:
        self._nodes = nodes

    @property
    def ranked_by(self) -> str:
        """What the placements were ranked by."""
        return self.strategy or ("lost_allocations" if self.by_losses else "score")
