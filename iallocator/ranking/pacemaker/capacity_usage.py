"""Free capacity and number of instances of every node during a sequence of placements."""

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
        Node -> attribute -> free amount.
    count:
        Node -> number of its instances, in either role.
    """

    __slots__ = ("_columns", "_facts", "_rank_table", "count", "free")

    def __init__(self, facts: PacemakerTags, state: State, nodes: Iterable[int]) -> None:
        """Count all instances of `state` on `nodes`, with the capacities in `facts`."""
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
        """Return the usage with full capacities and no instances.

        If no tag sets capacities, the current free capacities of `state` are used.
        """
        usage = cls(facts, state, ())
        for index, amounts in enumerate(facts.capacity):
            usage.free[index] = dict(amounts) if facts.tagged else facts.free(state, index)
            usage.count[index] = 0
        return usage

    def take(self, index: int, needs: Amounts) -> None:
        """Place an instance with these `needs` on node `index`."""
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
        """Return, for each node of the cluster, its position in the order of the names."""
        return self._facts.by_name

    def lacking(self, nodes: Sequence[int], needs: Amounts) -> set[int]:
        """Return the nodes of `nodes` that have less free capacity than `needs`."""
        short: set[int] = set()
        for name, amount in needs.items():
            column = self._columns.get(name)
            if column is None:
                column = {index: free.get(name, 0) for index, free in self.free.items()}
                self._columns[name] = column
            short.update([index for index in nodes if column[index] < amount])
        return short

    def rank_table(self) -> RankTable:
        """Return the table that compares all pairs of nodes; making it loads the array library."""
        from iallocator.ranking.pacemaker.rank_table import RankTable

        if self._rank_table is None:
            self._rank_table = RankTable(self.free, self.count, self.by_name)
        return self._rank_table

    def compare(self, one: int, other: int) -> int:
        """Return the votes for node `one` minus the votes for node `other`.

        Each attribute votes for the node with the larger free amount.  Every attribute of either
        node has a vote, also an attribute that no instance uses.
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
