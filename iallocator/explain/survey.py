"""The limits of every node of a group, in every role, when an instance is placed."""

from __future__ import annotations

from dataclasses import replace

from iallocator.explain.facts import NodeReport, RoleRejection, RoleReport
from iallocator.placement.nearest import closest, first_of, lost_by_n1, roles_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.explain.facts import GroupReport
    from iallocator.limits.rejection import Rejection
    from iallocator.model.cluster import Group, Node
    from iallocator.model.instance import Instance
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.placement.context import Context
    from iallocator.placement.nearest import RolesTested
    from iallocator.placement.results import NodeQuery
    from iallocator.placement.trace import TracedEvaluator

__all__ = [
    "LEFT",
    "Survey",
    "counted",
    "exclusions",
    "node_reports",
    "possible",
]

LEFT = "is to be evacuated"
RESTRICTED = "not in the list of nodes to which the request is restricted"

STAYS = {
    "moved": ("holds it now",),
    "pair": ("holds it now", "holds it now"),
    "mirror": ("is the primary, which stays", "holds the mirror now"),
    "exchange": ("is the primary now, and becomes the secondary",),
}
"""Kind -> why the nodes that an instance is on are no targets, primary first."""


class Survey:
    """The nodes of a group that are asked to take an instance, which is off the state."""

    def __init__(self, context: Context, evaluator: TracedEvaluator, query: NodeQuery) -> None:
        self._context = context
        self._group = evaluator.group
        self._kind = query.kind
        self._instance = query.instance
        self._seats = roles_of(context, evaluator, query)

    def reports(self, left: Collection[int], earlier: GroupReport | None) -> list[NodeReport]:
        """A report on every node of the group.

        `left`: nodes that instances are taken off.  `earlier` is what was said the last
        time, which stands for nodes that are not asked again.
        """
        seats = self._seats
        asked = {*seats.primaries, *(seats.secondaries or ()), *seats.out_as_mirrors}
        if self._kind == "mirror" and not self._context.settings.behaviour.tests_primary_again:
            asked -= set(self._seats.primaries)
        before = {node.name: node for node in earlier.nodes} if earlier else {}
        excluded = {
            index: [] if index in asked else self._excluded(index, left)
            for index in self._group.nodes
        }
        found = node_reports(self._context, self._group, self._seats, excluded)
        return [
            before[node.name] if node.excluded == [RESTRICTED] and node.name in before else node
            for node in found
        ]

    def closest(
        self,
        check: FailureTolerance | None = None,
        rejected: tuple[float, Nodes] | None = None,
        judged: Instance | None = None,
    ) -> str:
        """What came closest; `rejected` is the best placement that N+1 alone rejected."""
        cluster = self._context.cluster
        if rejected is not None and check is not None:
            return lost_by_n1(cluster, check, judged or self._instance, rejected[1]).text
        return closest(cluster, self._seats).text

    def _excluded(self, index: int, left: Collection[int]) -> list[str]:
        """Why a node of the group is not asked."""
        found = exclusions(self._context.cluster.nodes[index], None)
        if index in left and self._kind != "exchange":
            return [*found, LEFT]
        present = self._instance.nodes
        if self._kind != "new" and index in present:
            words = STAYS[self._kind]
            position = present.index(index)
            return [*found, words[min(position, len(words) - 1)]]
        if self._kind == "exchange":
            return [*found, "does not hold its mirror"]
        return found or [RESTRICTED]


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


def node_reports(
    context: Context, group: Group, seats: RolesTested, excluded: Mapping[int, list[str]]
) -> list[NodeReport]:
    """A report on every node of `group`; `excluded` says why it is not considered.

    Cost: the limits of each node once in each role, and once more for every node of
    which it holds secondaries.  Memory: proportional to the nodes and these pairs.
    """
    limits = _Limits(context, seats)
    names = context.cluster.node_names(group.nodes)
    reports = []
    for index, name in zip(group.nodes, names):
        why = excluded[index]
        reports.append(NodeReport(name, why, [] if why else limits.roles(index)))
    return reports


def counted(reports: Sequence[NodeReport]) -> dict[str, int]:
    """Reason -> placements it rejected: the tally of the response, before global N+1."""
    tally: dict[str, int] = {}
    for report in reports:
        for role in report.roles:
            for rejection in role.rejections:
                tally[rejection.reason] = tally.get(rejection.reason, 0) + rejection.placements
    return {reason: number for reason, number in tally.items() if number}


def possible(reports: Sequence[NodeReport]) -> int:
    """How many placements pass every limit, before global N+1."""
    roles = [role for report in reports for role in report.roles]
    return sum(role.placements for role in roles if role.role != "primary")


