"""The score of a state that changes at few nodes at a time, kept from one look to the next."""

from __future__ import annotations

from iallocator.scoring.arrays import ArrayKernel, capacity_matrix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State

__all__ = ["KeptScore"]


class KeptScore:
    """The score of the nodes in `scope` of `state`; `fixed` holds the capacities of every node."""

    __slots__ = ("_changed", "_kernel", "_matrix", "_scope", "_state")

    def __init__(self, state: State, scope: Sequence[int], fixed: Capacities) -> None:
        self._state = state
        self._scope = scope
        self._matrix = capacity_matrix(fixed.all())
        self._kernel: ArrayKernel | None = None
        self._changed: set[int] = set()

    def look_again(self) -> None:
        """Look at every node: any may have changed, and sums that are carried on lose digits."""
        self._kernel = ArrayKernel(self._state, self._scope, self._matrix)
        self._changed = set()

    def after(self, touched: Collection[int]) -> float:
        """The score now that the state has changed at `touched` since `look_again`.

        Those nodes are looked at each time from then on: changes in a trial are taken back.
        """
        assert self._kernel is not None
        self._changed.update(touched)
        self._kernel.renew(sorted(self._changed))
        return self._kernel.score()
