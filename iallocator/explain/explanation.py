"""Explanations as data, from which text and JSON are made.

Every class has ``document()``, its form in JSON; the keys are a contract.  The facts of an
explanation are in `iallocator.explain.facts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iallocator.aliases import Json
from iallocator.explain.contributions import difference_document
from iallocator.explain.facts import GroupReport, Placed
from iallocator.explain.rows import node_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Decision", "Explanation", "StepReport"]


class StepReport(NamedTuple):
    """One step of a move: its kind, its target node, and both in words."""

    move: str
    node: str
    words: str

    def document(self) -> Json:
        """Return the step as JSON."""
        return {"move": self.move, "node": self.node, "words": self.words}


class Decision:
    """The placement of one instance, and the reasons.

    Attributes
    ----------
    answer:
        The new placement; None if the instance cannot be placed, or stays on its nodes.
    groups:
        The groups in the order of their rank; of a move, the target group alone.
    present:
        The present nodes, primary first; empty for a new instance.
    steps:
        The steps from the present nodes to the answer; empty for a new instance.
    reason:
        Why it cannot be moved or placed, if no group has the reason; else "".
    choice:
        The choice of the group, for a move to another group.
    elsewhere:
        The offers of other groups, if its own group cannot host it.
    """

    def __init__(
        self,
        instance: str,
        subject: str,
        answer: Placed | None,
        groups: list[GroupReport],
        notes: list[str] | None = None,
        reason: str = "",
    ) -> None:
        self.instance = instance
        self.subject = subject
        self.answer = answer
        self.groups = groups
        self.notes = [] if notes is None else notes
        self.present: list[str] = []
        self.steps: list[StepReport] = []
        self.reason = reason
        self.choice: Decision | None = None
        self.elsewhere: Decision | None = None

    @property
    def moves(self) -> bool:
        """True if the instance exists and is moved."""
        return bool(self.present)

    @property
    def rivals(self) -> list[tuple[str, Placed]]:
        """The placements to compare with the answer: the runner-up, the best of other groups."""
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
        """True if the answer has the best score of several placements that were compared."""
        if self.answer is None or not self.groups or self.groups[0].ranked_by != "score":
            return False
        return any(rival.where not in self.answer.over for _, rival in self.rivals)

    def parts(self) -> Iterator[Decision]:
        """Yield the decision and those that are parts of it."""
        yield self
        for part in (self.choice, self.elsewhere):
            if part is not None:
                yield from part.parts()

    def document(self) -> Json:
        """Return the decision as JSON."""
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
            "groups": [_group_document(g, self.answer, self.instance, scored) for g in self.groups],
            "choice": self.choice.document() if self.choice else None,
            "elsewhere": self.elsewhere.document() if self.elsewhere else None,
        }

    def brief_document(self) -> Json:
        """Return the answer as JSON, or the closest candidate, without the nodes."""
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
        """Return a comparison of the answer with `rival`; the scores only if the score decided."""
        assert self.answer is not None
        decided = self.answer.over.get(rival.where)
        if decided is None and self.groups[0].by_losses and rival.rank:
            decided = f"lost allocations: {self.answer.rank} against {rival.rank}"
        if decided is None:
            return difference_document(self.answer, rival, label)
        return {
            "decided_by": decided, "with": label, "group": rival.group, "nodes": rival.nodes,
        }  # fmt: skip


def _group_document(group: GroupReport, answer: Placed | None, instance: str, scored: bool) -> Json:
    """Return the group as JSON, for `instance`; `scored`: its scores were compared."""
    scored = scored and group.ranked_by == "score"
    found: Json = {
        "group": group.name,
        "group_uuid": group.uuid,
        "alloc_policy": group.alloc_policy,
        "obstacle": group.obstacle,
        "verdict": group.comparison,
        "ranked_by": group.ranked_by,
        "successes": group.successes,
        "failures": dict(sorted(group.failures.items())),
        "placements": [placed.document(scored) for placed in group.placements],
        "nodes": [row.document() for row in node_rows(group, answer, instance)],
        "n1_refused": [rejected.document() for rejected in group.unsurvived],
        "closest": group.closest,
    }
    if group.strategy:
        found["order"] = [
            {"node": name, "criteria": dict(criteria)} for name, criteria in group.ranking
        ]
        found["refused_by_strategy"] = group.rejected_by_strategy
    return found


class Explanation:
    """The explanation of the answer to a request.

    ``response`` is the answer itself, unchanged; ``remarks`` are lines for people.
    """

    def __init__(
        self,
        kind: str,
        response: Json,
        settings: Json,
        decisions: list[Decision],
        remarks: list[str],
    ) -> None:
        self.kind = kind
        self.response = response
        self.settings = settings
        self.decisions = decisions
        self.remarks = remarks

    def document(self, brief: bool = False) -> Json:
        """Return the explanation as JSON; `brief`: the decisions without their reasons."""
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
