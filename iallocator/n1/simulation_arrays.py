"""Simulate many failures of one group at once, in arrays of failures × nodes.

The steps are those of `iallocator.n1.simulation`, for drbd instances and instances on shared
storage without placement tags. After each step, bounds check the instances that are left; they
decide most failures after a few steps.

`iallocator.n1.batched_simulation` simulates many placements at once, but supports neither drbd nor
pools nor colocation groups.  `docs/design/n1.md` has the times that each of the two modules saves.

Cost: O(f n) per step for *f* failures and *n* nodes, in blocks of `MOST_FAILURE_NODES` elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.constraints.table import move_rejections
from iallocator.limits.node import other_limits
from iallocator.model.columns import COLUMNS, MEMORY
from iallocator.n1 import PACKED_LIMITS
from iallocator.scoring.arrays import ManyStates, capacity_matrix

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from numpy.typing import NDArray

    from iallocator.aliases import Floats
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import Capacities
    from iallocator.model.state import State
    from iallocator.n1 import Failure, Rules

    class Steps(Protocol):
        """The steps of a simulation that precede the choice of nodes."""

        def failovers_fail(self, failure: Failure) -> bool:
            """Carry out the failovers; return whether one cannot be done."""

        def movers(self, node: int) -> list[list[Instance]]:
            """Return the instances of `node` that move; a colocation group is one item."""


__all__ = ["lost_failures", "suits"]

MOST_FAILURE_NODES = 250_000
"""The most failures × nodes in one batch; the number bounds the memory that the arrays use."""


def suits(state: State, group: Group, rules: Rules, failing: Sequence[Failure]) -> bool:
    """Return whether `lost_failures` can simulate the failures `failing` of `group` in arrays.

    Location tags do not matter: moved instances have one node, and locations count pairs of nodes.
    """
    nodes = state.cluster.nodes
    if any(nodes[i].migration for one in failing if len(one) > 1 for i in one):
        return False  # the nodes of one failure may have different targets
    if other_limits(group, *PACKED_LIMITS) or rules.namesake is not None:
        return False
    primaries = [i for index in group.nodes for i in state.primaries[index].values()]
    return not any(
        i.exclusion
        or i.desired
        or rules.recreates(i)
        or (group.exclusive and ((i.local and not i.needs_secondary) or i.hides_spindles))
        for i in primaries
    )


def lost_failures(
    simulation: Steps,
    state: State,
    fixed: Capacities,
    rules: Rules,
    failing: Sequence[Failure],
) -> list[Failure]:
    """Return those of `failing`, all in one group, after which an instance is not restarted."""
    group = state.cluster.nodes[failing[0][0]].group
    size = max(1, MOST_FAILURE_NODES // len(group.nodes))
    lost: list[Failure] = []
    for start in range(0, len(failing), size):
        part = failing[start : start + size]
        lost += _Batch(simulation, state, fixed, rules, group, part).run()
    return lost


class _Batch:
    """One batch of failures of one group, simulated together in arrays of failures × nodes."""

    def __init__(
        self,
        simulation: Steps,
        state: State,
        fixed: Capacities,
        rules: Rules,
        group: Group,
        failing: Sequence[Failure],
    ) -> None:
        self._group, self._rules = group, rules
        position = {index: k for k, index in enumerate(group.nodes)}
        self.lost: list[Failure] = []
        rows: list[Floats] = []
        reserved: list[Floats] = []
        movers: list[list[list[Instance]]] = []
        sources: list[list[int]] = []  # the failed node of each item
        kept: list[Failure] = []
        for failure in failing:
            with state.trial():
                if simulation.failovers_fail(failure):
                    self.lost.append(failure)
                    continue
                kept.append(failure)
                leaving = [(node, item) for node in failure for item in simulation.movers(node)]
                movers.append([item for _, item in leaving])
                sources.append([position[node] for node, _ in leaving])
                columns = [[column[i] for i in group.nodes] for column in state.columns]
                rows.append(np.array(columns, dtype=np.float64))
                reserved.append(np.array([state.reserved[i] for i in group.nodes], np.float64))
        self._kept = kept
        self._failing = np.arange(len(kept))  # positions in `_kept`
        if not kept:
            return
        capacities = capacity_matrix([fixed[i] for i in group.nodes])
        self._states = ManyStates(np.stack(rows, axis=1), capacities, np.stack(reserved))
        self._own = np.zeros((len(kept), max(map(len, sources))), dtype=np.intp)
        for k, places in enumerate(sources):
            self._own[k, : len(places)] = places
        allowed = np.zeros((len(kept), len(group.nodes)), dtype=bool)
        targets = rules.targets(state.cluster, group)
        for k, failure in enumerate(kept):
            barred = {t for node in failure for t in move_rejections(state.cluster, node, targets)}
            barred.update(failure)
            allowed[k, [position[t] for t in targets if t not in barred]] = True
        self._allowed = allowed
        # Per failure: the vector and the memory of each item, and the number of items
        longest = max((len(queue) for queue in movers), default=0)
        vectors = np.zeros((len(movers), longest, len(COLUMNS)))
        memory = np.zeros((len(movers), longest))
        for k, queue in enumerate(movers):
            if queue:
                vectors[k, : len(queue)] = [_vector(item) for item in queue]
                memory[k, : len(queue)] = [
                    sum(one.memory for one in item if one.uses_memory) for item in queue
                ]
        left = np.array([len(queue) for queue in movers], dtype=np.intp)
        self._vectors, self._memory, self._left = vectors, memory, left
        # For each failure and item: a number for the set of nodes with access; for each set and
        # node: whether the node is in the set
        kinds = np.full((len(movers), longest), -1, dtype=np.intp)
        known: dict[frozenset[int] | None, int] = {None: 0}
        for k, queue in enumerate(movers):
            for n, item in enumerate(queue):
                kinds[k, n] = known.setdefault(state.cluster.reach_of_all(item), len(known))
        reach = np.ones((len(known), len(group.nodes)), dtype=bool)
        for nodes, kind in known.items():
            if nodes is not None:
                reach[kind] = [index in nodes for index in group.nodes]
        self._kinds, self._reach = kinds, reach
        self._tails = _tails(self._memory, self._kinds, self._left)

    def run(self) -> list[Failure]:
        """Restart all instances; return the failures in which an instance cannot be restarted."""
        if not self._failing.size:
            return self.lost
        states = self._states
        for step in range(self._vectors.shape[1]):
            # Drop the failures that bounds decide before an instance is moved
            queued = self._memory[:, step:]
            moved = queued.sum(axis=1)
            safe = np.ones(moved.size, dtype=bool)
            proved_lost = np.zeros(moved.size, dtype=bool)
            for kind, reach in enumerate(self._reach):
                waiting = self._kinds[:, step:] == kind
                memory = np.where(self._allowed & reach, states.columns[MEMORY] - 1, -1)
                need = (queued * waiting).max(axis=1, initial=0)
                room = np.maximum(memory - need[:, None] + 1, 0) * (memory >= 0)
                some = waiting.any(axis=1)
                safe &= ~some | (room.sum(axis=1) > moved - need)
                bound = sum(
                    (queued * (self._kinds[:, step:] == k)).sum(axis=1)
                    for k, other in enumerate(self._reach)
                    if not (other & ~reach).any()
                )
                proved_lost |= some & (np.maximum(memory, 0).sum(axis=1) < bound)
                proved_lost |= some & (memory.max(axis=1) < need)
            # Where all instances that are left are equal, each takes exactly one slot, whatever is
            # chosen; elsewhere both numbers are NaN
            each = np.where((self._tails <= step) & (self._memory[:, step] > 0), 1.0, np.nan)
            each *= self._memory[:, step]
            usable = self._allowed & self._reach[self._kinds[:, step]]
            free = np.where(usable, np.maximum(states.columns[MEMORY] - 1, 0), 0)
            slots = np.floor(free / each[:, None]).sum(axis=1)
            wanted = self._left - step + 0 * each
            safe |= slots >= wanted
            proved_lost |= slots < wanted
            done = (self._left <= step) | safe
            self._record_lost(lost=proved_lost & ~done, done=done)
            if not self._failing.size:
                break
            self._rules.spend(self._allowed.size)
            # Move the next instance of every failure to the node with the best score
            vector = self._vectors[:, step].T  # columns × failures
            states.add(self._own[:, step], -vector)
            allowed = self._allowed & self._reach[self._kinds[:, step]]
            allowed &= states.columns[MEMORY] + vector[MEMORY][:, None] > 0
            scores = np.where(allowed, states.scores(vector), np.inf)
            best = scores.argmin(axis=1)
            states.add(best, vector)
            stuck = ~np.isfinite(scores.min(axis=1))
            self._record_lost(lost=stuck, done=np.zeros_like(stuck))
        return self.lost

    def _record_lost(self, lost: NDArray[np.bool_], done: NDArray[np.bool_]) -> None:
        self.lost += [self._kept[k] for k in self._failing[lost].tolist()]
        keep = ~(lost | done)
        if keep.all():
            return
        for name in ("_failing", "_own", "_allowed", "_vectors", "_memory", "_left", "_kinds",
                     "_tails"):  # fmt: skip
            setattr(self, name, getattr(self, name)[keep])
        self._states.keep(keep)


def _vector(item: Sequence[Instance]) -> Sequence[float]:
    """Return the amounts that all of `item` add to their primary, one for each column."""
    if len(item) == 1:
        return item[0].as_primary
    return [sum(amounts) for amounts in zip(*(one.as_primary for one in item))]


def _tails(memory: Floats, kinds: NDArray[np.intp], left: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return for each failure where its last run of items of equal memory and access begins.

    An item has the instances that restart on one node together. `memory`, `kinds`: failures ×
    items; `left`: the number of items of each failure.
    """
    tails = np.zeros_like(left)
    for k, count in enumerate(left.tolist()):
        if not count:
            continue
        last = count - 1
        same = (memory[k, :count] == memory[k, last]) & (kinds[k, :count] == kinds[k, last])
        different = np.flatnonzero(~same)
        tails[k] = different[-1] + 1 if different.size else 0
    return tails
