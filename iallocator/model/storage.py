"""Storage pools: where the disks of instances come from, and which nodes reach that.

A pool is a pair (storage type, name): ``internal`` pools are volume groups and
directories of single nodes, ``external`` ones are shared by all nodes that reach them
and are opaque.  The pool of an instance is its partition: it cannot leave it.

Loaded only where a document says something of pools; without, every node reaches all.
"""

from __future__ import annotations

from iallocator.model.templates import FILES, TEMPLATES, VOLUMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.instance import Instance, Pool

__all__ = [
    "EXTERNAL", "FILE", "INTERNAL", "LVM", "Access", "PoolSpace", "Storage",
    "pool_name", "pools_of", "presumed",
]  # fmt: skip

INTERNAL, EXTERNAL = "internal", "external"

LVM: Pool = (INTERNAL, "lvm")
"""The volume group that a node's free disk speaks of."""

FILE: Pool = (INTERNAL, "file")


def presumed(template: str) -> tuple[Pool, ...]:
    """The pool of instances of which nothing but their disk template is known."""
    kind = TEMPLATES[template]
    if not kind.has_disks:
        return ()
    return ({VOLUMES: LVM, FILES: FILE}.get(kind.storage, (EXTERNAL, template)),)


def pools_of(instance: Instance) -> tuple[Pool, ...]:
    """The pools that hold disks of `instance`: one, none if diskless, or several volume groups."""
    return presumed(instance.template) if instance.pools is None else instance.pools


def pool_name(pool: Pool) -> str:
    """``external/nas``."""
    return "/".join(pool)


class Access:
    """What a document says of the pools that one node reaches.

    Attributes
    ----------
    pools:
        Those it names.
    listed:
        Whether they are all there are; otherwise only of the types in `stated`.
    stated:
        Storage types of which all pools that instances name are named here.
    sizes:
        Pool -> (total, free) in MiB, None what is not known.
    """

    __slots__ = ("listed", "pools", "sizes", "stated")

    def __init__(
        self,
        pools: Iterable[Pool] = (),
        listed: bool = False,
        stated: Iterable[str] = (),
        sizes: dict[Pool, tuple[int | None, int | None]] | None = None,
    ) -> None:
        self.pools = frozenset(pools)
        self.listed = listed
        self.stated = frozenset(stated)
        self.sizes = sizes or {}

    @property
    def has_internal(self) -> bool:
        """Whether the node may have storage of its own."""
        return not self.listed or any(kind == INTERNAL for kind, _ in self.pools)

    @property
    def has_volumes(self) -> bool:
        """Whether it names a volume group."""
        return any(kind == INTERNAL and name != FILE[1] for kind, name in self.pools)


