"""Depth-first branch and bound: the one search for problems that an integer program cannot express.

A search makes decisions, one below the other.  It tries the choices of each decision in the order
of their lower bounds, as long as the bound improves on the best solution.

Three properties keep a problem out of the integer program (`iallocator.solver.highs`): its cost is
not linear (the score, the losses of failures), only a simulation knows which choices are possible
(draining nodes), or HiGHS is much slower (colouring).  The subclasses name the measurements.
Packing has a search of its own (`iallocator.packing`), because its steps take microseconds.
"""

from __future__ import annotations

from iallocator.deadline import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["BranchAndBound"]


class BranchAndBound:
    """A search for the solution of lowest cost.

    A cost is any value that can be compared.  A subclass describes the problem by the methods
    below, and keeps the best solution itself.

    Parameters
    ----------
    depth:
        The number of decisions; at least one.
    cost:
        The cost of the solution that is known at the beginning.
    enough:
        The search ends at a solution that costs no more than this.

    Attributes
    ----------
    cost:
        The cost of the best solution.
    proved:
        Whether no solution costs less; False if the search ended early.
    """

    def __init__(self, depth: int, cost: Any, enough: Any) -> None:
        self.cost = cost
        self.proved = True
        self._depth = depth
        self._enough = enough

    def branches(self, depth: int) -> Iterator[tuple[Any, Any]]:
        """Yield (lower bound, choice) for decision `depth`, by increasing bound.

        The decisions before it have been made.  For the last decision the bound is the cost.
        """
        raise NotImplementedError

    def enter(self, depth: int, choice: Any) -> None:
        """Make decision `depth`."""
        raise NotImplementedError

    def leave(self, depth: int, choice: Any) -> None:
        """Undo `enter`."""
        raise NotImplementedError

    def promises(self, depth: int) -> bool:
        """Return whether it is worth looking below decision `depth`, which has been made."""
        return True

    def accept(self, cost: Any) -> bool:
        """Keep the solution, and return True; return False if it is not valid."""
        raise NotImplementedError

    def must_end(self) -> bool:
        """Return whether the search must end early."""
        raise NotImplementedError

    def improves(self, bound: Any) -> bool:
        """Return whether a solution that costs `bound` improves on the best one."""
        return bool(bound < self.cost)

    def search(self, depth: int = 0) -> None:
        """Search below the first `depth` decisions, which have been made already.

        Raises
        ------
        Stopped
            If the run has to end; every decision has been undone.
        """
        first = depth
        path: list[Any] = []
        levels = [self.branches(depth)]
        try:
            while levels and self._enough < self.cost:
                check()
                found = next(levels[-1], None)
                if found is not None and self.must_end():
                    self.proved = False
                    return
                if found is None or not self.improves(found[0]):
                    levels.pop()
                    if path:
                        self.leave(first + len(path) - 1, path.pop())
                    continue
                bound, choice = found
                depth = first + len(path)
                self.enter(depth, choice)
                path.append(choice)
                if depth + 1 < self._depth:
                    if self.promises(depth):
                        levels.append(self.branches(depth + 1))
                        continue
                elif self.accept(bound):
                    self.cost = bound
                self.leave(depth, path.pop())
        finally:
            while path:
                self.leave(first + len(path) - 1, path.pop())
