"""Make one row for each node of a group: its result, and what it lacks or how it is ranked."""

from __future__ import annotations

from iallocator.constraints.table import FAILURE_SAFETY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Json
    from iallocator.explain.facts import GroupReport, NodeReport, Placed, Unsurvived

__all__ = [
    "ANSWER", "NOT_ASKED", "POSSIBLE", "REJECTED", "RESULTS", "NodeRow", "failure_words",
    "node_rows", "sorted_rows",
]  # fmt: skip

ANSWER, POSSIBLE, REJECTED, NOT_ASKED = "answer", "possible", "refused", "not asked"

RESULTS = (ANSWER, POSSIBLE, REJECTED, NOT_ASKED)
"""The results of nodes, in the order in which they are shown."""


class NodeRow:
    """A node in a table: its result, and the score of its best placement.

    `score` is None where the score did not count; `penalty` is what violated soft constraints add.
    """

    __slots__ = (
        "_chosen", "_group", "_instance", "_standing", "node", "penalty", "result", "score",
    )  # fmt: skip

    def __init__(
        self, group: GroupReport, node: NodeReport, chosen: Sequence[str], instance: str
    ) -> None:
        self.node = node
        self._group = group
        self._chosen = chosen
        self._instance = instance
        self._standing = standing = group.standings.get(node.name)
        self.score: float | None = None
        self.penalty = 0.0
        if standing is not None and not (standing.lost or node.excluded):
            self.score, self.penalty = standing.score, standing.penalty
        if node.excluded:
            self.result = NOT_ASKED
        elif standing is None:
            self.result = POSSIBLE if node.possible else REJECTED
        elif standing.lost:
            self.result = REJECTED
        else:
            self.result = ANSWER if node.name in chosen else POSSIBLE

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.node.name

    @property
    def why(self) -> list[str]:
        """The reasons for the result, the most important one first; made when it is read."""
        group, node, standing = self._group, self.node, self._standing
        if node.excluded:
            return [", ".join(node.excluded)]
        if self.result == ANSWER and len(self._chosen) > 1:
            return [("as primary", "as secondary")[self._chosen.index(node.name)]]
        rejected = [text for role in node.roles for text in role.reasons]
        if node.name in group.rejected_by_strategy:
            rejected.append(f"FailStrategy: {group.rejected_by_strategy[node.name]}")
        if standing is None:
            return ["by its limits", *rejected] if node.possible else rejected
        if standing.lost:
            lost = (o for o in group.unsurvived if node.name in o.nodes)
            first = next((failure_words(one, self._instance) for one in lost), None)
            return [*rejected, first or f"{FAILURE_SAFETY.reason}: {FAILURE_SAFETY.about}"]
        told = standing.words(node.name)
        return [told] if self.result == ANSWER else [told, *rejected]

    def document(self) -> Json:
        """Return the row as JSON."""
        node = self.node
        found: Json = {
            "name": node.name,
            "excluded": node.excluded,
            "roles": [role.document for role in node.roles],
            "verdict": self.result,
            "why": self.why,
        }
        if self.score is not None:
            found["score"] = round(self.score, 10)
        if self.penalty:
            found["penalty"] = self.penalty
        return found


def node_rows(group: GroupReport, answer: Placed | None, instance: str) -> list[NodeRow]:
    """Return a row for each reported node of `group`, in the order of the group."""
    chosen = answer.nodes if answer is not None and answer in group.placements else []
    return [NodeRow(group, node, chosen, instance) for node in group.nodes]


def sorted_rows(group: GroupReport, answer: Placed | None, instance: str) -> list[NodeRow]:
    """Return the rows by result and rank: first the nodes that can host `instance`."""
    place = {name: k for k, (name, _) in enumerate(group.ranking)}
    last = len(place)

    def standing(row: NodeRow) -> tuple[int, float, int]:
        score = (row.score or 0.0) + row.penalty
        return RESULTS.index(row.result), score, place.get(row.name, last)

    return sorted(node_rows(group, answer, instance), key=standing)


def failure_words(rejected: Unsurvived, instance: str) -> str:
    """Return the failure for which N+1 rejects a placement, in words."""
    lost = f"{rejected.instance} ({rejected.memory} MiB memory)"
    if rejected.instance == instance:
        lost = "the instance itself"
    already = ""
    if rejected.already:
        already = "; so it is without the new instance, too (--n1 no-new would not count it)"
    where = f" on {'/'.join(rejected.nodes)}" if len(rejected.nodes) > 1 else ""
    return (
        f"FailN1{where}: if {rejected.failing} failed, {lost} could not be restarted: "
        f"{rejected.why}{already}"
    )