class Storage:
    """Which nodes reach which pools, and what of it is measured.

    Attributes
    ----------
    named:
        The pools that some node names.
    stated:
        The pools that some instance is said to use; those that are merely presumed from
        a disk template are not among them.
    volumes:
        Whether nodes name volume groups: only then do those of disks matter.
    reported:
        The pools that a node's free disk speaks of.
    measured:
        The other internal pools of which some node says what is free.
    by_group:
        Index of a group -> disk template -> the pool that its instances get there, where
        that is said.
    """

    __slots__ = ("_access", "_reach", "_single", "by_group", "measured", "named", "reported",
                 "stated", "volumes")  # fmt: skip

    def __init__(
        self,
        access: Sequence[Access | None],
        reported: Iterable[Pool] = (LVM,),
        by_group: Mapping[int, Mapping[str, Pool]] | None = None,
    ) -> None:
        self.by_group = by_group or {}
        self._access = [one or _SILENT for one in access]
        self.named = frozenset().union(*(one.pools for one in self._access))
        self.volumes = any(kind == INTERNAL for kind, _ in self.named - {LVM, FILE})
        self.stated: set[Pool] = set()
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
        """Note what an instance is said to use; whether that is news."""
        new = set(pools) - self.stated
        if new:
            self.stated |= new
            self._reach.clear()
            self._single.clear()
        return bool(new)

    def restrict(self, instance: Instance) -> None:
        """Find out whether `instance` may go to every node, once all pools are stated."""
        instance.restricted = bool(instance.draws) or self.nodes_for(instance) is not None

    def by_template(self, template: str) -> set[Pool | None]:
        """The pools that instances get in the groups; None where that is not said."""
        return {pools.get(template) for pools in self.by_group.values()}

    def reaches(self, index: int, pool: Pool) -> bool:
        """Whether node `index` reaches `pool`.

        It does if it names it.  If it lists its pools, it reaches no other.  A pool
        that an instance is said to use is not reached either by a node whose tags name
        others of that type.  Who says nothing of internal storage has ``lvm`` and
        ``file``; any other pool is reached as long as no node names it.
        """
        access = self._access[index]
        if pool in access.pools or (pool == LVM and access.has_volumes):
            return True
        if access.listed or (pool[0] in access.stated and pool in self.stated):
            return False
        return pool in (LVM, FILE) or pool not in self.named

    def nodes_of(self, pool: Pool) -> frozenset[int]:
        """The nodes that reach `pool`."""
        found = self._single.get(pool)
        if found is None:
            count = range(len(self._access))
            found = self._single[pool] = frozenset(i for i in count if self.reaches(i, pool))
        return found

    def nodes_for(self, instance: Instance) -> frozenset[int] | None:
        """The nodes that reach all pools of `instance`; None: every node does."""
        pools = pools_of(instance)
        if not pools:
            return None
        found = self._reach.get(pools)
        if found is None:
            found = self._reach[pools] = frozenset.intersection(*map(self.nodes_of, pools))
        return found if len(found) < len(self._access) else None

    def free(self, index: int) -> dict[Pool, float]:
        """MiB free in the measured pools of a node, as it reports them."""
        sizes = self._access[index].sizes
        return {
            pool: free
            for pool, (_, free) in sizes.items()
            if free is not None and pool in self.measured
        }

    def report(self, index: int, free: Mapping[Pool, float]) -> None:
        """Note how many MiB are `free` in measured pools of a node instead of what it reported."""
        sizes = self._access[index].sizes
        sizes.update({pool: (sizes[pool][0], int(left)) for pool, left in free.items()})


_SILENT = Access()


class PoolSpace:
    """What is free in the measured pools of each node: changes with the placements.

    `free` maps pools to MiB, one mapping per node; a pool that is missing is not limited.
    """

    __slots__ = ("free", "storage")

    def __init__(self, storage: Storage, nodes: int) -> None:
        self.storage = storage
        self.free: list[dict[Pool, float]] = [storage.free(index) for index in range(nodes)]

    def copy(self) -> PoolSpace:
        """The same, to be changed by itself."""
        twin = PoolSpace(self.storage, 0)
        twin.free = [dict(free) for free in self.free]
        return twin

    def add(self, instance: Instance, index: int, sign: int) -> None:
        """Take the room of `instance` on a node (`sign` 1), or give it back (-1)."""
        free = self.free[index]
        for pool, amount in instance.draws:
            if pool in free:
                free[pool] -= sign * amount

    def bars(self, index: int, instance: Instance, here: bool = False) -> bool:
        """Whether the node does not reach the pools of `instance`, or one of them is full.

        `here`: its disks are on the node already.
        """
        nodes = self.storage.nodes_for(instance)
        if nodes is not None and index not in nodes:
            return True
        if here or not instance.draws:
            return False
        free = self.free[index]
        return any(pool in free and free[pool] - amount <= 0 for pool, amount in instance.draws)

    def why(self, index: int, instance: Instance) -> str:
        """The reason for `bars`, with the numbers."""
        storage, free = self.storage, self.free[index]
        for pool in pools_of(instance):
            if index not in storage.nodes_of(pool):
                return f"does not reach storage pool {pool_name(pool)}"
        for pool, amount in instance.draws:
            if pool in free and free[pool] - amount <= 0:
                return (
                    f"needs {amount} MiB in storage pool {pool_name(pool)}, "
                    f"{free[pool]:.12g} free, and some must remain"
                )
        return ""
