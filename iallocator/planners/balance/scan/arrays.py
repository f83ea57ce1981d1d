"""Represent nodes and instances as arrays, to evaluate many moves at once.

A `NodeTable` has the nodes over which a score is computed, an `InstanceBatch` many instances of one
kind.  The formulas of the kernel and the checks of `iallocator.limits` accept a batch in place of
one instance: each quantity is a column vector that broadcasts to instances × nodes.  `AccessTable`
has the nodes that storage pools forbid, and `MoveTags` what tags change in the moves of a batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.constraints.table import STORAGE_POOLS
from iallocator.model.columns import COLUMNS
from iallocator.model.node_view import CAPACITIES, NodeView
from iallocator.scoring.arrays import means_of, totals_of, values_of
from iallocator.scoring.metrics import NO_CENTRES, node_counts, scope_group, values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from iallocator.aliases import Floats, Truths
    from iallocator.model.instance import Instance, Pool
    from iallocator.model.node_view import Capacities, Quantity
    from iallocator.model.state import State
    from iallocator.model.storage import NodeAccess
    from iallocator.scoring.metrics import Totals

__all__ = [
    "AccessTable",
    "BatchView",
    "Cells",
    "InstanceBatch",
    "MoveTags",
    "NodeTable",
    "tags_matter",
]

if TYPE_CHECKING:
    Whole = NDArray[np.intp]
    Vector = Sequence[Floats | None]


VECTORS = ("as_primary", "as_secondary", "less_primary", "less_secondary")
"""The attributes of a batch with an array for each column, or None if its amounts are 0."""


class InstanceBatch:
    """Instances of one kind, with their amounts as arrays of shape (rows, 1), or (1, 1) if equal.

    The attributes that decide which limits are checked are equal for all of them: see `kind`. If
    some instances are restricted to some nodes, access is checked for all.
    """

    __slots__ = (
        "_numbers", "as_primary", "as_secondary", "barred", "counts_disk", "drbd",
        "exclusion", "forthcoming", "hides_spindles", "instances", "less_primary",
        "less_secondary", "local", "memory", "reserves", "restricted", "spindles",
        "takeover_memory", "vcpus", "whole",
    )  # fmt: skip

    def __init__(self, instances: Sequence[Instance]) -> None:
        first = instances[0]
        self.instances = instances
        self.drbd = first.needs_secondary
        self.local = first.local
        self.counts_disk = first.counts_disk
        self.restricted = any(one.restricted for one in instances)
        self.whole: tuple[InstanceBatch, Whole] | None = None
        self._numbers: dict[str, Whole] = {}
        self.barred: dict[str, Truths] = {}
        self.forthcoming = first.forthcoming
        self.hides_spindles = first.hides_spindles
        self.reserves = first.reserves
        self.spindles = first.spindles
        self.exclusion = first.exclusion
        self.memory: Floats = np.array([[float(i.memory)] for i in instances])
        self.takeover_memory: Floats = np.array([[float(i.takeover_memory)] for i in instances])
        amounts = [
            None if not any(column) else np.array(
                [column[:1] if min(column) == max(column) else column], dtype=np.float64
            ).T
            for column in zip(*(i.as_primary + i.as_secondary for i in instances))
        ]  # fmt: skip
        half = len(COLUMNS)
        self.as_primary: Vector = amounts[:half]
        self.as_secondary: Vector = amounts[half:]
        self.less_primary: Vector = [None if one is None else -one for one in self.as_primary]
        self.less_secondary: Vector = [None if one is None else -one for one in self.as_secondary]

    @staticmethod
    def kind(i: Instance) -> tuple[bool, ...]:
        """Return the attributes that all instances of a batch have in common with `i`."""
        return (
            i.needs_secondary, i.local, i.forthcoming, i.reserves, i.spindles is None,
            i.counts_disk,
        )  # fmt: skip

    def take(self, rows: Whole, across: bool = False) -> InstanceBatch:
        """Return a batch of the instances at positions `rows`.

        `across`: whether its arrays have the shape (1, rows) instead of (rows, 1).
        """
        part: InstanceBatch = object.__new__(InstanceBatch)
        for name in ("drbd", "local", "forthcoming", "reserves", "spindles", "exclusion",
                     "counts_disk", "hides_spindles", "restricted"):  # fmt: skip
            setattr(part, name, getattr(self, name))
        part.instances = [self.instances[row] for row in rows.tolist()] if self.restricted else ()
        part.barred = {}
        part.whole, part._numbers = (self, rows), {}
        for name in ("memory", "takeover_memory"):
            setattr(part, name, _taken(getattr(self, name), rows, across))
        for name in VECTORS:
            vector: Vector = getattr(self, name)
            setattr(
                part, name, [one if one is None else _taken(one, rows, across) for one in vector]
            )
        return part

    def most_demanding(self) -> InstanceBatch:
        """Return a batch of one instance, with the largest amounts of all instances."""
        most = self.take(np.zeros(1, dtype=np.intp))
        most.memory = self.memory.max(axis=0, keepdims=True)
        most.takeover_memory = self.takeover_memory.max(axis=0, keepdims=True)
        most.as_primary = [one if one is None else _most(one) for one in self.as_primary]
        most.as_secondary = [one if one is None else _most(one) for one in self.as_secondary]
        return most

    def of_each(self, key: str, find: Callable[[Instance], int]) -> Whole:
        """Return the number that `find` returns for each instance.

        It must always return one number for an instance. `key`: its name in a cache.
        """
        numbers = self._numbers.get(key)
        if numbers is None:
            if self.whole is None:
                numbers = np.array([find(one) for one in self.instances], dtype=np.intp)
            else:
                batch, rows = self.whole
                numbers = batch.of_each(key, find)[rows]
            self._numbers[key] = numbers
        return numbers


def _taken(amounts: Floats, rows: Whole, across: bool) -> Floats:
    """Return the amounts of `rows`, transposed if `across` is set; (1, 1) if all are equal."""
    if amounts.size == 1:
        return amounts
    taken = amounts[rows]
    return taken.T if across else taken


def _most(amounts: Floats) -> Floats:
    """Return the amount with the largest absolute value, shape (1, 1)."""
    low, high = amounts.min(axis=0, keepdims=True), amounts.max(axis=0, keepdims=True)
    most: Floats = low if -low > high else high
    return most


class AccessTable:
    """Which nodes of `scope` each instance has access to, and the free amounts of storage pools."""

    def __init__(
        self, access: NodeAccess, scope: Sequence[int], places: dict[str, tuple[int, ...]]
    ):
        self._access = access
        self._scope = scope
        self._position = {index: k for k, index in enumerate(scope)}
        self._places = places
        self._rows: dict[frozenset[int] | None, int] = {}  # the nodes that instances can use
        self._closed: list[Truths] = []  # for each of these sets, the nodes that it excludes

    def barred(self, batch: InstanceBatch, by: str) -> Truths:
        """Return instances × nodes: whether the access constraint `by` rejects an instance.

        A node that has the disks of the instance already needs no free capacity in its storage
        pools.
        """
        rows = batch.of_each(by, lambda one: self._row(self._access.nodes_for(one, by)))
        forbidden: Truths = np.array(self._closed)[rows]
        if by != STORAGE_POOLS.name:
            return forbidden
        free: dict[Pool, Floats] = {}
        lacking: dict[tuple[tuple[Pool, int], ...], Truths] = {}
        for row, instance in enumerate(batch.instances):
            draws = instance.draws
            if not draws:
                continue
            if draws not in lacking:
                full = np.zeros(len(self._scope), dtype=bool)
                for pool, amount in draws:
                    if pool not in free:
                        per_node = [self._access.free[k].get(pool, np.inf) for k in self._scope]
                        free[pool] = np.array(per_node, np.float64)
                    full |= free[pool] - amount <= 0
                lacking[draws] = full
            if lacking[draws].any():
                full = lacking[draws].copy()
                here = [self._position.get(k, -1) for k in self._places[instance.name]]
                full[[k for k in here if k >= 0]] = False
                forbidden[row] |= full
        return forbidden

    def _row(self, nodes: frozenset[int] | None) -> int:
        """Return the row of `_closed` of instances that can use `nodes`; None: all nodes."""
        if nodes not in self._rows:
            self._rows[nodes] = len(self._closed)
            closed = [nodes is not None and index not in nodes for index in self._scope]
            self._closed.append(np.array(closed, dtype=bool))
        return self._rows[nodes]


class Cells:
    """Positions of nodes in a table: an array with a row for each instance, or one row."""

    __slots__ = ("_access", "_positions")

    def __init__(self, access: AccessTable, positions: Whole) -> None:
        self._access = access
        self._positions = positions

    def bars(self, batch: InstanceBatch, by: str) -> Truths:
        """Return for each instance and node whether the constraint `by` rejects the instance."""
        if by not in batch.barred:
            batch.barred[by] = self._access.barred(batch, by)
        rows = np.arange(len(batch.instances), dtype=np.intp).reshape(batch.memory.shape)
        barred: Truths = batch.barred[by][rows, self._positions]
        return barred


PLACES = {name: k for k, name in enumerate(COLUMNS)}
"""Column -> its row in tables and vectors."""


class BatchView(NodeView):
    """A `NodeView` to which each instance of a batch adds its own amounts.

    Each quantity is computed at its first use, because most quantities are never used.
    """

    __slots__ = ()

    def plus(self, vector: Sequence[Quantity], reserved: Quantity) -> BatchView:
        """Return a view of these nodes with `vector` added, and with `reserved` MiB reserved.

        `vector` has an array for each column, or None if nothing is added to the column.
        """
        return _Changed(self, vector, reserved)


class _Present(BatchView):
    """A view of nodes of a table in their present state."""

    __slots__ = ("_positions", "_table")

    def __init__(self, table: NodeTable, positions: Whole, at: Cells | None) -> None:
        self._table = table
        self._positions = positions
        self.reserved = table.reserved[positions]
        self.domain_conflicts = 0
        self.at = at  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Quantity:
        """Return the quantity `name` of the nodes from the table, and store it for later uses."""
        place = PLACES.get(name)
        if place is None:
            quantity = self._table.capacity(name)
            if not isinstance(quantity, float):
                quantity = quantity[self._positions]
        else:
            quantity = self._table.columns[place][self._positions]
        setattr(self, name, quantity)
        return quantity


class _Changed(BatchView):
    """A view of nodes with amounts added."""

    __slots__ = ("_before", "_vector")

    def __init__(self, before: BatchView, vector: Sequence[Quantity], reserved: Quantity) -> None:
        self._before = before
        self._vector = vector
        self.reserved = reserved
        self.domain_conflicts = 0
        self.at = before.at

    def __getattr__(self, name: str) -> Quantity:
        """Return the quantity `name` after the change, and store it for later uses."""
        quantity = getattr(self._before, name)
        place = PLACES.get(name)
        if place is not None and self._vector[place] is not None:
            quantity = quantity + self._vector[place]
        setattr(self, name, quantity)
        return quantity


class NodeTable:
    """The nodes in `scope`, with positions 0, 1, ...; `refresh` updates them from the state.

    Attributes
    ----------
    columns, fixed:
        Arrays of `COLUMNS` × nodes and `CAPACITIES` × nodes.
    reserved:
        For each node, the MiB that it keeps free for the failover from its worst peer.
    peers:
        Array node × primary: MiB that the node reserves for the failure of the primary.  The
        last column is for the worst primary outside the scope.
    values:
        Array statistics × nodes, less `centres`.
    centres:
        For each statistic the given number, or the mean of its values at the beginning.
    totals:
        The sums and the sums of squares of `values`.
    """

    def __init__(
        self,
        state: State,
        scope: Sequence[int],
        fixed: Capacities,
        centres: Sequence[float] | None = None,
    ) -> None:
        self.state = state
        self.nodes = list(scope)
        self.position = {index: k for k, index in enumerate(self.nodes)}
        self.group = scope_group(state.cluster, scope)
        count = len(self.nodes)
        self._capacity: dict[str, Quantity] = {}
        self.fixed: Floats = np.array([fixed[index] for index in scope], dtype=np.float64).T
        self.columns: Floats = np.zeros((len(state.columns), count))
        self.reserved: Floats = np.zeros(count)
        self.peers: Floats = np.zeros((count, count + 1))  # takes memory where it is written
        self._reserving: set[int] = set()
        self.online = np.array([state.cluster.nodes[i].online for i in scope], dtype=bool)
        self._access: AccessTable | None = None
        if state.access is not None:
            self._access = AccessTable(state.access, self.nodes, state.where)
        self._load(range(count))
        if centres is None:
            centres = means_of(self._values(NO_CENTRES), self._counts())
        self.centres = list(centres)
        self.values: Floats = self._values(self.centres)
        self.totals = self._totals()

    def view(self, positions: Whole) -> BatchView:
        """Return a view of the nodes at `positions`; its arrays have the shape of `positions`."""
        at = None if self._access is None else Cells(self._access, positions)
        return _Present(self, positions, at)

    def capacity(self, name: str) -> Quantity:
        """Return one of `CAPACITIES` for each node; one number if it is equal on all nodes."""
        if name not in self._capacity:
            row = self.fixed[CAPACITIES.index(name)]
            self._capacity[name] = float(row[0]) if (row == row[0]).all() else row
        return self._capacity[name]

    def refresh(self, positions: Sequence[int]) -> None:
        """Update the nodes at `positions` from the state."""
        self._load(positions)
        for k in positions:
            view = NodeView.of(self.state, self.nodes[k], self.fixed[:, k].tolist())
            self.values[:, k] = values(view, self.centres)
        self.totals = self._totals()

    def _load(self, positions: Iterable[int]) -> None:
        state = self.state
        for k in positions:
            index = self.nodes[k]
            self.columns[:, k] = state.row(index)
            self.reserved[k] = state.reserved[index]
            peers = state.peers[index]
            if k in self._reserving:
                self.peers[k] = 0
            if peers:
                self._reserving.add(k)
            for primary, amount in peers.items():
                column = self.position.get(primary, -1)
                self.peers[k, column] = max(self.peers[k, column], amount)

    def _counts(self) -> list[int]:
        online = int(self.online.sum())
        stored = int(self.fixed[CAPACITIES.index("stored")].sum())
        return node_counts(online, self.online.size - online, stored)

    def _values(self, centres: Sequence[float]) -> Floats:
        everything = np.arange(len(self.nodes), dtype=np.intp)
        return values_of(self.view(everything), centres, everything.shape)

    def _totals(self) -> Totals:
        conflicts = self.state.domain_conflicts(self.group)
        return totals_of(self.values, self._counts(), self.centres, conflicts)


def tags_matter(table: NodeTable) -> bool:
    """Return whether tags of nodes or instances affect scores or limits of the nodes of `table`."""
    cluster = table.state.cluster
    located = any(cluster.nodes[index].locations for index in table.nodes)
    return located or cluster.tags_place_instances


class MoveTags:
    """What tags add to statistics if an instance (row) moves to a node (column).

    Attributes
    ----------
    conflicts, misplaced, domains:
        What the instance adds as a primary, after it has left its nodes: to the columns
        ``conflicts`` and ``misplaced``, and to the conflicts within failure domains.
    shared:
        Array primary × secondary: the number of common location tags; 0 if the primary is not
        online.
    """

    def __init__(self, table: NodeTable, batch: InstanceBatch) -> None:
        shape = (len(batch.instances), len(table.nodes))
        self.conflicts: Floats = np.zeros(shape)
        self.misplaced: Floats = np.zeros(shape)
        self.domains: Floats = np.zeros(shape)
        nodes = [table.state.cluster.nodes[index] for index in table.nodes]
        self.shared = np.array(
            [[len(p.locations & s.locations) if p.online else 0 for s in nodes] for p in nodes],
            dtype=np.float64,
        ) * (not batch.forthcoming)
        state = table.state
        for row, instance in enumerate(batch.instances):
            if not (instance.exclusion or instance.desired):
                continue
            with state.trial():
                state.remove(instance, state.where[instance.name])
                for k, index in enumerate(table.nodes):
                    conflicts, misplaced = state.tag_amounts(instance, index, None)
                    self.conflicts[row, k] = conflicts
                    self.misplaced[row, k] = misplaced
                    self.domains[row, k] = state.added_domain_conflicts(
                        instance, index, table.group
                    )
