"""Fill a cluster: place instances of one size until none fits, or of decreasing sizes in tiers.

Every instance is placed as by an allocation: on the nodes with the best score over all groups that
accept instances.

Tiered filling starts with the largest size, and reduces the amounts that are insufficient step by
step. Several sizes can be decided by one check as long as no instance is placed.  If a size is
reduced in one amount, limits that were met stay met.  If limits and policies give equal results for
two sizes, they give this result for all sizes between.  If the smaller of two sizes certainly
violates N+1, all larger sizes violate it.
"""

from __future__ import annotations

from iallocator.constraints.table import REASONS
from iallocator.deadline import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.planners.capacity.next_place import NextPlace
    from iallocator.planners.capacity.site import Amounts, CapacityState, Failures, Size

__all__ = [
    "LIMIT_REACHED", "Allocation", "FillResult", "Rejections", "fill", "fill_tiered",
    "likely_reason",
]  # fmt: skip

LIMIT_REACHED = "as many instances as allowed"

EXPECTED_INSTANCES = 1000
"""The assumed number of instances, which decides whether scores are computed in arrays."""

INSTANCES_WORTH_KEEPING = 3
"""The number of instances of one size after which incremental scores save time."""

FEW_INSTANCES = 20
"""The number of remaining instances up to which loading the array library takes longer than scoring
each instance without it, on few nodes."""


class Allocation:
    """One new instance, its size, and the indices of its nodes, primary first."""

    __slots__ = ("instance", "nodes", "size")

    def __init__(self, instance: Instance, nodes: tuple[int, ...], size: Size) -> None:
        self.instance = instance
        self.nodes = nodes
        self.size = size


class FillResult:
    """The result of a filling: the placed instances, and the reason for its end.

    Parameters
    ----------
    name:
        Makes the name of an instance from its number.
    watch:
        Is called after each instance, or after several that are placed at once. If it returns a
        reason, the filling ends.
    spends:
        Whether each size uses up as much of the maximum number as instances are placed; see
        `Behaviour.counts_sizes_as_attempts`.  Then `failures` are those of the first instance
        beyond the maximum, as hspace reports them: none if global N+1 alone rejects it.

    Attributes
    ----------
    placed:
        The placed instances, in order.
    failures:
        Reason -> the number of placements that it rejected in the last attempt.
    ended:
        In words, why there was no further attempt; "" if the next instance cannot be placed.
    interrupted:
        Whether a signal ended the filling.
    last:
        The size that was tried last; None: none was tried.
    """

    __slots__ = ("ended", "failures", "interrupted", "last", "name", "placed", "spends", "watch")

    def __init__(
        self,
        name: Callable[[int], str],
        watch: Callable[[FillResult], str],
        spends: bool = False,
    ) -> None:
        self.name = name
        self.watch = watch
        self.spends = spends
        self.placed: list[Allocation] = []
        self.failures: Failures = {}
        self.ended = ""
        self.interrupted = False
        self.last: Size | None = None

    @property
    def reason(self) -> str:
        """Return the most frequent reason of the last attempt; of equals, by order of `REASONS`."""
        return likely_reason(self.failures)


def likely_reason(failures: Failures) -> str:
    """Return the most frequent reason of `failures`; of equals, the first one of `REASONS`."""
    return max(REASONS, key=lambda reason: failures.get(reason, 0))


