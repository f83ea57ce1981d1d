"""Free capacity and number of instances of every node, while placements are made."""

from __future__ import annotations

from iallocator.tags.pacemaker import take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.state import State
    from iallocator.ranking.pacemaker.rank_table import RankTable
    from iallocator.tags.pacemaker import Amounts, PacemakerTags

__all__ = ["CapacityUsage"]


class CapacityUsage:
    """Free capacity and number of instances of each node.

    Attributes
    ----------
    free:
        Node → attribute → amount left.
    count:
        Node → instances there, in either role.
    """

    __slots__ = ("_columns", "_facts", "_rank_table", "count", "free")

    def __init__(self, facts: PacemakerTags, state: State, nodes: Iterable[int]) -> None:
        """As `state` is now; all that is there counts."""
        self.free: dict[int, Amounts] = {}
        self.count: dict[int, int] = {}
        self._facts = facts
        self._columns: dict[str, dict[int, float]] = {}
        self._rank_table: RankTable | None = None
        for index in nodes:
            self.free[index] = facts.free(state, index)
            self.count[index] = len(state.primaries[index]) + len(state.secondaries[index])

    @classmethod
    def of_empty_nodes(cls, facts: PacemakerTags, state: State) -> CapacityUsage:
        """Full capacities and no instances; where no tag says what those are, what is free now."""
        usage = cls(facts, state, ())
        for index, amounts in enumerate(facts.capacity):
            usage.free[index] = dict(amounts) if facts.tagged else facts.free(state, index)
            usage.count[index] = 0
        return usage

    def take(self, index: int, needs: Amounts) -> None:
        """Place something with these `needs` on node `index`."""
        left = dict(self.free[index])  # a copy: callers keep the amounts that were free before
        take(left, needs)
        self.free[index] = left
        self.count[index] += 1
        for name, column in self._columns.items():
            column[index] = left.get(name, 0)
        if self._rank_table is not None:
            self._rank_table.changed.add(index)

    @property
    def by_name(self) -> Sequence[int]:
        """Per node of the cluster its place among all of them by name."""
        return self._facts.by_name

    def lacking(self, nodes: Sequence[int], needs: Amounts) -> set[int]:
        """Return those of `nodes` that have less free capacity than `needs`."""
        short: set[int] = set()
        for name, amount in needs.items():
            column = self._columns.get(name)
            if column is None:
                column = {index: free.get(name, 0) for index, free in self.free.items()}
                self._columns[name] = column
            short.update([index for index in nodes if column[index] < amount])
        return short

    def rank_table(self) -> RankTable:
        """All nodes compared with each other; loads the array library."""
        from iallocator.ranking.pacemaker.rank_table import RankTable

        if self._rank_table is None:
            self._rank_table = RankTable(self.free, self.count, self.by_name)
        return self._rank_table

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
