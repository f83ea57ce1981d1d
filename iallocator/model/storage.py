"""Storage pools: where the disks of instances are, and which nodes have access to them.

A pool is a pair (storage type, name). ``internal`` pools are volume groups and directories of
single nodes. ``external`` pools are shared by all nodes with access to them; their structure is
unknown. An instance cannot move to a node without access to its pool.

This module is loaded only if a document mentions pools. Otherwise every node has access to all.
"""

from __future__ import annotations

from iallocator.model.templates import FILES, TEMPLATES, VOLUMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Protocol

    from iallocator.model.instance import Instance, Pool

    class Restriction(Protocol):
        """The nodes that one access constraint allows for each instance.

        `iallocator.constraints.table` has the constraints.
        """

        def nodes_for(self, instance: Instance) -> frozenset[int] | None:
            """Return the nodes that the constraint allows for `instance`; None means all nodes."""

        def why(self, index: int, instance: Instance) -> str:
            """Return why the constraint does not allow node `index`; the words follow the node's
            name.
            """

        def words(self, instance: Instance, third: bool, brief: bool = False) -> str:
            """Return, in words, what a node must do or have for `instance`.

            `third`: the verb is in the third person. `brief`: only names.
            """


__all__ = [
    "EXTERNAL", "FILE_POOL", "INTERNAL", "LVM", "NodeAccess", "NodePools", "Storage",
    "pool_name", "pools_of", "presumed",
]  # fmt: skip

INTERNAL, EXTERNAL = "internal", "external"

LVM: Pool = (INTERNAL, "lvm")
"""The volume group of which nodes report the free space as free disk."""

FILE_POOL: Pool = (INTERNAL, "file")


def presumed(template: str) -> tuple[Pool, ...]:
    """Return the pools of an instance of this `template` if nothing else about them is known."""
    kind = TEMPLATES[template]
    if not kind.has_disks:
        return ()
    return ({VOLUMES: LVM, FILES: FILE_POOL}.get(kind.storage, (EXTERNAL, template)),)


def pools_of(instance: Instance) -> tuple[Pool, ...]:
    """Return the pools of the disks of `instance`: one pool, several volume groups, or none."""
    return presumed(instance.template) if instance.pools is None else instance.pools


def pool_name(pool: Pool) -> str:
    """Return the name of the pool as text, for example ``external/nas``."""
    return "/".join(pool)


class NodePools:
    """The pools of one node, as a document states them.

    Attributes
    ----------
    pools:
        The pools that the node names.
    listed:
        True if the node has access to no other pools. If false, the list is complete only for the
        types in `stated`.
    stated:
        The storage types of which all pools that instances name are in `pools`.
    sizes:
        Pool -> (total, free) in MiB; None for an unknown size.
    lists_volumes:
        True if `pools` has all volume groups of the node, even if other pools are missing.
    """

    __slots__ = ("listed", "lists_volumes", "pools", "sizes", "stated")

    def __init__(
        self,
        pools: Iterable[Pool] = (),
        listed: bool = False,
        stated: Iterable[str] = (),
        sizes: dict[Pool, tuple[int | None, int | None]] | None = None,
        lists_volumes: bool = False,
    ) -> None:
        self.pools = frozenset(pools)
        self.lists_volumes = lists_volumes
        self.listed = listed
        self.stated = frozenset(stated)
        self.sizes = sizes or {}

    @property
    def has_internal(self) -> bool:
        """Return whether the node may have local storage."""
        return not self.listed or any(kind == INTERNAL for kind, _ in self.pools)

    @property
    def has_volumes(self) -> bool:
        """Return whether the node names a volume group, but does not list all of them."""
        return not self.lists_volumes and any(
            kind == INTERNAL and name != FILE_POOL[1] for kind, name in self.pools
        )


