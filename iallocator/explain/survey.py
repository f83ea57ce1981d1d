"""Report the limits that reject an instance on each node of a group, in every role."""

from __future__ import annotations

from functools import cached_property

from iallocator.explain.facts import NodeReport, RoleRejection, RoleReport, Roles
from iallocator.placement.nearest import closest, lost_by_n1, roles_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.aliases import Nodes
    from iallocator.explain.facts import GroupReport
    from iallocator.limits.rejection import Rejection
    from iallocator.model.cluster import Node
    from iallocator.model.instance import Instance
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.placement.context import Context
    from iallocator.placement.results import NodeQuery
    from iallocator.placement.trace import TracedEvaluator
    from iallocator.placement.what_if import KnownNodes

__all__ = ["EVACUATED_NODE", "Survey", "counted", "exclusions"]

EVACUATED_NODE = "is to be evacuated"
RESTRICTED = "not in the list of nodes to which the request is restricted"

STAYS = {
    "moved": ("holds it now",),
    "pair": ("holds it now", "holds it now"),
    "secondary": ("is the primary, which stays", "is the secondary now"),
    "exchange": ("is the primary now, and becomes the secondary",),
}
"""Kind of a query -> why the present nodes of the instance are no targets, primary first."""


class Survey:
    """Reports the tests of the nodes of a group for an instance that is not placed.

    The kernel has recorded the limit that rejects each node (`NodeQuery.limit_results`). The
    numbers of a rejection are computed when they are read, from the nodes at the time of the query
    (`known`). Without `known`, `settle` must be called before the state changes.

    Parameters
    ----------
    left:
        The nodes that instances must leave.
    earlier:
        The last report of the group, used for nodes that are not tested again.
    """

    def __init__(
        self,
        context: Context,
        evaluator: TracedEvaluator,
        query: NodeQuery,
        known: KnownNodes | None,
        left: Collection[int],
        earlier: GroupReport | None,
    ) -> None:
        self._cluster = context.cluster
        self._group = evaluator.group
        self._kind = query.kind
        self._instance = query.instance
        self._left = left
        self._roles = roles = roles_of(context, evaluator, query, known)
        queried = {*roles.primaries, *(roles.secondaries or ()), *roles.out_as_secondaries}
        if self._kind == "secondary" and not context.settings.behaviour.tests_primary_again:
            queried.difference_update(roles.primaries)
        self._excluded = {
            index: self._exclusions(index) for index in self._group.nodes if index not in queried
        }
        self._before: dict[str, NodeReport] = {}
        if earlier is not None and any(why == [RESTRICTED] for why in self._excluded.values()):
            self._before = {node.name: node for node in earlier.nodes}

        # Which nodes are rejected: what the kernel found; it tests no secondary without a primary
        results = roles.results
        self._primaries = dict.fromkeys(roles.primaries)
        rejected = roles.rejections if results is None else results.primaries
        self._takers = {index: None for index in roles.primaries if index not in rejected}
        self._secondaries = dict.fromkeys(roles.secondaries or ())
        self._rejecting = None if results is None else results.secondaries
        self._beside: dict[int, list[int]] = {}  # secondary -> primaries with which it is rejected
        self._fewer: dict[int, int] = {}  # primary -> secondaries rejected only with it
        for primary, index in () if results is None else results.pairs:
            if primary in self._takers:
                self._beside.setdefault(index, []).append(primary)
                if index not in (self._rejecting or ()):
                    self._fewer[primary] = self._fewer.get(primary, 0) + 1
        self._plain: dict[tuple[str, int], RoleReport] = {}
        self._settled: dict[int, Roles] = {}

    def _exclusions(self, index: int) -> list[str]:
        """Return why a node of the group is not tested."""
        reasons = exclusions(self._cluster.nodes[index], None)
        if index in self._left and self._kind != "exchange":
            return [*reasons, EVACUATED_NODE]
        present = self._instance.nodes
        if self._kind != "new" and index in present:
            words = STAYS[self._kind]
            position = present.index(index)
            return [*reasons, words[min(position, len(words) - 1)]]
        if self._kind == "exchange":
            return [*reasons, "is not its secondary"]
        return reasons or [RESTRICTED]

    def reports(self) -> list[NodeReport]:
        """Return a report on every node of the group; its roles are computed when read."""
        reports = []
        nodes = self._group.nodes
        for index, name in zip(nodes, self._cluster.node_names(nodes)):
            why = self._excluded.get(index)
            if why is None:
                reports.append(NodeReport(name, survey=self, index=index))
            elif why == [RESTRICTED] and name in self._before:
                reports.append(self._before[name])
            else:
                reports.append(NodeReport(name, why))
        return reports

    def settle(self) -> None:
        """Compute the numbers of all rejections now, because the nodes are about to change."""
        for index in self._group.nodes:
            if index not in self._excluded:
                self._settled[index] = self.roles(index)

    @property
    def possible(self) -> int:
        """Return the number of placements that pass every limit, before global N+1 is checked."""
        takers = len(self._takers)
        if self._roles.secondaries is None:
            return takers
        if self._rejecting is None:
            return 0
        return sum(
            takers - (index in self._takers) - len(self._beside.get(index, ()))
            for index in self._secondaries
            if index not in self._rejecting
        )

    def closest(
        self,
        check: FailureTolerance | None = None,
        rejected: tuple[float, Nodes] | None = None,
        checked: Instance | None = None,
    ) -> str:
        """Return the candidate that is nearest to being accepted, in words.

        `rejected`: the best placement that only N+1 rejects; it is the nearest if it is given.
        `check`: the N+1 check. `checked`: the instance of the check, by default that of the query.
        """
        if rejected is not None and check is not None:
            return lost_by_n1(self._cluster, check, checked or self._instance, rejected[1]).text
        return closest(self._cluster, self._roles).text

    def roles(self, index: int) -> Roles:
        """Return the result of the limits of node `index` in each of its roles.

        Cost: one look-up for a node that no limit rejects.
        """
        if index in self._usual:
            return self._usual_roles
        return self._settled[index] if index in self._settled else self._tested(index)

    @cached_property
    def _usual(self) -> set[int]:
        """Return the nodes that accept the instance in each role with every other node."""
        usual = set(self._takers)
        if self._roles.secondaries is not None:
            usual.intersection_update(self._secondaries)
            usual.difference_update(self._rejecting or (), self._beside, self._fewer)
        return usual

    @cached_property
    def _usual_roles(self) -> Roles:
        return self._tested(next(iter(self._usual)))

    def _tested(self, index: int) -> Roles:
        alone = self._roles.secondaries is None
        own = index in self._secondaries
        takers = len(self._takers) - (index in self._takers)
        rejecting = self._rejecting is None or index in self._rejecting
        reports = []
        if index in self._takers:
            number = 1
            if not alone:
                number = self._accepting_secondaries - (own and not rejecting)
                number -= self._fewer.get(index, 0)
            reports.append(self._accepted("only" if alone else "primary", number))
        elif index in self._primaries:
            others = 1 if alone else len(self._secondaries) - own
            rejection = self._roles.why_not_primary(index)
            assert rejection is not None
            row = _rejection(rejection, "", others)
            reports.append(RoleReport("only" if alone else "primary", 0, [row]))
        if own and (rejecting or index in self._beside):
            reports.append(self._secondary_report(index, takers))
        elif own:
            reports.append(self._accepted("secondary", takers))
        elif index in self._roles.out_as_secondaries:
            beside = len(self._primaries) - (index in self._primaries)
            out = self._roles.out_as_secondaries[index]
            reports.append(
                RoleReport("secondary", 0, [RoleRejection(out.reason, out.text, "", beside)])
            )
        return Roles(reports)

    @cached_property
    def _accepting_secondaries(self) -> int:
        """Return how many nodes accept the instance as secondary with at least one primary."""
        assert self._rejecting is not None
        return sum(index not in self._rejecting for index in self._secondaries)

    def _accepted(self, role: str, placements: int) -> RoleReport:
        """Return the report of a node that accepts a role; nodes with equal reports share one."""
        key = role, placements
        if key not in self._plain:
            self._plain[key] = RoleReport(role, placements)
        return self._plain[key]

    def _secondary_report(self, index: int, takers: int) -> RoleReport:
        """Return the report of a node that cannot be the secondary of at least one primary.

        It has a rejection that is true for most primaries, and one for each primary with another
        reason. `takers`: how many other nodes could be the primary.
        """
        roles, primaries = self._roles, list(self._primaries)
        special: dict[str, Rejection] = {}
        if len(primaries) == 1:  # with the only primary
            usual = roles.why_not_secondary(index, primaries[0])
        else:
            usual = roles.why_not_secondary(index, None)
            for primary in self._beside.get(index, ()):
                rejection = roles.why_not_secondary(index, primary)
                assert rejection is not None
                same = usual is not None and str(rejection) == str(usual)
                if not same and primary != index:
                    special[self._cluster.nodes[primary].name] = rejection
        number = takers - len(special)
        rejections = []
        if usual is not None and (number or not takers):
            rejections.append(_rejection(usual, "", number))
        rejections += [_rejection(rejection, name, 1) for name, rejection in special.items()]
        return RoleReport("secondary", number if usual is None else 0, rejections)


def exclusions(node: Node, allowed: Collection[str] | None) -> list[str]:
    """Return the reasons why `node` is not considered at all; empty if it is considered."""
    reasons = []
    if node.offline:
        reasons.append("offline")
    if node.drained:
        reasons.append("drained")
    if not node.vm_capable:
        reasons.append("not vm_capable")
    if allowed is not None and node.name not in allowed:
        reasons.append(RESTRICTED)
    return reasons


def counted(reports: Sequence[NodeReport]) -> dict[str, int]:
    """Return reason -> the number of placements that it rejects, without global N+1."""
    tally: dict[str, int] = {}
    for report in reports:
        for role in report.roles:
            for rejection in role.rejections:
                tally[rejection.reason] = tally.get(rejection.reason, 0) + rejection.placements
    return {reason: number for reason, number in tally.items() if number}


def _rejection(rejection: Rejection, beside: str, placements: int) -> RoleRejection:
    """Convert a rejection by the engine to the rejection of a role in an explanation."""
    return RoleRejection(rejection.reason, rejection.text, beside, placements, rejection.step)
