"""An explanation as data: what text and JSON are made from.

Every class has ``document()``, its form in JSON; the keys are a contract.  Scores and
contributions: lower is better.  Memory and disk are in MiB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Decision",
    "Explanation",
    "GroupReport",
    "Json",
    "NodeReport",
    "Placed",
    "Refusal",
    "RoleReport",
    "Term",
    "Unsurvived",
]

Json = dict[str, Any]
DECIMALS = 10


@dataclass(frozen=True, slots=True)
class Term:
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


@dataclass(frozen=True, slots=True)
class Placed:
    """A possible placement and what its score is made of.

    ``rank`` is what it was ranked by where that is not the score, else "".
    """

    group: str
    nodes: list[str]
    score: float
    terms: list[Term]
    rank: str = ""

    @property
    def where(self) -> str:
        """The nodes in one word, primary first."""
        return "/".join(self.nodes)

    def document(self) -> Json:
        """The placement as JSON."""
        found: Json = {"nodes": self.nodes, "score": round(self.score, DECIMALS)}
        if self.rank:
            found["rank"] = self.rank
        return found | {"terms": [term.document() for term in self.terms]}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a node cannot take a role: what it is counted as, and the numbers.

    ``beside`` names the primary for which alone it holds; "" if it holds for any.
    ``placements`` is how many placements are counted under it.
    """

    reason: str
    text: str
    beside: str = ""
    placements: int = 0

    def document(self) -> Json:
        """The refusal as JSON."""
        found: Json = {"reason": self.reason, "text": self.text, "placements": self.placements}
        return {**found, "beside": self.beside} if self.beside else found


@dataclass(frozen=True, slots=True)
class RoleReport:
    """A node in one role: "primary", "secondary", or "only" for one-node templates.

    ``placements`` counts those that pass every limit with the node in this role,
    before global N+1 is looked at.
    """

    role: str
    placements: int
    refusals: list[Refusal] = field(default_factory=list)

    @property
    def lonely(self) -> bool:
        """Whether the node could, if only another could beside it."""
        return not self.placements and not self.refusals

    def document(self) -> Json:
        """The role as JSON."""
        return {
            "role": self.role,
            "placements": self.placements,
            "refusals": [refusal.document() for refusal in self.refusals],
        }


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node of a group: why it was not considered, or what each role says."""

    name: str
    excluded: list[str] = field(default_factory=list)
    roles: list[RoleReport] = field(default_factory=list)

    @property
    def possible(self) -> bool:
        """Whether some placement with the node passes every limit."""
        return any(role.placements for role in self.roles)

    def document(self) -> Json:
        """The node as JSON."""
        return {
            "name": self.name,
            "excluded": self.excluded,
            "roles": [role.document() for role in self.roles],
        }


@dataclass(frozen=True, slots=True)
class Unsurvived:
    """A placement refused by global N+1.

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
        """The refused placement as JSON."""
        return {
            "nodes": self.nodes,
            "score": round(self.score, DECIMALS),
            "failing_node": self.failing,
            "stranded_instance": self.instance,
            "stranded_memory": self.memory,
            "why": self.why,
            "already_without_it": self.already,
        }


@dataclass(slots=True)
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
        The best of the placements that global N+1 refused.
    closest:
        Where nothing fits: which node came closest and what it lacks.
    verdict:
        Why it comes after the group of the answer, or "".
    """

    name: str
    uuid: str
    alloc_policy: str
    obstacle: str = ""
    by_losses: bool = False
    placements: list[Placed] = field(default_factory=list)
    successes: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    nodes: list[NodeReport] = field(default_factory=list)
    unsurvived: list[Unsurvived] = field(default_factory=list)
    closest: str = ""
    verdict: str = ""

    def document(self) -> Json:
        """The group as JSON."""
        return {
            "group": self.name,
            "group_uuid": self.uuid,
            "alloc_policy": self.alloc_policy,
            "obstacle": self.obstacle,
            "verdict": self.verdict,
            "ranked_by": "lost_allocations" if self.by_losses else "score",
            "successes": self.successes,
            "failures": dict(sorted(self.failures.items())),
            "placements": [placed.document() for placed in self.placements],
            "nodes": [node.document() for node in self.nodes],
            "n1_refused": [refused.document() for refused in self.unsurvived],
            "closest": self.closest,
        }


@dataclass(slots=True)
class Decision:
    """Where one instance goes, and why; ``groups`` in the order of their rank."""

    instance: str
    subject: str
    answer: Placed | None
    groups: list[GroupReport]
    notes: list[str] = field(default_factory=list)

    @property
    def rivals(self) -> list[tuple[str, Placed]]:
        """What to compare the answer with: the runner-up in its group, the best of each other."""
        if self.answer is None:
            return []
        found = []
        for group in self.groups:
            others = [p for p in group.placements if p is not self.answer]
            if others:
                own = self.answer in group.placements
                found.append(("runner-up" if own else f"group {group.name}", others[0]))
        return found

    def document(self) -> Json:
        """The decision as JSON."""
        from iallocator.report.contributions import difference_document

        answer = self.answer
        return {
            "instance": self.instance,
            "subject": self.subject,
            "notes": self.notes,
            "answer": {"group": answer.group, **answer.document()} if answer else None,
            "comparisons": [
                difference_document(answer, rival, label) for label, rival in self.rivals if answer
            ],
            "groups": [group.document() for group in self.groups],
        }


@dataclass(slots=True)
class Explanation:
    """Why the answer to a request is what it is.

    ``response`` is the answer itself, unchanged; ``remarks`` are for people.
    """

    kind: str
    response: Json
    settings: Json
    decisions: list[Decision]
    remarks: list[str] = field(default_factory=list)

    def document(self) -> Json:
        """The explanation as JSON."""
        return {
            "type": self.kind,
            "response": self.response,
            "settings": self.settings,
            "remarks": self.remarks,
            "decisions": [decision.document() for decision in self.decisions],
        }