class Storage:
    """The access of nodes to storage pools, and the pools with a measured size.

    Attributes
    ----------
    named:
        The pools that at least one node names.
    stated:
        The pools that the document names for some instance. Pools that follow from a disk template
        only are not among them.
    volumes:
        True if nodes name volume groups. Only then the volume groups of disks are checked.
    volume_groups:
        The volume groups that nodes list or disks are in, if some node lists its volume groups;
        else empty.
    reported:
        The pools of which nodes report the free space as free disk.
    measured:
        The other internal pools of which some node reports the free space.
    by_group:
        Index of a group -> disk template -> the pool of instances of this template in the group, if
        the document names it.
    """

    __slots__ = ("_access", "_listed", "_reach", "_single", "by_group", "measured", "named",
                 "reported", "stated", "volume_groups", "volumes")  # fmt: skip

    def __init__(
        self,
        access: Sequence[NodePools | None],
        reported: Iterable[Pool] = (LVM,),
        by_group: Mapping[int, Mapping[str, Pool]] | None = None,
        volume_groups: Iterable[Pool] = (),
    ) -> None:
        self.by_group = by_group or {}
        self.volume_groups = set(volume_groups)
        self._access = [one or _SILENT for one in access]
        self.named = frozenset().union(*(one.pools for one in self._access))
        self.volumes = bool(volume_groups) or any(
            kind == INTERNAL for kind, _ in self.named - {LVM, FILE_POOL}
        )
        self.stated: set[Pool] = set()
        self._listed = any(one.listed for one in self._access)
        self.reported = frozenset(reported)
        self.measured = frozenset(
            pool
            for one in self._access
            for pool, (_, free) in one.sizes.items()
            if free is not None and pool[0] == INTERNAL and pool not in self.reported
        )
        self._reach: dict[tuple[Pool, ...], frozenset[int]] = {}
        self._single: dict[Pool, frozenset[int]] = {}

    def state_pools(self, pools: Iterable[Pool]) -> bool:
        """Add the pools that the document names for an instance; return whether any pool is new."""
        new = set(pools) - self.stated
        if new:
            self.stated |= new
            self._reach.clear()
            self._single.clear()
        return bool(new)

    def by_template(self, template: str) -> set[Pool | None]:
        """Return the pools of `template` in all groups; None for a group that names no pool."""
        return {pools.get(template) for pools in self.by_group.values()}

    def presume(self, instance: Instance, usual: Pool | None, anywhere: bool) -> bool:
        """Set the pools of an instance if its disks and tags name none; return whether a pool is
        new.

        `usual`: the pool of its template, if disk parameters name one. `anywhere`: if they name
        none, whether the instance can be in any pool.
        """
        pools = () if anywhere else presumed(instance.template)
        pools = pools if usual is None else (usual,)
        draws = tuple((pool, instance.disk) for pool in pools if pool in self.measured)
        instance.keep_in(pools, draws, any(pool[0] == EXTERNAL for pool in pools))
        return usual is not None and self.state_pools(pools)

    def presume_new(self, instance: Instance) -> bool:
        """Set the pools of a new instance of which only the template is known; return whether a
        pool is new.

        An ext instance can be in any pool, because only its disks name the pool.
        """
        usual = self.by_template(instance.template)
        own = next(iter(usual)) if len(usual) == 1 else None
        kind = TEMPLATES[instance.template]
        by_disks = kind.disk_key and not kind.parameter_key
        return self.presume(instance, own, anywhere=len(usual) > 1 or bool(by_disks))

    def knows(self, pool: Pool) -> bool:
        """Return whether a node names this volume group, or lists all of its pools."""
        return pool in self.volume_groups or pool in self.named or self._listed

    def reaches(self, index: int, pool: Pool) -> bool:
        """Return whether node `index` has access to `pool`.

        The rules are, in this order:
        - A node has access to each pool that it names.
        - A node that lists its pools has access to no other pool.
        - A node that lists its volume groups has access to no other volume group.
        - A node with tags that name pools of a type has no access to other pools of that type that
          the document names for an instance.
        - A node that names no internal storage has ``lvm`` and ``file``.
        - All nodes have access to any other pool that no node names.
        """
        access = self._access[index]
        if pool in access.pools or (pool == LVM and access.has_volumes):
            return True
        if access.listed or (pool[0] in access.stated and pool in self.stated):
            return False
        if access.lists_volumes and pool in self.volume_groups:
            return False
        return pool in (LVM, FILE_POOL) or pool not in self.named

    def nodes_of(self, pool: Pool) -> frozenset[int]:
        """Return the nodes with access to `pool`."""
        nodes = self._single.get(pool)
        if nodes is None:
            count = range(len(self._access))
            nodes = self._single[pool] = frozenset(i for i in count if self.reaches(i, pool))
        return nodes

    def nodes_for(self, instance: Instance) -> frozenset[int] | None:
        """Return the nodes with access to all pools of `instance`; None means all nodes."""
        pools = pools_of(instance)
        if not pools:
            return None
        nodes = self._reach.get(pools)
        if nodes is None:
            nodes = self._reach[pools] = frozenset.intersection(*map(self.nodes_of, pools))
        return nodes if len(nodes) < len(self._access) else None

    def why(self, index: int, instance: Instance) -> str:
        """Return, in words, the pool of `instance` to which node `index` has no access."""
        pool = next(pool for pool in pools_of(instance) if index not in self.nodes_of(pool))
        return f"does not have access to storage pool {pool_name(pool)}"

    def words(self, instance: Instance, third: bool, brief: bool = False) -> str:
        """Return the words ``has access to storage pool a`` for the pools of `instance`.

        `third`: begin with ``has``, not with ``have``. `brief`: leave out ``storage pool``.
        """
        pools = pools_of(instance)
        noun = "" if brief else f"storage pool{'s' * (len(pools) > 1)} "
        return f"{'has' if third else 'have'} access to {noun}{' and '.join(map(pool_name, pools))}"

    def free(self, index: int) -> dict[Pool, float]:
        """Return the free MiB of the measured pools of a node, as the node reports them."""
        sizes = self._access[index].sizes
        return {
            pool: free
            for pool, (_, free) in sizes.items()
            if free is not None and pool in self.measured
        }

    def report(self, index: int, free: Mapping[Pool, float]) -> None:
        """Replace what a node reported as free in measured pools by `free`, in MiB."""
        sizes = self._access[index].sizes
        sizes.update({pool: (sizes[pool][0], int(left)) for pool, left in free.items()})


