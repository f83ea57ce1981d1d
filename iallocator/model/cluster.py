"""Groups, nodes and the cluster: the parts of a document that placements do not change."""

from __future__ import annotations

from math import ceil, floor

from iallocator.model.instance import primary_vector, secondary_vector
from iallocator.model.policy import Policy
from iallocator.tolerances import AMOUNT_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.instance import Instance, Pool
    from iallocator.model.keys import PlacementKey
    from iallocator.model.storage import Restriction, Storage

    Load = tuple[float, float, float, float]
    """Dynamic utilisation of cpu, memory, disk and network, without unit."""

__all__ = [
    "Cluster", "Group", "Node", "NodeCpus", "NodeDisk", "NodeMemory", "NodeSpindles", "NodeStatus",
    "set_cpu_loads", "set_loads",
]  # fmt: skip


class Group:
    """A node group.

    Attributes
    ----------
    alloc_policy:
        ``preferred``, ``last_resort`` or ``unallocable``.
    nodes:
        The indices of the group's nodes in `Cluster.nodes`.
    exclusive:
        True if some node of the group has exclusive storage.
    listed_networks:
        The uuids of the networks in the order of the source.
    """

    __slots__ = (
        "alloc_policy",
        "exclusive",
        "index",
        "listed_networks",
        "name",
        "networks",
        "nodes",
        "policy",
        "tags",
        "uuid",
    )

    def __init__(
        self,
        index: int,
        uuid: str,
        name: str,
        policy: Policy,
        alloc_policy: str = "preferred",
        networks: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> None:
        self.index = index
        self.uuid = uuid
        self.name = name
        self.policy = policy
        self.alloc_policy = alloc_policy
        self.networks = frozenset(networks)
        self.listed_networks = tuple(networks)
        self.tags = tags
        self.nodes: list[int] = []
        self.exclusive = False


class NodeMemory:
    """Memory of a node in MiB: the total, what the node itself uses, and its free memory."""

    __slots__ = ("free", "reserved", "total")

    def __init__(self, total: int = 0, reserved: int = 0, free: int = 0) -> None:
        self.total = total
        self.reserved = reserved
        self.free = free


class NodeDisk:
    """Disk space of a node in MiB: the total, and what the node reports as free."""

    __slots__ = ("free", "total")

    def __init__(self, total: int = 0, free: int = 0) -> None:
        self.total = total
        self.free = free


class NodeCpus:
    """Cpus of a node: the total, those that the node itself uses, and their relative speed."""

    __slots__ = ("reserved", "speed", "total")

    def __init__(self, total: int = 0, reserved: int = 0, speed: float = 1.0) -> None:
        self.total = total
        self.reserved = reserved
        self.speed = speed


class NodeSpindles:
    """Spindles of a node.

    `count` is the number that policies use. If `exclusive` is true, each spindle serves one
    instance only: the node has `total` spindles, and `free` of them are not in use.
    """

    __slots__ = ("count", "exclusive", "free", "total")

    def __init__(
        self, count: int = 1, total: int = 0, free: int = 0, exclusive: bool = False
    ) -> None:
        self.count = count
        self.total = total
        self.free = free
        self.exclusive = exclusive


class NodeStatus:
    """Flags of a node: whether it is marked offline, is drained, and can run instances."""

    __slots__ = ("drained", "offline", "vm_capable")

    def __init__(
        self, offline: bool = False, drained: bool = False, vm_capable: bool = True
    ) -> None:
        self.offline = offline
        self.drained = drained
        self.vm_capable = vm_capable


NOTHING_OF_MEMORY, NO_DISK, NO_CPUS = NodeMemory(), NodeDisk(), NodeCpus()
ONE_SPINDLE, IN_SERVICE = NodeSpindles(), NodeStatus()


class Node:
    """A node: its capacities and flags.

    Memory and disk space are in MiB.

    Attributes
    ----------
    online:
        True if the node is not offline, not drained and is vm_capable. Other nodes take no
        instances.
    reported_memory, reported_disk:
        The free MiB that the node itself reports.
    load:
        The utilisation of the node from 0 to 1; 0 if the document has no value.
    own_cpu_load:
        The part of the cpu utilisation that none of the node's instances causes.
    has_internal:
        True if the node has local storage.
    passes_at_equality:
        Whether the node passes N+1 until it changes, if its free memory equals its reserve. The
        state then has the next smaller number as its reserve. False except with ``--compat hail``,
        see `Behaviour.passes_n1_at_equality`.
    new_statistics:
        1 if statistics that htools does not have count in the score, else 0.
    memory_ratio:
        MiB of memory that may be allocated for each MiB that the node has, at least 1. Only
        strategies that support overcommitment use it.
    allocation_ratio:
        MiB of memory that may be allocated for each MiB that the node has for instances, at least
        1: the setting ``memory-ratio`` of its group.
    kept_share, kept_disk:
        The share of the disk, from 0 to 1, and the MiB of disk that must stay free: the setting
        ``disk-reserve`` of its group, or a tag of the node. One of them is 0.
    kept_by:
        The origin of the disk reserve, in words; "" if there is no reserve.
    """

    __slots__ = (
        "allocation_ratio",
        "cpu_speed",
        "drained",
        "exclusive_storage",
        "free_spindles",
        "group",
        "has_internal",
        "high_spindles",
        "index",
        "kept_by",
        "kept_disk",
        "kept_share",
        "load",
        "locations",
        "master_candidate",
        "memory_ratio",
        "migration",
        "name",
        "new_statistics",
        "offline",
        "online",
        "oob_program",
        "own_cpu_load",
        "passes_at_equality",
        "receives",
        "reported_disk",
        "reported_memory",
        "reserved_cpus",
        "reserved_memory",
        "spindle_count",
        "tags",
        "total_cpus",
        "total_disk",
        "total_memory",
        "total_spindles",
        "vcpu_ratio",
        "vm_capable",
    )

    def __init__(
        self,
        name: str,
        group: Group,
        *,
        memory: NodeMemory = NOTHING_OF_MEMORY,
        disk: NodeDisk = NO_DISK,
        cpus: NodeCpus = NO_CPUS,
        spindles: NodeSpindles = ONE_SPINDLE,
        status: NodeStatus = IN_SERVICE,
        tags: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.group = group
        self.index = -1
        self.offline = status.offline
        self.drained = status.drained
        self.vm_capable = status.vm_capable
        self.online = status.vm_capable and not (status.offline or status.drained)
        self.has_internal = True
        self.new_statistics = 1
        self.passes_at_equality = False
        self.total_memory = memory.total
        self.memory_ratio: float = 1
        self.allocation_ratio: float = 1
        self.reserved_memory = memory.reserved
        self.reported_memory = memory.free
        self.load: float = 0
        self.own_cpu_load: float = 0
        self.kept_share: float = 0
        self.kept_disk = 0
        self.kept_by = ""
        self.total_disk = disk.total
        self.reported_disk = disk.free
        self.total_cpus = cpus.total
        self.reserved_cpus = cpus.reserved
        self.total_spindles = spindles.total
        self.free_spindles = spindles.free
        self.spindle_count = spindles.count
        self.exclusive_storage = spindles.exclusive
        self.cpu_speed = cpus.speed
        self.tags = tags
        self.oob_program: str | None = None
        self.master_candidate = False
        self.high_spindles = group.policy.spindle_ratio * spindles.count
        self.vcpu_ratio = group.policy.vcpu_ratio
        self.locations: frozenset[str] = frozenset()
        self.migration: frozenset[str] = frozenset()
        self.receives: frozenset[str] = frozenset()

    @property
    def lent_memory(self) -> int:
        """Return the memory in MiB that may be allocated beyond what the node has for instances."""
        if self.allocation_ratio == 1:
            return 0
        own = max(0, self.total_memory - self.reserved_memory)
        return floor((self.allocation_ratio - 1) * own + AMOUNT_TOLERANCE)

    @property
    def disk_reserve(self) -> int:
        """Return the disk in MiB that must stay free on the node."""
        if not self.kept_by:
            return 0
        return self.kept_disk + ceil(self.kept_share * self.total_disk - AMOUNT_TOLERANCE)

    @property
    def allocatable_memory(self) -> float:
        """Return the memory in MiB that may be allocated, plus the memory that the node itself
        uses.
        """
        return self.total_memory * self.memory_ratio + self.lent_memory


class Cluster:
    """All groups, nodes and instances of a document.

    The order of the lists decides ties. Of two placements with equal scores, the one on the earlier
    node wins. Planners move the instances of a node in the order of the list.

    Attributes
    ----------
    storage:
        The access of nodes to storage pools. None if the document does not mention pools: then
        every node has access to all pools.
    restrictions:
        Name of an access constraint -> the nodes that it allows for each instance; `storage` is one
        of them. Constraints that concern no instance are left out.
    assumed_offline:
        Names of the nodes of a running cluster that do not answer and are not marked offline. They
        count as offline.
    """

    __slots__ = (
        "_common",
        "_members",
        "_tags_place",
        "assumed_offline",
        "groups",
        "instances",
        "name",
        "nodes",
        "placement_keys",
        "restrictions",
        "storage",
        "tags",
    )

    def __init__(
        self,
        name: str,
        tags: Sequence[str],
        groups: list[Group],
        nodes: list[Node],
        instances: list[Instance],
    ) -> None:
        self.name = name
        self.tags = tags
        self.groups = groups
        self.nodes = nodes
        self.instances = instances
        self.placement_keys: Sequence[PlacementKey] = ()
        self.storage: Storage | None = None
        self.restrictions: dict[str, Restriction] = {}
        self._common: dict[tuple[frozenset[int], frozenset[int]], frozenset[int]] = {}
        self._members: dict[int, list[Instance]] | None = None
        self._tags_place: bool | None = None
        self.assumed_offline: Sequence[str] = ()
        for index, node in enumerate(nodes):
            node.index = index
        self.regroup([node.group for node in nodes])

    def regroup(self, homes: Sequence[Group]) -> None:
        """Put each node into its group of `homes`, which has one group for each node."""
        for group in self.groups:
            group.nodes, group.exclusive = [], False
        for node, group in zip(self.nodes, homes, strict=True):
            node.group = group
            group.nodes.append(node.index)
            group.exclusive |= node.exclusive_storage
        self._members = None

    def group_of(self, instance: Instance) -> Group:
        """Return the group of the instance's primary node."""
        return self.nodes[instance.nodes[0]].group

    def members(self, group: Group) -> Sequence[Instance]:
        """Return the instances of the document that have their primary node in `group`, in order.

        Cost: one pass over all instances for the first group, nothing for each other group.
        """
        if self._members is None:
            self._members = {}
            for instance in self.instances:
                if instance.nodes:
                    self._members.setdefault(self.group_of(instance).index, []).append(instance)
        return self._members.get(group.index, ())

    @property
    def tags_place_instances(self) -> bool:
        """Return whether any instance has exclusion tags or desired locations."""
        if self._tags_place is None:
            self._tags_place = any(one.exclusion or one.desired for one in self.instances)
        return self._tags_place

    def reach(self, instance: Instance) -> frozenset[int] | None:
        """Return the nodes that all `restrictions` allow for `instance`; None means all nodes."""
        common = None
        for restriction in self.restrictions.values():
            nodes = restriction.nodes_for(instance)
            if nodes is not None and common is not None:
                key = common, nodes  # equal sets are compared, and computed, once
                if key not in self._common:
                    self._common[key] = common & nodes
                nodes = self._common[key]
            common = common if nodes is None else nodes
        return common

    def restrict(self, instance: Instance) -> None:
        """Set whether some node can reject `instance` by one of the `restrictions`."""
        instance.restricted = bool(instance.draws) or self.reach(instance) is not None

    def presume_pools(self, instance: Instance) -> None:
        """Set where a new `instance` can be, of which only the disk template is known."""
        if self.storage is not None and self.storage.presume_new(instance):
            for other in self.instances:
                self.restrict(other)
        self.restrict(instance)

    def access_words(self, instance: Instance, third: bool, brief: bool = False) -> str:
        """Return, in words, the access that a node must have to host `instance`.

        The words begin with a verb: ``have access to storage pool external/nas``. `third`: the verb
        is in the third person. `brief`: only names of pools.
        """
        return " and ".join(
            restriction.words(instance, third, brief)
            for restriction in self.restrictions.values()
            if restriction.nodes_for(instance) is not None
        )

    def reach_of_all(self, instances: Iterable[Instance]) -> frozenset[int] | None:
        """Return the nodes that are allowed for all `instances`; None means all nodes."""
        reaches = [nodes for one in instances if (nodes := self.reach(one)) is not None]
        return frozenset.intersection(*reaches) if reaches else None

    def groups_by_pool(self) -> dict[Pool, list[Group]]:
        """Return for each storage pool the node groups with a node that has access to the pool.

        The pools are those that nodes name or instances use, sorted by name. The groups keep the
        order of the cluster. If a node may have local storage, the pool ``internal/lvm`` is
        included.
        """
        from iallocator.model.storage import LVM, Storage, pools_of

        storage = self.storage or Storage([None] * len(self.nodes))
        pools = {pool for instance in self.instances for pool in pools_of(instance)}
        pools |= storage.named
        if any(node.has_internal for node in self.nodes):
            pools.add(LVM)
        by_pool: dict[Pool, list[Group]] = {}
        for pool in sorted(pools):
            nodes = storage.nodes_of(pool)
            by_pool[pool] = [group for group in self.groups if not nodes.isdisjoint(group.nodes)]
        return by_pool

    def dedicated(self, group: Group, online: bool = True) -> bool:
        """Return whether all nodes of `group`, or all `online` ones, have exclusive storage."""
        nodes = [self.nodes[index] for index in group.nodes]
        return all(node.exclusive_storage for node in nodes if node.online or not online)

    def instance_named(self, name: str) -> Instance | None:
        """Return the instance called `name`, or None."""
        return next((i for i in self.instances if i.name == name), None)

    def node_names(self, indices: Sequence[int]) -> list[str]:
        """Return the names of the nodes with the given `indices`, in their order."""
        return [self.nodes[i].name for i in indices]


def set_loads(cluster: Cluster, loads: Mapping[str, Load]) -> None:
    """Set the dynamic utilisation of the instances in `loads`; call it before a state is made.

    `loads`: name of an instance -> its utilisation.
    """
    for instance in cluster.instances:
        if instance.name in loads:
            _set(instance, loads[instance.name])


def set_cpu_loads(cluster: Cluster, loads: Mapping[str, float]) -> None:
    """Set the cpu part of the dynamic utilisation; `loads`: name of an instance -> cpu load."""
    for instance in cluster.instances:
        if instance.name in loads:
            _set(instance, (loads[instance.name], *instance.load[1:]))


def _set(instance: Instance, load: Load) -> None:
    instance.load = load
    instance.as_primary = primary_vector(instance)
    instance.as_secondary = secondary_vector(instance)