def fill(site: CapacityState, size: Size, filling: FillResult, limit: int | None) -> bool:
    """Place instances of `size` until none fits; return whether the next one cannot be placed.

    The instances are added to `filling`, until it has `limit` instances; None: any number.
    """
    name = filling.name
    start = len(filling.placed)
    filling.last = size
    first = site.newcomer(size, start, name(start))

    def coming(ahead: int) -> Instance:
        number = len(filling.placed) + ahead
        return site.another(first, number, name(number))

    places: NextPlace | None = None
    while True:
        check()
        number = len(filling.placed)
        if limit is not None and number >= limit:
            if filling.spends:
                nodes, failures = site.find(coming(0))
                only_n1 = number > 0 and not nodes and [*failures] == ["FailN1"]
                filling.failures = {} if only_n1 else failures
            filling.ended = LIMIT_REACHED
            return False
        instance = coming(0)
        left = None if limit is None else limit - number
        few = left is not None and left <= FEW_INSTANCES and not site.kernels.arrays
        if number - start == INSTANCES_WORTH_KEEPING and not few:
            places = site.next_place(instance, coming)
        path: Sequence[Nodes] = ()
        if places is not None and number + 1 != limit:  # the last search must count rejections
            path = places.path(instance)[: None if limit is None else limit - 1 - number]
        if not path:
            nodes, filling.failures = site.find(instance)
            if not nodes:
                return True
            path = (nodes,)
        arrivals = list(zip([instance, *map(coming, range(1, len(path)))], path))
        site.place(arrivals)
        if places is not None:
            places.placed(path)
        filling.placed += [Allocation(one, nodes, size) for one, nodes in arrivals]
        filling.ended = filling.watch(filling)
        if filling.ended:
            return False


MOST_AT_ONCE = 1024
"""The largest number of sizes that one search decides as rejected by N+1."""

SIZES_AT_ONCE = 32
"""The largest number of sizes for which global N+1 is checked at once; a power of two."""


class Rejections:
    """The rejections of sizes on `site`, which must not change while this object is used.

    `number` and `name` are those of the next instance. In all methods, `every` means that global
    N+1 is checked even where this is not the default, see `GroupTolerances`.
    """

    def __init__(self, site: CapacityState, number: int, name: str) -> None:
        self._site = site
        self._number = number
        self._name = name
        self._known: dict[tuple[Amounts, bool], Failures] = {}
        self._exceeding_sizes: dict[bool, list[Amounts]] = {False: [], True: []}
        self._roomy: set[tuple[Amounts, bool]] = set()
        # The number of sizes that `alike` leaves out after a search that found none
        self._pause, self._patience = 0, 1
        self._reach = SIZES_AT_ONCE
        self._bounds = [
            (bound.memory, bound.disk, bound.cpus, bound.spindles)
            for group, _ in site.groups
            for interval in group.policy.intervals
            for bound in (interval.low, interval.high)
        ]

    def of(self, size: Size, every: bool = False) -> Failures | None:
        """Return the reasons that reject an instance of this size; None if it fits."""
        key = size.amounts(), every
        if key not in self._known:
            nodes, failures = self._site.probe(self.probe(size), every)
            if nodes:
                return None
            self._known[key] = failures
        return self._known[key]

    def knows(self, size: Size, every: bool) -> bool:
        """Return whether an earlier call has shown that instances of this size are rejected."""
        return (size.amounts(), every) in self._known

    def exceeds_capacity(self, size: Size, every: bool) -> bool:
        """Return whether neither this size fits, nor any size with at least its amounts."""
        key = size.amounts(), every
        if key in self._roomy:
            return False
        amounts = key[0]
        if any(
            all(one <= other for one, other in zip(known, amounts))
            for known in self._exceeding_sizes[every]
        ):
            return True
        if self._site.has_room(self.probe(size), every):
            self._roomy.add(key)
            return False
        self._exceeding_sizes[every].append(key[0])
        return True

    def alike(self, size: Size, reason: str, every: bool) -> int:
        """Return how many of the next smaller sizes are rejected for the reasons of `size`.

        Each of them has one step less of the resource of `reason`. Only sizes that can be checked
        at little cost are counted, so there may be more.
        """
        self._pause -= 1
        if self._pause > 0:
            return 0
        site, probe = self._site, self.probe(size)
        failures, open_to = site.limits_say(probe)
        regions = self._regions_of(size)

        def same(steps: int) -> bool:
            one = size.smaller(reason, steps)
            if one is None or self._regions_of(one) != regions:
                return False
            said, let = site.limits_say(self.probe(one))
            return said == failures and len(let) == len(open_to)

        steps = 0
        nodes = [nodes[0] for nodes in open_to]
        if not open_to:
            steps = _last(same)
        elif site.n1.compares_sizes(probe, nodes, every):
            # N+1 rejects the size; find how many of the next sizes it rejects, too
            smaller = (size.smaller(reason, n) for n in range(1, _last(same, self._reach) + 1))
            instances = [probe, *(self.probe(one) for one in smaller if one is not None)]
            steps = max(0, site.n1.rejected_down(instances, nodes) - 1)
            grown = min(8 * self._reach, MOST_AT_ONCE)
            self._reach = grown if steps >= self._reach else SIZES_AT_ONCE
        self._patience = 1 if steps else min(2 * self._patience, SIZES_AT_ONCE)
        self._pause = self._patience
        return steps

    def remember(self, size: Size, reason: str, steps: int, every: bool) -> None:
        """Record that the next `steps` sizes below `size` are rejected for its reasons.

        The sizes differ in the amount of `reason`.
        """
        failures = self._known[size.amounts(), every]
        for number in range(1, steps + 1):
            check()
            one = size.smaller(reason, number)
            if one is not None:
                self._known[one.amounts(), every] = failures

    def foresee(self, size: Size, reason: str, steps: int, every: bool) -> None:
        """Simulate in one batch what N+1 checks of `size` and of the next sizes below it need.

        `steps` is the number of sizes checked so far. The more it is, the more sizes are prepared,
        because the number of sizes to check is either small or very large.
        """
        count = min(steps, SIZES_AT_ONCE)
        if steps & (steps - 1) and (steps < SIZES_AT_ONCE or steps % SIZES_AT_ONCE):
            return
        sizes = [size, *(size.smaller(reason, number) for number in range(1, count))]
        fresh = [one for one in sizes if one and (one.amounts(), every) not in self._known]
        if fresh:
            self._site.n1.prepare([self.probe(one) for one in fresh], every)

    def probe(self, size: Size) -> Instance:
        """Return the next instance, with the amounts of `size`."""
        return self._site.newcomer(size, self._number, self._name)

    def _regions_of(self, size: Size) -> list[tuple[bool, bool]]:
        """Return for each bound of each policy whether `size` is below or above the bound."""
        return [
            (amount < bound, amount > bound)
            for bounds in self._bounds
            for amount, bound in zip(size.amounts(), bounds)
        ]


