"""Depth-first branch and bound: the one search for problems that an integer program cannot express.

A search makes one decision after the other.  It tries the choices of each decision in the order of
their lower bounds, as long as the bound improves on the best solution.

Three properties keep a problem out of the integer program (`iallocator.solver.highs`): its cost is
not linear (the score, the losses of failures), only a simulation knows which choices are possible
(draining nodes), or HiGHS is much slower (colouring). The subclasses name the measurements.
Packings (`iallocator.packing`) are too small: loading HiGHS takes longer than most searches.
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

        All earlier decisions have been made. For the last decision, the bound is the cost.
        """
        raise NotImplementedError

    def enter(self, depth: int, choice: Any) -> None:
        """Make decision `depth`: change the state of the search by `choice`."""
        raise NotImplementedError

    def leave(self, depth: int, choice: Any) -> None:
        """Undo decision `depth`, which was made last."""
        raise NotImplementedError

    def promises(self, depth: int) -> bool:
        """Return whether a solution with the choices made up to decision `depth` can be better."""
        return True

    def accept(self, cost: Any) -> bool:
        """Keep the present solution, and return True; return False if it is not valid."""
        raise NotImplementedError

    def must_end(self) -> bool:
        """Return whether the search must end before it has tried all choices."""
        raise NotImplementedError

    def improves(self, bound: Any) -> bool:
        """Return whether a solution that costs `bound` improves on the best one."""
        return bool(bound < self.cost)

    def search(self, depth: int = 0) -> None:
        """Try all choices of the decisions from `depth` on; the decisions before have been made.

        Raises
        ------
        Stopped
            If the run must end; every decision has been undone.
        """
        branches, enter, leave = self.branches, self.enter, self.leave
        improves, promises, must_end = self.improves, self.promises, self.must_end
        first, last = depth, self._depth - 1
        path: list[Any] = []
        levels = [branches(depth)]
        try:
            while levels and self._enough < self.cost:
                for bound, choice in levels[-1]:
                    check()
                    if must_end():
                        self.proved = False
                        return
                    if not improves(bound):
                        levels[-1] = iter(())  # the bounds of the other choices are no lower
                        break
                    enter(depth, choice)
                    path.append(choice)
                    if depth < last:
                        if promises(depth):
                            depth += 1
                            levels.append(branches(depth))
                            break
                    elif self.accept(bound):
                        self.cost = bound
                        leave(depth, path.pop())
                        break
                    leave(depth, path.pop())
                else:
                    levels.pop()
                    if path:
                        depth -= 1
                        leave(depth, path.pop())
        finally:
            while path:
                leave(first + len(path) - 1, path.pop())
