"""What the limits say of every node of a group, in every role, with the numbers."""

from __future__ import annotations

from iallocator.filters.group import refused_by_policy
from iallocator.report.explanation import NodeReport, Refusal, RoleReport
from iallocator.report.policy import policy_breach
from iallocator.report.prospect import Prospect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.context import Context
    from iallocator.filters.node import Check
    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance

__all__ = ["counted", "exclusions", "survey"]


def exclusions(node: Node, allowed: Collection[str] | None) -> list[str]:
    """Why `node` is not considered at all; empty if it is."""
    found = []
    if node.offline:
        found.append("offline")
    if node.drained:
        found.append("drained")
    if not node.vm_capable:
        found.append("not vm_capable")
    if allowed is not None and node.name not in allowed:
        found.append("not in the list of nodes to which the request is restricted")
    return found


def survey(
    context: Context, group: Group, instance: Instance, allowed: Collection[str] | None
) -> list[NodeReport]:
    """A report on every node of `group`.

    Cost: the limits of each node once in each role, and once more for every node of
    which it holds secondaries.
    """
    nodes = context.cluster.nodes
    excluded = {index: exclusions(nodes[index], allowed) for index in group.nodes}
    candidates = [index for index in group.nodes if not excluded[index]]
    limits = _Limits(context, group, instance, candidates)
    return [
        NodeReport(
            nodes[index].name,
            excluded[index],
            [] if excluded[index] else limits.roles(index),
        )
        for index in group.nodes
    ]


def counted(reports: Sequence[NodeReport]) -> dict[str, int]:
    """Reason -> placements it refused: the tally of the response, before global N+1."""
    tally: dict[str, int] = {}
    for report in reports:
        for role in report.roles:
            for refusal in role.refusals:
                tally[refusal.reason] = tally.get(refusal.reason, 0) + refusal.placements
    return {reason: number for reason, number in tally.items() if number}


class _Limits:
    """The refusals of `candidates`, kept so that each is looked for once."""

    def __init__(
        self, context: Context, group: Group, instance: Instance, candidates: Sequence[int]
    ) -> None:
        self._context = context
        self._policy = group.policy
        self._instance = instance
        self._prospect = Prospect(context, instance)
        self._candidates = candidates
        refusals = refused_by_policy(context.cluster, group, instance)
        self._primary = {
            index: self._on_primary(index, refusals.get(index)) for index in candidates
        }
        self._takers = [index for index in candidates if self._primary[index] is None]
        self._secondary: dict[int, _Secondary] = {}
        if instance.required_nodes == 2:
            self._secondary = {index: self._on_secondary(index) for index in candidates}

    def roles(self, index: int) -> list[RoleReport]:
        """What the node says as primary and as secondary, or as the only node."""
        if self._instance.required_nodes == 1:
            return [self._primary_report(index, "only", 1, 1)]
        others = [s for s in self._candidates if s != index]
        possible = sum(1 for s in others if self._secondary[s].takes_from(index))
        return [
            self._primary_report(index, "primary", len(others), possible),
            self._secondary[index].report(self._context),
        ]

    def _primary_report(self, index: int, role: str, total: int, possible: int) -> RoleReport:
        refusal = self._primary[index]
        if refusal is None:
            return RoleReport(role, possible)
        return RoleReport(role, 0, [Refusal(*refusal, placements=total)])

    def _on_primary(self, index: int, by_policy: str | None) -> tuple[str, str] | None:
        """Reason and text of the first limit that the node breaks as the primary."""
        if by_policy is not None:
            exclusive = self._context.cluster.nodes[index].exclusive_storage
            return by_policy, policy_breach(self._policy, self._instance, exclusive)
        return _first(self._prospect.primary_failures(index))

    def _on_secondary(self, index: int) -> _Secondary:
        """The node as secondary of any node, and of those of which it has secondaries now."""
        takers = [p for p in self._takers if p != index]
        known = self._context.state.peers[index]
        beside = {
            primary: _first(self._prospect.secondary_failures(index, primary))
            for primary in takers
            if primary in known
        }
        usual = _first(self._prospect.secondary_failures(index, None))
        return _Secondary(usual, beside, len(takers))


class _Secondary:
    """A node as secondary: what it usually says, and what beside particular primaries.

    `takers` is how many other nodes could be the primary.
    """

    __slots__ = ("_beside", "_takers", "_usual")

    def __init__(
        self,
        usual: tuple[str, str] | None,
        beside: dict[int, tuple[str, str] | None],
        takers: int,
    ) -> None:
        self._usual = usual
        self._beside = beside
        self._takers = takers

    def takes_from(self, primary: int) -> bool:
        """Whether it could be the secondary of `primary`."""
        return self._beside.get(primary, self._usual) is None

    def report(self, context: Context) -> RoleReport:
        """The role, with one refusal for any primary and one for each that differs."""
        special = {p: told for p, told in self._beside.items() if told != self._usual}
        usual = self._takers - len(special)
        refusals = []
        if self._usual is not None and (usual or not self._takers):
            refusals.append(Refusal(*self._usual, placements=usual))
        possible = usual if self._usual is None else 0
        for primary, told in special.items():
            if told is None:
                possible += 1
            else:
                name = context.cluster.nodes[primary].name
                refusals.append(Refusal(*told, beside=name, placements=1))
        return RoleReport("secondary", possible, refusals)


def _first(failures: Sequence[tuple[Check, str]]) -> tuple[str, str] | None:
    return (failures[0][0].reason, failures[0][1]) if failures else None
