"""What refuses the sizes that are tried while nothing is placed: one answer for many of them.

From a size to smaller ones on the way down in one amount, a limit that is kept stays kept, and
so does room.  Limits and policies that say the same of two sizes say it of all between them,
and where the smaller one is lost to N+1 for certain, all above it are.
"""

from __future__ import annotations

from iallocator.deadline import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.policy import Spec
    from iallocator.planners.capacity.instance_size import Amounts, Size
    from iallocator.planners.capacity.site import CapacityState, Failures

__all__ = ["Refusals"]

MOST_AT_ONCE = 1024
"""Of so many sizes at most it is told at once that they are lost as the first was."""

AT_ONCE = 32
"""Of so many sizes at most global N+1 is judged at once; a power of two."""


class Refusals:
    """Why sizes do not fit on `site` as it is; it must not change meanwhile.

    `number` and `name` are those of the instance that would come.
    """

    def __init__(self, site: CapacityState, number: int, name: str) -> None:
        self._site = site
        self._number = number
        self._name = name
        self._known: dict[tuple[Amounts, bool], Failures] = {}
        self._hopeless: dict[bool, list[Amounts]] = {False: [], True: []}
        self._roomy: set[tuple[Amounts, bool]] = set()
        self._pause, self._patience = 0, 1  # sizes until `alike` looks again, where it found none
        self._reach = AT_ONCE
        self._bounds = [
            _amounts(bound)
            for group, _ in site.groups
            for interval in group.policy.intervals
            for bound in (interval.low, interval.high)
        ]

    def of(self, size: Size, every: bool = False) -> Failures | None:
        """What refuses an instance of this size; None if it fits; see `CapacityState.probe`."""
        key = size.amounts(), every
        if key not in self._known:
            nodes, failures = self._site.probe(self._probe(size), every)
            if nodes:
                return None
            self._known[key] = failures
        return self._known[key]

    def knows(self, size: Size, every: bool) -> bool:
        """Whether what refuses it has been asked already."""
        return (size.amounts(), every) in self._known

    def hopeless(self, size: Size, every: bool) -> bool:
        """Whether neither this size nor any that has at least as much of everything fits."""
        key = size.amounts(), every
        if key in self._roomy:
            return False
        if any(_within(known, key[0]) for known in self._hopeless[every]):
            return True
        if self._site.has_room(self._probe(size), every):
            self._roomy.add(key)
            return False
        self._hopeless[every].append(key[0])
        return True

    def whatever_the_size(self, size: Size) -> bool:
        """Whether global N+1, where it is asked, refuses all sizes of this kind as things are."""
        return self._site.refuses_pairs(self._probe(size))

    def alike(self, size: Size, reason: str, every: bool) -> int:
        """How many steps down in what `reason` is about are refused just as `size`, which is.

        Those that can be told of at little cost: there may be more.
        """
        self._pause -= 1
        if self._pause > 0:
            return 0
        site, probe = self._site, self._probe(size)
        failures, open_to = site.limits_say(probe)
        regions = self._regions_of(size)

        def same(steps: int) -> bool:
            one = size.smaller(reason, steps)
            if one is None or self._regions_of(one) != regions:
                return False
            said, let = site.limits_say(self._probe(one))
            return said == failures and len(let) == len(open_to)

        steps = 0
        if not open_to:
            steps = _last(same)
        elif site.tells_down(probe, open_to, every):
            steps = self._lost_alike(size, reason, every, _last(same, self._reach), open_to)
        self._patience = 1 if steps else min(2 * self._patience, AT_ONCE)
        self._pause = self._patience
        return steps

    def _lost_alike(
        self, size: Size, reason: str, every: bool, steps: int, open_to: Sequence[tuple[int, ...]]
    ) -> int:
        """The same where N+1 is what refuses, of so many steps at most."""
        sizes = [size, *(size.smaller(reason, number) for number in range(1, steps + 1))]
        instances = [self._probe(one) for one in sizes if one is not None]
        found = max(0, self._site.refused_down(instances, open_to, every) - 1)
        self._reach = min(8 * self._reach, MOST_AT_ONCE) if found >= self._reach else AT_ONCE
        return found

    def remember(self, size: Size, reason: str, steps: int, every: bool) -> None:
        """So many steps down are refused as `size` is."""
        failures = self._known[size.amounts(), every]
        for number in range(1, steps + 1):
            check()
            one = size.smaller(reason, number)
            if one is not None:
                self._known[one.amounts(), every] = failures

    def foresee(self, size: Size, reason: str, steps: int, every: bool) -> None:
        """Have global N+1 judged for `size`, so many steps on the way, and for those after it.

        Ever more at once: a way is short, or very long.
        """
        count = min(steps, AT_ONCE)
        if steps & (steps - 1) and (steps < AT_ONCE or steps % AT_ONCE):
            return
        sizes = [size, *(size.smaller(reason, number) for number in range(1, count))]
        fresh = [one for one in sizes if one and (one.amounts(), every) not in self._known]
        if fresh:
            self._site.foresee([self._probe(one) for one in fresh], every)

    def _probe(self, size: Size) -> Instance:
        return self._site.newcomer(size, self._number, self._name)

    def _regions_of(self, size: Size) -> list[tuple[bool, bool]]:
        """On which side of each bound of each policy it lies."""
        return [
            (amount < bound, amount > bound)
            for bounds in self._bounds
            for amount, bound in zip(size.amounts(), bounds)
        ]


def _amounts(spec: Spec) -> Amounts:
    return spec.memory, spec.disk, spec.cpus, spec.spindles


def _within(least: Amounts, amounts: Amounts) -> bool:
    return all(one <= other for one, other in zip(least, amounts))


def _last(true_of: Callable[[int], bool], most: int | None = None) -> int:
    """The last number from 1 on, or to `most`, that it is true of, as it is of all before.

    0 if of none.
    """
    low, high = 0, 1
    while (most is None or high <= most) and true_of(high):
        check()
        low, high = high, 2 * high
    if most is not None:
        high = min(high, most + 1)
    while high - low > 1:
        check()
        middle = (low + high) // 2
        low, high = (middle, high) if true_of(middle) else (low, middle)
    return low
