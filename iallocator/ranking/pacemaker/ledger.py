"""What every node has left, and how many instances it has, while placements are made."""

from __future__ import annotations

from iallocator.tags.pacemaker import take

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.state import State
    from iallocator.tags.pacemaker import Amounts, PacemakerTags

__all__ = ["Ledger"]


class Ledger:
    """Free capacity and number of instances of each node.

    Attributes
    ----------
    free:
        Node → attribute → amount left.
    count:
        Node → instances there, in either role.
    """

    __slots__ = ("count", "free")

    def __init__(self, facts: PacemakerTags, state: State, nodes: Iterable[int]) -> None:
        """As `state` is now; all that is there counts."""
        self.free: dict[int, Amounts] = {}
        self.count: dict[int, int] = {}
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
        take(self.free[index], needs)
        self.count[index] += 1

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