class _Limits:
    """The rejections in all `seats`, kept so that each is looked for once."""

    def __init__(self, context: Context, seats: RolesTested) -> None:
        self._context = context
        self._seats = seats
        self._primary = {index: _rejection(seats.first(index)) for index in seats.primaries}
        takers = [index for index in seats.primaries if self._primary[index] is None]
        self._takers = {index: position for position, index in enumerate(takers)}
        self._secondary = {index: self._on_secondary(index) for index in seats.secondaries or ()}
        self._usually = sum(node.usual is None for node in self._secondary.values())
        self._differ: dict[int, int] = {}  # primary -> how many more nodes are possible beside it
        for node in self._secondary.values():
            for primary, told in node.beside.items():
                more = (told is None) - (node.usual is None)
                self._differ[primary] = self._differ.get(primary, 0) + more

    def roles(self, index: int) -> list[RoleReport]:
        """What the node says in each of its seats."""
        found = []
        if index in self._primary:
            if self._seats.secondaries is None:
                found.append(self._primary_report(index, "only", 1, 1))
            else:
                own = self._secondary.get(index)
                possible = self._usually + self._differ.get(index, 0)
                possible -= own is not None and own.usual is None
                others = len(self._secondary) - (own is not None)
                found.append(self._primary_report(index, "primary", others, possible))
        if index in self._secondary:
            found.append(self._secondary[index].report(self._context))
        elif index in self._seats.out_as_mirrors:
            beside = len(self._seats.primaries) - (index in self._primary)
            out = self._seats.out_as_mirrors[index]
            found.append(
                RoleReport("secondary", 0, [RoleRejection(out.reason, out.text, "", beside)])
            )
        return found

    def _primary_report(self, index: int, role: str, total: int, possible: int) -> RoleReport:
        rejection = self._primary[index]
        if rejection is None:
            return RoleReport(role, possible)
        return RoleReport(role, 0, [replace(rejection, placements=total)])

    def _on_secondary(self, index: int) -> _Secondary:
        """The node as secondary of any node, and of those of which it has secondaries now."""
        prospect, primaries = self._seats.prospect, self._seats.primaries
        takers = len(self._takers) - (index in self._takers)
        if len(primaries) == 1:  # beside that one, then
            failures = prospect.secondary_failures(index, primaries[0])
            return _Secondary(_rejection(first_of(failures)), {}, takers)
        known = self._context.state.peers[index]
        special = [primary for primary in known if primary in self._takers and primary != index]
        special.sort(key=self._takers.__getitem__)
        usual = _rejection(first_of(prospect.secondary_failures(index, None)))
        # Primaries differ only in how much memory the node reserves, and more rejects more
        memory, reserved = prospect.instance.memory, self._context.state.reserved[index]
        if not prospect.instance.reserves:
            return _Secondary(usual, dict.fromkeys(special, usual), takers)
        amounts = {primary: max(reserved, known[primary] + memory) for primary in special}
        told = {max(reserved, memory): usual}
        if usual is None and special:
            most = max(special, key=amounts.__getitem__)
            if first_of(prospect.secondary_failures(index, most)) is None:
                return _Secondary(usual, dict.fromkeys(special), takers)
        for primary, amount in amounts.items():
            if amount not in told:
                failures = prospect.secondary_failures(index, primary)
                told[amount] = _rejection(first_of(failures))
        return _Secondary(usual, {p: told[amounts[p]] for p in special}, takers)


class _Secondary:
    """A node as secondary: what it usually says, and what beside particular primaries.

    `takers`: how many other nodes could be the primary.
    """

    __slots__ = ("_takers", "beside", "usual")

    def __init__(
        self,
        usual: RoleRejection | None,
        beside: dict[int, RoleRejection | None],
        takers: int,
    ) -> None:
        self.usual = usual
        self.beside = beside
        self._takers = takers

    def report(self, context: Context) -> RoleReport:
        """The role, with one rejection for any primary and one for each that differs."""
        special = {p: told for p, told in self.beside.items() if told != self.usual}
        usual = self._takers - len(special)
        rejections = []
        if self.usual is not None and (usual or not self._takers):
            rejections.append(replace(self.usual, placements=usual))
        possible = usual if self.usual is None else 0
        for primary, told in special.items():
            if told is None:
                possible += 1
            else:
                name = context.cluster.nodes[primary].name
                rejections.append(replace(told, beside=name, placements=1))
        return RoleReport("secondary", possible, rejections)


def _rejection(found: Rejection | None) -> RoleRejection | None:
    """What was found, as a fact."""
    return RoleRejection(found.reason, found.text, step=found.step) if found else None
