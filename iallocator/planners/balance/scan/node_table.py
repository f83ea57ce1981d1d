"""Nodes and instances as arrays, for scans of many moves at once.

A `NodeTable` holds the nodes over which a score runs, an `InstanceBatch` many instances of one
kind.  A batch can stand wherever the formulas of the kernel and the checks of
`iallocator.limits` expect one instance: its quantities are columns of a matrix whose
rows are instances and whose columns are nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import COLUMNS
from iallocator.model.node_view import CAPACITIES, NodeView
from iallocator.planners.balance.scan.constraints.pools import Cells, PoolTable
from iallocator.scoring.metrics import DOMAINS, STATISTICS
from iallocator.scoring.score_delta import Totals, node_counts, scope_group, values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from iallocator.aliases import Floats
    from iallocator.model.node_view import Capacities, Quantity
    from iallocator.model.state import State

    Whole = NDArray[np.intp]
    Vector = Sequence[Floats | None]

__all__ = ["BatchView", "NodeTable"]

PLACES = {name: k for k, name in enumerate(COLUMNS)}
"""Column -> its row in tables and vectors."""


class BatchView(NodeView):
    """A `NodeView` to which every instance of a batch adds amounts of its own.

    A quantity is made when it is first asked for: most are not.
    """

    __slots__ = ()

    def plus(self, vector: Sequence[Quantity], reserved: Quantity) -> BatchView:
        """The same nodes after adding `vector`: per column an array, or None for nothing."""
        return _Changed(self, vector, reserved)


class _Present(BatchView):
    """Nodes of a table as they are."""

    __slots__ = ("_positions", "_table")

    def __init__(self, table: NodeTable, positions: Whole, at: Cells | None) -> None:
        self._table = table
        self._positions = positions
        self.reserved = table.reserved[positions]
        self.domain_conflicts = 0
        self.at = at  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Quantity:
        """Take a quantity that was not asked for yet from the table."""
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
    """Nodes with something added."""

    __slots__ = ("_before", "_vector")

    def __init__(self, before: BatchView, vector: Sequence[Quantity], reserved: Quantity) -> None:
        self._before = before
        self._vector = vector
        self.reserved = reserved
        self.domain_conflicts = 0
        self.at = before.at

    def __getattr__(self, name: str) -> Quantity:
        """Work out a quantity that was not asked for yet."""
        quantity = getattr(self._before, name)
        place = PLACES.get(name)
        if place is not None and self._vector[place] is not None:
            quantity = quantity + self._vector[place]
        setattr(self, name, quantity)
        return quantity


class NodeTable:
    """The nodes in `scope`, as positions 0, 1, ...; kept up to date by `refresh`.

    Attributes
    ----------
    columns, fixed:
        Matrices of `COLUMNS` and `CAPACITIES` × nodes.
    reserved:
        Per node, MiB kept free for the failover of the worst peer.
    peers:
        Matrix node × primary: MiB reserved on the node for the primary.  The last
        column stands for the worst primary outside the scope.
    values:
        Matrix statistics × nodes, less `centres`: those given, or the means when it was made.
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
        self._pools: PoolTable | None = None
        if state.pools is not None:
            self._pools = PoolTable(state.pools, self.nodes, state.where)
        self._load(range(count))
        self.centres = self._means() if centres is None else list(centres)
        self.values: Floats = self._values()
        self.totals = self._totals()

    def view(self, positions: Whole) -> BatchView:
        """The nodes at `positions`, in an array of the same shape."""
        at = None if self._pools is None else Cells(self._pools, positions)
        return _Present(self, positions, at)

    def capacity(self, name: str) -> Quantity:
        """One of `CAPACITIES` per node, or as one number where all nodes have the same."""
        if name not in self._capacity:
            row = self.fixed[CAPACITIES.index(name)]
            self._capacity[name] = float(row[0]) if (row == row[0]).all() else row
        return self._capacity[name]

    def refresh(self, positions: Iterable[int]) -> None:
        """Take what changed at `positions` from the state."""
        self._load(positions)
        self.values = self._values()
        self.totals = self._totals()

    def recentre(self) -> list[float]:
        """Take the means as things are for centres; by how much each has grown."""
        before, self.centres = self.centres, self._means()
        self.values = self._values()
        self.totals = self._totals()
        return [after - old for after, old in zip(self.centres, before)]

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

    def _means(self) -> list[float]:
        self.centres = [0.0] * len(STATISTICS)
        sums = self._values().sum(axis=1)
        return [
            float(total) / count if s.spread else 0.0
            for s, total, count in zip(STATISTICS, sums, self._counts())
        ]

    def _values(self) -> Floats:
        everything = self.view(np.arange(len(self.nodes), dtype=np.intp))
        found: Floats = np.empty((len(STATISTICS), len(self.nodes)))
        for k, value in enumerate(values(everything, self.centres)):
            found[k] = value
        return found

    def _totals(self) -> Totals:
        totals = Totals(
            self._counts(),
            self.centres,
            self.values.sum(axis=1).tolist(),
            (self.values * self.values).sum(axis=1).tolist(),
        )
        totals.sums[DOMAINS] = self.state.domain_conflicts(self.group)
        return totals
