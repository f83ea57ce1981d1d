"""Free capacity and number of instances of every node, while placements are made.

For large clusters the nodes are compared pairwise in arrays, which are renewed where nodes change.
"""

from __future__ import annotations

import numpy as np

from iallocator.tags.pacemaker import take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from iallocator.model.state import State
    from iallocator.tags.pacemaker import Amounts, PacemakerTags

__all__ = ["Ledger", "Standings"]


class Ledger:
    """Free capacity and number of instances of each node.

    Attributes
    ----------
    free:
        Node → attribute → amount left.
    count:
        Node → instances there, in either role.
    """

    __slots__ = ("_columns", "_facts", "_standings", "count", "free")

    def __init__(self, facts: PacemakerTags, state: State, nodes: Iterable[int]) -> None:
        """As `state` is now; all that is there counts."""
        self.free: dict[int, Amounts] = {}
        self.count: dict[int, int] = {}
        self._facts = facts
        self._columns: dict[str, dict[int, float]] = {}
        self._standings: Standings | None = None
        for index in nodes:
            self.free[index] = facts.free(state, index)
            self.count[index] = len(state.primaries[index]) + len(state.secondaries[index])

    @classmethod
    def of_empty_nodes(cls, facts: PacemakerTags, state: State) -> Ledger:
        """Full capacities and no instances; where no tag says what those are, what is free now."""
        ledger = cls(facts, state, ())
        for index, amounts in enumerate(facts.capacity):
            ledger.free[index] = dict(amounts) if facts.tagged else facts.free(state, index)
            ledger.count[index] = 0
        return ledger

    def take(self, index: int, needs: Amounts) -> None:
        """Place something with these `needs` on node `index`."""
        left = dict(self.free[index])  # who has been told what was free goes on knowing that
        take(left, needs)
        self.free[index] = left
        self.count[index] += 1
        for name, column in self._columns.items():
            column[index] = left.get(name, 0)
        if self._standings is not None:
            self._standings.changed.add(index)

    @property
    def by_name(self) -> Sequence[int]:
        """Per node of the cluster its place among all of them by name."""
        return self._facts.by_name

    def lacking(self, nodes: Sequence[int], needs: Amounts) -> set[int]:
        """Those of `nodes` that have too little of what `needs` asks for."""
        short: set[int] = set()
        for name, amount in needs.items():
            column = self._columns.get(name)
            if column is None:
                column = {index: free.get(name, 0) for index, free in self.free.items()}
                self._columns[name] = column
            short.update([index for index in nodes if column[index] < amount])
        return short

    def standings(self) -> Standings:
        """All nodes compared with each other; loads the array library."""
        if self._standings is None:
            self._standings = Standings(self.free, self.count, self.by_name)
        return self._standings

    def compare(self, one: int, other: int) -> int:
        """Votes for node `one` less those for `other`: an attribute votes for who has more.

        Every attribute that either has votes, also one that nobody asks for.
        """
        mine, theirs = self.free[one], self.free[other]
        votes = 0
        for name, amount in mine.items():
            less = theirs.get(name, 0)
            votes += (amount > less) - (amount < less)
        for name, amount in theirs.items():
            if name not in mine:
                votes += (amount < 0) - (amount > 0)
        return votes


class Standings:
    """Which node of two comes first: by votes of attributes, number of instances, name.

    `free` and `count` are those of a ledger, which goes on changing them; `by_name`: per node
    of the cluster its place by name.  Where an instance runs now is no property of the
    nodes, and is heard when it is asked for.

    Cost: the square of the nodes once; then one row for each that has changed.

    Attributes
    ----------
    changed:
        The nodes that have to be looked at again.
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
        """What decides where the votes are even; lower comes first."""
        return self._instances * (len(self._names) + self._names.max() + 1) + self._names

    def _votes(self, row: int) -> Any:
        """Votes for the node of `row` less those for each."""
        votes = np.zeros(len(self._row), dtype=np.int16)
        for amounts in self._amounts.values():
            votes += np.sign(amounts[row] - amounts).astype(np.int16)
        return votes

    def _renew(self) -> None:
        """Compare those that have changed again."""
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
        """How many others of `nodes` each of them beats for an instance that runs on `present`."""
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
            self._prefer(self._row[present], rows, wins)
        found: list[int] = wins.tolist()
        return found

    def _prefer(self, row: int, rows: Any, wins: Any) -> None:
        """Count in `wins` that the node of `row` comes before its equals, whatever their names."""
        equal = (self._votes(row) == 0) & (self._instances == self._instances[row])
        passed = equal[rows] & (self._names[rows] < self._names[row])
        wins -= passed
        wins[rows == row] += passed.sum()
