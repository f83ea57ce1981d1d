"""One row for each node of a group: its verdict, and what it lacks or how it stands."""

from __future__ import annotations

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.aliases import Json
    from iallocator.explain.facts import GroupReport, NodeReport, Placed, RoleReport, Unsurvived

__all__ = [
    "ANSWER", "NOT_ASKED", "POSSIBLE", "REJECTED", "VERDICTS", "NodeRow", "failure_words",
    "node_rows",
]  # fmt: skip

ANSWER, POSSIBLE, REJECTED, NOT_ASKED = "answer", "possible", "refused", "not asked"

VERDICTS = (ANSWER, POSSIBLE, REJECTED, NOT_ASKED)
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node: its name, its verdict, why, and its score if that is what counted, else None.

    ``penalty`` is what violated soft constraints add to the score.
    """

    name: str
    verdict: str
    why: list[str]
    score: float | None = None
    penalty: float = 0.0

    def document(self) -> Json:
        """The row as JSON."""
        found: Json = {"verdict": self.verdict, "why": self.why}
        if self.score is not None:
            found["score"] = round(self.score, 10)
        if self.penalty:
            found["penalty"] = self.penalty
        return found


def node_rows(group: GroupReport, answer: Placed | None, instance: str) -> list[NodeRow]:
    """A row for every node of `group` that was looked at; who could take `instance` first."""
    chosen = answer.nodes if answer is not None and answer in group.placements else []
    rows = [_row(group, node, chosen, instance) for node in group.nodes]
    place = {name: k for k, (name, _) in enumerate(group.ranking)}
    last = len(place)

    def standing(row: NodeRow) -> tuple[int, float, int]:
        score = (row.score if row.score is not None else 0.0) + row.penalty
        return VERDICTS.index(row.verdict), score, place.get(row.name, last)

    return sorted(rows, key=standing)


def _row(group: GroupReport, node: NodeReport, chosen: list[str], instance: str) -> NodeRow:
    if node.excluded:
        return NodeRow(node.name, NOT_ASKED, [", ".join(node.excluded)])
    rejected = [text for role in node.roles for text in _rejections(role)]
    if node.name in group.rejected_by_strategy:
        rejected.append(f"FailStrategy: {group.rejected_by_strategy[node.name]}")
    standing = group.standings.get(node.name)
    if standing is None or standing.lost:
        lost = [failure_words(one, instance) for one in group.unsurvived if node.name in one.nodes]
        if standing is not None and standing.lost:
            rejected += lost[:1] or ["FailN1: a failure could not be survived"]
        if rejected and (standing is not None or not node.possible):
            return NodeRow(node.name, REJECTED, rejected)
        verdict = POSSIBLE if node.possible else REJECTED
        return NodeRow(
            node.name, verdict, ["by its limits", *rejected] if node.possible else rejected
        )
    told = standing.told
    if len(standing.nodes) > 1:
        position = standing.nodes.index(node.name)
        other = standing.nodes[1 - position]
        told += f", as {'secondary of' if position else 'primary, with'} {other}"
    if node.name not in chosen:
        return NodeRow(node.name, POSSIBLE, [told, *rejected], standing.score, standing.penalty)
    if len(chosen) > 1:
        told = ("as primary", "as secondary")[chosen.index(node.name)]
    return NodeRow(node.name, ANSWER, [told], standing.score, standing.penalty)


def _rejections(role: RoleReport) -> Iterator[str]:
    words = "" if role.role == "only" else f" as {role.role}"
    for rejection in role.rejections:
        beside = f" of {rejection.beside}" if rejection.beside else ""
        where = f" {rejection.step}" if rejection.step else words + beside
        yield f"{rejection.reason}{where}: {rejection.text}"
    if role.lonely:
        other = "secondary" if role.role == "primary" else "primary"
        yield f"could be {role.role}, but no other node can be {other} beside it"


def failure_words(rejected: Unsurvived, instance: str) -> str:
    """The failure that a placement could not survive."""
    who = f"{rejected.instance} ({rejected.memory} MiB memory)"
    if rejected.instance == instance:
        who = "the instance itself"
    already = ""
    if rejected.already:
        already = "; so it is without the new instance, too (--n1 no-new would not count it)"
    where = f" on {'/'.join(rejected.nodes)}" if len(rejected.nodes) > 1 else ""
    return (
        f"FailN1{where}: if {rejected.failing} failed, {who} would have no place: "
        f"{rejected.why}{already}"
    )
