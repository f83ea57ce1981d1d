"""Slots: how many instances of a given size nodes can take, and how many a failure requires.

A slot is free capacity of a node for one instance of a given size. A target is a node that can
restart instances. An access constraint, for example a label or a storage pool, leaves an instance
only some of the targets; their set is part of its size. The queue of a failure has the instances
that must restart, in the order of their restarts. Equal instances that are restarted one after the
other are one run. So a queue of *m* instances in *r* runs is counted in O(r^2) steps, whatever *m*.

The slots of all targets are counted in arrays over sizes × nodes and sizes × failures.  The results
equal those of `GroupCounting.tolerates_failure` for one failure after the other.

Cost: O(s n) for *s* sizes and *n* nodes per call; kept counts are renewed for changed nodes only.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import chain
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iallocator.model.columns import DISK, MEMORY
from iallocator.n1 import ANY_NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from iallocator.aliases import Indices, Truths
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1 import Failure, Rules

    Need = tuple[int, int, int]
    """The size of an instance: MiB of memory, MiB of disk, and a number of `Sizes.sets`."""

    Turn = tuple[bool, int, float, float]
    """The sort key of restarts: the instance with the lowest key is restarted first."""

    Vector = tuple[float, ...]
    """The amounts that an instance adds to its primary, see `iallocator.model.columns`."""

    Entry = tuple[Turn, Need, Vector]

    Required = dict[Need, tuple[int, int]]
    """Size of an instance -> the slots that the other nodes must have so that every instance of
    that size finds one, and the MiB of memory restarted before the last of them."""

    Integers = NDArray[np.int64]

__all__ = [
    "NOTHING", "Leaving", "Margin", "Queue", "Sizes", "SpareSlots", "UndecidedFailures",
    "slots_of_node", "slots_of_nodes",
]  # fmt: skip


NOTHING = 0, 0, 0
"""The `Need` of an instance that uses neither memory nor disk, on any target."""


class Sizes:
    """The sizes of instances, and how many slots of one size an instance of another size takes.

    Parameters
    ----------
    targets:
        The nodes that may restart instances.
    reach:
        Instance -> the nodes that access constraints allow for it; None: all.

    Attributes
    ----------
    sets:
        The sets of targets on which instances may be restarted. The first one has all targets.
    """

    __slots__ = ("_numbers", "_reach", "sets")

    def __init__(
        self, targets: Iterable[int], reach: Callable[[Instance], frozenset[int] | None]
    ) -> None:
        self._reach = reach
        self.sets = [frozenset(targets)]
        self._numbers = {self.sets[0]: 0}

    def of(self, instance: Instance) -> Need:
        """Return the size of `instance`: what it uses on its primary, and where it may restart.

        A stopped instance may use no memory, and only local disks count.
        """
        nodes = self._reach(instance) if instance.restricted else None
        number = 0
        if nodes is not None:
            mine = self.sets[0] & nodes
            number = self._numbers.setdefault(mine, len(self.sets))
            if number == len(self.sets):
                self.sets.append(mine)
        memory = instance.memory if instance.uses_memory else 0
        return memory, instance.disk if instance.local else 0, number

    def most(self, given: Need, need: Need) -> int:
        """Return how many slots for `need` a target loses at most if an instance of size `given`
        comes.
        """
        if given[2] != need[2] and self.sets[given[2]].isdisjoint(self.sets[need[2]]):
            return 0
        return max([-(-one // size) for one, size in zip(given[:2], need) if size], default=0)

    def least(self, given: Need, need: Need) -> int:
        """Return how many slots for `need` the targets lose at least if an instance of size `given`
        restarts.
        """
        if given[2] != need[2] and not self.sets[given[2]] <= self.sets[need[2]]:
            return 0
        return min([one // size for one, size in zip(given[:2], need) if size], default=0)


class _Run:
    """Equal instances that are restarted one after the other."""

    __slots__ = ("count", "need")

    def __init__(self, need: Need, count: int = 1) -> None:
        self.need = need
        self.count = count


class Leaving(NamedTuple):
    """The instances that must restart after a failure, as they were when this object was made.

    The instances restart in runs of equal size. A vector has the amounts of one instance.

    Attributes
    ----------
    head:
        The vectors of all instances before the last run.
    reaches:
        For each of them, the number of the set of targets on which it may restart, as in
        `Sizes.sets`.
    need, times:
        The size of the last run, and its length.
    recreated:
        The values of `Rules.recreates` that occur among them.
    """

    head: list[Vector]
    reaches: list[int]
    need: Need
    times: int
    recreated: frozenset[bool]


class Queue:
    """The instances without a secondary that must restart after a failure, in restart order.

    Equal instances that restart one after the other are one run. A parameter `place` is the
    position in the failure of the node that an instance is on: instances of the first node are
    restarted before those of the next one, and those created anew come last.

    Attributes
    ----------
    required:
        Size -> the slots that the other nodes must have so that every instance of that size finds
        one, and the MiB of memory restarted before the last of them.
    disks:
        Whether an instance needs disk.
    """

    __slots__ = (
        "_before",
        "_entries",
        "_known",
        "_leaving",
        "_more",
        "_rules",
        "_runs",
        "_sizes",
        "disks",
        "required",
    )

    def __init__(self, rules: Rules, sizes: Sizes) -> None:
        self._rules = rules
        self._sizes = sizes
        self._entries: list[Entry] = []  # in the order of their restarts
        # The vectors before the last run, and their sets of targets; computed when needed
        self._before: tuple[list[Vector], list[int]] | None = None
        self._leaving: Leaving | None = None  # the result of `leaving`, once needed
        self._runs: list[_Run] = []
        # the result of `taken`, and the length of the last run then
        self._known: dict[Need, tuple[int, int]] = {}
        self._more: list[Need] = []  # the instance added by `with_one`, if it extends the last run
        self.required: Required = {}
        self.disks = False

    @property
    def moved(self) -> bool:
        """Return whether an instance must restart after the failure."""
        return bool(self._runs)

    def start(self, *primaries: Iterable[Instance]) -> None:
        """Set the queue to `primaries`: for each failed node, the instances with it as primary."""
        self._take(
            sorted(
                self._entry(one, place)
                for place, instances in enumerate(primaries)
                for one in instances
                if not one.forthcoming
            )
        )

    def add(self, instance: Instance, place: int = 0) -> None:
        """Add `instance` to the queue; its node is at position `place` of the failure."""
        entry = self._entry(instance, place)
        self._leaving = None
        if self._goes_last(entry):
            need = entry[1]
            self._entries.append(entry)
            self._runs[-1].count += 1
            units, before = self.required[need]
            self.required[need] = units + 1, before + need[0]
        else:
            insort(self._entries, entry)
            self._take(self._entries)

    def copy(self) -> Queue:
        """Return an independent copy."""
        twin = Queue(self._rules, self._sizes)
        twin._entries, twin._before = list(self._entries), self._before
        twin._known = dict(self._known)
        twin._runs = [_Run(run.need, run.count) for run in self._runs]
        twin._more, twin.disks = self._more, self.disks
        twin.required = dict(self.required)
        return twin

    def with_one(self, instance: Instance, place: int = 0) -> Queue:
        """Return a copy of the queue with `instance` added to it.

        `place` is the position of the node of `instance` in the failure.
        """
        twin = Queue(self._rules, self._sizes)
        entry = self._entry(instance, place)
        if self._goes_last(entry):
            need = entry[1]
            twin._runs, twin._more, twin.disks = self._runs, [need], self.disks
            twin._before, twin._entries, twin._known = self._head(), self._entries, self._known
            units, before = self.required[need]
            twin.required = self.required | {need: (units + 1, before + need[0])}
        else:
            twin._take(sorted([*self._entries, entry]))
        return twin

    def position(self, instance: Instance, place: int = 0) -> int:
        """Return how many instances of the queue are restarted before `instance`.

        `place` is the position of its node in the failure.
        """
        return bisect_right(self._entries, self._entry(instance, place))

    def required_with(self, instance: Instance, place: int = 0) -> Required:
        """Return the value of the attribute `required` after `instance` is added to the queue.

        `place` is the position of its node among the failed nodes.
        """
        need, most = self._sizes.of(instance), self._sizes.most
        # The run at its position, and whether the position lies inside the run
        position = self.position(instance, place)
        first, inside, start = len(self._runs), False, 0
        for number, run in enumerate(self._runs):
            if position < start + run.count:
                first, inside = number, position > start
                break
            start += run.count
        if (inside and self._runs[first].need != need) or not any(need[:2]):
            return self.with_one(instance, place).required
        required = dict(self.required)
        for other in dict.fromkeys(run.need for run in self._runs[first:]):
            units, before = required[other]
            required[other] = units + most(need, other), before + need[0]
        beside = {run.need for run in self._runs[max(0, first - 1) :]}
        if need not in beside:
            earlier = self._runs[:first]
            units = sum(run.count * most(run.need, need) for run in earlier)
            required[need] = units + 1, sum(run.count * run.need[0] for run in earlier)
        elif all(run.need != need for run in self._runs[first:]):
            units, before = required[need]
            required[need] = units + 1, before + need[0]
        return required

    def lost(self, slots: Sequence[int], others: Sequence[Need] = ()) -> bool:
        """Return whether some instance of the queue certainly cannot be restarted.

        `slots`: for each size in `required`, how many instances of this size fit on the other
        nodes. `others`: sizes of instances that must restart in addition to the queue.
        """
        least = self._sizes.least
        return any(
            self.taken(size) + sum(least(need, size) for need in (*self._more, *others)) > room
            for size, room in zip(self.required, slots)
        )

    def taken(self, size: Need) -> int:
        """Return how many slots for `size` the instances of the queue use at least."""
        last, least = self._runs[-1] if self._runs else _Run(NOTHING, 0), self._sizes.least
        if size not in self._known:
            known = sum(run.count * least(run.need, size) for run in self._runs)
            self._known[size] = known, last.count
        known, count = self._known[size]
        if count != last.count:
            known += (last.count - count) * least(last.need, size)
            self._known[size] = known, last.count
        return known

    def leaving(self) -> Leaving:
        """Return the instances that now leave the failed nodes; later changes do not affect it."""
        if self._leaving is None:
            count = self._runs[-1].count + len(self._more) if self._runs else 0
            need = self._runs[-1].need if self._runs else NOTHING
            ends = [*self._entries[:1], *self._entries[-1:]]  # those created anew come last
            recreated = frozenset(turn[0] for turn, _, _ in ends)
            self._leaving = Leaving(*self._head(), need, count, recreated)
        return self._leaving

    def _head(self) -> tuple[list[Vector], list[int]]:
        """Return the vectors and the sets of targets of the instances before the last run."""
        if self._before is None:
            count = len(self._entries) - self._runs[-1].count if self._runs else 0
            head = self._entries[:count]
            self._before = [vector for _, _, vector in head], [need[2] for _, need, _ in head]
        return self._before

    def _entry(self, instance: Instance, place: int) -> Entry:
        recreated = self._rules.recreates(instance)
        turn = recreated, place, -instance.memory if recreated else 0, instance.order
        return turn, self._sizes.of(instance), instance.as_primary

    def _goes_last(self, entry: Entry) -> bool:
        """Return whether `entry` extends the last run."""
        if not self._entries or not any(entry[1][:2]):
            return False
        return self._entries[-1][1] == entry[1] and self._entries[-1][0] <= entry[0]

    def _take(self, entries: list[Entry]) -> None:
        """Divide the sorted `entries` of the queue into runs of equal instances."""
        self._entries, self._before, self._known = entries, None, {}
        self._leaving = None
        self._runs = []
        for _, need, _ in entries:
            if self._runs and self._runs[-1].need == need:
                self._runs[-1].count += 1
            else:
                self._runs.append(_Run(need))
        self.disks = any(run.need[1] for run in self._runs)
        required: Required = {}
        memory, most = 0, self._sizes.most
        for number, run in enumerate(self._runs):
            before = sum(
                earlier.count * most(earlier.need, run.need) for earlier in self._runs[:number]
            )
            own = run.count if any(run.need[:2]) else 1
            required[run.need] = before + own, memory + (run.count - 1) * run.need[0]
            memory += run.count * run.need[0]
        self.required = required


def slots_left(
    state: State, needs: Integers, nodes: Sequence[int], own_need: Need
) -> tuple[Integers, Integers]:
    """Return two arrays of sizes × nodes: how many instances fit, and how many MiB must be used
    until none fits.

    An instance fits only if some memory and some disk remain free. `needs`: a row of memory and
    disk in MiB for each size. An instance of size `own_need` is placed on each node before.
    """
    free = _left(state.columns[MEMORY], nodes) - own_need[0]
    memory, disk = needs[:, :1], needs[:, 1:2]
    slots = free // np.maximum(memory, 1)
    if not memory.all():
        slots = np.where(memory > 0, slots, np.where(free >= 0, ANY_NUMBER, 0))
    if disk.any():
        free_disk = _left(state.columns[DISK], nodes) - own_need[1]
        some = np.minimum(slots, free_disk // np.maximum(disk, 1))
        slots = np.where(disk > 0, some, slots)
    return np.maximum(slots, 0), np.maximum(free - memory + 1, 0)


def _left(column: Sequence[float], nodes: Sequence[int]) -> Integers:
    """Return the amount of a column that can be used on each node so that some remains.

    The amount is -1 where nothing is free.
    """
    amounts = np.ceil(np.array([column[node] for node in nodes], dtype=np.float64))
    return amounts.astype(np.int64) - 1


def slots_of_nodes(state: State, need: Need, nodes: Sequence[int]) -> tuple[int, int]:
    """Return how many instances of size `need` fit on all of `nodes` together.

    The second number is how many MiB must be used on them until no instance fits on any.
    """
    slots, closing = slots_left(state, np.array([need], dtype=np.int64), nodes, NOTHING)
    return int(slots.sum()), int(closing.sum())


def slots_of_node(state: State, need: Need, node: int, own_need: Need) -> tuple[int, int]:
    """Return how many instances of size `need` fit on `node`, and the MiB to use until none fits.

    An instance of size `own_need` is placed on the node before.

    An instance fits only if some memory and some disk remain free.
    """
    memory, disk, _ = need
    free = ceil(state.columns[MEMORY][node]) - own_need[0] - 1
    slots = (free // memory if memory else ANY_NUMBER) if free >= 0 else 0
    if disk:
        slots = min(slots, (ceil(state.columns[DISK][node]) - own_need[1] - 1) // disk)
    return max(0, slots), max(0, free - memory + 1)


ABSENT_SIZE = -1
"""The entry in the arrays of `_FailureSlots` for a failure without any instance of the size."""


class _FailureSlots:
    """Arrays of the slots that failures require (sizes × failures) and nodes have (sizes × nodes).

    The nodes that may fail come first, then other targets.

    Parameters
    ----------
    queues:
        Failure -> the instances that must restart after it.
    sizes:
        The sizes of instances, with the targets on which they may be restarted.
    changed:
        The nodes that have changed. The owner adds them; they are removed when the counts are
        renewed.
    """

    def __init__(
        self,
        state: State,
        queues: Mapping[Failure, Queue],
        sizes: Sizes,
        changed: set[int],
    ) -> None:
        self._state = state
        self._queues = queues
        self._sizes = sizes
        self._changed = changed
        self._failing = list(queues)
        self._number = {failure: k for k, failure in enumerate(queues)}
        self._affecting: dict[int, list[int]] = {}  # node -> the numbers of its failures
        for failure, number in self._number.items():
            for node in failure:
                self._affecting.setdefault(node, []).append(number)
        fallible = list(chain.from_iterable(queues))
        nodes = list(dict.fromkeys((*fallible, *sizes.sets[0])))
        self._place = {node: k for k, node in enumerate(nodes)}
        self._alone = all(len(failure) == 1 for failure in queues)  # failure k is that of node k
        # The places of the nodes of all failures, and where those of each failure start
        self._fallible: Indices = np.array([self._place[i] for i in fallible], dtype=np.intp)
        lengths = [len(failure) for failure in queues]
        self._starts: Indices = np.cumsum([0, *lengths[:-1]], dtype=np.intp)[: len(queues)]
        self._row_of: dict[Need, int] = {}
        self._needs: Integers = np.empty((0, 2), dtype=np.int64)
        # Sizes × nodes: whether an instance of the size may be restarted on the node
        self._usable: Truths = np.empty((0, len(nodes)), dtype=bool)
        self._wanted: Integers = np.empty((0, len(queues)), dtype=np.int64)
        self._before, self._taken = self._wanted.copy(), self._wanted.copy()
        self._slots: Integers = np.empty((0, len(nodes)), dtype=np.int64)
        self._closing = self._slots.copy()
        self._totals = self._slots.sum(axis=1), self._closing.sum(axis=1)
        self._disks = np.zeros(len(queues), dtype=bool)
        changed.update(nodes)

    def _required(self, failure: Failure) -> Required:
        """Return how many slots of each size `failure` requires; see `Required`."""
        return self._queues[failure].required

    def _needs_disks(self, failure: Failure) -> bool:
        return self._queues[failure].disks

    def _renew(self) -> None:
        """Count again what the failures of changed nodes require, and the slots of these nodes."""
        nodes = [node for node in self._changed if node in self._place]
        self._changed.clear()
        if not nodes:
            return
        at = [self._place[node] for node in nodes]
        failing = list({k: None for node in nodes for k in self._affecting.get(node, ())})
        self._wanted[:, failing] = self._before[:, failing] = self._taken[:, failing] = ABSENT_SIZE
        for number in failing:
            self._note(number, self._failing[number])
        self._slots[:, at], self._closing[:, at] = self._room(nodes, NOTHING)
        self._totals = self._slots.sum(axis=1), self._closing.sum(axis=1)

    def _note(self, number: int, failure: Failure) -> None:
        """Store what `failure`, the failure number `number`, requires."""
        self._disks[number] = self._needs_disks(failure)
        for need, (units, before) in self._required(failure).items():
            row = self._row_of.get(need)
            if row is None:
                row = self._row_of[need] = len(self._row_of)
                self._needs = np.concatenate((self._needs, [need[:2]]))
                usable = np.isin([*self._place], [*self._sizes.sets[need[2]]])[None]
                self._usable = np.concatenate((self._usable, usable))
                absent = np.full((1, len(self._failing)), ABSENT_SIZE, dtype=np.int64)
                self._wanted = np.concatenate((self._wanted, absent))
                self._before = np.concatenate((self._before, absent))
                self._taken = np.concatenate((self._taken, absent))
                nodes = list(self._place)
                slots, closing = slots_left(self._state, self._needs[-1:], nodes, NOTHING)
                self._slots = np.concatenate((self._slots, slots * usable))
                self._closing = np.concatenate((self._closing, closing * usable))
            self._wanted[row, number], self._before[row, number] = units, before

    def _room(self, nodes: Sequence[int], own_need: Need) -> tuple[Integers, Integers]:
        """Return how many instances fit on each node, and how many MiB must be used until none
        fits.

        Both arrays are sizes × nodes. An instance of size `own_need` is placed on each node before.
        """
        slots, closing = slots_left(self._state, self._needs, nodes, own_need)
        usable = self._usable[:, [self._place[node] for node in nodes]]
        return slots * usable, closing * usable

    @property
    def _others(self) -> tuple[Integers, Integers]:
        """Return how many instances fit on all targets outside each failure.

        The second array has the MiB that must be used on these targets until no instance fits on
        any. Both arrays are sizes × failures.
        """
        slots, closing = self._totals
        return slots[:, None] - self._own(self._slots), closing[:, None] - self._own(self._closing)

    def _own(self, amounts: Integers) -> Integers:
        """Return `amounts` (sizes × nodes) summed over the nodes of each failure (sizes ×
        failures).
        """
        if self._alone:
            return amounts[:, : len(self._failing)]
        found: Integers = np.add.reduceat(amounts[:, self._fallible], self._starts, axis=1)
        return found


class UndecidedFailures(_FailureSlots):
    """Finds the failures that counting does not prove tolerated after an instance is placed."""

    def after(
        self, own_need: Need, node: int, others: Sequence[tuple[Failure, int]] = ()
    ) -> tuple[dict[Failure, bool], list[bool | None]]:
        """Return the failures not proved tolerated after an instance of size `own_need` is placed
        on `node`.

        The first result has for each of these failures whether an instance is certainly lost. The
        failures of `node` itself are left out. The second result is for `others`: for each failure,
        and another node on which the instance is placed instead, whether the failure is tolerated;
        None: undecided.
        """
        self._renew()
        # By how much each node lowers both results of `slots_left`: 2 × sizes × nodes
        nodes = [node, *(other for _, other in others)]
        less = np.zeros((2, len(self._needs), len(nodes)), dtype=np.int64)
        inside = [k for k, index in enumerate(nodes) if index in self._place]
        columns = [self._place[nodes[k]] for k in inside]
        slots, closing = self._room([nodes[k] for k in inside], own_need)
        less[0][:, inside] = self._slots[:, columns] - slots
        less[1][:, inside] = self._closing[:, columns] - closing
        sure, lost = self._known_by_bound(slice(None), less[:, :, :1])
        undecided = {
            self._failing[k]: bool(lost[k])
            for k in np.flatnonzero(~sure).tolist()
            if node not in self._failing[k]
        }
        if not others:
            return undecided, []
        at = np.array([self._number[failure] for failure, _ in others], dtype=np.intp)
        known = zip(*(column.tolist() for column in self._known_by_bound(at, less[:, :, 1:])))
        return undecided, [True if one else False if no else None for one, no in known]

    def without(self, need: Need, failure: Failure) -> tuple[int, int] | None:
        """Return how many instances of size `need` fit on all targets outside `failure`.

        The second number is how many MiB must be used on these targets until no instance fits on
        any. The result is None if no instance that may have to restart has this size.
        """
        self._renew()
        row = self._row_of.get(need)
        if row is None:
            return None
        slots, closing = (one[row] for one in self._totals)
        for node in failure:
            at = self._place[node]
            slots, closing = slots - self._slots[row, at], closing - self._closing[row, at]
        return int(slots), int(closing)

    def _known_by_bound(self, failing: slice | Indices, less: Integers) -> tuple[Truths, Truths]:
        """Return which failures are certainly tolerated, and which certainly lose an instance.

        `failing`: the numbers of the failures. `less`: by how much a placement lowers both arrays
        of `_others` (2 × sizes × failures, or 2 × sizes × 1 for the same amounts in every failure).
        """
        slots, closing = (one[:, failing] - two for one, two in zip(self._others, less))
        enough = slots >= self._wanted[:, failing]
        enough |= (closing > self._before[:, failing]) & ~self._disks[failing]
        sure: Truths = np.all(enough, axis=0)
        lost: Truths = np.any(self._taken[:, failing] > slots, axis=0)
        return sure, lost

    def margins(self) -> dict[Need, Margin]:
        """Return for each size how many slots at most stay free after the restarts of each
        failure.
        """
        self._renew()
        left = np.where(self._wanted == ABSENT_SIZE, ANY_NUMBER, self._others[0] - self._taken)
        return {need: Margin(self._failing, left[row]) for need, row in self._row_of.items()}

    def _note(self, number: int, failure: Failure) -> None:
        super()._note(number, failure)
        queue = self._queues[failure]
        for need in queue.required:
            self._taken[self._row_of[need], number] = queue.taken(need)


class Margin:
    """The minimum of a number over failures, and over those that do not include a given node."""

    __slots__ = ("_amounts", "_failing", "_first", "_least", "_without")

    def __init__(self, failing: Sequence[Failure], amounts: Integers) -> None:
        at = int(amounts.argmin())
        self._failing, self._amounts = failing, amounts
        self._first, self._least = failing[at], int(amounts[at])
        self._without: dict[int, int] = {}  # the results for the nodes of the first failure

    def but(self, node: int) -> int:
        """Return the minimum over the failures that do not include `node`."""
        if node not in self._first:
            return self._least
        if node not in self._without:
            others = [k for k, failure in enumerate(self._failing) if node not in failure]
            self._without[node] = int(self._amounts[others].min(initial=ANY_NUMBER))
        return self._without[node]


class SpareSlots(_FailureSlots):
    """Counts how many more equal instances certainly keep N+1, on any nodes of one group."""

    def __init__(
        self,
        state: State,
        queues: Mapping[Failure, Queue],
        sizes: Sizes,
        changed: set[int],
    ) -> None:
        super().__init__(state, queues, sizes, changed)
        self._instance: Instance | None = None
        self._positions: dict[Failure, list[int]] = {}

    def count(self, instance: Instance) -> int:
        """Return how many more instances equal to `instance` certainly keep N+1."""
        known, self._instance = self._instance, instance
        if (
            known is None
            or known.as_primary != instance.as_primary
            or self._sizes.of(known) != self._sizes.of(instance)
        ):
            self._changed.update(self._affecting)
        for failure, queue in self._queues.items():
            positions = [queue.position(instance, place) for place in range(len(failure))]
            if self._positions.get(failure) != positions:
                self._positions[failure] = positions
                self._changed.add(failure[0])
        self._renew()
        own = self._sizes.of(instance)
        slots, closing = self._others
        cost = np.array([[self._sizes.most(own, need)] for need in self._row_of], dtype=np.int64)
        some = (slots - self._wanted) // np.maximum(cost, 1)
        slots_left = np.where(cost > 0, some, ANY_NUMBER * (slots >= self._wanted))
        free = closing - self._before
        more = (free - 1) // own[0] if own[0] else np.full_like(free, ANY_NUMBER)
        slots_left = np.where((free > 0) & ~self._disks, np.maximum(slots_left, more), slots_left)
        slots_left[self._wanted == ABSENT_SIZE] = ANY_NUMBER
        return max(0, int(slots_left.min(initial=ANY_NUMBER)))

    def _required(self, failure: Failure) -> Required:
        """Return what `failure` requires if the counted instance is on the worst of its nodes.

        Each further instance, on any of these nodes, requires no more than one on the worst of
        them.
        """
        assert self._instance is not None
        queue = self._queues[failure]
        required = queue.required_with(self._instance)
        for place in range(1, len(failure)):
            for need, (units, before) in queue.required_with(self._instance, place).items():
                most = required.get(need, (0, 0))
                required[need] = max(most[0], units), max(most[1], before)
        return required

    def _needs_disks(self, failure: Failure) -> bool:
        assert self._instance is not None
        return self._queues[failure].disks or bool(self._sizes.of(self._instance)[1])