_SILENT = NodePools()


class NodeAccess:
    """The access of nodes for restricted instances, and the free space of their pools.

    Access is that of `Cluster.restrictions`. Placements change the free space of the measured
    pools: `free` has for each node pool -> MiB. A pool that is missing is not limited.
    """

    __slots__ = ("_restrictions", "_storage", "free")

    def __init__(
        self, restrictions: Mapping[str, Restriction], storage: Storage | None, nodes: int
    ) -> None:
        self._restrictions = restrictions
        self._storage = storage
        self.free: list[dict[Pool, float]] = [
            {} if storage is None else storage.free(index) for index in range(nodes)
        ]

    def copy(self) -> NodeAccess:
        """Return an independent copy."""
        twin = NodeAccess.__new__(NodeAccess)
        twin._restrictions = self._restrictions
        twin._storage = self._storage
        twin.free = [dict(free) for free in self.free]
        return twin

    def add(self, instance: Instance, index: int, sign: int) -> None:
        """Subtract the disk space of `instance` on a node (`sign` 1), or add it again (-1)."""
        free = self.free[index]
        for pool, amount in instance.draws:
            if pool in free:
                free[pool] -= sign * amount

    def nodes_for(self, instance: Instance, by: str) -> frozenset[int] | None:
        """Return the nodes that the constraint called `by` allows for `instance`; None means all
        nodes.
        """
        restriction = self._restrictions.get(by)
        return None if restriction is None else restriction.nodes_for(instance)

    def bars(self, index: int, instance: Instance, by: str) -> bool:
        """Return whether the constraint called `by` rejects `instance`, which is on no node now.

        Storage pools reject an instance also if one of them is full.
        """
        restriction = self._restrictions.get(by)
        nodes = None if restriction is None else restriction.nodes_for(instance)
        if nodes is not None and index not in nodes:
            return True
        if restriction is not self._storage or not instance.draws:
            return False
        free = self.free[index]
        return any(pool in free and free[pool] - amount <= 0 for pool, amount in instance.draws)

    def why(self, index: int, instance: Instance, by: str) -> str:
        """Return why the constraint `by` rejects `instance` on node `index`, with amounts."""
        nodes, free = self.nodes_for(instance, by), self.free[index]
        if nodes is not None and index not in nodes:
            return self._restrictions[by].why(index, instance)
        for pool, amount in instance.draws:
            if pool in free and free[pool] - amount <= 0:
                return (
                    f"needs {amount} MiB in storage pool {pool_name(pool)}, "
                    f"{free[pool]:.12g} free, and 1 MiB must remain"
                )
        return ""

    def obstacle(self, index: int, instance: Instance, here: bool) -> str:
        """Return why some access constraint rejects `instance` on node `index`; "" if none does.

        `here`: the disks are on the node already.
        """
        for by in self._restrictions:
            nodes = self.nodes_for(instance, by)
            allowed = nodes is None or index in nodes
            if not allowed or (not here and self.bars(index, instance, by)):
                return self.why(index, instance, by)
        return ""
