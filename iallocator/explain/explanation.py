"""An explanation as data: what text and JSON are made from.

Every class has ``document()``, its form in JSON; the keys are a contract.  The facts
that it is made of are in `iallocator.explain.facts`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from iallocator.explain.facts import Json, NodeReport, Placed, Standing, Unsurvived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Decision", "Explanation", "GroupReport", "StepReport"]


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
    strategy:
        The strategy that ranked its nodes, where one did; else "".
    ranking:
        Its order of the nodes, each with the criteria in their order.
    refused_by_strategy:
        Node -> why the strategy will not have it.
    standings:
        Node -> how it stands, of those that could take the instance by their limits.
    """

    name: str
    uuid: str
    alloc_policy: str
    obstacle: str = ""
    by_losses: bool = False
    strategy: str = ""
    ranking: list[tuple[str, list[tuple[str, str]]]] = field(default_factory=list)
    refused_by_strategy: dict[str, str] = field(default_factory=dict)
    placements: list[Placed] = field(default_factory=list)
    successes: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    nodes: list[NodeReport] = field(default_factory=list)
    unsurvived: list[Unsurvived] = field(default_factory=list)
    closest: str = ""
    verdict: str = ""
    standings: dict[str, Standing] = field(default_factory=dict)

    @property
    def ranked_by(self) -> str:
        """What the placements were ranked by."""
        return self.strategy or ("lost_allocations" if self.by_losses else "score")

    def document(self, answer: Placed | None, instance: str, scored: bool) -> Json:
        """The group as JSON, for `instance`; `scored`: its scores were compared."""
        from iallocator.explain.rows import node_rows

        found = self._common(scored and self.ranked_by == "score")
        rows = {row.name: row.document() for row in node_rows(self, answer, instance)}
        found["nodes"] = [{**node.document(), **rows[node.name]} for node in self.nodes]
        if self.strategy:
            found["order"] = [
                {"node": name, "criteria": dict(criteria)} for name, criteria in self.ranking
            ]
            found["refused_by_strategy"] = self.refused_by_strategy
        return found

    def _common(self, scored: bool) -> Json:
        return {
            "group": self.name,
            "group_uuid": self.uuid,
            "alloc_policy": self.alloc_policy,
            "obstacle": self.obstacle,
            "verdict": self.verdict,
            "ranked_by": self.ranked_by,
            "successes": self.successes,
            "failures": dict(sorted(self.failures.items())),
            "placements": [placed.document(scored) for placed in self.placements],
            "nodes": [],
            "n1_refused": [refused.document() for refused in self.unsurvived],
            "closest": self.closest,
        }


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step of a move: what kind it is, its target node, and both in words."""

    move: str
    node: str
    words: str

    def document(self) -> Json:
        """The step as JSON."""
        return {"move": self.move, "node": self.node, "words": self.words}


@dataclass(slots=True)
class Decision:
    """Where one instance goes, and why.

    Attributes
    ----------
    answer:
        Where it goes; None if it has no place, or stays where it is.
    groups:
        In the order of their rank; of a move the one group that it ends in.
    present:
        The nodes it is on, primary first; empty for a new instance.
    steps:
        What brings it from there to the answer; empty for a new instance.
    reason:
        Why it cannot be moved or placed, where that is not for its groups to tell; else "".
    choice:
        How the group was chosen, for a move to another group.
    elsewhere:
        What the other groups offered because its own cannot take it.
    """

    instance: str
    subject: str
    answer: Placed | None
    groups: list[GroupReport]
    notes: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    steps: list[StepReport] = field(default_factory=list)
    reason: str = ""
    choice: Decision | None = None
    elsewhere: Decision | None = None

    @property
    def moves(self) -> bool:
        """Whether the instance exists and is to be moved."""
        return bool(self.present)

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

    @property
    def by_score(self) -> bool:
        """Whether the answer has the best score, and something it was compared with."""
        if self.answer is None or not self.groups or self.groups[0].ranked_by != "score":
            return False
        return any(rival.where not in self.answer.over for _, rival in self.rivals)

    def parts(self) -> Iterator[Decision]:
        """The decision itself and those that are parts of it."""
        yield self
        for part in (self.choice, self.elsewhere):
            if part is not None:
                yield from part.parts()

    def document(self) -> Json:
        """The decision as JSON."""
        scored = self.by_score
        return {
            "instance": self.instance,
            "subject": self.subject,
            "notes": self.notes,
            "present": self.present,
            "answer": self._answer_document(scored),
            "steps": [step.document() for step in self.steps],
            "reason": self.reason,
            "comparisons": [self._comparison(label, rival) for label, rival in self.rivals],
            "groups": [g.document(self.answer, self.instance, scored) for g in self.groups],
            "choice": self.choice.document() if self.choice else None,
            "elsewhere": self.elsewhere.document() if self.elsewhere else None,
        }

    def brief_document(self) -> Json:
        """The answer as JSON, or what came closest, and nothing of the nodes."""
        closest = {group.name: group.closest for group in self.groups if group.closest}
        return {
            "instance": self.instance,
            "answer": self._answer_document(scored=False),
            "steps": [step.document() for step in self.steps],
            "reason": self.reason,
            "closest": closest,
        }

    def _answer_document(self, scored: bool) -> Json | None:
        answer = self.answer
        return {"group": answer.group, **answer.document(scored)} if answer else None

    def _comparison(self, label: str, rival: Placed) -> Json:
        """The answer beside another placement: by the score only where that decided."""
        from iallocator.explain.contributions import difference_document

        assert self.answer is not None
        decided = self.answer.over.get(rival.where)
        if decided is None and self.groups[0].by_losses and rival.rank:
            decided = f"lost allocations: {self.answer.rank} against {rival.rank}"
        if decided is None:
            return difference_document(self.answer, rival, label)
        return {
            "decided_by": decided, "with": label, "group": rival.group, "nodes": rival.nodes,
        }  # fmt: skip


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

    def document(self, brief: bool = False) -> Json:
        """The explanation as JSON; `brief`: only what was decided."""
        if brief:
            decisions = [decision.brief_document() for decision in self.decisions]
            return {
                "type": self.kind,
                "info": self.response["info"],
                "remarks": self.remarks,
                "decisions": decisions,
            }
        return {
            "type": self.kind,
            "response": self.response,
            "settings": self.settings,
            "remarks": self.remarks,
            "decisions": [decision.document() for decision in self.decisions],
        }
