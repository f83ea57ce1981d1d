"""Nodes and instances as arrays, for scans of many moves at once.

A `NodeTable` holds the nodes over which a score runs, a `Crowd` many instances of one
kind.  A crowd can stand wherever the formulas of the kernel and the checks of
`iallocator.filters` expect one instance: its quantities are columns of a matrix whose
rows are instances and whose columns are nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.scoring.kernel import DOMAINS, Totals, scope_group, values
from iallocator.scoring.statistics import STATISTICS
from iallocator.scoring.view import View

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.view import Quantity

    Floats = NDArray[np.float64]
    Whole = NDArray[np.intp]
    Vector = Sequence[Floats | None]

__all__ = ["Crowd", "CrowdView", "NodeTable"]


class CrowdView(View):
    """A `View` to which every instance of a crowd adds amounts of its own."""

    __slots__ = ()

    def plus(self, vector: Sequence[Quantity], reserved: Quantity) -> CrowdView:
        """The same nodes after adding `vector`: per column an array, or None for nothing."""
        return CrowdView(
            [
                quantity if amount is None else quantity + amount
                for quantity, amount in zip(self.columns(), vector)
            ],
            self.fixed(),
            reserved,
        )


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
        Matrix statistics × nodes, less `centres`, which never change.
    """

    def __init__(
        self, state: State, scope: Sequence[int], fixed: Sequence[tuple[float, ...]]
    ) -> None:
        self.state = state
        self.nodes = list(scope)
        self.position = {index: k for k, index in enumerate(self.nodes)}
        self.group = scope_group(state.cluster, scope)
        count = len(self.nodes)
        self.fixed: Floats = np.array([fixed[index] for index in scope], dtype=np.float64).T
        self.columns: Floats = np.zeros((len(state.columns), count))
        self.reserved: Floats = np.zeros(count)
        self.peers: Floats = np.zeros((count, count + 1))
        self.online = np.array([state.cluster.nodes[i].online for i in scope], dtype=bool)
        self._load(range(count))
        self.centres = self._means()
        self.values: Floats = self._values()
        self.totals = self._totals()

    def view(self, positions: Whole) -> CrowdView:
        """The nodes at `positions`, in an array of the same shape."""
        return CrowdView(
            list(self.columns[:, positions]),
            list(self.fixed[:, positions]),
            self.reserved[positions],
        )

    def refresh(self, positions: Iterable[int]) -> None:
        """Take what changed at `positions` from the state."""
        self._load(positions)
        self.values = self._values()
        self.totals = self._totals()

    def _load(self, positions: Iterable[int]) -> None:
        state = self.state
        for k in positions:
            index = self.nodes[k]
            self.columns[:, k] = state.row(index)
            self.reserved[k] = state.reserved[index]
            self.peers[k] = 0
            for primary, amount in state.peers[index].items():
                column = self.position.get(primary, -1)
                self.peers[k, column] = max(self.peers[k, column], amount)

    def _count(self, offline: bool) -> int:
        online = int(self.online.sum())
        return (self.online.size - online if offline else online) or 1

    def _means(self) -> list[float]:
        self.centres = [0.0] * len(STATISTICS)
        sums = self._values().sum(axis=1)
        return [
            float(total) / self._count(s.offline) if s.spread else 0.0
            for s, total in zip(STATISTICS, sums)
        ]

    def _values(self) -> Floats:
        everything = self.view(np.arange(len(self.nodes), dtype=np.intp))
        shape = len(self.nodes)
        return np.array(
            [np.broadcast_to(v, shape) for v in values(everything, self.centres)],
            dtype=np.float64,
        )

    def _totals(self) -> Totals:
        online = int(self.online.sum())
        totals = Totals(
            online,
            self.online.size - online,
            self.centres,
            self.values.sum(axis=1).tolist(),
            (self.values * self.values).sum(axis=1).tolist(),
        )
        totals.sums[DOMAINS] = self.state.domain_conflicts(self.group)
        return totals


class Crowd:
    """Instances of one kind, with everything in which they differ as arrays of shape (rows, 1).

    All agree in what decides which checks matter: template, forthcoming, unknown
    spindles, and whether they reserve memory on their secondaries.
    """

    __slots__ = (
        "as_primary", "as_secondary", "drbd", "exclusion", "forthcoming", "instances",
        "less_primary", "less_secondary", "local", "memory", "reserves", "spindles", "vcpus",
    )  # fmt: skip

    def __init__(self, instances: Sequence[Instance]) -> None:
        first = instances[0]
        self.instances = instances
        self.drbd = first.template == "drbd"
        self.local = first.local
        self.forthcoming = first.forthcoming
        self.reserves = first.reserves
        self.spindles = first.spindles
        self.exclusion = first.exclusion
        self.memory: Floats = np.array([[float(i.memory)] for i in instances])
        self.as_primary = _vector([i.as_primary for i in instances], 1)
        self.as_secondary = _vector([i.as_secondary for i in instances], 1)
        self.less_primary = _vector([i.as_primary for i in instances], -1)
        self.less_secondary = _vector([i.as_secondary for i in instances], -1)

    @staticmethod
    def kind(i: Instance) -> tuple[bool, ...]:
        """What the instances of a crowd have in common."""
        return (i.template == "drbd", i.local, i.forthcoming, i.reserves, i.spindles is None)

    def take(self, rows: Whole) -> Crowd:
        """The instances in `rows`."""
        part: Crowd = object.__new__(Crowd)
        for name in ("instances", "drbd", "local", "forthcoming", "reserves", "spindles",
                     "exclusion"):  # fmt: skip
            setattr(part, name, getattr(self, name))
        part.memory = self.memory[rows]
        for name in ("as_primary", "as_secondary", "less_primary", "less_secondary"):
            vector = getattr(self, name)
            setattr(part, name, [None if v is None else v[rows] for v in vector])
        return part


def _vector(amounts: Sequence[tuple[float, ...]], sign: int) -> list[Floats | None]:
    """Per column the amounts of all instances, shape (rows, 1), or None if all are 0."""
    matrix = np.array(amounts, dtype=np.float64) * sign
    return [matrix[:, k : k + 1] if matrix[:, k].any() else None for k in range(matrix.shape[1])]
