"""What nodes have of each statistic, before and after an instance is placed, as quotients."""

from __future__ import annotations

from iallocator.model.node_view import NodeView, capacities
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import after_primary, after_secondary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Node
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    Values = tuple[float, ...]
    """A number per statistic, in their order."""

    Sums = tuple[int, float, float]
    """Of a statistic: how many values, their sum, and their variance where it asks for that."""

__all__ = ["Placed", "counting"]


def counting(k: int, node: Node) -> bool:
    """Whether statistic `k` runs over the node."""
    statistic = STATISTICS[k]
    if statistic.offline:
        return not node.online
    return node.online and (node.has_internal or not statistic.disk)


class Placed:
    """The values of nodes with and without `instance`, which is off `state`.

    Attributes
    ----------
    by_domain:
        Whether it matters which node it is on, besides what that has of each statistic.
    """

    def __init__(self, state: State, instance: Instance, group: int | None) -> None:
        self._state = state
        self._instance = instance
        self._group = group
        self._views: dict[int, NodeView] = {}
        self._after: dict[tuple[int, float, int], Values] = {}
        self.by_domain = bool(instance.exclusion)

    def node(self, index: int) -> Node:
        """The node at `index`."""
        return self._state.cluster.nodes[index]

    def before(self, index: int) -> Values:
        """The values of a node as it is."""
        return _values(self.node(index), self._view(index))

    def after(self, place: Nodes) -> dict[int, Values]:
        """The values of the nodes of `place`, primary first, with the instance on them."""
        primary = place[0]
        shared = self._shared(*place) if len(place) > 1 else 0
        found = {primary: self._as_primary(primary, shared)}
        for secondary in place[1:]:
            peers = self._state.peers[secondary].get(primary, 0)
            found[secondary] = self._as_secondary(secondary, peers)
        return found

    def domain_conflicts(self, place: Nodes) -> float:
        """How often instances of one exclusion tag share a domain, this one included."""
        state, group = self._state, self._group
        found = state.domain_conflicts(group)
        if self.by_domain:
            found += state.added_domain_conflicts(self._instance, place[0], group)
        return found

    def _view(self, index: int) -> NodeView:
        if index not in self._views:
            self._views[index] = NodeView.of(self._state, index, capacities(self.node(index)))
        return self._views[index]

    def _as_primary(self, index: int, shared: int) -> Values:
        key = index, -1, shared
        if key not in self._after:
            instance = self._instance
            view = after_primary(self._view(index), instance)
            if instance.exclusion or instance.desired:
                conflicts, misplaced = self._state.tag_amounts(instance, index, None)
                view.conflicts += conflicts
                view.misplaced += misplaced
            view.misplaced += shared
            self._after[key] = _values(self.node(index), view)
        return self._after[key]

    def _as_secondary(self, index: int, peers: float) -> Values:
        key = index, peers, 0
        if key not in self._after:
            view = after_secondary(self._view(index), self._instance, peers, max)
            self._after[key] = _values(self.node(index), view)
        return self._after[key]

    def _shared(self, primary: int, secondary: int) -> int:
        """How many location tags count because both nodes have them."""
        one, other = self.node(primary), self.node(secondary)
        if not one.online or self._instance.forthcoming:
            return 0
        return len(one.locations & other.locations)


def _values(node: Node, view: NodeView) -> Values:
    """What a node has of each statistic, in their order, divided and not multiplied."""
    instances = view.primaries + view.secondaries
    reserved = _share(view.reserved, node.total_memory)
    return (
        _share(view.memory, node.total_memory),
        _free_disk(node, view.disk, view.free_spindles),
        instances * view.fails_n1,
        reserved,
        instances,
        view.primaries,
        _share(view.cpus, node.total_cpus),
        view.cpu_load,
        view.memory_load,
        view.disk_load,
        view.net_load,
        view.conflicts,
        _spindles(node, view.spindles),
        _share(view.memory_later, node.total_memory),
        _free_disk(node, view.disk_later, view.free_spindles_later),
        _share(view.cpus_later, node.total_cpus),
        _spindles(node, view.spindles_later),
        view.misplaced,
        0.0,  # conflicts of domains are no node's
        reserved,
    )


def _share(amount: float, total: float) -> float:
    return amount / total if total else 0.0


def _free_disk(node: Node, disk: float, spindles: float) -> float:
    if node.exclusive_storage:
        disk, total = spindles, float(node.total_spindles)
    else:
        total = node.total_disk
    return disk / total if total else 1.0


def _spindles(node: Node, used: float) -> float:
    return 0.0 if node.exclusive_storage else _share(used, node.high_spindles)
