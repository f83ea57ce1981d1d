"""Explanations as data, from which the document for text, pages and JSON is made.

The method ``document()`` of a class returns its form in JSON; programs rely on the keys. The facts
of an explanation are in `iallocator.explain.facts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iallocator.aliases import Json
from iallocator.constraints.table import FAILURE_SAFETY
from iallocator.explain.facts import PENALTY, GroupReport, NodeReport, Placed, Term, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "BY_LOSSES",
    "DESCRIBED_PLACEMENTS",
    "NODE_ANSWER",
    "NODE_NOT_ASKED",
    "NODE_POSSIBLE",
    "NODE_REJECTED",
    "NODE_RESULTS",
    "Decision",
    "Difference",
    "Explanation",
    "StepReport",
    "differences",
    "failure_words",
]  # fmt: skip

NODE_ANSWER, NODE_POSSIBLE, NODE_REJECTED, NODE_NOT_ASKED = (
    "answer",
    "possible",
    "refused",
    "not asked",
)

NODE_RESULTS = (NODE_ANSWER, NODE_POSSIBLE, NODE_REJECTED, NODE_NOT_ASKED)
"""The results of nodes, in the order in which they are shown."""

DESCRIBED_PLACEMENTS = 2
"""How many placements of a group are described in detail: the best and the runner-up."""

BY_LOSSES = "lost allocations: "
"""The beginning of the reason in a comparison that lost allocations decide."""


class StepReport(NamedTuple):
    """One step of a move: its kind, its target node, and both in words."""

    move: str
    node: str
    words: str

    def document(self) -> Json:
        """Return the step as JSON."""
        return {"kind": self.move, "node": self.node, "text": self.words}


class Decision:
    """The placement of one instance, and the reasons.

    Attributes
    ----------
    answer:
        The new placement; None if the instance cannot be placed, or stays on its nodes.
    groups:
        The groups in the order of their rank; for a move, only the target group.
    present:
        The present nodes, primary first; empty for a new instance.
    steps:
        The steps from the present nodes to the answer; empty for a new instance.
    reason:
        Why the instance cannot be moved or placed, if no group has the reason; else "".
    choice:
        The decision on the group, for a move to another group; else None.
    elsewhere:
        The offers of other groups, if its own group cannot host the instance; else None.
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
        """Return whether the decision is about an existing instance, not a new one."""
        return bool(self.present)

    @property
    def rivals(self) -> list[tuple[str, Placed]]:
        """Return (label, placement) of each rival of the answer.

        The rivals are the runner-up, and the best placement of each other group.
        """
        if self.answer is None:
            return []
        rivals = []
        for group in self.groups:
            others = [p for p in group.placements if p is not self.answer]
            if others:
                own = self.answer in group.placements
                rivals.append(("runner-up" if own else f"group {group.name}", others[0]))
        return rivals

    @property
    def by_score(self) -> bool:
        """Return whether the answer has the best score of several compared placements."""
        if self.answer is None or not self.groups or self.groups[0].ranked_by != "score":
            return False
        return any(rival.where not in self.answer.over for _, rival in self.rivals)

    def parts(self) -> Iterator[Decision]:
        """Yield this decision, and the decisions that are parts of it."""
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
        """Return the answer as JSON, or the closest candidate; without the results of nodes."""
        closest = {group.name: group.closest for group in self.groups if group.closest}
        return {
            "instance": self.instance,
            "answer": self._answer_document(scored=False),
            "steps": [step.document() for step in self.steps],
            "reason": self.reason,
            "closest_by_group": closest,
        }

    def _answer_document(self, scored: bool) -> Json | None:
        answer = self.answer
        return {"group": answer.group, **answer.document(scored)} if answer else None

    def _comparison(self, label: str, rival: Placed) -> Json:
        """Return a comparison of the answer with `rival`, with scores only if the score decided."""
        assert self.answer is not None
        decided = self.answer.over.get(rival.where)
        if decided is None and self.groups[0].by_losses and rival.rank:
            decided = f"{BY_LOSSES}{self.answer.rank} against {rival.rank}"
        if decided is None:
            return difference_document(self.answer, rival, label)
        return {
            "decided_by": decided, "with": label, "group": rival.group, "nodes": rival.nodes,
        }  # fmt: skip


def _group_document(group: GroupReport, answer: Placed | None, instance: str, scored: bool) -> Json:
    """Return a group as JSON, with its results for `instance`.

    `scored`: whether scores of its placements were compared, so that they are included.
    """
    scored = group.ranked_by == "score" and (scored or len(group.placements) > DESCRIBED_PLACEMENTS)
    chosen = answer.nodes if answer is not None and answer in group.placements else []
    document: Json = {
        "group": group.name,
        "uuid": group.uuid,
        "alloc_policy": group.alloc_policy,
        "obstacle": group.obstacle,
        "comparison": group.comparison,
        "ranked_by": group.ranked_by,
        "successes": group.successes,
        "failures": dict(sorted(group.failures.items())),
        "placements": [placed.document(scored) for placed in group.placements],
        "candidates": [_node_document(group, node, chosen, instance) for node in group.nodes],
        "n1_refused": [rejected.document() for rejected in group.n1_rejections],
        "closest": group.closest,
    }
    if group.strategy:
        document["order"] = [
            {"node": name, "criteria": dict(criteria)} for name, criteria in group.ranking
        ]
        document["refused_by_strategy"] = group.rejected_by_strategy
    return document


