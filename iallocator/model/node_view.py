"""A view of one node, or of many nodes at once, for the checks and statistics.

Every attribute of a `NodeView` is a number (one node) or an array (all candidates). The formulas of
`iallocator.scoring.metrics` and the checks of `iallocator.limits` are written once and work on
both.
"""

from __future__ import annotations

from _operator import attrgetter  # the part in C, which is in the interpreter
from math import inf

from iallocator.model.columns import COLUMNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol

    from iallocator.model.cluster import Node
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.model.storage import NodeAccess

    Quantity = Any
    """A number, or an array of them."""

    class Site(Protocol):
        """Checks whether access constraints allow an instance on the nodes of a view."""

        def bars(self, instance: Instance, by: str) -> Quantity:
            """Return whether the constraint `by` excludes `instance` from the nodes."""

        def why(self, instance: Instance, by: str) -> str:
            """Return the reason why the constraint `by` excludes `instance` from the node."""


__all__ = [
    "CAPACITIES", "Capacities", "NodeView", "OneSite", "after_primary", "after_secondary",
    "capacities", "reserved_after",
]  # fmt: skip

NEARLY_NO_CPUS = 1e-9
"""The cpus of a node without cpus, to avoid a division by 0: any virtual cpu exceeds them."""


def _inverse(value: float) -> float:
    return 1 / value if value else 0.0


def capacities(node: Node, min_disk: float = 0.0) -> tuple[float, ...]:
    """Return the `CAPACITIES` of `node`; `min_disk` is the share of disk to keep free (0 to 1).

    If the node also has a disk reserve, the larger amount stays free.
    """
    exclusive = node.exclusive_storage
    per_disk = 0.0 if exclusive else _inverse(node.total_disk)
    per_own_spindle = _inverse(node.total_spindles) if exclusive else 0.0
    return (
        1 if node.online else 0,
        _inverse(node.total_memory),
        per_disk,
        per_own_spindle,
        0 if per_disk or per_own_spindle else 1,
        _inverse(node.total_cpus),
        node.total_cpus or NEARLY_NO_CPUS,
        _inverse(node.cpu_speed),
        0.0 if exclusive else _inverse(node.high_spindles),
        node.vcpu_ratio,
        inf if exclusive else node.high_spindles,
        1 if exclusive else 0,
        max(min_disk * node.total_disk, node.disk_reserve),
        1 if node.online and node.has_internal else 0,
        node.new_statistics,
        node.lent_memory,
    )


class Capacities(dict[int, tuple[float, ...]]):
    """Maps the index of each node of a cluster to its `CAPACITIES`.

    The capacities of the nodes in `scope` are computed at once, those of other nodes when they are
    first read. So the cost of checking one group does not depend on the number of other groups.
    Without `scope` all nodes are computed at once.
    """

    def __init__(
        self, nodes: Sequence[Node], min_disk: float = 0.0, scope: Iterable[int] | None = None
    ) -> None:
        self._nodes = nodes
        self._min_disk = min_disk
        scope = range(len(nodes)) if scope is None else scope
        super().__init__({index: capacities(nodes[index], min_disk) for index in scope})

    def __missing__(self, index: int) -> tuple[float, ...]:
        values = self[index] = capacities(self._nodes[index], self._min_disk)
        return values

    def all(self) -> list[tuple[float, ...]]:
        """Return the capacities of every node, in the order of the nodes."""
        return [self[index] for index in range(len(self._nodes))]


class OneSite:
    """Checks whether access constraints allow an instance on one node."""

    __slots__ = ("_access", "_index")

    def __init__(self, access: NodeAccess, index: int) -> None:
        self._access = access
        self._index = index

    def bars(self, instance: Instance, by: str) -> bool:
        """Return whether the constraint `by` excludes `instance` from this node."""
        return self._access.bars(self._index, instance, by)

    def why(self, instance: Instance, by: str) -> str:
        """Return the reason why the constraint `by` excludes `instance`, with amounts."""
        return self._access.why(self._index, instance, by)


