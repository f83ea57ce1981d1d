"""Tiered filling: from the largest size down, each time less of what was lacking."""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.limits.node import REASONS
from iallocator.planners.capacity.fill import ENOUGH, FillResult, fill
from iallocator.planners.capacity.refusals import Refusals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iallocator.planners.capacity.instance_size import Amounts, Size
    from iallocator.planners.capacity.site import CapacityState, Failures

__all__ = ["fill_tiered"]


class _Tiers:
    """The sizes tried since the last instance was placed: nothing of them fits now."""

    def __init__(
        self,
        site: CapacityState,
        filling: FillResult,
        limit: int | None,
        name: Callable[[int], str],
        watch: Callable[[FillResult], str],
        spends: bool,
    ) -> None:
        self._spends = spends
        self._site = site
        self._filling = filling
        self._limit = limit
        self._name = name
        self._watch = watch
        self._refusals = Refusals(site, 0, name(0))
        self._leaps: dict[tuple[Amounts, str], Size | None] = {}
        self._stepping, self._steps = "", 0  # what was made less of last, how often in a row

    def fills(self, size: Size) -> bool:
        """Place what fits of this size; whether that came to an end for want of a place."""
        limit = self._limit
        if limit is not None and self._spends:
            limit += len(self._filling.placed)
        return fill(self._site, size, self._filling, limit, self._name, self._watch, self._spends)

    def next_size(self, size: Size) -> Size | None:
        """The next smaller size that fits, after one that does not any more.

        First, step by step, less of what fails most often; where that leads nowhere,
        from the last size back to the first, less of one thing until it fails no more.
        """
        number = len(self._filling.placed)
        self._refusals = Refusals(self._site, number, self._name(number))
        self._leaps.clear()
        self._stepping, self._steps = "", 0
        if self._refusals.hopeless(size.least_of_all(), every=False):
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
            if smaller.amounts() in seen and not _more(left, seen[smaller.amounts()]):
                continue
            if self._refusals.of(smaller) is None:
                self._limit = left
                return smaller
            seen[smaller.amounts()] = left
            left = self._after(left)
            if left != 0:
                ways.append((self._ways(smaller), left))
        return None

    def _after(self, limit: int | None) -> int | None:
        """Return what of `limit` is left for the sizes after one; 0: no more sizes are tried.

        hspace takes from it, at each size, the number of all instances that it has placed.
        """
        if limit is None or not self._spends:
            return limit or None
        return max(0, limit - len(self._filling.placed))

    def _ways(self, size: Size) -> Iterator[Size]:
        """Where to go on from a size that does not fit."""
        reasons = _by_count(self._refusals.of(size) or {})
        step = size.smaller(reasons[0]) if reasons else None
        if step is not None:
            self._look_ahead(size, step, reasons[0])
            yield step
        for reason in reasons:
            leap = self._leap(size, reason)
            if leap is not None:
                yield leap
                return

    def _look_ahead(self, size: Size, step: Size, reason: str) -> None:
        """See what is refused just as `size`, or have N+1 judged for `step` and those after it."""
        refusals = self._refusals
        if refusals.knows(step, every=False):
            return
        alike = refusals.alike(size, reason, every=False)
        if alike:
            refusals.remember(size, reason, alike, every=False)
            return
        self._steps = self._steps + 1 if self._stepping == reason else 1
        self._stepping = reason
        refusals.foresee(step, reason, self._steps, every=False)

    def _leap(self, size: Size, reason: str) -> Size | None:
        """Less of one thing until it fits, as long as that thing is among what fails.

        A leap keeps global N+1, with drbd instances too, and ends before the last step:
        so does hspace.
        """
        if not self._may_leap(size, reason):
            return None
        passed = []
        found = None
        current = size.smaller(reason)
        steps = 0  # in a row that had to be asked for
        while current is not None and current.smaller(reason) is not None:
            check()
            if steps:
                self._refusals.foresee(current, reason, steps, every=True)
            failures = self._refusals.of(current, every=True)
            if failures is None:
                found = current
            if not (failures and failures.get(reason)):
                break
            key = current.amounts(), reason
            if key in self._leaps:
                found = self._leaps[key]
                break
            passed.append(key)
            alike = self._refusals.alike(current, reason, every=True)
            steps = 0 if alike else steps + 1
            current = current.smaller(reason, alike + 1)
        self._leaps.update(dict.fromkeys(passed, found))
        return found

    def _may_leap(self, size: Size, reason: str) -> bool:
        """Whether next to nothing of that thing may fit; if not, nothing on the way does."""
        if self._refusals.whatever_the_size(size):
            return False
        least = size.least(reason)
        return least is not None and not self._refusals.hopeless(least, every=True)


def _more(left: int | None, before: int | None) -> bool:
    """Return whether a size can be tried further than before."""
    return left is not None and before is not None and left > before


def _by_count(failures: Failures) -> list[str]:
    """The reasons that occur, the most frequent first; of equals the last of `REASONS`."""
    found = [reason for reason in reversed(REASONS) if failures.get(reason)]
    return sorted(found, key=lambda reason: -failures[reason])


def fill_tiered(
    site: CapacityState,
    size: Size,
    filling: FillResult,
    limit: int | None,
    name: Callable[[int], str],
    watch: Callable[[FillResult], str],
    spends: bool = False,
) -> None:
    """Place instances of `size`, then of ever smaller sizes; arguments as for `fill`.

    With `spends`, each size uses up as much of `limit` as instances are placed; see
    `Behaviour.counts_sizes_as_attempts`.
    """
    left = limit
    if spends and limit is not None:
        left = max(0, limit - len(filling.placed))
    tiers = _Tiers(site, filling, left, name, watch, spends)
    current: Size | None = size
    while current is not None and tiers.fills(current):
        current = tiers.next_size(current)
    if spends and limit is not None and len(filling.placed) < limit and filling.ended == ENOUGH:
        filling.ended = ""  # the next interval of the policy has what is left of the limit