def _node_document(
    group: GroupReport, node: NodeReport, chosen: Sequence[str], instance: str
) -> Json:
    """Return a node of `group` as JSON: its result for `instance`, and the reasons.

    The most important reason comes first. `chosen` has the nodes of the answer, if it is in this
    group. The score of the best placement is included if the score decided; the penalty is what
    violated soft constraints add to it.
    """
    name, roles, rank = node.name, node.roles, group.node_ranks.get(node.name)
    rejected = roles.reasons
    if name in group.rejected_by_strategy:
        rejected = [*rejected, f"FailStrategy: {group.rejected_by_strategy[name]}"]
    if node.excluded:
        result, reasons = NODE_NOT_ASKED, [", ".join(node.excluded)]
    elif rank is None and roles.possible:
        result, reasons = NODE_POSSIBLE, ["by its limits", *rejected]
    elif rank is None:
        result, reasons = NODE_REJECTED, rejected
    elif rank.lost:
        lost = (o for o in group.n1_rejections if name in o.nodes)
        first = next((failure_words(one.document(), instance) for one in lost), None)
        result = NODE_REJECTED
        reasons = [*rejected, first or f"{FAILURE_SAFETY.reason}: {FAILURE_SAFETY.about}"]
    elif name not in chosen:
        result, reasons = NODE_POSSIBLE, [rank.words(name), *rejected]
    elif len(chosen) > 1:
        result, reasons = NODE_ANSWER, [("as primary", "as secondary")[chosen.index(name)]]
    else:
        result, reasons = NODE_ANSWER, [rank.words(name)]
    document: Json = {
        "node": name,
        "excluded": node.excluded,
        "roles": roles.document,
        "result": result,
        "reasons": reasons,
    }
    if rank is not None and not (rank.lost or node.excluded):
        if rank.score is not None:
            document["score"] = rounded(rank.score)
        if rank.penalty:
            document["penalty"] = rank.penalty
    return document


def failure_words(rejected: Json, instance: str) -> str:
    """Return in words the node failure for which N+1 rejects a placement of `instance`.

    `rejected` is the document of an `N1Rejection`.
    """
    lost = f"{rejected['stranded_instance']} ({rejected['stranded_memory']} MiB memory)"
    if rejected["stranded_instance"] == instance:
        lost = "the instance itself"
    already = ""
    if rejected["already_without_it"]:
        already = "; without the new instance, too (--n1 no-new ignores this failure)"
    where = f" on {'/'.join(rejected['nodes'])}" if len(rejected["nodes"]) > 1 else ""
    return (
        f"FailN1{where}: if {rejected['failing_node']} failed, {lost} could not be restarted: "
        f"{rejected['reason']}{already}"
    )


class Difference(NamedTuple):
    """One statistic in two placements: `mine` and `other`."""

    mine: Term
    other: Term

    @property
    def amount(self) -> float:
        """Return by how much the statistic favours `mine` over `other`, in units of score."""
        return self.other.contribution_after - self.mine.contribution_after

    @property
    def nothing(self) -> bool:
        """Return whether the statistic is 0 before the placement and in both placements."""
        shown = (self.mine.before, self.mine.after, self.other.after)
        return not any(rounded(value) for value in shown)


def differences(mine: Placed, other: Placed) -> list[Difference]:
    """Return the difference of two placements in each statistic, the largest first."""
    terms = [(a, b) for a, b in zip(mine.terms, other.terms) if PENALTY not in (a.name, b.name)]
    if mine.penalty or other.penalty:  # a group without violations has no such term
        before = next((t.before for t in (*mine.terms, *other.terms) if t.name == PENALTY), 0.0)
        both = [Term(PENALTY, 1.0, before, place.penalty) for place in (mine, other)]
        terms.append((both[0], both[1]))

    def weight(difference: Difference) -> tuple[float, float]:
        """Return the key to sort by: large differences first, then statistics that changed most."""
        mine = difference.mine
        moved = abs(mine.contribution_after - mine.contribution_before)
        return -rounded(abs(difference.amount)), -rounded(moved)

    return sorted((Difference(a, b) for a, b in terms), key=weight)


def difference_document(mine: Placed, other: Placed, label: str) -> Json:
    """Return the comparison of two placements as JSON, without statistics that are 0 in both."""
    terms = differences(mine, other)
    return {
        "with": label,
        "group": other.group,
        "nodes": other.nodes,
        "score": rounded(other.score),
        **({"penalty": other.penalty} if other.penalty else {}),
        "difference": rounded(other.total - mine.total),
        "statistics": [
            {
                "name": one.mine.name,
                "weight": one.mine.weight,
                "before": rounded(one.mine.before),
                "with_answer": rounded(one.mine.after),
                "with_other": rounded(one.other.after),
                "contribution_before": rounded(one.mine.contribution_before),
                "contribution_answer": rounded(one.mine.contribution_after),
                "contribution_other": rounded(one.other.contribution_after),
                "difference": rounded(one.amount),
            }
            for one in terms
            if not one.nothing
        ],
        "zero": sorted(one.mine.name for one in terms if one.nothing),
    }


class Explanation:
    """The explanation of the answer to a request.

    ``response`` is the answer itself, unchanged; ``remarks`` are further lines of text.
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

    def document(self) -> Json:
        """Return the explanation as JSON."""
        return {
            "request_type": self.kind,
            "response": self.response,
            "request_settings": self.settings,
            "remarks": self.remarks,
            "decisions": [decision.document() for decision in self.decisions],
        }

    def brief_document(self) -> Json:
        """Return the decisions as JSON, without their reasons."""
        return {
            "request_type": self.kind,
            "info": self.response["info"],
            "remarks": self.remarks,
            "decisions": [decision.brief_document() for decision in self.decisions],
        }
