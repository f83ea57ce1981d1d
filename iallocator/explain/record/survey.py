"""What every node of a group says to an instance, at the moment when it is asked."""

from __future__ import annotations

from iallocator.explain.record.limits import exclusions, node_reports
from iallocator.placement.nearest import closest, lost_by_n1, roles_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from iallocator.aliases import Nodes
    from iallocator.explain.facts import NodeReport
    from iallocator.explain.group_report import GroupReport
    from iallocator.model.instance import Instance
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.placement.context import Context
    from iallocator.placement.results import NodeQuery
    from iallocator.placement.trace import TracedEvaluator


__all__ = ["LEFT", "Survey"]

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
