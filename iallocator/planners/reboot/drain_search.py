"""Search for targets of all instances that leave drained nodes, such that N+1 is kept.

A greedy choice may use the only node on which a later instance fits, or the capacity that is needed
to restart the instances of another node. This search can undo such a choice. It is depth-first
branch and bound: one decision for each leaving instance, and N+1 is checked after each decision.
An instance that moves to a node never helps to tolerate a failure. Therefore the search stops
making decisions in a state that violates N+1.

Cost: one check of N+1 for each move that is tried.
"""

from __future__ import annotations

from iallocator.solver.branch_and_bound import BranchAndBound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State

__all__ = ["DrainSearch"]


class DrainSearch(BranchAndBound):
    """A search for moves of all `units` off the drained nodes.

    Parameters
    ----------
    state:
        The state before the moves; the search restores it at its end.
    units:
        The leaving instances in their order of moving; a colocation group is one unit.
    moves_of:
        Returns the moves of an instance that the limits allow, beginning with the preferred move.
        During the call, the instances of its unit that must move later are on no node.
    allows:
        Returns whether N+1 holds in the present state.
    tries:
        The number of moves that may be tried.

    Attributes
    ----------
    moves:
        The moves in order; None if none were found.
    tries:
        The number of moves that may still be tried.
    """

    def __init__(
        self,
        state: State,
        units: Sequence[Sequence[Instance]],
        moves_of: Callable[[Instance], Sequence[Move]],
        allows: Callable[[], bool],
        tries: int,
    ) -> None:
        self._decisions = [(one, unit[k + 1 :]) for unit in units for k, one in enumerate(unit)]
        super().__init__(len(self._decisions), 1, 0)
        self._state = state
        self._moves_of = moves_of
        self._allows = allows
        self.tries = tries
        self._made: list[Move] = []
        self.moves: list[Move] | None = None

    def branches(self, depth: int) -> Iterator[tuple[int, Move]]:
        instance, later = self._decisions[depth]
        with self._state.trial():
            for other in later:
                self._state.remove(other, self._state.where[other.name])
            moves = self._moves_of(instance)
        yield from ((0, move) for move in moves)

    def enter(self, depth: int, choice: Move) -> None:
        self.tries -= 1
        choice.apply(self._state)
        self._made.append(choice)

    def leave(self, depth: int, choice: Move) -> None:
        self._made.pop()
        self._state.remove(choice.instance, choice.after)
        self._state.place(choice.instance, choice.before)

    def promises(self, depth: int) -> bool:
        return self._allows()

    def accept(self, cost: int) -> bool:
        if not self._allows():
            return False
        self.moves = list(self._made)
        return True

    def must_end(self) -> bool:
        return self.tries <= 0
