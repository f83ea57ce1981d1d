"""Node groups, nodes and the cluster: the facts of a document that placements do not change."""

from __future__ import annotations

from iallocator.model.policy import Policy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.instance import Instance, Pool
    from iallocator.model.keys import PlacementKey
    from iallocator.model.storage import Storage

__all__ = ["Cluster", "Group", "Node"]


class Group:
    """A node group.

    ``alloc_policy`` is ``preferred``, ``last_resort`` or ``unallocable``;
    ``nodes`` are indices into `Cluster.nodes`; ``exclusive`` says whether some node
    of the group has exclusive storage.
    """

    __slots__ = (
        "alloc_policy",
        "exclusive",
        "index",
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
        self.tags = tags
        self.nodes: list[int] = []
        self.exclusive = False


class Node:
    """A node: its capacities and flags.

    Memory and disk in MiB.  ``online`` means not offline, not drained and
    vm_capable; other nodes take no instances.  ``reported_memory`` and
    ``reported_disk`` are what the node itself says is free.  ``load`` is how busy it
    is, from 0 to 1; 0 where the document does not say; ``own_cpu_load`` the dynamic
    utilisation of its cpus that is nobody's of its instances.  ``has_internal`` says whether it
    has storage of its own.  ``memory_ratio``, at least 1, is how much memory may be
    allocated for each MiB that it has: what strategies that know of overcommitment promise.
    """

    __slots__ = (
        "cpu_speed",
        "drained",
        "exclusive_storage",
        "free_spindles",
        "group",
        "has_internal",
        "high_spindles",
        "index",
        "load",
        "locations",
        "memory_ratio",
        "migration",
        "name",
        "offline",
        "online",
        "oob_program",
        "own_cpu_load",
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
        offline: bool = False,
        drained: bool = False,
        vm_capable: bool = True,
        total_memory: int = 0,
        reserved_memory: int = 0,
        reported_memory: int = 0,
        total_disk: int = 0,
        reported_disk: int = 0,
        total_cpus: int = 0,
        reserved_cpus: int = 0,
        total_spindles: int = 0,
        free_spindles: int = 0,
        spindle_count: int = 1,
        exclusive_storage: bool = False,
        cpu_speed: float = 1.0,
        tags: Sequence[str] = (),
        oob_program: str | None = None,
        load: float = 0,
    ) -> None:
        self.name = name
        self.group = group
        self.index = -1
        self.offline = offline
        self.drained = drained
        self.vm_capable = vm_capable
        self.online = vm_capable and not offline and not drained
        self.has_internal = True
        self.total_memory = total_memory
        self.memory_ratio: float = 1
        self.reserved_memory = reserved_memory
        self.reported_memory = reported_memory
        self.load = load
        self.own_cpu_load: float = 0
        self.total_disk = total_disk
        self.reported_disk = reported_disk
        self.total_cpus = total_cpus
        self.reserved_cpus = reserved_cpus
        self.total_spindles = total_spindles
        self.free_spindles = free_spindles
        self.spindle_count = spindle_count
        self.exclusive_storage = exclusive_storage
        self.cpu_speed = cpu_speed
        self.tags = tags
        self.oob_program = oob_program
        self.high_spindles = group.policy.spindle_ratio * spindle_count
        self.vcpu_ratio = group.policy.vcpu_ratio
        self.locations: frozenset[str] = frozenset()
        self.migration: frozenset[str] = frozenset()
        self.receives: frozenset[str] = frozenset()


class Cluster:
    """All groups, nodes and instances of a document.

    The lists stand in the order in which ties are broken: of placements with equal
    scores the one on the earlier node wins, and nodes give up their instances in
    the order of the list.  ``storage`` knows which nodes reach which storage pools; None
    if nothing is said of that, and every node reaches all.  ``assumed_offline`` has the names of
    the nodes of a running cluster that do not answer, and are not marked offline: they count
    as offline.
    """

    __slots__ = (
        "_members",
        "_tags_place",
        "assumed_offline",
        "groups",
        "instances",
        "name",
        "nodes",
        "placement_keys",
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
        self._members: dict[int, list[Instance]] | None = None
        self._tags_place: bool | None = None
        self.assumed_offline: Sequence[str] = ()
        for index, node in enumerate(nodes):
            node.index = index
            node.group.nodes.append(index)
            node.group.exclusive |= node.exclusive_storage

    def group_of(self, instance: Instance) -> Group:
        """The group of the instance's primary node."""
        return self.nodes[instance.nodes[0]].group

    def members(self, group: Group) -> Sequence[Instance]:
        """The instances of the document whose primary node is in `group`, in their order.

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
        """Whether some instance has exclusion tags or desired locations."""
        if self._tags_place is None:
            self._tags_place = any(one.exclusion or one.desired for one in self.instances)
        return self._tags_place

    def reach(self, instance: Instance) -> frozenset[int] | None:
        """The nodes that reach the storage pools of `instance`; None: every node does."""
        return None if self.storage is None else self.storage.nodes_for(instance)

    def reach_of_all(self, instances: Iterable[Instance]) -> frozenset[int] | None:
        """The nodes that reach the storage pools of each of `instances`; None: every node does."""
        reaches = [nodes for one in instances if (nodes := self.reach(one)) is not None]
        return frozenset.intersection(*reaches) if reaches else None

    def partitions(self) -> dict[Pool, list[Group]]:
        """Every pool that nodes name or instances use -> the groups with a node that reaches it.

        Pools by name, groups in their order.  Where nodes do not say what they have, the
        pool ``internal/lvm`` is among them.
        """
        from iallocator.model.storage import LVM, Storage, pools_of

        storage = self.storage or Storage([None] * len(self.nodes))
        pools = {pool for instance in self.instances for pool in pools_of(instance)}
        pools |= storage.named
        if any(node.has_internal for node in self.nodes):
            pools.add(LVM)
        found: dict[Pool, list[Group]] = {}
        for pool in sorted(pools):
            nodes = storage.nodes_of(pool)
            found[pool] = [group for group in self.groups if not nodes.isdisjoint(group.nodes)]
        return found

    def dedicated(self, group: Group, online: bool = True) -> bool:
        """Whether all nodes of `group`, or all `online` ones, have exclusive storage."""
        nodes = [self.nodes[index] for index in group.nodes]
        return all(node.exclusive_storage for node in nodes if node.online or not online)

    def instance_named(self, name: str) -> Instance | None:
        """The instance called `name`, or None."""
        return next((i for i in self.instances if i.name == name), None)

    def node_names(self, indices: Sequence[int]) -> list[str]:
        """Names of the nodes with these indices."""
        return [self.nodes[i].name for i in indices]
