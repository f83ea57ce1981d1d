"""Slots: how often equal instances fit on the targets, and which failures that leaves undecided.

Arrays over sizes × nodes and sizes × failures.  The results equal those of
`GroupCounting.tolerates_failure` for one failure after the other.

Cost: O(s n) for *s* sizes and *n* nodes per call; of what is kept, only changed nodes are counted
again.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import DISK, MEMORY
from iallocator.n1.queues import cost_of, fits_into

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from iallocator.aliases import Indices, Truths
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.queues import Need, Queue, Required

    Integers = NDArray[np.int64]

__all__ = [
    "ANY_NUMBER",
    "Margin",
    "SpareSlots",
    "UndecidedFailures",
    "slots_of_node",
    "slots_of_nodes",
]


ANY_NUMBER = 1 << 40


def slots_left(
    state: State, needs: Integers, nodes: Sequence[int], taken: Need
) -> tuple[Integers, Integers]:
    """Return sizes × nodes: the slots for each of `needs`, and the MiB that close a node to it.

    Each node has given `taken` before; some memory and disk must remain.
    """
    free = _left(state.columns[MEMORY], nodes) - taken[0]
    memory, disk = needs[:, :1], needs[:, 1:]
    slots = free // np.maximum(memory, 1)
    if not memory.all():
        slots = np.where(memory > 0, slots, np.where(free >= 0, ANY_NUMBER, 0))
    if disk.any():
        free_disk = _left(state.columns[DISK], nodes) - taken[1]
        some = np.minimum(slots, free_disk // np.maximum(disk, 1))
        slots = np.where(disk > 0, some, slots)
    return np.maximum(slots, 0), np.maximum(free - memory + 1, 0)


def _left(column: Sequence[float], nodes: Sequence[int]) -> Integers:
    """Return what each node can give of a column; -1 if it has nothing."""
    found = np.ceil(np.array([column[node] for node in nodes], dtype=np.float64))
    return found.astype(np.int64) - 1


def slots_of_nodes(state: State, need: Need, nodes: Sequence[int]) -> tuple[int, int]:
    """Return the slots for `need` on all of `nodes`, and the MiB of memory that close them."""
    slots, closing = slots_left(state, np.array([need], dtype=np.int64), nodes, (0, 0))
    return int(slots.sum()), int(closing.sum())


def slots_of_node(state: State, need: Need, node: int, taken: Need) -> tuple[int, int]:
    """Return the slots for `need` on `node` after it gives `taken`, and the MiB that close it.

    Some memory and disk must remain.
    """
    memory, disk = need
    free = ceil(state.columns[MEMORY][node]) - taken[0] - 1
    slots = (free // memory if memory else ANY_NUMBER) if free >= 0 else 0
    if disk:
        slots = min(slots, (ceil(state.columns[DISK][node]) - taken[1] - 1) // disk)
    return max(0, slots), max(0, free - memory + 1)


ABSENT = -1
"""The wanted slots, and the memory before, of a size that no instance of a failure has."""


class _FailureSlots:
    """The failures of one group (sizes × failures), and slots (sizes × nodes).

    The nodes that may fail come first, then other targets.  `queues` have the instances that leave
    each node, `targets` take over; `changed` receives every node that changes, and is emptied here.
    """

    def __init__(
        self,
        state: State,
        queues: Mapping[int, Queue],
        targets: Sequence[int],
        changed: set[int],
    ) -> None:
        self._state = state
        self._queues = queues
        self._changed = changed
        self._failing = list(queues)
        nodes = list(dict.fromkeys((*queues, *targets)))
        self._place = {node: k for k, node in enumerate(nodes)}
        self._targets = np.isin(nodes, targets)
        self._sizes: dict[Need, int] = {}
        self._needs: Integers = np.empty((0, 2), dtype=np.int64)
        self._wanted: Integers = np.empty((0, len(queues)), dtype=np.int64)
        self._before, self._taken = self._wanted.copy(), self._wanted.copy()
        self._slots: Integers = np.empty((0, len(nodes)), dtype=np.int64)
        self._closing = self._slots.copy()
        self._totals = self._slots.sum(axis=1), self._closing.sum(axis=1)
        self._disks = np.zeros(len(queues), dtype=bool)
        changed.update(nodes)

    def _required(self, node: int) -> Required:
        """Return what the failure of `node` requires; see `Queue.required`."""
        return self._queues[node].required

    def _needs_disks(self, node: int) -> bool:
        return self._queues[node].disks

    def _renew(self) -> None:
        """Count all changed nodes again."""
        known = [node for node in self._changed if node in self._place]
        self._changed.clear()
        if known:
            self._look(known)

    def _look(self, nodes: Sequence[int]) -> None:
        """Count the instances that leave `nodes`, and the slots there."""
        at = [self._place[node] for node in nodes]
        failing = [place for place in at if place < len(self._failing)]
        self._wanted[:, failing] = self._before[:, failing] = self._taken[:, failing] = ABSENT
        for place in failing:
            self._note(place, self._failing[place])
        self._slots[:, at], self._closing[:, at] = self._room(nodes, (0, 0))
        self._totals = self._slots.sum(axis=1), self._closing.sum(axis=1)

    def _note(self, place: int, node: int) -> None:
        """Count the instances that leave `node`."""
        self._disks[place] = self._needs_disks(node)
        for need, (units, before) in self._required(node).items():
            size = self._size(need)
            self._wanted[size, place], self._before[size, place] = units, before

    def _size(self, need: Need) -> int:
        """Return the row of a size, which may be new."""
        found = self._sizes.get(need)
        if found is None:
            found = self._sizes[need] = len(self._sizes)
            self._needs = np.concatenate((self._needs, [need]))
            absent = np.full((1, len(self._failing)), ABSENT, dtype=np.int64)
            self._wanted = np.concatenate((self._wanted, absent))
            self._before = np.concatenate((self._before, absent))
            self._taken = np.concatenate((self._taken, absent))
            nodes = list(self._place)
            slots, closing = slots_left(self._state, self._needs[-1:], nodes, (0, 0))
            self._slots = np.concatenate((self._slots, slots * self._targets))
            self._closing = np.concatenate((self._closing, closing * self._targets))
        return found

    def _room(self, nodes: Sequence[int], taken: Need) -> tuple[Integers, Integers]:
        """Return sizes × nodes: slots, and MiB that close them, after each node gives `taken`."""
        slots, closing = slots_left(self._state, self._needs, nodes, taken)
        usable = self._targets[[self._place[node] for node in nodes]]
        return slots * usable, closing * usable

    @property
    def _others(self) -> tuple[Integers, Integers]:
        """Return sizes × failures: slots, and MiB that close them, of all other targets."""
        count = len(self._failing)
        slots, closing = self._totals
        return slots[:, None] - self._slots[:, :count], closing[:, None] - self._closing[:, :count]


class UndecidedFailures(_FailureSlots):
    """The failures that counting does not decide, or proves intolerable."""

    def after(
        self, taken: Need, node: int, others: Sequence[tuple[int, int]] = ()
    ) -> tuple[dict[int, bool], list[bool | None]]:
        """Return the failures not proved tolerable with `taken` on `node`, and if they are lost.

        The failure of `node` itself is left out.  The second result is for `others`: for a failure
        and another node that gives `taken` instead, whether the failure is tolerated; None:
        undecided.
        """
        self._renew()
        less = self._less([node, *(other for _, other in others)], taken)
        sure, lost = self._known_by_bound(slice(None), less[:, :, :1])
        doubts = {
            self._failing[k]: bool(lost[k])
            for k in np.flatnonzero(~sure).tolist()
            if self._failing[k] != node
        }
        if not others:
            return doubts, []
        at = np.array([self._place[failing] for failing, _ in others], dtype=np.intp)
        told = zip(*(found.tolist() for found in self._known_by_bound(at, less[:, :, 1:])))
        return doubts, [True if one else False if no else None for one, no in told]

    def without(self, need: Need, failing: int) -> tuple[int, int] | None:
        """Count the slots for `need` on all targets except `failing`.

        Return the number of slots, and the memory in MiB that would fill them; None if no failure
        requires this size.
        """
        self._renew()
        size = self._sizes.get(need)
        if size is None:
            return None
        at = self._place[failing]
        slots, closing = (one[size] for one in self._totals)
        return int(slots - self._slots[size, at]), int(closing - self._closing[size, at])

    def _less(self, nodes: Sequence[int], taken: Need) -> Integers:
        """Return how many slots, and MiB that close them, each node loses by giving `taken`.

        Shape 2 × sizes × nodes.
        """
        found = np.zeros((2, len(self._needs), len(nodes)), dtype=np.int64)
        known = [k for k, node in enumerate(nodes) if node in self._place]
        at = [self._place[nodes[k]] for k in known]
        slots, closing = self._room([nodes[k] for k in known], taken)
        found[0][:, known] = self._slots[:, at] - slots
        found[1][:, known] = self._closing[:, at] - closing
        return found

    def _known_by_bound(self, failing: slice | Indices, less: Integers) -> tuple[Truths, Truths]:
        """Return which failures at these places are certainly tolerated, and which are lost.

        `less`: the slots, and MiB that close them, that are missing, for each failure or for all.
        """
        slots, closing = (one[:, failing] - two for one, two in zip(self._others, less))
        enough = slots >= self._wanted[:, failing]
        enough |= (closing > self._before[:, failing]) & ~self._disks[failing]
        sure: Truths = np.all(enough, axis=0)
        lost: Truths = np.any(self._taken[:, failing] > slots, axis=0)
        return sure, lost

    def margins(self) -> dict[Need, Margin]:
        """Return for each size the slots that each failure leaves at most."""
        self._renew()
        left = np.where(self._wanted == ABSENT, ANY_NUMBER, self._others[0] - self._taken)
        return {need: Margin(self._failing, left[size]) for need, size in self._sizes.items()}

    def _note(self, place: int, node: int) -> None:
        super()._note(place, node)
        queue = self._queues[node]
        for need in queue.required:
            self._taken[self._sizes[need], place] = queue.taken(need)


class Margin:
    """The least of the amounts of some nodes, and the least without one of them."""

    __slots__ = ("_least", "_node", "_second")

    def __init__(self, nodes: Sequence[int], amounts: Integers) -> None:
        at = int(amounts.argmin())
        self._node, self._least = nodes[at], int(amounts[at])
        others = np.delete(amounts, at)
        self._second = int(others.min(initial=ANY_NUMBER))

    def but(self, node: int) -> int:
        """Return the least amount without that of `node`."""
        return self._second if node == self._node else self._least


class SpareSlots(_FailureSlots):
    """How many more equal instances fit, on whichever nodes."""

    def __init__(
        self,
        state: State,
        queues: Mapping[int, Queue],
        targets: Sequence[int],
        changed: set[int],
    ) -> None:
        super().__init__(state, queues, targets, changed)
        self._instance: Instance | None = None
        self._positions: dict[int, int] = {}

    def count(self, instance: Instance) -> int:
        """Return the number for `instance`, which may be another one in each call."""
        self._compare(instance)
        self._renew()
        own = fits_into(instance)
        slots, closing = self._others
        cost = np.array([[cost_of(own, need)] for need in self._sizes], dtype=np.int64)
        some = (slots - self._wanted) // np.maximum(cost, 1)
        found = np.where(cost > 0, some, ANY_NUMBER * (slots >= self._wanted))
        free = closing - self._before
        more = (free - 1) // own[0] if own[0] else np.full_like(free, ANY_NUMBER)
        found = np.where((free > 0) & ~self._disks, np.maximum(found, more), found)
        found[self._wanted == ABSENT] = ANY_NUMBER
        return max(0, int(found.min(initial=ANY_NUMBER)))

    def _compare(self, instance: Instance) -> None:
        """Mark the nodes where `instance` has another place in the restarts than the last one."""
        known, self._instance = self._instance, instance
        if (
            known is None
            or known.as_primary != instance.as_primary
            or known.local != instance.local
        ):
            self._changed.update(self._queues)
        for node, queue in self._queues.items():
            position = queue.position(instance)
            if self._positions.get(node) != position:
                self._positions[node] = position
                self._changed.add(node)

    def _required(self, node: int) -> Required:
        assert self._instance is not None
        return self._queues[node].required_with(self._instance)

    def _needs_disks(self, node: int) -> bool:
        assert self._instance is not None
        return self._queues[node].disks or bool(fits_into(self._instance)[1])
