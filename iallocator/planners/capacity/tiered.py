"""Tiered filling: from the largest size down, each time less of what was lacking."""

from __future__ import annotations

from iallocator.limits.node import REASONS
from iallocator.planners.capacity.fill import FillResult, fill

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iallocator.planners.capacity.fill import CapacityState, Failures
    from iallocator.planners.capacity.instance_size import Size

__all__ = ["fill_tiered"]

AT_ONCE = 32
"""Of so many sizes at most global N+1 is judged at once; a power of two."""


class _Tiers:
    """The sizes tried since the last instance was placed: nothing of them fits now."""

    def __init__(
        self,
        site: CapacityState,
        filling: FillResult,
        limit: int | None,
        name: Callable[[int], str],
        watch: Callable[[FillResult], str],
    ) -> None:
        self._site = site
        self._filling = filling
        self._limit = limit
        self._name = name
        self._watch = watch
        self._count = -1
        self._stepping, self._steps = "", 0  # what was made less of last, how often in a row
        self._refused: dict[tuple[object, ...], Failures] = {}
        self._room: dict[tuple[str, tuple[int, ...]], bool] = {}

    def fills(self, size: Size) -> bool:
        """Place what fits of this size; whether that came to an end for want of a place."""
        return fill(self._site, size, self._filling, self._limit, self._name, self._watch)

    def refusal(self, size: Size, every: bool = False) -> Failures | None:
        """What refuses an instance of this size now; None if it fits; see `CapacityState.probe`."""
        if self._count != len(self._filling.placed):
            self._refused.clear()
            self._room.clear()
            self._count = len(self._filling.placed)
        key = *size.amounts(), every
        if key not in self._refused:
            number = self._count
            probe = self._site.newcomer(size, number, self._name(number))
            nodes, failures = self._site.probe(probe, every)
            if nodes:
                return None
            self._refused[key] = failures
        return self._refused[key]

    def next_size(self, size: Size) -> Size | None:
        """The next smaller size that fits, after one that does not any more.

        First, step by step, less of what fails most often; where that leads nowhere,
        from the last size back to the first, less of one thing until it fails no more.
        """
        self._stepping, self._steps = "", 0
        seen = {size.amounts()}
        ways = [self._ways(size)]
        while ways:
            smaller = next(ways[-1], None)
            if smaller is None:
                ways.pop()
            elif smaller.amounts() not in seen:
                if self.refusal(smaller) is None:
                    return smaller
                seen.add(smaller.amounts())
                ways.append(self._ways(smaller))
        return None

    def _ways(self, size: Size) -> Iterator[Size]:
        """Where to go on from a size that does not fit."""
        reasons = _by_count(self.refusal(size) or {})
        step = size.smaller(reasons[0]) if reasons else None
        if step is not None:
            self._steps = self._steps + 1 if self._stepping == reasons[0] else 1
            self._stepping = reasons[0]
            self._foresee(step, reasons[0], self._steps, every=False)
            yield step
        for reason in reasons:
            leap = self._leap(size, reason)
            if leap is not None:
                yield leap
                return

    def _leap(self, size: Size, reason: str) -> Size | None:
        """Less of one thing until it fits, as long as that thing is among what fails.

        A leap keeps global N+1, with drbd instances too, and ends before the last step:
        so does hspace.
        """
        if not self._may_leap(size, reason):
            return None
        current = size.smaller(reason)
        steps = 0
        while current is not None:
            following = current.smaller(reason)
            if following is None:
                return None
            steps += 1
            self._foresee(current, reason, steps, every=True)
            failures = self.refusal(current, every=True)
            if failures is None:
                return current
            if not failures.get(reason):
                return None
            current = following
        return None

    def _foresee(self, size: Size, reason: str, steps: int, every: bool) -> None:
        """Have global N+1 judged for `size`, so many steps on the way, and for those after it.

        Ever more at once: a way is short, or very long.
        """
        count = min(steps, AT_ONCE)
        if steps & (steps - 1) and (steps < AT_ONCE or steps % AT_ONCE):
            return
        sizes: list[Size] = []
        current: Size | None = size
        while current is not None and len(sizes) < count:
            sizes.append(current)
            current = current.smaller(reason)
        name = self._name(self._count)
        fresh = [one for one in sizes if (*one.amounts(), every) not in self._refused]
        if fresh:
            probes = [self._site.newcomer(one, self._count, name) for one in fresh]
            self._site.foresee(probes, every)

    def _may_leap(self, size: Size, reason: str) -> bool:
        """Whether next to nothing of that thing would leave room; if not, nothing else does."""
        least = size.least(reason)
        if least is None:
            return False
        key = reason, least.amounts()
        if key not in self._room:
            probe = self._site.newcomer(least, self._count, self._name(self._count))
            self._room[key] = self._site.has_room(probe)
        return self._room[key]


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
) -> None:
    """Place instances of `size`, then of ever smaller sizes; arguments as for `fill`."""
    tiers = _Tiers(site, filling, limit, name, watch)
    current: Size | None = size
    while current is not None and tiers.fills(current):
        current = tiers.next_size(current)
