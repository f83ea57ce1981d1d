"""Answers, before they are written."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["GroupSolution", "Reply", "tally"]

TALLY_ORDER = (
    "FailMem", "FailDisk", "FailCPU", "FailN1", "FailTags", "FailMig", "FailDiskCount",
    "FailSpindles",
)  # fmt: skip


class Reply:
    """A response.

    Attributes
    ----------
    success:
        Whether the request can be satisfied.
    info:
        One line for people; operators' scripts match its words.
    result:
        What Ganeti reads, by request type; [] without success.
    solutions:
        The ranked alternatives, ready to be encoded.
    remarks:
        Lines for stderr: nothing of the answer, but worth knowing.
    """

    __slots__ = ("info", "remarks", "result", "solutions", "success")

    def __init__(
        self, success: bool, info: str, result: Any, solutions: Sequence[dict[str, Any]]
    ) -> None:
        self.success = success
        self.info = info
        self.result = result
        self.solutions = solutions
        self.remarks: list[str] = []

    def document(self) -> dict[str, Any]:
        """The members of the response, in their order."""
        prefix = "Request successful: " if self.success else "Request failed: "
        return {
            "success": self.success,
            "info": prefix + self.info,
            "result": self.result if self.success else [],
            "solutions": list(self.solutions),
        }


class GroupSolution:
    """What one group offers for a new instance.

    Attributes
    ----------
    placements:
        (score, node names) of the best placements, best first; empty if it cannot.
    nodes:
        The node indices of the same placements.
    shown_score:
        The score of the best as text, in the words of the ``info`` line.
    obstacle:
        Why the whole group is out, before any node was looked at; or "".
    notes:
        More for people, e.g. which node came closest.
    """

    __slots__ = (
        "alloc_policy",
        "failures",
        "group",
        "key",
        "nodes",
        "notes",
        "obstacle",
        "placements",
        "shown_score",
        "successes",
        "uuid",
    )

    def __init__(self, group: str, uuid: str, alloc_policy: str) -> None:
        self.group = group
        self.uuid = uuid
        self.alloc_policy = alloc_policy
        self.placements: list[tuple[float, list[str]]] = []
        self.nodes: list[tuple[int, ...]] = []
        self.key: Any = None
        self.shown_score = ""
        self.successes = 0
        self.failures: dict[str, int] = {}
        self.obstacle = ""
        self.notes = ""

    def line(self) -> str:
        """What the group offers in one clause, with its name."""
        if self.obstacle:
            return self.obstacle
        return f"Group {self.group} ({self.alloc_policy}): {self.clause()}"

    def clause(self) -> str:
        """What is offered, without the name of the group."""
        if not self.placements:
            reasons = f", failure reasons: {tally(self.failures)}" if self.failures else ""
            return f"No valid allocation solutions{reasons}"
        return (
            f"score: {self.shown_score}, successes {self.successes}, "
            f"failures {sum(self.failures.values())} ({tally(self.failures)}) "
            f"for node(s) {'/'.join(self.placements[0][1])}"
        )

    def document(self, top: int) -> dict[str, Any]:
        """The group as an entry of ``solutions``."""
        entry: dict[str, Any] = {
            "group": self.group,
            "group_uuid": self.uuid,
            "alloc_policy": self.alloc_policy,
        }
        if self.placements:
            score, nodes = self.placements[0]
            entry |= {"nodes": nodes, "score": round(score, 8)}
        else:
            entry |= {"nodes": [], "score": None, "reason": self.obstacle or self.line()}
        entry |= {"successes": self.successes, "failures": dict(sorted(self.failures.items()))}
        if self.notes:
            entry["notes"] = self.notes
        if top > 1:
            entry["placements"] = [
                {"nodes": nodes, "score": round(score, 8)} for score, nodes in self.placements
            ]
        return entry


def tally(failures: dict[str, int]) -> str:
    """``FailMem: 2, FailDisk: 1``."""
    known = [reason for reason in TALLY_ORDER if failures.get(reason)]
    return ", ".join(f"{reason}: {failures[reason]}" for reason in known)
