"""The instances that leave a failed node, in the order they are restarted, and the slots they need.

Equal instances that are restarted one after the other are one run, so that a queue of *m* instances
of *r* sizes costs O(r^2) instead of O(m).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.model.instance import Instance
    from iallocator.n1.rules import Rules

    Need = tuple[int, int]
    """Memory and disk of an instance, MiB."""

    Turn = tuple[bool, float, float]
    """When an instance is restarted, compared with others: the lowest is first."""

    Vector = tuple[float, ...]
    """The amounts that an instance adds to its primary, see `iallocator.model.columns`."""

    Entry = tuple[Turn, Need, Vector]

    Required = dict[Need, tuple[int, int]]
    """See `Queue.required`."""

__all__ = ["Leaving", "Queue", "cost_of", "fits_into"]


def fits_into(instance: Instance) -> Need:
    """Return the memory and disk of `instance` on its primary; a stopped one takes no memory."""
    memory = instance.memory if instance.uses_memory else 0
    return memory, instance.disk if instance.local else 0


def cost_of(given: Need, need: Need) -> int:
    """Return how many slots for `need` a target loses at most when it receives `given`."""
    return max([-(-one // size) for one, size in zip(given, need) if size], default=0)


class _Run:
    """Equal instances that are restarted one after the other."""

    __slots__ = ("count", "need")

    def __init__(self, need: Need, count: int = 1) -> None:
        self.need = need
        self.count = count


class Leaving(NamedTuple):
    """The instances that leave a node, whatever comes to that node later.

    Attributes
    ----------
    head:
        The vectors of all instances before the last run.
    need, times:
        The size of the last run, and its length.
    recreated:
        The values of `Rules.recreates` that occur among them.
    """

    head: list[Vector]
    need: Need
    times: int
    recreated: frozenset[bool]


class Queue:
    """The instances of one node, except those on two nodes, in runs of equal ones.

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
        "disks",
        "required",
    )

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._entries: list[Entry] = []  # in the order of the restarts
        self._before: list[Vector] | None = None  # before the last run, once needed
        self._leaving: Leaving | None = None  # the result of `leaving`, once needed
        self._runs: list[_Run] = []
        self._known: dict[Need, tuple[int, int]] = {}  # see `taken`; at what length of the last run
        self._more: list[Need] = []  # at the end of the last run, which is not its own
        self.required: Required = {}
        self.disks = False

    @property
    def moved(self) -> bool:
        """Return whether there is an instance to restart."""
        return bool(self._runs)

    def start(self, instances: Iterable[Instance]) -> None:
        """Take up all of `instances`."""
        self._take(sorted(self._entry(one) for one in instances if not one.forthcoming))

    def add(self, instance: Instance) -> None:
        """Count an instance that was placed on the node."""
        entry = self._entry(instance)
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
        twin = Queue(self._rules)
        twin._entries, twin._before = list(self._entries), self._before
        twin._known = dict(self._known)
        twin._runs = [_Run(run.need, run.count) for run in self._runs]
        twin._more, twin.disks = self._more, self.disks
        twin.required = dict(self.required)
        return twin

    def with_one(self, instance: Instance) -> Queue:
        """Return a queue with `instance` in it, too."""
        twin = Queue(self._rules)
        entry = self._entry(instance)
        if self._goes_last(entry):
            need = entry[1]
            twin._runs, twin._more, twin.disks = self._runs, [need], self.disks
            twin._before, twin._entries, twin._known = self._head(), self._entries, self._known
            units, before = self.required[need]
            twin.required = self.required | {need: (units + 1, before + need[0])}
        else:
            twin._take(sorted([*self._entries, entry]))
        return twin

    def position(self, instance: Instance) -> int:
        """Return how many instances are restarted before `instance`."""
        return bisect_right(self._entries, self._entry(instance))

    def required_with(self, instance: Instance) -> Required:
        """Return what `required` would be with `instance` in the queue."""
        need = fits_into(instance)
        place, inside = self._run_at(self.position(instance))
        if (inside and self._runs[place].need != need) or not any(need):
            return self.with_one(instance).required
        found = dict(self.required)
        for other in dict.fromkeys(run.need for run in self._runs[place:]):
            units, before = found[other]
            found[other] = units + cost_of(need, other), before + need[0]
        beside = {run.need for run in self._runs[max(0, place - 1) :]}
        if need not in beside:
            earlier = self._runs[:place]
            units = sum(run.count * cost_of(run.need, need) for run in earlier)
            found[need] = units + 1, sum(run.count * run.need[0] for run in earlier)
        elif all(run.need != need for run in self._runs[place:]):
            units, before = found[need]
            found[need] = units + 1, before + need[0]
        return found

    def _run_at(self, position: int) -> tuple[int, bool]:
        """Return the run at `position` of the entries, and whether the position lies inside it."""
        start = 0
        for place, run in enumerate(self._runs):
            if position < start + run.count:
                return place, position > start
            start += run.count
        return len(self._runs), False

    def lost(self, slots: Sequence[int], others: Sequence[Need] = ()) -> bool:
        """Return whether an instance is certainly left over; `slots`: for each required size.

        `others` are sizes that leave the node in addition.
        """
        return any(
            self.taken(size) + sum(_least(need, size) for need in (*self._more, *others)) > room
            for size, room in zip(self.required, slots)
        )

    def taken(self, size: Need) -> int:
        """Return how many slots for `size` the runs take at least."""
        last = self._runs[-1] if self._runs else _Run((0, 0), 0)
        if size not in self._known:
            known = sum(run.count * _least(run.need, size) for run in self._runs)
            self._known[size] = known, last.count
        known, count = self._known[size]
        if count != last.count:
            known += (last.count - count) * _least(last.need, size)
            self._known[size] = known, last.count
        return known

    def leaving(self) -> Leaving:
        """Return all of the queue as it is now."""
        if self._leaving is None:
            count = self._runs[-1].count + len(self._more) if self._runs else 0
            need = self._runs[-1].need if self._runs else (0, 0)
            self._leaving = Leaving(self._head(), need, count, self._recreated())
        return self._leaving

    def _head(self) -> list[Vector]:
        """Return the vectors before the last run."""
        if self._before is None:
            count = len(self._entries) - self._runs[-1].count if self._runs else 0
            self._before = [vector for _, _, vector in self._entries[:count]]
        return self._before

    def _recreated(self) -> frozenset[bool]:
        ends = [*self._entries[:1], *self._entries[-1:]]  # those created anew come last
        return frozenset(turn[0] for turn, _, _ in ends)

    def _entry(self, instance: Instance) -> Entry:
        recreated = self._rules.recreates(instance)
        turn = recreated, -instance.memory if recreated else 0, instance.order
        return turn, fits_into(instance), instance.as_primary

    def _goes_last(self, entry: Entry) -> bool:
        """Return whether `entry` extends the last run."""
        if not self._entries or not any(entry[1]):
            return False
        return self._entries[-1][1] == entry[1] and self._entries[-1][0] <= entry[0]

    def _take(self, entries: list[Entry]) -> None:
        """Split the sorted `entries` into runs."""
        self._entries, self._before, self._known = entries, None, {}
        self._leaving = None
        self._runs = []
        for _, need, _ in entries:
            if self._runs and self._runs[-1].need == need:
                self._runs[-1].count += 1
            else:
                self._runs.append(_Run(need))
        self.disks = any(run.need[1] for run in self._runs)
        self.required = self._requirements()

    def _requirements(self) -> Required:
        """Return `required`; of several runs of one size the last needs most."""
        found: Required = {}
        memory = 0
        for place, run in enumerate(self._runs):
            before = sum(
                earlier.count * cost_of(earlier.need, run.need) for earlier in self._runs[:place]
            )
            own = run.count if any(run.need) else 1
            found[run.need] = before + own, memory + (run.count - 1) * run.need[0]
            memory += run.count * run.need[0]
        return found


def _least(given: Need, need: Need) -> int:
    """Return how many slots for `need` a target loses at least when it receives `given`."""
    return min([one // size for one, size in zip(given, need) if size], default=0)
