"""Read storage pools from the fields, tags and disks of a document.

The pool of an instance is the first pool that one of these sources names, in this order:

======================================  =============================================
``storage_type``, ``storage_pool``      of the instance; one may be missing
tags ``iallocator:pool:TYPE:NAME``      of the instance, that fit its disk template
``vg``, ``metavg`` of a disk            plain and drbd, if nodes name volume groups
``provider`` of a disk                  ext
``pool`` of a disk                      rbd
``diskparams``, rbd pool or volume      rbd and gluster: of its group, then of the cluster
its disk template                       ``internal/lvm``, ``internal/file``, ``external/rbd`` ...
======================================  =============================================

Nodes name pools in ``storage_pools``, which lists all pools that they have access to, in
``volume_groups``, which lists all of their volume groups, in tags (their own and those of their
group), and in the ``diskparams`` of their group.

This module is loaded only if a document has any of these members.
"""

from __future__ import annotations

from iallocator.constraints.table import STORAGE_POOLS
from iallocator.errors import RequestError
from iallocator.model.storage import (
    EXTERNAL,
    FILE_POOL,
    INTERNAL,
    LVM,
    NodePools,
    Storage,
    presumed,
)
from iallocator.model.templates import TEMPLATES
from iallocator.wire.fields import (
    POOL_TAG,
    child,
    describe,
    integer,
    name_of,
    objects,
    one_of,
    text,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.instance import Instance, Pool
    from iallocator.wire.fields import Raw

    Draws = tuple[tuple[Pool, int], ...]
    """Pools with the MiB that an instance takes in each."""

    Sizes = dict[Pool, tuple[int | None, int | None]]
    """Pool -> its total and free MiB; None for an unknown amount."""

__all__ = ["read_pools", "resolve_pools"]

TYPES = (INTERNAL, EXTERNAL)

VG_KEYS = ("vg", "metavg")
"""Members of a disk that name volume groups."""


def _listed(raw: Raw, key: str, known: Sizes | None = None) -> Sizes | None:
    """Return the pools and sizes that a node lists in `key`; None without that member.

    `key`: ``storage_pools``, or ``volume_groups`` with entries without a type. `known`: pools that
    must not be listed again.
    """
    if raw.get(key) is None:
        return None
    sizes: Sizes = {}
    for position, item in enumerate(objects(raw, key)):
        try:
            kind = one_of(item, "type", TYPES) if key == "storage_pools" else INTERNAL
            pool = kind, name_of(item, "name")
            if key == "volume_groups" and pool == FILE_POOL:
                raise RequestError("name", 'expected a volume group, got "file"')
            if pool in sizes or pool in (known or ()):
                raise RequestError(
                    "name", f"expected each pool once, got {describe(pool[1])} again"
                )
            sizes[pool] = _amount(item, "total"), _amount(item, "free")
        except RequestError as error:
            raise error.below(f"{key}/{position}") from None
    return sizes


def _amount(raw: Raw, key: str) -> int | None:
    return None if raw.get(key) is None else integer(raw, key)


def _tagged(tags: Iterable[str]) -> list[Pool]:
    """Return the storage pools, as (type, name), that the tags of a node or instance name."""
    pools: list[Pool] = []
    for tag in tags:
        if tag.startswith(POOL_TAG):
            kind, _, name = tag[len(POOL_TAG) :].partition(":")
            if kind in TYPES and name:
                pools.append((kind, name))
    return pools


def _parameter_pools(raw: Raw) -> dict[str, Pool]:
    """Return disk template -> the pool that the member ``diskparams`` of `raw` names for it."""
    if raw.get("diskparams") is None:
        return {}
    pools: dict[str, Pool] = {}
    parameters = child(raw, "diskparams")
    for template, kind in TEMPLATES.items():
        key = kind.parameter_key
        if not key:
            continue
        try:
            own = child(parameters, template, {})
        except RequestError as error:
            raise error.below("diskparams") from None
        try:
            name = text(own, key, None)
        except RequestError as error:
            raise error.below(f"diskparams/{template}") from None
        if name:
            pools[template] = EXTERNAL, name
    return pools


def read_pools(document: Raw, cluster: Cluster) -> None:
    """Read the pools in `document` into `cluster`; no state may exist yet.

    Raises
    ------
    RequestError
        At an invalid field, or one that contradicts the disk template.
    """
    raw_nodes, raw_instances = document["nodes"], document["instances"]
    # Group -> disk template -> the pool in `diskparams` of the group or the cluster
    everywhere = _parameter_pools(document)
    raw_groups = document.get("nodegroups") or {}
    by_group: dict[int, dict[str, Pool]] = {}
    for group in cluster.groups:
        try:
            by_group[group.index] = everywhere | _parameter_pools(raw_groups.get(group.uuid, {}))
        except RequestError as error:
            raise error.below(f"nodegroups/{group.uuid}") from None

    # The pools of each node: listed, tagged and in disk parameters
    access: list[NodePools | None] = []
    volume_groups: set[Pool] = set()
    for node in cluster.nodes:
        try:
            sizes = _listed(raw_nodes[node.name], "storage_pools")
            groups = _listed(raw_nodes[node.name], "volume_groups", sizes)
        except RequestError as error:
            raise error.below(f"nodes/{node.name}") from None
        tagged = _tagged((*node.tags, *node.group.tags))
        parameters = by_group[node.group.index].values()
        if sizes is None and groups is None and not tagged and not parameters:
            access.append(None)
            continue
        stated = {kind for kind, _ in tagged}
        all_sizes = (sizes or {}) | (groups or {})
        pools = (*all_sizes, *tagged, *parameters)
        access.append(NodePools(pools, sizes is not None, stated, all_sizes, groups is not None))
        if groups is not None:
            volume_groups |= {LVM, *groups}
    if volume_groups:
        volume_groups |= _groups_of_disks(raw_instances.values())
    reported = [LVM] if volume_groups else _reported(cluster.nodes, access)
    storage = Storage(access, reported, by_group, volume_groups)

    # Replace a node's disk sizes by the more precise sizes of the pool that they describe
    for node, one in zip(cluster.nodes, access):
        if one is None:
            continue
        node.has_internal = one.has_internal
        for pool in storage.reported & one.sizes.keys():
            total, free = one.sizes[pool]
            node.total_disk = node.total_disk if total is None else total
            node.reported_disk = node.reported_disk if free is None else free

    _set_pools(cluster, raw_instances, storage)
    if any(access):
        cluster.storage = cluster.restrictions[STORAGE_POOLS.name] = storage
        limited: dict[tuple[Pool, ...] | None, bool] = {}  # pools -> whether a node lacks one
        for instance in cluster.instances:
            if instance.pools not in limited:
                limited[instance.pools] = storage.nodes_for(instance) is not None
            instance.restricted = bool(instance.draws) or limited[instance.pools]


def _set_pools(cluster: Cluster, raw_instances: Raw, storage: Storage) -> None:
    """Set the pools of all instances of `cluster`."""
    # Instances with equal templates are in the same pools if they and their disks name the same.
    # They take the same space if the sizes of their disks are equal, too
    known: dict[tuple[object, ...], tuple[tuple[Pool, ...], Draws, bool]] = {}
    by_group, parameters = storage.by_group, any(storage.by_group.values())
    for instance in cluster.instances:
        raw, usual = raw_instances[instance.name], None
        if parameters:
            usual = by_group[cluster.group_of(instance).index].get(instance.template)
        key = sized = _named_by_disks(instance, raw, usual)
        if key:
            found = known.get(key)
            if found is None:
                sized = (*key, instance.disk, *instance.disk_sizes)
                found = known.get(sized)
            if found is not None:
                instance.keep_in(*found)
                continue
        try:
            _resolve(instance, raw, storage, usual)
        except RequestError as error:
            raise error.below(f"instances/{instance.name}") from None
        if key and instance.pools is not None:
            external = any(pool[0] == EXTERNAL for pool in instance.pools)
            known[sized if instance.draws else key] = instance.pools, instance.draws, external


def _groups_of_disks(instances: Iterable[Raw]) -> set[Pool]:
    """Return the volume groups that the disks of `instances` name."""
    names: set[str] = set()
    for raw in instances:
        for disk in raw.get("disks") or ():
            for key in VG_KEYS:
                if key in disk:
                    names.add(disk[key])
    return {(INTERNAL, name) for name in names if name}


def _named_by_disks(instance: Instance, raw: Raw, usual: Pool | None) -> tuple[object, ...]:
    """Return all that determines the pools of an instance; () if its fields or tags name a pool.

    `usual`: the pool of its disk template, if disk parameters name one.
    """
    if "storage_type" in raw or "storage_pool" in raw:
        return ()
    if instance.tags and _tagged(instance.tags):
        return ()
    key = TEMPLATES[instance.template].disk_key
    disks = raw.get("disks") or ()
    named: list[tuple[object, ...]]
    if key:
        named = [(disk.get("vg"), disk.get("metavg"), disk.get(key)) for disk in disks]
    else:
        named = [(disk.get("vg"), disk.get("metavg")) for disk in disks]
    return instance.template, usual, *named


def _reported(nodes: Sequence[Node], access: Sequence[NodePools | None]) -> list[Pool]:
    """Return the pools to which the free disk of nodes refers: ``lvm``, and one volume group.

    If nodes report one volume group, it is that one. If they report several, and ``lvm`` is not one
    of them, it is the group of which every node that reports it has the total and free size equal
    to those of its disk.
    """
    known = [(node, one) for node, one in zip(nodes, access) if one is not None]
    named = {pool for _, one in known for pool in one.pools}
    volumes = sorted(pool for pool in named if pool[0] == INTERNAL and pool not in (LVM, FILE_POOL))
    if LVM in named or not volumes:
        return [LVM]
    if len(volumes) == 1:
        return [LVM, volumes[0]]
    for pool in volumes:
        figures = [(node, one.sizes[pool]) for node, one in known if pool in one.sizes]
        if figures and all(
            sizes == (node.total_disk, node.reported_disk) for node, sizes in figures
        ):
            return [LVM, pool]
    return [LVM]


def resolve_pools(instance: Instance, raw: Raw, cluster: Cluster) -> None:
    """Set the pools of a new instance; for each node group, if groups have different pools."""
    storage = cluster.storage or Storage([None] * len(cluster.nodes))
    if storage.volume_groups:
        storage.volume_groups |= _groups_of_disks([raw])
    usual = storage.by_template(instance.template)
    own = next(iter(usual)) if len(usual) == 1 else None
    news = _resolve(instance, raw, storage, own, anywhere=len(usual) > 1)
    if cluster.storage is not None:
        cluster.restrict(instance)
        for other in cluster.instances if news else ():
            cluster.restrict(other)


def _resolve(
    instance: Instance,
    raw: Raw,
    storage: Storage,
    usual: Pool | None,
    anywhere: bool = False,
) -> bool:
    """Set the pools of an instance; return whether pools were added to `storage`.

    `usual`: the pool of its disk template, if disk parameters name one. `anywhere`: whether the
    disk parameters of groups name different pools.
    """
    disks = raw.get("disks") or []
    kind = TEMPLATES[instance.template]
    stated = _stated(instance, raw)
    groups: list[Pool] = []  # of the disks, and of their metadata
    if kind.local and storage.volumes and not any(pool[0] == EXTERNAL for pool in stated):
        groups = _volume_groups(instance, disks, storage, stated)
    if groups and (storage.volume_groups or not stated):
        # If nodes list volume groups, those of the disks are required beside the pools of tags
        stated = tuple(dict.fromkeys((*stated, *groups)))
    if not stated and kind.disk_key:
        names = [disk.get(kind.disk_key) for disk in disks]
        stated = tuple(dict.fromkeys((EXTERNAL, name) for name in names if name))
    if not stated:
        return storage.presume(instance, usual, anywhere)
    external = any(pool[0] == EXTERNAL for pool in stated)
    amounts: dict[Pool, int] = {}  # MiB that the disks take in each pool, on each node
    drawn = set(groups) if groups and storage.volume_groups else set(stated)
    if len(drawn) == 1 and not external:
        amounts[next(iter(drawn))] = instance.disk
    elif not external:
        beside = (instance.kind.metadata,) if instance.kind.metadata else ()
        sizes = [part for size in instance.disk_sizes for part in (size, *beside)]
        for pool, size in zip(groups, sizes):
            amounts[pool] = amounts.get(pool, 0) + size
    draws = tuple((pool, size) for pool, size in amounts.items() if pool in storage.measured)
    instance.keep_in(stated, draws, external)
    return storage.state_pools(stated)


def _stated(instance: Instance, raw: Raw) -> tuple[Pool, ...]:
    """Return the pools that fields or tags of the instance name; () if they name none."""
    if not instance.tags and "storage_type" not in raw and "storage_pool" not in raw:
        return ()
    template = instance.template
    usual = next((kind for kind, _ in presumed(template)), None)
    kind = one_of(raw, "storage_type", TYPES, "")
    pool = text(raw, "storage_pool", None)
    if pool == "":
        raise RequestError("storage_pool", "expected a name, got an empty string")
    if usual is None:  # diskless
        return ()
    if kind and kind != usual and not TEMPLATES[template].may_be_external:
        raise RequestError("storage_type", f'expected "{usual}" for {template}, got "{kind}"')
    if pool:
        named = (kind or usual, pool)
        return () if named == LVM else (named,)  # disks may name the volume group
    if kind and kind != usual:
        return ((kind, template),)
    if not instance.tags:
        return ()
    tagged = dict.fromkeys(_tagged(instance.tags))
    return tuple(one for one in tagged if one[0] == usual and one != LVM)


def _volume_groups(
    instance: Instance, disks: Sequence[Raw], storage: Storage, stated: Sequence[Pool]
) -> list[Pool]:
    """Return the storage pool of each disk; for drbd, also the pool of its metadata.

    `stated`: the pools that tags name. A volume group among them applies to disks that name none.
    If nodes name pools only in tags, a volume group that no tag names is part of ``lvm``, because
    Ganeti names the volume group of each new disk.
    """
    listed = storage.volume_groups
    usual = next((pool for pool in stated if pool in listed), LVM)
    pools: list[Pool] = []
    for disk in disks:
        group, meta = (
            (INTERNAL, name) if name and storage.knows((INTERNAL, name)) else None
            for name in (disk.get(key) for key in VG_KEYS)
        )
        pools.append(group or usual)
        if instance.needs_secondary:
            # Ganeti creates the metadata in its own volume group, if the disk names no other one
            pools.append(meta or (LVM if listed else pools[-1]))
    return pools
