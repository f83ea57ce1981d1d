"""Failures played through in arrays, from what counting keeps: rows of nodes and queues.

The same moves as `iallocator.n1.simulation` makes, for instances on one node without tags,
where only memory and disk decide whether a node takes them.  What an instance adds to a
statistic is linear in its amounts, so that no formula is evaluated twice; as soon as all that
is left to move is equal, each of them takes one slot, whatever is chosen, and slots are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.model.columns import COLUMNS
from iallocator.model.node_view import NodeView
from iallocator.n1.counting.batch import Batch
from iallocator.n1.counting.forms import Forms
from iallocator.n1.counting.ground import Ground
from iallocator.scoring.metrics import STATISTICS
from iallocator.scoring.score_delta import NO_CENTRES, counting, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.aliases import Floats
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.counting.queues import Leaving, Vector

    Coming = tuple[Instance, Sequence[int]]
    """The nodes to which equal instances come one after the other, and one of these."""

__all__ = ["Playback"]

CELLS = 60_000
"""Failures × nodes that are worked on at a time: all their statistics should stay near the
processor."""


class _Head(NamedTuple):
    """What leaves a node before the last run: in order, as an array, and which kinds there are."""

    vectors: list[Vector]
    amounts: Floats
    kinds: frozenset[Vector]


class Playback:
    """Plays failures through over the nodes in `scope`; one group's `targets` take over.

    `matrix` holds the capacities of all nodes, see `iallocator.scoring.arrays`.
    """

    def __init__(
        self, state: State, matrix: Floats, scope: Sequence[int], targets: Sequence[int]
    ) -> None:
        self._state = state
        self._scope = np.array(scope, dtype=np.intp)
        self._position = {index: k for k, index in enumerate(scope)}
        self._every = all(index == k for index, k in self._position.items())
        self._allowed = np.zeros(len(scope), dtype=bool)
        self._allowed[[self._position[index] for index in targets]] = True
        self._fixed = list(matrix[:, self._scope])
        self._per_amount = self._coefficients()
        view = self._view([np.zeros(len(scope))] * len(COLUMNS))
        self._counted = np.stack(
            [np.broadcast_to(counting(k, view), (len(scope),)) for k in range(len(STATISTICS))]
        ).astype(np.float64)
        self._version = -1
        self._heads: dict[int, _Head] = {}
        self._forms = Forms(self._per_amount, self._counted)
        self._columns: Floats = np.empty(0)
        self._values: Floats = np.empty(0)

    def lost(
        self,
        failing: Sequence[int],
        leaving: Sequence[Leaving],
        coming: Sequence[Coming | None],
    ) -> list[bool]:
        """Whether each of the failures loses somebody.

        Number i is the failure of node ``failing[i]``, from which ``leaving[i]`` has to be moved,
        with the instances ``coming[i]`` on their nodes beside what `state` holds; those on the
        node that fails are among what leaves already.
        """
        if not failing:  # there may be no node at all that could
            return []
        self._renew()
        size = max(1, CELLS // len(self._scope))
        found: list[bool] = []
        for start in range(0, len(failing), size):
            part = slice(start, start + size)
            found += self._batch(failing[part], leaving[part], coming[part]).run().tolist()
        return found

    @property
    def _ground(self) -> Ground:
        return Ground(self._columns, self._values, self._per_amount, self._counted, self._allowed)

    def _batch(
        self,
        failing: Sequence[int],
        leaving: Sequence[Leaving],
        coming: Sequence[Coming | None],
    ) -> Batch:
        heads = [self._head_of(node, one) for node, one in zip(failing, leaving)]
        vectors = [None if one is None else one[0].as_primary for one in coming]
        different = {id(head): head.kinds for head in heads}.values()
        kinds = {one for one in vectors if one is not None}.union(*different)
        return Batch(
            self._ground,
            self._forms.of(kinds, self._values, self._version),
            np.array(self._positions(failing), dtype=np.intp),
            leaving,
            [head.amounts for head in heads],
            vectors,
            [() if one is None else self._positions(one[1]) for one in coming],
        )

    def _positions(self, nodes: Sequence[int]) -> Sequence[int]:
        """Where they are in the scope."""
        return nodes if self._every else [self._position[node] for node in nodes]

    def _head_of(self, node: int, leaving: Leaving) -> _Head:
        """The head of what leaves `node`; kept for as long as it is the same."""
        known = self._heads.get(node)
        if known is None or known.vectors is not leaving.head:
            amounts = np.array(leaving.head, dtype=np.float64).reshape(-1, len(COLUMNS))
            known = self._heads[node] = _Head(leaving.head, amounts, frozenset(leaving.head))
        return known

    def _renew(self) -> None:
        """Look at the state again if it has changed."""
        if self._version == self._state.version:
            return
        whole = np.array(self._state.columns, dtype=np.float64)
        self._columns = whole[:, self._scope]
        found = values(self._view(list(self._columns)), NO_CENTRES)
        stacked = np.stack(np.broadcast_arrays(*found, self._columns[0])[:-1])
        count = np.maximum(self._counted.sum(axis=1, keepdims=True), 1.0)
        self._values = stacked - self._counted * (stacked.sum(axis=1, keepdims=True) / count)
        self._version = self._state.version

    def _view(self, columns: Sequence[Floats]) -> NodeView:
        return NodeView(columns, self._fixed, np.zeros(self._scope.size))

    def _coefficients(self) -> Floats:
        """Columns × statistics × nodes: what one more in a column adds to a statistic there.

        Made of nothing and one, so that they are exact.
        """
        nothing, one = np.zeros(self._scope.size), np.ones(self._scope.size)
        found = np.empty((len(COLUMNS), len(STATISTICS), self._scope.size))
        none = [nothing] * len(COLUMNS)
        start = values(self._view(none), NO_CENTRES)
        for column in range(len(COLUMNS)):
            after = values(self._view([*none[:column], one, *none[column + 1 :]]), NO_CENTRES)
            for k, (new, old) in enumerate(zip(after, start)):
                found[column, k] = new - old
        return found
