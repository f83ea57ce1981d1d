"""The comparison of all pairs of nodes at once, in arrays.

The table is for large clusters. All pairs are compared once. If a node changes, only its pairs are
compared again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.tags.pacemaker import Amounts

__all__ = ["RankTable"]


class RankTable:
    """The order of each pair of nodes: by free attributes, number of instances, and name.

    The node with more of most attributes comes first. `free` and `count` are attributes of a
    `CapacityUsage`, which changes them. `by_name`: for each node of the cluster, its position in
    the order of the names. The present node of an instance is an argument of `wins`.

    Cost: the square of the number of nodes once, then one row for each node that has changed.

    Attributes
    ----------
    changed:
        The nodes to compare again.
    """

    def __init__(
        self, free: Mapping[int, Amounts], count: Mapping[int, int], by_name: Sequence[int]
    ) -> None:
        self.changed: set[int] = set()
        self._free = free
        self._count = count
        self._row = {index: row for row, index in enumerate(free)}
        self._amounts = {
            name: np.array([one.get(name, 0) for one in free.values()], dtype=np.float64)
            for name in dict.fromkeys(name for one in free.values() for name in one)
        }
        self._instances = np.array([count[index] for index in free], dtype=np.int64)
        self._names = np.array([by_name[index] for index in free], dtype=np.int64)
        votes = np.zeros((len(free), len(free)), dtype=np.int16)
        for amounts in self._amounts.values():
            votes += np.sign(amounts[:, None] - amounts[None, :]).astype(np.int16)
        keys = self._keys()
        self._beats = (votes > 0) | ((votes == 0) & (keys[:, None] < keys[None, :]))
        self._wins = self._beats.sum(axis=1)

    def _keys(self) -> Any:
        """Return the sort keys of nodes with equal votes; the lowest key comes first."""
        return self._instances * (len(self._names) + self._names.max() + 1) + self._names

    def _votes(self, row: int) -> Any:
        """Return the votes for the node of `row` minus the votes for each node."""
        votes = np.zeros(len(self._row), dtype=np.int16)
        for amounts in self._amounts.values():
            votes += np.sign(amounts[row] - amounts).astype(np.int16)
        return votes

    def _renew(self) -> None:
        """Compare the nodes in `changed` again."""
        if not self.changed:
            return
        rows = [self._row[index] for index in self.changed]
        for row, index in zip(rows, self.changed):
            for name, amounts in self._amounts.items():
                amounts[row] = self._free[index].get(name, 0)
            self._instances[row] = self._count[index]
        keys = self._keys()
        for row in rows:
            votes = self._votes(row)
            beats = (votes > 0) | ((votes == 0) & (keys[row] < keys))
            beats[row] = False
            beaten = ~beats
            beaten[row] = False
            self._wins += beaten
            self._wins -= self._beats[:, row]
            self._beats[row] = beats
            self._beats[:, row] = beaten
            self._wins[row] = beats.sum()
        self.changed.clear()

    def wins(self, nodes: Sequence[int], present: int | None) -> list[int]:
        """Return for each of `nodes` how many others rank below it.

        `present`: the present node of the instance, which is preferred to equal nodes; or None.
        """
        self._renew()
        rows = np.array([self._row[index] for index in nodes], dtype=np.intp)
        left_out = np.ones(len(self._row), dtype=bool)
        left_out[rows] = False
        if 2 * len(nodes) > len(self._row):
            others = np.ix_(rows, np.flatnonzero(left_out))
            wins = self._wins[rows] - self._beats[others].sum(axis=1)
        else:
            wins = self._beats[np.ix_(rows, rows)].sum(axis=1)
        if present is not None and present in nodes:
            # The present node comes before equal nodes, independent of their names
            row = self._row[present]
            equal = (self._votes(row) == 0) & (self._instances == self._instances[row])
            passed = equal[rows] & (self._names[rows] < self._names[row])
            wins -= passed
            wins[rows == row] += passed.sum()
        numbers: list[int] = wins.tolist()
        return numbers
