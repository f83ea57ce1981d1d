"""Who is where, and what each node has left: the part of the cluster that placements change.

`State` keeps one list per column of `iallocator.model.columns`.  Every change goes
through `place` and `remove`, costs a few rows, and can be undone exactly with
`trial`.
"""

from __future__ import annotations

from iallocator.model.columns import (
    COLUMNS,
    CONFLICTS,
    CPU_LOAD,
    CPUS,
    CPUS_LATER,
    DISK,
    DISK_LATER,
    FREE_SPINDLES,
    FREE_SPINDLES_LATER,
    MEMORY,
    MEMORY_LATER,
    MISPLACED,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.storage import PoolSpace, Storage

__all__ = ["State", "Trial"]

Row = tuple[float, ...]


class State:
    """The changing part of a cluster.

    Attributes
    ----------
    columns:
        One list over nodes per name in `COLUMNS`.
    reserved:
        Per node, MiB kept free for the failover of the worst peer: max over `peers`.
    peers:
        Per node, primary -> MiB of the instances that reserve memory here.
    where:
        Instance name -> the nodes it is on now, primary first.
    revisions:
        Per node, how often it has changed for good: trials do not count.
    version:
        Equal only where everything is as it was: each change makes a new one, the end
        of a trial restores that before it.
    stamps:
        The same per node: equal only where the node is as it was.
    primaries, secondaries:
        Per node, the instances it holds in that role, keyed by name.
    exclusion:
        Counters of the exclusion tags of primaries, per node.
    pools:
        What is free in storage pools; None where nothing is said of those.
    domains:
        (group, location, exclusion tag) -> primaries with that tag on online nodes there.
    """

    __slots__ = (
        "_changes",
        "_journal",
        "cluster",
        "columns",
        "domains",
        "exclusion",
        "peers",
        "pools",
        "primaries",
        "reserved",
        "revisions",
        "secondaries",
        "stamps",
        "version",
        "where",
    )

    def __init__(self, cluster: Cluster) -> None:
        count = len(cluster.nodes)
        self.cluster = cluster
        self.columns: list[list[float]] = [[0] * count for _ in COLUMNS]
        self.reserved: list[float] = [0] * count
        self.peers: list[dict[int, float]] = [{} for _ in range(count)]
        self.primaries: list[dict[str, Instance]] = [{} for _ in range(count)]
        self.secondaries: list[dict[str, Instance]] = [{} for _ in range(count)]
        self.exclusion: list[dict[str, int]] = [{} for _ in range(count)]
        self.domains: dict[tuple[int, str, str], int] = {}
        self.where: dict[str, tuple[int, ...]] = {}
        self.revisions = [0] * count
        self.stamps = [0] * count
        self.version = 0
        self._changes = 0
        self._journal: list[_SavedNode | _SavedPlace] | None = None
        self.pools: PoolSpace | None = None
        self._start()
        if cluster.storage is not None:
            self._start_pools(cluster.storage)

    def _start(self) -> None:
        """Count what is there; then let the nodes' own reports have their word.

        Free memory is the smaller of what the instances leave and what the node
        reports; free disk and spindles are as reported.  Where more memory may be allocated
        than there is, both are of that: what is really free holds so many times as much.
        """
        for instance in self.cluster.instances:
            if instance.nodes:
                self.place(instance, instance.nodes)
        columns = self.columns
        for index, node in enumerate(self.cluster.nodes):
            pending_disk = columns[DISK_LATER][index] - columns[DISK][index]
            pending_spindles = columns[FREE_SPINDLES_LATER][index] - columns[FREE_SPINDLES][index]
            advertised = node.total_memory * node.memory_ratio
            recorded = columns[MEMORY][index] + advertised - node.reserved_memory
            reported = node.reported_memory * node.memory_ratio
            columns[MEMORY][index] = min(recorded, reported)
            columns[MEMORY_LATER][index] = reported - sum(
                i.memory for i in self.primaries[index].values() if not i.uses_memory
            )
            columns[DISK][index] = node.reported_disk
            columns[DISK_LATER][index] = node.reported_disk + pending_disk
            columns[FREE_SPINDLES][index] = node.free_spindles
            columns[FREE_SPINDLES_LATER][index] = node.free_spindles + pending_spindles
            if node.exclusive_storage and self._spindles_unknown(index):
                columns[FREE_SPINDLES_LATER][index] = -1  # so that nothing more goes there
            columns[CPUS][index] += node.reserved_cpus
            columns[CPUS_LATER][index] += node.reserved_cpus
            columns[CPU_LOAD][index] += node.own_cpu_load

    def _start_pools(self, storage: Storage) -> None:
        """As the nodes report them, less what forthcoming instances will take."""
        from iallocator.model.storage import PoolSpace

        self.pools = PoolSpace(storage, len(self.cluster.nodes))
        for instance in self.cluster.instances:
            if instance.draws and instance.forthcoming:
                for index in instance.nodes:
                    self.pools.add(instance, index, 1)

    def _spindles_unknown(self, index: int) -> bool:
        """Whether a forthcoming instance of the node does not say its spindles."""
        return any(
            i.forthcoming and i.spindles is None and (i.local or i.spindles_anywhere)
            for i in self.instances_on(index)
        )

    def missing(self, index: int) -> tuple[float, float]:
        """Memory and disk (MiB) that are neither free nor accounted for on a node.

        Positive: the node reports less than its instances explain.  Meaningful on
        the state as read from the document only.
        """
        node = self.cluster.nodes[index]
        here = self.primaries[index].values()
        used = sum(i.memory for i in here if i.uses_memory)
        stored = sum(
            i.own_disk
            for role in (self.primaries, self.secondaries)
            for i in role[index].values()
            if i.local and not i.forthcoming
        )
        return (
            node.total_memory - node.reserved_memory - used - node.reported_memory,
            node.total_disk - stored - node.reported_disk,
        )

    def place(self, instance: Instance, nodes: tuple[int, ...]) -> None:
        """Put `instance` on `nodes`, primary first."""
        self._record(instance.name, nodes)
        self._add_primary(instance, nodes[0], nodes[1] if len(nodes) > 1 else None)
        if len(nodes) > 1:
            self._add_secondary(instance, nodes[1], nodes[0])

    def remove(self, instance: Instance, nodes: tuple[int, ...]) -> None:
        """Take `instance` off `nodes`, where it was placed before."""
        self._record(instance.name, None)
        if len(nodes) > 1:
            self._drop_secondary(instance, nodes[1], nodes[0])
        self._drop_primary(instance, nodes[0], nodes[1] if len(nodes) > 1 else None)

    def keep_disks(self, instance: Instance, nodes: tuple[int, ...], sign: int = 1) -> None:
        """Count the disks that `instance` has on `nodes`, and nothing else of it.

        For one that is stopped and has no place: its disks stay.  `sign` -1 undoes it.
        """
        self._changes += 1
        self.version = self._changes
        for index in nodes:
            self._touch(index)
            for column in (DISK, DISK_LATER, FREE_SPINDLES, FREE_SPINDLES_LATER):
                self.columns[column][index] += sign * instance.as_primary[column]
            if self.pools is not None:
                self.pools.add(instance, index, sign)

    def take_memory(self, index: int, amount: float) -> None:
        """Have `amount` MiB less free on a node, for whom else fails over there; in a trial."""
        self._changes += 1
        self.version = self._changes
        self._touch(index)
        self.columns[MEMORY][index] -= amount
        self.columns[MEMORY_LATER][index] -= amount

    def _add_primary(self, instance: Instance, index: int, secondary: int | None) -> None:
        """Make node `index` the primary; `secondary` only matters for location tags."""
        self._touch(index)
        self._apply(index, instance.as_primary, 1)
        if self.pools is not None:
            self.pools.add(instance, index, 1)
        if instance.exclusion or instance.desired or self.cluster.nodes[index].locations:
            self._count_tags(instance, index, secondary, 1)
        self.primaries[index][instance.name] = instance

    def _drop_primary(self, instance: Instance, index: int, secondary: int | None) -> None:
        """Undo `_add_primary`."""
        self._touch(index)
        self._apply(index, instance.as_primary, -1)
        if self.pools is not None:
            self.pools.add(instance, index, -1)
        if instance.exclusion or instance.desired or self.cluster.nodes[index].locations:
            self._count_tags(instance, index, secondary, -1)
        del self.primaries[index][instance.name]

    def _add_secondary(self, instance: Instance, index: int, primary: int) -> None:
        """Make node `index` the secondary of an instance whose primary is `primary`."""
        self._touch(index)
        self._apply(index, instance.as_secondary, 1)
        if self.pools is not None:
            self.pools.add(instance, index, 1)
        self.secondaries[index][instance.name] = instance
        if instance.reserves and instance.memory:
            peers = self.peers[index]
            peers[primary] = total = peers.get(primary, 0) + instance.memory
            self.reserved[index] = max(self.reserved[index], total)

    def _drop_secondary(self, instance: Instance, index: int, primary: int) -> None:
        """Undo `_add_secondary`."""
        self._touch(index)
        self._apply(index, instance.as_secondary, -1)
        if self.pools is not None:
            self.pools.add(instance, index, -1)
        del self.secondaries[index][instance.name]
        if instance.reserves and instance.memory:
            peers = self.peers[index]
            left = peers.get(primary, 0) - instance.memory
            if left:
                peers[primary] = left
            else:  # those without memory may have been alone there
                peers.pop(primary, None)
            self.reserved[index] = max(peers.values(), default=0)

    def _apply(self, index: int, vector: Row, sign: int) -> None:
        for column, amount in zip(self.columns, vector):
            if amount:
                column[index] += sign * amount

    def _count_tags(self, instance: Instance, index: int, secondary: int | None, sign: int) -> None:
        """Keep the tag counters; added amounts are those seen before, removed those seen after."""
        node = self.cluster.nodes[index]
        counts = self.exclusion[index]
        if sign > 0:
            amounts = self.tag_amounts(instance, index, secondary)
        for tag in instance.exclusion:
            counts[tag] = counts.get(tag, 0) + sign
            if node.online and not instance.forthcoming:
                for location in node.locations:
                    key = (node.group.index, location, tag)
                    self.domains[key] = self.domains.get(key, 0) + sign
        if sign < 0:
            amounts = self.tag_amounts(instance, index, secondary)
        for position, amount in zip((CONFLICTS, MISPLACED), amounts):
            self.columns[position][index] += sign * amount

    def tag_amounts(self, instance: Instance, index: int, secondary: int | None) -> tuple[int, int]:
        """What the tags of a primary add to the columns conflicts and misplaced.

        Computed for `instance` coming to node `index`; it must not be counted there yet.
        A forthcoming instance has its exclusion tags, but no location yet.
        """
        node = self.cluster.nodes[index]
        counts = self.exclusion[index]
        conflicts = sum(1 for tag in instance.exclusion if counts.get(tag, 0) > 0)
        if instance.forthcoming:
            return conflicts, 0
        misplaced = len(instance.desired - node.locations) if instance.desired else 0
        if secondary is not None and node.locations:
            misplaced += len(node.locations & self.cluster.nodes[secondary].locations)
        return conflicts, misplaced

    def domain_conflicts(self, group: int | None) -> int:
        """How many primaries share a location with another of the same exclusion tag.

        Counted in the group of that index, or over the whole cluster; the first of
        each location and tag does not count.
        """
        totals: dict[tuple[str, str], int] = {}
        for (where, location, tag), count in self.domains.items():
            if group is None or where == group:
                totals[location, tag] = totals.get((location, tag), 0) + count
        return sum(count - 1 for count in totals.values() if count > 1)

    def added_domain_conflicts(self, instance: Instance, index: int, group: int | None) -> int:
        """By how much `domain_conflicts` rises if `instance` comes to node `index`."""
        if instance.forthcoming or not self.cluster.nodes[index].online:
            return 0
        groups = range(len(self.cluster.groups)) if group is None else (group,)
        return sum(
            1
            for tag in instance.exclusion
            for location in self.cluster.nodes[index].locations
            if any(self.domains.get((where, location, tag), 0) > 0 for where in groups)
        )

    def row(self, index: int) -> Row:
        """The columns of one node, in the order of `COLUMNS`."""
        return tuple([column[index] for column in self.columns])

    def fails_n1(self, index: int) -> bool:
        """Whether the node could not take over the instances of its worst peer."""
        return self.columns[MEMORY][index] <= self.reserved[index]

    @property
    def trying(self) -> bool:
        """Whether there is a trial now."""
        return self._journal is not None

    def trial(self) -> Trial:
        """A ``with`` block at whose end everything done inside it is undone."""
        return Trial(self)

    def _record(self, name: str, nodes: tuple[int, ...] | None) -> None:
        self._changes += 1
        self.version = self._changes
        if self._journal is not None:
            self._journal.append(_SavedPlace(name, self.where.get(name)))
        if nodes is None:
            del self.where[name]
        else:
            self.where[name] = nodes

    def _touch(self, index: int) -> None:
        if self._journal is None:
            self.revisions[index] += 1
        else:
            self._journal.append(_SavedNode(self, index))
        self.stamps[index] = self._changes

    def instances_on(self, index: int) -> Iterator[Instance]:
        """Primaries of the node, then its secondaries."""
        yield from self.primaries[index].values()
        yield from self.secondaries[index].values()


class _SavedNode:
    """One node as it was before a change."""

    __slots__ = ("domains", "exclusion", "free", "index", "peers", "primaries", "reserved", "row",
                 "secondaries", "stamp")  # fmt: skip

    def __init__(self, state: State, index: int) -> None:
        self.index = index
        self.stamp = state.stamps[index]
        self.row = state.row(index)
        self.reserved = state.reserved[index]
        self.peers = dict(state.peers[index])
        self.primaries = dict(state.primaries[index])
        self.secondaries = dict(state.secondaries[index])
        self.exclusion = dict(state.exclusion[index])
        self.domains = dict(state.domains) if state.domains else {}
        self.free = dict(state.pools.free[index]) if state.pools is not None else None

    def restore(self, state: State) -> None:
        for column, value in zip(state.columns, self.row):
            column[self.index] = value
        state.stamps[self.index] = self.stamp
        state.reserved[self.index] = self.reserved
        state.peers[self.index] = self.peers
        state.primaries[self.index] = self.primaries
        state.secondaries[self.index] = self.secondaries
        state.exclusion[self.index] = self.exclusion
        state.domains = self.domains
        if state.pools is not None and self.free is not None:
            state.pools.free[self.index] = self.free


class _SavedPlace:
    """Where an instance was before a change; None if it was nowhere."""

    __slots__ = ("name", "nodes")

    def __init__(self, name: str, nodes: tuple[int, ...] | None) -> None:
        self.name = name
        self.nodes = nodes

    def restore(self, state: State) -> None:
        if self.nodes is None:
            del state.where[self.name]
        else:
            state.where[self.name] = self.nodes


class Trial:
    """Undoes, when the block ends, every change made to the state inside it."""

    __slots__ = ("_outer", "_state", "_version")

    def __init__(self, state: State) -> None:
        self._state = state
        self._outer: list[_SavedNode | _SavedPlace] | None = None
        self._version = 0

    def __enter__(self) -> State:
        self._version = self._state.version
        self._outer = self._state._journal
        self._state._journal = []
        return self._state

    def __exit__(self, *_: object) -> None:
        for saved in reversed(self._state._journal or ()):
            saved.restore(self._state)
        self._state._journal = self._outer
        self._state.version = self._version