class NodeView:
    """The columns, capacities and reserved memory of one or many nodes.

    ``at`` checks access to the nodes; None if every node is open to all instances.
    """

    # Columns: what placements change, see `iallocator.model.columns`
    memory: Quantity
    disk: Quantity
    free_spindles: Quantity
    spindles: Quantity
    cpus: Quantity
    primaries: Quantity
    secondaries: Quantity
    cpu_load: Quantity
    memory_load: Quantity
    disk_load: Quantity
    net_load: Quantity
    memory_later: Quantity
    disk_later: Quantity
    free_spindles_later: Quantity
    spindles_later: Quantity
    cpus_later: Quantity
    conflicts: Quantity
    misplaced: Quantity
    # Capacities: what placements do not change, in the form that formulas use; the order is
    # that of `capacities` and of `__init__`
    online: Quantity  # 1 or 0
    per_memory: Quantity  # 1 / total memory; 0 where there is none
    per_disk: Quantity  # 1 / total disk; 0 without disk and with exclusive storage
    per_own_spindle: Quantity  # 1 / total spindles with exclusive storage, else 0
    no_disk: Quantity  # 1 where there is nothing to divide by
    per_cpu: Quantity  # 1 / total cpus; 0 where there are none
    total_cpus: Quantity  # a tiny number where there are none, so that any virtual cpu is too many
    per_speed: Quantity  # 1 / cpu speed
    per_spindle: Quantity  # 1 / highest number of shared spindles; 0 with exclusive storage
    vcpu_ratio: Quantity  # policy: highest number of virtual cpus per cpu
    high_spindles: Quantity  # policy: most shared spindles; infinite with exclusive storage
    exclusive: Quantity  # 1 with exclusive storage
    disk_reserve: Quantity  # MiB of disk that must stay free
    stored: Quantity  # 1 if it is online and may have storage of its own, else 0
    new_statistics: Quantity  # 1; 0 with --compat hail
    lent_memory: Quantity  # MiB that may be allocated beyond what the node has for instances
    # Values that are not sums over instances
    reserved: Quantity  # MiB of memory kept free for the failover of the worst peer
    domain_conflicts: Quantity  # relative to the current state; only for candidates

    __slots__ = (*__annotations__, "at")

    def __init__(
        self,
        columns: Sequence[Quantity],
        fixed: Sequence[Quantity],
        reserved: Quantity,
        at: Site | None = None,
    ) -> None:
        (
            self.memory, self.disk, self.free_spindles, self.spindles, self.cpus,
            self.primaries, self.secondaries, self.cpu_load, self.memory_load,
            self.disk_load, self.net_load, self.memory_later, self.disk_later,
            self.free_spindles_later, self.spindles_later, self.cpus_later,
            self.conflicts, self.misplaced,
        ) = columns  # fmt: skip
        (
            self.online, self.per_memory, self.per_disk, self.per_own_spindle, self.no_disk,
            self.per_cpu, self.total_cpus, self.per_speed, self.per_spindle,
            self.vcpu_ratio, self.high_spindles, self.exclusive, self.disk_reserve,
            self.stored, self.new_statistics, self.lent_memory,
        ) = fixed  # fmt: skip
        self.reserved = reserved
        self.at = at
        self.domain_conflicts = 0  # known only for candidates, relative to the current state

    @classmethod
    def of(
        cls, state: State, index: int, fixed: Sequence[float], at: Site | None = None
    ) -> NodeView:
        """Return the view of node `index` in the current `state`; `fixed` are its `CAPACITIES`."""
        return cls(state.row(index), fixed, state.reserved[index], at)

    def columns(self) -> tuple[Quantity, ...]:
        """Return the quantities that placements change, in the order of `COLUMNS`."""
        return _columns_of(self)

    def fixed(self) -> tuple[Quantity, ...]:
        """Return the capacities, in the order of `CAPACITIES`."""
        return _capacities_of(self)

    def plus(self, vector: Sequence[float], reserved: Quantity) -> NodeView:
        """Return a view of these nodes with `vector` added and `reserved` MiB reserved."""
        return NodeView(
            [
                quantity + amount if amount else quantity
                for quantity, amount in zip(self.columns(), vector)
            ],
            self.fixed(),
            reserved,
            self.at,
        )

    def hide_spindles(self, now: bool) -> None:
        """Set the free spindles of nodes with exclusive storage to -1, for unknown spindles.

        If `now` is false, only the count with forthcoming instances is set. hail does it for an
        instance that does not state its spindles.
        """
        self.free_spindles_later = _hidden(self.free_spindles_later, self.exclusive)
        if now:
            self.free_spindles = _hidden(self.free_spindles, self.exclusive)

    @property
    def fails_n1(self) -> Quantity:
        """Return whether the free memory is too small for the failover of the worst peer."""
        return self.memory <= self.reserved


CAPACITIES = tuple(NodeView.__annotations__)[len(COLUMNS) : -2]
"""The names of the capacities of a node, in the order of `capacities`."""

_columns_of = attrgetter(*COLUMNS)
_capacities_of = attrgetter(*CAPACITIES)


def _hidden(spindles: Quantity, exclusive: Quantity) -> Quantity:
    """Return -1 where storage is exclusive, else `spindles`."""
    return spindles - (spindles + 1) * exclusive


def after_primary(view: NodeView, instance: Instance) -> NodeView:
    """Return `view` with `instance` on each node as its primary, without the effect of tags."""
    reserved = reserved_after(view.reserved, instance)
    return _with_unstated_spindles(view.plus(instance.as_primary, reserved), instance)


def after_secondary(
    view: NodeView, instance: Instance, peers: Quantity, maximum: Callable[..., Quantity]
) -> NodeView:
    """Return `view` with `instance` on each node as its secondary.

    `peers` is the memory in MiB that the node already reserves for the primary of the instance.
    """
    reserved = reserved_after(view.reserved, instance)
    if instance.reserves:
        reserved = maximum(reserved, peers + instance.memory)
    return _with_unstated_spindles(view.plus(instance.as_secondary, reserved), instance)


def reserved_after(reserved: Quantity, instance: Instance) -> Quantity:
    """Return `reserved` after `instance` has come or left, see `Node.passes_at_equality`.

    A forthcoming instance does not change a node.
    """
    return reserved if instance.forthcoming else -(-reserved // 1)


def _with_unstated_spindles(after: NodeView, instance: Instance) -> NodeView:
    """Return `after` without spindles if `instance` does not state how many it uses."""
    if instance.hides_spindles:
        after.hide_spindles(not instance.forthcoming)
    return after