def _last(true_of: Callable[[int], bool], most: int | None = None) -> int:
    """Return the last number, from 1 on, for which `true_of` holds; 0 if it does not hold for 1.

    If it holds for a number, it must hold for all numbers below. No number above `most` is tried.
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


class _Tiers:
    """A tiered filling, with the sizes that were rejected since the last instance was placed."""

    def __init__(self, site: CapacityState, filling: FillResult, limit: int | None) -> None:
        self._site = site
        self._filling = filling
        self._limit = limit
        self._rejections = Rejections(site, 0, filling.name(0))
        self._leaps: dict[tuple[Amounts, str], Size | None] = {}
        self._stepping, self._steps = "", 0  # the amount that was reduced last, how often in a row

    def fills(self, size: Size) -> bool:
        """Place all instances of `size` that fit; return whether the next one does not fit."""
        limit = self._limit
        if limit is not None and self._filling.spends:
            limit += len(self._filling.placed)
        return fill(self._site, size, self._filling, limit)

    def next_size(self, size: Size) -> Size | None:
        """Return the next smaller size that fits, after `size` does not fit any more; or None.

        First, the amount that fails most often is reduced step by step. If no such size fits, the
        search returns from the last size to the first one, and reduces one amount until it does not
        fail any more.
        """
        number = len(self._filling.placed)
        self._rejections = Rejections(self._site, number, self._filling.name(number))
        self._leaps.clear()
        self._stepping, self._steps = "", 0
        if self._rejections.exceeds_capacity(size.least_of_all(), every=False):
            return None
        left = self._after(self._limit)
        if left == 0:
            return None
        seen = {size.amounts(): left}
        ways = [(self._ways(size), left)]
        while ways:
            check()
            smaller = next(ways[-1][0], None)
            if smaller is None:
                ways.pop()
                continue
            left = ways[-1][1]
            if smaller.amounts() in seen:
                before = seen[smaller.amounts()]
                if left is None or before is None or left <= before:
                    continue  # it cannot be tried further than before
            if self._rejections.of(smaller) is None:
                self._limit = left
                return smaller
            seen[smaller.amounts()] = left
            left = self._after(left)
            if left != 0:
                ways.append((self._ways(smaller), left))
        return None

    def _after(self, limit: int | None) -> int | None:
        """Return how many more instances of smaller sizes may be placed; None: any number.

        0 ends the search. If sizes are counted as hspace counts them, all instances placed so far
        are subtracted from `limit` at each size.
        """
        if limit is None or not self._filling.spends:
            return limit or None
        return max(0, limit - len(self._filling.placed))

    def _ways(self, size: Size) -> Iterator[Size]:
        """Yield the sizes to try after `size`, which does not fit; the most promising first."""
        # The most frequent reasons first; of equally frequent ones, the last of `REASONS` first
        failures = self._rejections.of(size) or {}
        reasons = [reason for reason in reversed(REASONS) if failures.get(reason)]
        reasons.sort(key=lambda reason: -failures[reason])
        step = size.smaller(reasons[0]) if reasons else None
        if step is not None:
            rejections, reason = self._rejections, reasons[0]
            if not rejections.knows(step, every=False):
                # Find the next sizes rejected as `size` is, or prepare N+1 checks from `step` on
                alike = rejections.alike(size, reason, every=False)
                if alike:
                    rejections.remember(size, reason, alike, every=False)
                else:
                    self._steps = self._steps + 1 if self._stepping == reason else 1
                    self._stepping = reason
                    rejections.foresee(step, reason, self._steps, every=False)
            yield step
        for reason in reasons:
            leap = self._leap(size, reason)
            if leap is not None:
                yield leap
                return

    def _leap(self, size: Size, reason: str) -> Size | None:
        """Return a size below `size` that fits or is not rejected for `reason`; or None.

        Only the amount of `reason` is reduced, step by step. Global N+1 is checked for drbd
        instances, too, and the last step is left out, as in hspace.
        """
        if self._site.n1.rejects_pairs(self._rejections.probe(size), every=True):
            return None
        least = size.least(reason)
        if least is None or self._rejections.exceeds_capacity(least, every=True):
            return None  # if the least amount does not fit, nothing on the way does
        passed = []
        fitting = None
        current = size.smaller(reason)
        steps = 0  # the number of sizes in a row that had to be checked one by one
        while current is not None and current.smaller(reason) is not None:
            check()
            key = current.amounts(), reason
            if key in self._leaps:
                fitting = self._leaps[key]
                break
            if steps:
                self._rejections.foresee(current, reason, steps, every=True)
            failures = self._rejections.of(current, every=True)
            if failures is None:
                fitting = current
            if not (failures and failures.get(reason)):
                break
            passed.append(key)
            below = current.smaller(reason)
            alike = 0
            if below is not None and (below.amounts(), reason) not in self._leaps:
                alike = self._rejections.alike(current, reason, every=True)
            steps = 0 if alike else steps + 1
            current = current.smaller(reason, alike + 1)
        self._leaps.update(dict.fromkeys(passed, fitting))
        return fitting


def fill_tiered(site: CapacityState, size: Size, filling: FillResult, limit: int | None) -> None:
    """Place instances of `size` until none fits, then of the next smaller size that fits.

    This is repeated until no size fits, or until `filling` has `limit` instances; None: any number.
    """
    left = limit
    if filling.spends and limit is not None:
        left = max(0, limit - len(filling.placed))
    tiers = _Tiers(site, filling, left)
    current: Size | None = size
    while current is not None and tiers.fills(current):
        current = tiers.next_size(current)
    unspent = filling.spends and limit is not None and len(filling.placed) < limit
    if unspent and filling.ended == LIMIT_REACHED:
        filling.ended = ""  # the rest of the limit is for the next interval of the policy
