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

BATCH = 10
"""The number of instances after which hspace checks N+1 if all instances together violate it."""

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
        beyond the maximum, as hspace reports them. Rejections by N+1 are counted only if instances
        are placed one by one, or if the maximum is 0.

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

    def copy(self) -> FillResult:
        """Return a filling with the same instances, to which further ones can be added."""
        other = FillResult(self.name, self.watch, self.spends)
        other.placed += self.placed
        return other

    @property
    def reason(self) -> str:
        """Return the most frequent reason of the last attempt; of equals, by order of `REASONS`."""
        return likely_reason(self.failures)


def likely_reason(failures: Failures) -> str:
    """Return the most frequent reason of `failures`; of equals, the first one of `REASONS`."""
    return max(REASONS, key=lambda reason: failures.get(reason, 0))


def fill(site: CapacityState, size: Size, filling: FillResult, limit: int | None) -> bool:
    """Place instances of `size` until none fits; return whether the next one cannot be placed.

    The instances are added to `filling`, until it has `limit` instances; None: any number. Like
    hspace, `Behaviour.checks_n1_after_batches` places all instances without N+1. If the result
    violates N+1, it places batches of `BATCH` instances. After the first batch that violates N+1,
    it checks N+1 for each instance.
    """
    start = len(filling.placed)
    if start == limit or not site.checks_batches(size):
        return bool(_fill(site, size, filling, limit))
    few = limit is not None and limit - start <= FEW_INSTANCES
    if few:  # one check of all of them takes less time than a check of each
        full = _batch(site, size, filling, limit)
        if full is not None:
            return full
    full = _fill(site, size, filling, limit, best_only=True)
    number = len(filling.placed)
    if full is None and _violates_n1(site, site.newcomer(size, number, filling.name(number))):
        return bool(_fill(site, size, filling, limit))
    if full is None and not few:
        full = _batch(site, size, filling, limit)
    while full is None:
        most = start + BATCH * ((len(filling.placed) - start) // BATCH + 1)
        ends = limit is not None and limit <= most
        full = _batch(site, size, filling, limit if ends else most)
        if full is None:
            return bool(_fill(site, size, filling, limit))
        if filling.ended == LIMIT_REACHED and not ends:
            full, filling.ended = None, ""
    return full


def _violates_n1(site: CapacityState, instance: Instance) -> bool:
    """Return whether `instance` on its best nodes violates N+1, whatever is placed after it."""
    nodes, _ = site.find(instance, n1=False)
    return site.n1.rejects(instance, nodes[0], every=False)


def _batch(site: CapacityState, size: Size, filling: FillResult, limit: int | None) -> bool | None:
    """Place instances of `size` without N+1 until none fits, or until `filling` has `limit`.

    Return whether the next one cannot be placed. If the result violates N+1, nothing is changed,
    and the result is None.
    """
    some = filling.copy()
    with site.unchecked() as trial:
        full = _fill(site, size, some, limit)
        if not site.tolerates_all(size):
            return None
        trial.keep()
    filling.placed, filling.failures, filling.ended = some.placed, some.failures, some.ended
    return full


def _fill(
    site: CapacityState,
    size: Size,
    filling: FillResult,
    limit: int | None,
    best_only: bool = False,
) -> bool | None:
    """Place instances of `size` one by one, as `fill` says.

    With `best_only`, the filling ends before the first instance for which N+1 rejects the best
    nodes; then the result is None.
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
                _, filling.failures = site.find(coming(0), n1=not best_only)
            filling.ended = LIMIT_REACHED
            return False
        instance = coming(0)
        left = None if limit is None else limit - number
        few = left is not None and left <= FEW_INSTANCES and not site.kernels.arrays
        if number - start == INSTANCES_WORTH_KEEPING and not few:
            places = site.next_place(instance, coming)
        path: Sequence[Nodes] = ()
        if places is not None and number + 1 != limit:  # the last search must count rejections
            path = places.path(instance, best_only)[: None if limit is None else limit - 1 - number]
        if not path:
            nodes, failures = site.find(instance)
            if best_only and failures.get("FailN1"):
                return None
            filling.failures = failures
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

    `filling` has the instances that were placed until then, and may have `limit` instances; None:
    any number. In all methods, `every` means that global N+1 is checked even where this is not the
    default, see `GroupTolerances`.
    """

    def __init__(self, site: CapacityState, filling: FillResult, limit: int | None) -> None:
        self._site = site
        self._filling = filling
        self._limit = limit
        self._number = number = len(filling.placed)
        self._name = filling.name(number)
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
            if nodes or (not every and failures.get("FailN1") and self._batch_fits(size)):
                return None
            self._known[key] = failures
        return self._known[key]

    def _batch_fits(self, size: Size) -> bool:
        """Return whether several instances of `size` fit, although N+1 rejects the first one."""
        site = self._site
        if not site.checks_batches(size) or _violates_n1(site, self.probe(size)):
            return False
        with site.unchecked():
            return any(
                _batch(site, size, self._filling.copy(), most) is not None
                for most in (self._limit, self._number + BATCH)
            )

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
        self._rejections = Rejections(site, filling, limit)
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
        left = self._after(self._limit)
        most = None if left is None else len(self._filling.placed) + left
        self._rejections = Rejections(self._site, self._filling, most)
        self._leaps.clear()
        self._stepping, self._steps = "", 0
        if self._rejections.exceeds_capacity(size.least_of_all(), every=False):
            return None
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
