"""What must hold of a place, whatever its rank: the limits of nodes, bonds, global N+1."""

from __future__ import annotations

from iallocator.limits.group import refused_by_policy
from iallocator.limits.migration import may_not_receive
from iallocator.limits.node import PRIMARY, SECONDARY, checks_for
from iallocator.model.constraint import APART
from iallocator.n1.check import N1Check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.placement.context import Context
    from iallocator.planners.place.scheduler import ScheduleResult

__all__ = ["Gate", "Keeper"]


class Gate:
    """The limits of nodes for one instance, which is off the state; remembers what they refused."""

    def __init__(
        self, context: Context, place: ScheduleResult, relations: Relations | None
    ) -> None:
        cluster, instance = context.cluster, place.instance
        self._relations = relations
        self._present = place.before
        source = place.before[0] if place.before else None
        self._context = context
        self._instance = instance
        self._checker = context.kernels.checker(context.state)
        motions = context.motions(context.settings)
        motion = motions.new if source is None else motions.off(cluster.nodes[source])
        self._primary = checks_for(PRIMARY, instance, motion.primary)
        self._secondary = checks_for(SECONDARY, instance, motion.secondary)
        self._reach = cluster.reach(instance)
        self._bars: dict[int, str] = {}
        self.refused: dict[int, str] = {}
        if source is None:
            for group in cluster.groups:
                self._bars |= refused_by_policy(cluster, group, instance)
        elif place.runs:
            self._bars = may_not_receive(cluster, source, range(len(cluster.nodes)))
            self._bars.pop(source, None)

    def count(self, reason: str, index: int) -> None:
        """Remember that node `index` is out."""
        self.refused[index] = reason

    def as_primary(self, index: int) -> bool:
        """Whether node `index` can be the primary, or the only node."""
        reason = self._bars.get(index) or self._apart(index)
        if reason is None and self._reach is not None and index not in self._reach:
            reason = "it does not reach the storage pool"
        if reason is None and not ((index,) == self._present[:1] and self._nobody_new(index)):
            reason = self._checker.primary_refusal(self._instance, index, self._primary)
        if reason is not None:
            self.count(reason, index)
        return reason is None

    def _apart(self, index: int) -> str | None:
        """Which bond keeps the instance off node `index`: apart, or in another failure domain.

        What belongs together on one node is the matter of rule 8.
        """
        relations = self._relations
        if relations is None:
            return None
        for bond in relations.broken(self._instance.name, index, self._context.state.where):
            if bond.must and (bond.kind == APART or bond.domain):
                return f"must be {bond.told}"
        return None

    def as_secondary(self, primary: int, index: int) -> bool:
        """Whether node `index` can be the secondary beside `primary`."""
        if self._reach is not None and index not in self._reach:
            return False
        if (primary, index) == self._present and self._nobody_new(index):
            return True
        refusal = self._checker.secondary_refusal(self._instance, primary, index, self._secondary)
        return refusal is None

    def _nobody_new(self, index: int) -> bool:
        """Whether everybody on the node has been there all the time, in the same role.

        Then who is there now may stay, even if the node has too little for it.
        """
        state = self._context.state
        return all(i.nodes[:1] == (index,) for i in state.primaries[index].values()) and all(
            i.nodes[1:] == (index,) for i in state.secondaries[index].values()
        )


class Keeper:
    """Global N+1 for a cluster that is emptied and filled again.

    With ``no-new`` what counts as survivable before is how the cluster was at first.  In a
    group with less than two online nodes nothing could be survived, and nothing is asked.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._scope = context.all_nodes()
        self._survived: dict[int, bool] = {}
        self._rules = context.rules(context.settings.n1)
        if self._rules.mode == "no-new":
            nodes = [node.index for node in context.cluster.nodes if node.online]
            survivable = context.judge(self._scope, self._rules).survivable(nodes)
            self._survived = {index: index in survivable for index in nodes}

    def judge(self, nodes: Sequence[int]) -> N1Check | None:
        """The judge of placements on `nodes` as the state is now; None where there is none."""
        context = self._context
        cluster = context.cluster
        online = [index for index in nodes if cluster.nodes[index].online]
        groups = [cluster.nodes[index].group for index in online]
        if self._rules.mode == "off" or all(groups.count(group) < 2 for group in groups):
            return None
        return N1Check(
            context.state, context.kernels, self._rules, self._scope,
            survived=dict(self._survived),
        )  # fmt: skip
