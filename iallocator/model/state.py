"""The placement of all instances, and the free capacity of each node.

Every change goes through `place` and `remove`, updates a few rows, and can be undone exactly with
`trial`. `iallocator.model.holdings` defines the amounts that are counted.
"""

from __future__ import annotations

from math import ceil, inf, nextafter

from iallocator.model.columns import (
    CPU_LOAD,
    CPUS,
    CPUS_LATER,
    DISK,
    DISK_LATER,
    FREE_SPINDLES,
    FREE_SPINDLES_LATER,
    MEMORY,
    MEMORY_LATER,
)
from iallocator.model.holdings import Holdings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.instance import Instance

    K = TypeVar("K")
    V = TypeVar("V")
    Kept = dict[K, tuple[object, V]]
    """Key -> the value of a counter, and what was computed then; see `derived`."""

__all__ = ["LAST_ORDER", "State", "Trial", "derived"]

MISSING_MEMORY, MISSING_DISK = 512, 1024
"""The MiB of memory, and of disk, that a node may lack before its data count as inconsistent."""

LAST_ORDER = inf
"""The order of an instance that is after all others."""


def derived(kept: Kept[K, V], key: K, counter: object, compute: Callable[[], V]) -> V:
    """Return the cached value of `key`, computed again if `counter` has changed since.

    Every cache of values that depend on a state uses this function. `counter` is the change counter
    of everything that `compute` reads: `State.version` (the state, in trials too), `State.stamps`
    of one or several nodes (those nodes, in trials too), or the version of a rule in its
    `RuleCounts`. Cost: a look-up. For values of a whole state with keys of their own, keep a
    dictionary: ``derived(kept, None, state.version, dict)`` is empty again after each change.

    Parameters
    ----------
    kept:
        The cache.
    key:
        The key of the value.
    counter:
        The present change counter.
    compute:
        Returns the value.
    """
    entry = kept.get(key)
    if entry is None or entry[0] != counter:
        entry = kept[key] = counter, compute()
    return entry[1]


