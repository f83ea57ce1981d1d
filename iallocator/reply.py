"""Answers, before they are written."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["GroupSolution", "Reply", "tally", "warnings_beyond"]

TALLY_ORDER = (
    "FailMem", "FailDisk", "FailCPU", "FailN1", "FailTags", "FailMig", "FailDiskCount",
    "FailSpindles", "FailPolicy", "FailStrategy",
)  # fmt: skip


WARNING = "Warning: "
"""What remarks begin with that a person should know."""

WARNED = 3
"""Warnings, and lines of one, that ``info`` repeats; it stays one bearable line."""


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
    transition:
        Of moves: their steps and what each waits for, ready to be encoded; else None.
    remarks:
        Lines for stderr: nothing of the answer, but worth knowing.
    interrupted:
        Whether Ctrl-C ended a search for a better answer.
    """

    __slots__ = ("info", "interrupted", "remarks", "result", "solutions", "success", "transition")

    def __init__(
        self, success: bool, info: str, result: Any, solutions: Sequence[dict[str, Any]]
    ) -> None:
        self.success = success
        self.info = info
        self.result = result
        self.solutions = solutions
        self.transition: dict[str, Any] | None = None
        self.remarks: list[str] = []
        self.interrupted = False

    def document(self) -> dict[str, Any]:
        """The members of the response, in their order."""
        prefix = "Request successful: " if self.success else "Request failed: "
        document = {
            "success": self.success,
            "info": prefix + self.info,
            "result": self.result if self.success else [],
            "solutions": list(self.solutions),
        }
        if self.transition is not None:
            document["transition"] = self.transition
        return document


class GroupSolution:
    """What one group offers for a new instance.

    Attributes
    ----------
    penalties:
        Of each of the placements: what the soft constraints that it violates add to its score.
    placements:
        (score, node names) of the best placements, best first; empty if it cannot.
    nodes:
        The node indices of the same placements.
    shown_score:
        The score of the best as text, in the words of the ``info`` line.
    obstacle:
        Why the whole group is out, before any node was looked at; or "".
    secondaries:
        Of an instance on shared storage, the nodes that it could fail over to from its
        best place, best first; else None.
    rejected:
        The first placement that N+1 alone rejected; None: there is none.
    ranked_by:
        The name of the strategy that ranked the placements.
    exactly:
        The score of the best to its last digit, where that decides between groups; else None.
    order:
        Its order of them, if it has one that can be asked.
    extra:
        What it adds to the entry, for the best placement.
    top:
        How many placements were asked of the group; None: as many as of all.
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
        self.ranked_by = "score"
        self.order: Any = None
        self.extra: dict[str, Any] = {}
        self.top: int | None = None

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
        penalty = f"penalty: {self.penalties[0]:.12g}, " if any(self.penalties[:1]) else ""
        return (
            f"score: {self.shown_score}, {penalty}successes {self.successes}, "
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
            entry |= {"nodes": nodes, "score": round(score, 8), **_penalty(self.penalties[0])}
        else:
            entry |= {"nodes": [], "score": None, "reason": self.obstacle or self.line()}
        entry |= {"successes": self.successes, "failures": dict(sorted(self.failures.items()))}
        if self.secondaries is not None:
            entry["secondaries"] = self.secondaries
        entry |= self.extra
        if (top if self.top is None else self.top) > 1:
            entry["placements"] = [
                {"nodes": nodes, "score": round(score, 8), **_penalty(penalty)}
                for (score, nodes), penalty in zip(self.placements, self.penalties)
            ]
        return entry


def _penalty(penalty: float) -> dict[str, float]:
    return {"penalty": penalty} if penalty else {}


def tally(failures: dict[str, int]) -> str:
    """``FailMem: 2, FailDisk: 1``."""
    known = [reason for reason in TALLY_ORDER if failures.get(reason)]
    return ", ".join(f"{reason}: {failures[reason]}" for reason in known)


def warnings_beyond(info: str, remarks: Sequence[str]) -> list[str]:
    """The warnings among `remarks` that `info` does not say yet, as clauses for it.

    Ganeti shows nobody what a plugin says on stderr, as long as it answers.  Lines that
    begin with blanks belong to the warning before them.
    """
    warnings: list[tuple[str, list[str]]] = []
    for remark in remarks:
        if remark.startswith(WARNING):
            warnings.append((remark.removeprefix(WARNING), []))
        elif remark.startswith(" ") and warnings:
            warnings[-1][1].append(remark.strip(" -"))
    told = [f"{text} {_few(details)}" if details else text for text, details in warnings]
    new = [text for text in dict.fromkeys(told) if text not in info]
    more = [f"{len(new) - WARNED} more warnings"] if len(new) > WARNED else []
    return new[:WARNED] + more


def _few(details: Sequence[str]) -> str:
    more = f", and {len(details) - WARNED} more" if len(details) > WARNED else ""
    return ", ".join(details[:WARNED]) + more
