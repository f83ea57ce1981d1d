"""Batched simulation: many failures simulated at once in arrays, one failure in each row.

The steps are those of `iallocator.n1.simulation`. Instances must be on one node, so that only
memory, disk, and the set of nodes that are open to them decide whether a node accepts them.  Each
node fails alone: the scores of a row assume that all instances leave one node.  The scores are
those of `iallocator.scoring.incremental_batch`.  As soon as all instances left in a row are equal,
each of them takes one slot, whichever node it restarts on, and the slots are counted.

Cost: O(f n) per step for *f* failures and *n* nodes, in blocks of `FAILURE_NODES_AT_ONCE` elements.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.model.columns import COLUMNS, DISK, MEMORY
from iallocator.n1 import ANY_NUMBER
from iallocator.scoring.incremental_batch import BatchBasis, BatchScores

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iallocator.aliases import Floats, Indices, Truths
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1 import Failure
    from iallocator.n1.slots import Leaving, Vector
    from iallocator.scoring.incremental_batch import SharedBatchData

    Arrivals = tuple[Instance, Sequence[int]]
    """An instance, and the nodes on which several equal instances are placed, in this order."""

__all__ = ["Arrivals", "BatchedSimulation"]


def slots_for(memory: Floats, disk: Floats, need: Floats) -> Floats:
    """Return how many instances of size `need` fit into the free `memory` and `disk` (MiB) of each
    node.

    Some memory must remain, and some disk if the instances need any. `need` has memory and disk in
    its last dimension; the other dimensions are those of `memory`.
    """
    slots = _slots(memory, need[..., 0])
    if not need[..., 1].any():
        return slots
    return np.minimum(slots, np.where(need[..., 1] > 0, _slots(disk, need[..., 1]), ANY_NUMBER))


def _slots(free: Floats, each: Floats) -> Floats:
    """Return how often `each` fits into `free` with more than 0 left over.

    If `each` is 0, the result is `ANY_NUMBER`, or 0 if nothing is free.
    """
    some = np.maximum(np.ceil(free / np.maximum(each, 1.0)) - 1.0, 0.0)
    return np.where(each > 0, some, np.where(free > 0, ANY_NUMBER, 0.0))


class _Batch:
    """One batch of simulated failures of single nodes, with a row of the arrays for each failure.

    Rows are sorted by the lengths of their queues, the longest first. So the rows with an instance
    left to restart are always the first ones; the other rows keep their last values.

    Parameters
    ----------
    basis:
        The capacities and statistics of the present state.
    shared:
        The data of `basis` for all sizes of instances in the batch.
    allowed:
        Sets × nodes: which nodes may take over for instances that may restart on the nodes of this
        set. The first set has all nodes that may take over.
    own:
        The position of the failed node of each failure.
    leaving:
        For each failure, the instances that must restart on other nodes.
    heads:
        For each failure, the instances of ``leaving[i].head``.
    coming, at:
        Before failure ``i``, new instances are placed on the nodes at the positions ``at[i]``. Each
        of them adds the amounts ``coming[i]`` to the columns of its node.
    """

    def __init__(
        self,
        basis: BatchBasis,
        shared: SharedBatchData,
        allowed: Truths,
        own: Indices,
        leaving: Sequence[Leaving],
        heads: Sequence[_Head],
        coming: Sequence[Vector | None],
        at: Sequence[Sequence[int]],
    ) -> None:
        self._allowed = allowed
        columns, values = basis.present()
        lengths = np.array([len(head.amounts) for head in heads], dtype=np.intp)
        self._rows: Indices = np.argsort(-lengths, kind="stable")
        self._left = lengths[self._rows]
        # the number of rows that have an instance left; they are the first ones
        self._busy = lengths.size
        self._own = own[self._rows]
        order = self._rows.tolist()
        tails = [(*leaving[old].need[:2], leaving[old].times) for old in order]
        self._tails = np.array(tails, dtype=np.float64).reshape(-1, 3)
        self._tail_sets = np.array([leaving[old].need[2] for old in order], dtype=np.intp)
        self._lost = np.zeros(lengths.size, dtype=bool)  # in the order of the arguments
        self._memory = np.repeat(columns[None, MEMORY], lengths.size, axis=0)
        self._disk = np.repeat(columns[None, DISK], lengths.size, axis=0)
        kinds: dict[tuple[int, int], _Head] = {}  # by their owners, in the order of rows
        keys = [(id(heads[old]), node) for old, node in zip(order, self._own.tolist())]
        kinds.update(zip(keys, (heads[old] for old in order)))
        place = {key: number for number, key in enumerate(kinds)}
        self._kinds: Indices = np.array([place[key] for key in keys], dtype=np.intp)
        every = [head.amounts for head in kinds.values()]
        moved = np.concatenate([*every, np.empty((0, len(COLUMNS)))])
        # The nodes that have capacity for any of these vectors at the beginning
        open_to = self._allowed[0].copy()
        self._disks = bool(moved[:, DISK].any())
        if len(moved):
            open_to &= columns[MEMORY] + moved[:, MEMORY].max() > 0
            least = moved[:, DISK].max()
            if least < 0:
                open_to &= columns[DISK] + least > 0
        self._open: Indices = np.flatnonzero(open_to)
        self._scores = BatchScores(shared, values, self._own, self._kinds, self._open)
        nothing = (0.0,) * len(COLUMNS)
        vectors = np.array([coming[old] or nothing for old in order])
        self._arrive(vectors, [at[old] for old in order])
        # The free memory and disk of the open nodes; the failed node has none
        self._free = np.take(self._memory, self._open, axis=1)
        self._free_disk = np.take(self._disk, self._open, axis=1)
        column = np.full(allowed.shape[1], -1, dtype=np.intp)
        column[self._open] = np.arange(self._open.size)
        mine = column[self._own]
        self._free[np.flatnonzero(mine >= 0), mine[mine >= 0]] = -np.inf
        self._every: Indices = np.arange(self._rows.size)
        self._first: Indices = self._every * self._open.size  # of each row, among all

        self._prepare_steps(kinds, moved)

    def _prepare_steps(self, kinds: dict[tuple[int, int], _Head], moved: Floats) -> None:
        """Compute for every step the capacity that its instances need, where they may restart, and
        their effect on the scores.

        Rows with equal heads and the same failed node are of one kind. `moved`: the vectors of all
        heads of `kinds`.
        """
        own = np.array([node for _, node in kinds], dtype=np.intp)
        lengths = np.zeros(own.size, dtype=np.intp)
        lengths[self._kinds] = self._left
        used = np.arange(lengths.max(initial=0)) < lengths[:, None]
        vectors = np.zeros((*used.shape, len(COLUMNS)))
        vectors[used] = moved
        vectors = vectors.transpose(1, 2, 0)  # steps × columns × kinds
        self._needed = -vectors[:, (MEMORY, DISK)].take(self._kinds, axis=2)
        # Steps × rows: the number of the set of nodes on which the instance may restart; None if
        # every instance may restart on all nodes
        self._sets: Indices | None = None
        reaches = [number for head in kinds.values() for number in head.reaches]
        if any(reaches):
            sets = np.zeros(used.shape, dtype=np.intp)
            sets[used] = reaches
            self._sets = sets.T.take(self._kinds, axis=1)
            self._barred = ~self._allowed[:, self._open]
        self._scores.start(vectors, own)

    def _arrive(self, vectors: Floats, at: Sequence[Sequence[int]]) -> None:
        """Place the new instances of each row before its failure: add its vector to the nodes at
        its positions in `at`. A position that occurs twice receives the vector twice.
        """
        nodes = self._memory.shape[1]
        came = np.fromiter(chain.from_iterable(at), dtype=np.intp)
        if not came.size:
            return
        keys = np.repeat(np.arange(len(at)) * nodes, [len(path) for path in at]) + came
        times = np.bincount(keys)
        keys = np.flatnonzero(times)
        row, node = np.divmod(keys, nodes)
        added = vectors[row] * times[keys, None]
        self._memory[row, node] += added[:, MEMORY]
        self._disk[row, node] += added[:, DISK]
        self._scores.arrive(row, node, added)

    def run(self) -> Truths:
        """Simulate all restarts; return for each failure whether an instance is lost."""
        for step in range(len(self._needed)):
            while self._busy and self._left[self._busy - 1] <= step:
                self._busy -= 1
            if self._busy and self._open.size:
                self._move(step, self._busy)
            elif self._busy:
                self._drop_lost(np.arange(self._rows.size) < self._busy)
        if self._rows.size:  # all instances that are left in a row are equal
            memory, disk = self._memory, self._disk
            memory[:, self._open], disk[:, self._open] = self._free, self._free_disk
            slots = slots_for(memory, disk, self._tails[:, None, :2])
            slots *= self._allowed[self._tail_sets]
            slots[self._every[: self._rows.size], self._own] = 0
            self._lost[self._rows] = slots.sum(axis=1) < self._tails[:, 2]
        return self._lost

    def _drop_lost(self, stuck: Truths) -> None:
        """Record that the failures of the rows `stuck` are not tolerated, and drop these rows.

        In each of them, an instance cannot be restarted.
        """
        self._lost[self._rows[stuck]] = True
        self._busy -= int(np.count_nonzero(stuck))
        rows = ~stuck
        self._rows, self._left, self._own = self._rows[rows], self._left[rows], self._own[rows]
        self._tails, self._tail_sets = self._tails[rows], self._tail_sets[rows]
        self._memory, self._disk = self._memory[rows], self._disk[rows]
        self._free, self._free_disk = self._free[rows], self._free_disk[rows]
        self._needed = self._needed.compress(rows, axis=2)
        if self._sets is not None:
            self._sets = self._sets.compress(rows, axis=1)
        self._scores.keep(rows)

    def _move(self, step: int, active: int) -> None:
        """Restart the instance at position `step` of each queue on the node with the lowest score.

        Only the first `active` rows have an instance at this position. A row without a node for its
        instance is dropped, and its failure is recorded as not tolerated.
        """
        needed = self._needed[step, :, :active, None]
        closed = self._free[:active] <= needed[0]
        if self._disks:
            closed |= (needed[1] != 0) & (self._free_disk[:active] <= needed[1])
        if self._sets is not None:
            closed |= self._barred[self._sets[step, :active]]
        scores = self._scores.scores(step, active)
        np.putmask(scores, closed, np.inf)
        best = scores.argmin(axis=1)
        stuck = closed.take(self._first[:active] + best)
        if np.logical_or.reduce(stuck):
            self._drop_lost(np.concatenate((stuck, np.zeros(self._rows.size - active, dtype=bool))))
            best = best[~stuck]
        if best.size:
            rows = best.size
            places = self._first[:rows] + best
            self._free.reshape(-1)[places] -= self._needed[step, 0, :rows]
            if self._disks:
                self._free_disk.reshape(-1)[places] -= self._needed[step, 1, :rows]
            self._scores.place(best, places)


FAILURE_NODES_AT_ONCE = 60_000
"""The most failures × nodes in one batch: all their statistics should stay in the processor's
cache."""


class _Head(NamedTuple):
    """The instances of a failure that restart before its last run of equal instances.

    Attributes
    ----------
    vectors:
        The amounts of each instance, in the order of the restarts.
    amounts:
        The array of `vectors`, instances × columns.
    reaches:
        The number of the set of nodes on which each instance may restart.
    kinds:
        The different vectors.
    """

    vectors: list[Vector]
    amounts: Floats
    reaches: list[int]
    kinds: frozenset[Vector]


class BatchedSimulation:
    """Simulates failures of single nodes in arrays; the scores are computed over the nodes in
    `scope`.

    `matrix`: the capacities of all nodes, see `iallocator.scoring.arrays`. `sets`: sets of nodes of
    one group on which instances may be restarted; the first has all that may take over. `Leaving`
    has positions in this list, to which later sets may be appended.
    """

    @staticmethod
    def suits(failing: Iterable[Failure]) -> bool:
        """Return whether `lost` can simulate all of `failing`: in each of them, only one node
        fails.
        """
        return all(len(failure) == 1 for failure in failing)

    def __init__(
        self, state: State, matrix: Floats, scope: Sequence[int], sets: Sequence[Collection[int]]
    ) -> None:
        self._position = {index: k for k, index in enumerate(scope)}
        self._every = all(index == k for index, k in self._position.items())
        self._sets = sets
        self._allowed: Truths = np.zeros((0, len(scope)), dtype=bool)
        self._basis = BatchBasis(state, matrix, scope)
        self._heads: dict[Failure, _Head] = {}

    def lost(
        self,
        failing: Sequence[Failure],
        leaving: Sequence[Leaving],
        coming: Sequence[Arrivals | None],
    ) -> list[bool]:
        """Return for each failure of one node whether an instance cannot be restarted after it.

        The instances ``leaving[i]`` leave the nodes of ``failing[i]``. The instances ``coming[i]``
        are on their nodes in addition to the state; those on failed nodes are part of
        ``leaving[i]``.
        """
        if not failing:  # the group may have no node that can fail
            return []
        self._add_sets()
        size = max(1, FAILURE_NODES_AT_ONCE // self._allowed.shape[1])
        results: list[bool] = []
        for start in range(0, len(failing), size):
            part = slice(start, start + size)
            some, came = leaving[part], coming[part]
            heads = [self._head_of(failure, one) for failure, one in zip(failing[part], some)]
            own = list(chain.from_iterable(failing[part]))
            vectors = [None if one is None else one[0].as_primary for one in came]
            different = {id(head): head.kinds for head in heads}.values()
            kinds = {one for one in vectors if one is not None}.union(*different)
            batch = _Batch(
                self._basis,
                self._basis.shared(kinds),
                self._allowed,
                np.array(self._positions(own), dtype=np.intp),
                some,
                heads,
                vectors,
                [() if one is None else self._positions(one[1]) for one in came],
            )
            results += batch.run().tolist()
        return results

    def _add_sets(self) -> None:
        """Add the sets of nodes that are new since the last call."""
        for nodes in self._sets[len(self._allowed) :]:
            row = np.isin(list(self._position), list(nodes))
            self._allowed = np.concatenate((self._allowed, row[None]))

    def _positions(self, nodes: Sequence[int]) -> Sequence[int]:
        """Return the positions of `nodes` in the scope."""
        return nodes if self._every else [self._position[node] for node in nodes]

    def _head_of(self, failure: Failure, leaving: Leaving) -> _Head:
        """Return the head of `leaving`: its instances before the last run of equal ones. The head
        of this failure is cached until it changes.
        """
        known = self._heads.get(failure)
        if known is None or known.vectors is not leaving.head:
            amounts = np.array(leaving.head, dtype=np.float64).reshape(-1, len(COLUMNS))
            known = self._heads[failure] = _Head(
                leaving.head, amounts, leaving.reaches, frozenset(leaving.head)
            )
        return known
