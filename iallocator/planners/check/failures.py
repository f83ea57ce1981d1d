"""What would happen if a node failed: who fails over where, who is moved, who is created anew."""

from __future__ import annotations

from iallocator.n1.rules import Rules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from iallocator.model.cluster import Node
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.planners.check.findings import GroupHealth

    Share = tuple[int, int]
    """How many instances, and the MiB of memory that they need."""

__all__ = ["NodeFailure", "failures"]


class NodeFailure:
    """The failure of one node.

    Attributes
    ----------
    node:
        Its name.
    judged:
        Whether it was analysed. The failure of a node that is not online is not analysed, and
        with ``--n1 off`` none is.
    late:
        Whether it was not analysed because time was up.
    lost:
        Why it would not be survived; "" if it would be.
    failovers:
        Name of a secondary -> who fails over to it.
    moved, recreated:
        Who is started on some other node, from shared storage, and who is created anew.
    """

    __slots__ = ("failovers", "judged", "late", "lost", "moved", "node", "recreated")

    def __init__(self, node: str, judged: bool, lost: str, late: bool) -> None:
        self.node = node
        self.judged = judged and not late
        self.late = judged and late
        self.lost = lost
        self.failovers: dict[str, Share] = {}
        self.moved: Share = (0, 0)
        self.recreated: Share = (0, 0)

    @property
    def survived(self) -> bool:
        """Whether it was looked at, and nobody is lost."""
        return self.judged and not self.lost


def failures(state: State, health: Iterable[GroupHealth], mode: str) -> list[NodeFailure]:
    """A failure per node of each group, in their order.

    `health`: what `examine` found in `state` when N+1 was judged by `mode`.
    """
    rules = Rules(mode)
    nodes = state.cluster.nodes
    found = []
    for group in health:
        lost = {one.node: one.text for one in group.findings if one.kind == "global_n1"}
        late = frozenset(group.not_analysed)
        found += [_failure(state, nodes[k], rules, lost, late) for k in group.group.nodes]
    return found


def _failure(
    state: State, node: Node, rules: Rules, lost: Mapping[str, str], late: Collection[str]
) -> NodeFailure:
    judged = rules.mode != "off" and (rules.strict or node.online)
    found = NodeFailure(node.name, judged, lost.get(node.name, ""), node.name in late)
    for instance in state.primaries[node.index].values():
        if instance.forthcoming:
            continue
        if instance.template == "drbd":
            name = _secondary(state, instance)
            found.failovers[name] = _more(found.failovers.get(name, (0, 0)), instance)
        elif rules.recreates(instance):
            found.recreated = _more(found.recreated, instance)
        else:
            found.moved = _more(found.moved, instance)
    return found


def _secondary(state: State, instance: Instance) -> str:
    """The name of its secondary; "" if it has none."""
    nodes = state.where[instance.name]
    return state.cluster.nodes[nodes[1]].name if len(nodes) > 1 else ""


def _more(share: Share, instance: Instance) -> Share:
    return share[0] + 1, share[1] + (instance.memory if instance.uses_memory else 0)
