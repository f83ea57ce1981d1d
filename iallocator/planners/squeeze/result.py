"""What squeezing found: the nodes to switch, the plans, and the cluster once that is done."""

from __future__ import annotations

from iallocator.model.state import State
from iallocator.planners.plan import Plan, replay
from iallocator.planners.squeeze.power_state import Switched
from iallocator.tags.standby import AUTO, retag, standby_tags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.cluster import Cluster
    from iallocator.planners.balance.balance import GroupPlan
    from iallocator.planners.squeeze.node_selection import Search

__all__ = ["SqueezePlan", "SqueezeResult"]


class SqueezePlan(Plan):
    """The plan for one group; its score changes even without a move."""

    __slots__ = ("_after",)

    def __init__(self, before: float, search: Search, reason: str) -> None:
        super().__init__("squeeze", before)
        self.moves = list(search.moves)
        self.interrupted = search.interrupted
        self.reason = reason
        self._after = search.score

    @property
    def after(self) -> float:
        """The score once the nodes are switched and the moves are made."""
        return self._after


class SqueezeResult:
    """What is to be done.

    Attributes
    ----------
    action:
        ``offline``, ``online`` or ``none``.
    nodes:
        Indices of the nodes to power down or on, group by group in the order of choice.
    plans:
        One per group.
    kept:
        Node -> why it is not switched, of those that come into question.
    remarks:
        What a person should know.
    before:
        The state of the cluster as it is.
    """

    def __init__(self, cluster: Cluster, action: str) -> None:
        self.cluster = cluster
        self.before = State(cluster)
        self.action = action
        self.nodes: list[int] = []
        self.plans: list[GroupPlan] = []
        self.kept: dict[int, str] = {}
        self.remarks: list[str] = []

    @property
    def added(self) -> dict[int, list[str]]:
        """Tags to add, by node: freed ones that have no standby tag get one."""
        nodes = self.cluster.nodes
        freed = self.nodes if self.action == "offline" else []
        return {index: [AUTO] for index in freed if not standby_tags(nodes[index])}

    @property
    def removed(self) -> dict[int, list[str]]:
        """Tags to remove, by node: only the one that a planner adds."""
        nodes = self.cluster.nodes
        woken = self.nodes if self.action == "online" else []
        return {index: [AUTO] for index in woken if AUTO in standby_tags(nodes[index])}

    def switched(self) -> Switched:
        """A ``with`` block in which the nodes are switched."""
        if self.action == "offline":
            return Switched(self.cluster, off=self.nodes)
        return Switched(self.cluster, on=self.nodes)

    def settle(self) -> State:
        """Carry everything out on the cluster; return the state then."""
        added, removed = self.added, self.removed
        self.switched().__enter__()
        for index in self.nodes:
            node = self.cluster.nodes[index]
            retag(node, added.get(index, ()), removed.get(index, ()))
        state = State(self.cluster)
        for one in self.plans:
            replay(state, one.plan.moves)
        return state