class State(Holdings):
    """The placement of all instances, and the amounts of each node.

    Attributes
    ----------
    where:
        Name of an instance -> its present nodes, primary first.
    version:
        The number of the state: equal numbers mean equal states. Each change makes a new number;
        the end of a trial restores the number before it.
    stamps:
        The number of the state of each node: equal numbers mean that the node is unchanged.
    """

    __slots__ = ("_changes", "_journal", "_noted", "_slack", "stamps", "version", "where")

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        count = len(cluster.nodes)
        self.where: dict[str, tuple[int, ...]] = {}
        self.stamps = [0] * count
        self.version = 0
        self._changes = 0
        self._journal: list[_SavedNode | _SavedPlace] | None = None
        self._noted: set[int] = set()  # nodes that the trial will restore
        self._slack = False  # whether a node passes N+1 by `Node.passes_at_equality`
        self._start()
        if cluster.restrictions:
            # Free space as the nodes report it, minus what forthcoming instances will take
            from iallocator.model.storage import NodeAccess

            self.access = NodeAccess(cluster.restrictions, cluster.storage, len(cluster.nodes))
            for instance in self.cluster.instances:
                if instance.draws and instance.forthcoming:
                    for index in instance.nodes:
                        self.access.add(instance, index, 1)

    def copy(self) -> State:
        """Return an independent copy of this state, outside of any trial.

        A copy takes a twentieth of the time of counting all instances again.
        """
        twin = State.__new__(State)
        twin.copy_holdings(self)
        twin.where = dict(self.where)
        twin.stamps = list(self.stamps)
        twin.version, twin._changes, twin._journal = self.version, self._changes, None
        twin._noted = set()
        twin._slack = self._slack
        return twin

    def _start(self) -> None:
        """Count the instances of the document, then apply what the nodes report.

        Free memory is the smaller of two values: the memory that the instances leave, and the free
        memory that the node reports. Free disk and spindles are as reported. With a strategy that
        overcommits memory, both values are multiplied by the ratio; with a memory ratio,
        `Node.lent_memory` is added.
        """
        for instance in self.cluster.instances:
            if instance.nodes:
                self.where[instance.name] = instance.nodes
                self._add(instance, instance.nodes)
        columns = self.columns
        for index, node in enumerate(self.cluster.nodes):
            pending_disk = columns[DISK_LATER][index] - columns[DISK][index]
            pending_spindles = columns[FREE_SPINDLES_LATER][index] - columns[FREE_SPINDLES][index]
            advertised = node.total_memory * node.memory_ratio
            recorded = columns[MEMORY][index] + advertised - node.reserved_memory
            reported = node.reported_memory * node.memory_ratio
            columns[MEMORY][index] = min(recorded, reported) + node.lent_memory
            if node.passes_at_equality and columns[MEMORY][index] == self.reserved[index]:
                self.reserved[index] = nextafter(self.reserved[index], -inf)
                self._slack = True
            if node.lent_memory:
                # The node reports what is not in use: here, memory may be allocated but unused
                reported = columns[MEMORY][index]
            columns[MEMORY_LATER][index] = reported - sum(
                i.memory for i in self.primaries[index].values() if not i.uses_memory
            )
            columns[DISK][index] = node.reported_disk
            columns[DISK_LATER][index] = node.reported_disk + pending_disk
            columns[FREE_SPINDLES][index] = node.free_spindles
            columns[FREE_SPINDLES_LATER][index] = self._spindles_later(index, pending_spindles)
            columns[CPUS][index] += node.reserved_cpus
            columns[CPUS_LATER][index] += node.reserved_cpus
            columns[CPU_LOAD][index] += node.own_cpu_load

    def _spindles_later(self, index: int, pending: float) -> float:
        """Return the free spindles of a node after its forthcoming instances take `pending`
        spindles.

        If a forthcoming instance does not state its spindles, the result is below 0, so that the
        node accepts no more instances.
        """
        node = self.cluster.nodes[index]
        here = self.instances_on(index) if node.exclusive_storage else ()
        coming = [i for i in here if i.forthcoming and (i.local or i.spindles_anywhere)]
        if all(i.spindles is not None for i in coming):
            return node.free_spindles + pending
        free = 0
        for one in sorted(coming, key=lambda i: i.order, reverse=True):
            free = -1 if one.spindles is None else free - one.spindles
        return free

    def missing(self, index: int) -> tuple[float, float]:
        """Return the MiB of memory and disk that are neither free nor accounted for on a node.

        A positive value means that the node reports less free capacity than its instances explain.
        The result is only meaningful for the initial state.
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

    def unexplained(self) -> Iterator[tuple[Node, float, float]]:
        """Yield each node with inconsistent data, and the missing MiB of memory and of disk.

        These nodes report less free capacity than their instances explain. The result is only
        meaningful for the initial state.
        """
        for index, node in enumerate(self.cluster.nodes):
            if node.offline or not node.vm_capable:
                continue
            memory, disk = self.missing(index)
            if memory > MISSING_MEMORY or disk > MISSING_DISK:
                yield node, memory, disk

    def place(self, instance: Instance, nodes: tuple[int, ...]) -> None:
        """Place `instance` on `nodes`, primary first."""
        self._record(instance.name, nodes)
        for index in nodes:
            self._touch(index, instance.forthcoming)
        self._add(instance, nodes)

    def place_alike(self, arrivals: Sequence[tuple[Instance, tuple[int, ...]]]) -> None:
        """Place each instance on its one node; the instances differ in name and order only.

        The instances must have no tags. The result equals that of several calls of `place`, in less
        time.
        """
        for instance, nodes in arrivals:
            self._record(instance.name, nodes)
            self._touch(nodes[0], instance.forthcoming)
        self._add_alike(arrivals)

    def remove(self, instance: Instance, nodes: tuple[int, ...]) -> None:
        """Remove `instance` from `nodes`, where it was placed before."""
        self._record(instance.name, None)
        for index in nodes:
            self._touch(index, instance.forthcoming)
        self._drop(instance, nodes)

    def keep_disks(self, instance: Instance, nodes: tuple[int, ...], sign: int = 1) -> None:
        """Count only the disks that `instance` has on `nodes`.

        Use it for an instance that is stopped and cannot be placed: its disks stay. `sign` -1
        undoes the call.
        """
        self._changes += 1
        self.version = self._changes
        for index in nodes:
            self._touch(index)
            for column in (DISK, DISK_LATER, FREE_SPINDLES, FREE_SPINDLES_LATER):
                self.columns[column][index] += sign * instance.as_primary[column]
            if self.access is not None:
                self.access.add(instance, index, sign)

    def impersonate(self, instance: Instance, other: Instance) -> None:
        """Replace `instance` by `other` among the primaries of its node; only in a trial.

        The amounts of the node do not change. If `other` is on that node, too, it becomes the last
        of the primaries.
        """
        index = self.where[instance.name][0]
        self._changes += 1
        self.version = self._changes
        self._touch(index)
        from copy import copy

        twin = copy(other)
        twin.nodes = (index,)  # it takes the place of `instance`, and has not just arrived
        twin.order = LAST_ORDER if self.where[other.name][0] == index else instance.order
        self.primaries[index][instance.name] = twin

    def take_memory(self, index: int, amount: float) -> None:
        """Reduce the free memory of a node by `amount` MiB for other failovers; only in a trial."""
        self._changes += 1
        self.version = self._changes
        self._touch(index)
        self.columns[MEMORY][index] -= amount
        self.columns[MEMORY_LATER][index] -= amount

    @property
    def trying(self) -> bool:
        """Return whether a trial is in progress."""
        return self._journal is not None

    def trial(self) -> Trial:
        """Return a context manager that undoes, at its end, every change of the state inside the
        block.
        """
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

    def _touch(self, index: int, forthcoming: bool = False) -> None:
        if self._journal is not None and index not in self._noted:
            self._journal.append(_SavedNode(self, index))
            self._noted.add(index)
        self.stamps[index] = self._changes
        if self._slack and not forthcoming:  # only unchanged nodes pass so
            self.reserved[index] = ceil(self.reserved[index])


class _SavedNode:
    """One node as it was before the first change of a trial."""

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
        self.free = dict(state.access.free[index]) if state.access is not None else None

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
        if state.access is not None and self.free is not None:
            state.access.free[self.index] = self.free


class _SavedPlace:
    """The nodes of an instance before a change; None if it was not placed."""

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
    """Context manager that undoes, at the end of its block, every change of the state inside it."""

    __slots__ = ("_kept", "_noted", "_outer", "_state", "_version")

    def __init__(self, state: State) -> None:
        self._state = state
        self._outer: list[_SavedNode | _SavedPlace] | None = None
        self._noted: set[int] = set()
        self._version = 0
        self._kept = False

    def keep(self) -> None:
        """Keep the changes at the end of the block; only an outer trial can undo them then."""
        self._kept = True

    def __enter__(self) -> State:
        self._version = self._state.version
        self._outer, self._noted = self._state._journal, self._state._noted
        self._state._journal, self._state._noted = [], set()
        return self._state

    def __exit__(self, *_: object) -> None:
        state = self._state
        if self._kept and self._outer is not None:
            self._outer += state._journal or ()
            self._noted |= state._noted
        elif not self._kept:
            for saved in reversed(state._journal or ()):
                saved.restore(state)
            state.version = self._version
        state._journal, state._noted = self._outer, self._noted
