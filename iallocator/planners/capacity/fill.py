"""Capacity: place instances of one size one after the other until none fits.

Every instance goes where an allocation would put it: to the place with the best score over all
nodes, in all groups that accept instances.
"""

from __future__ import annotations

from iallocator.constraints.table import REASONS
from iallocator.deadline import check

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.planners.capacity.instance_size import Size
    from iallocator.planners.capacity.next_place import NextPlace
    from iallocator.planners.capacity.site import CapacityState, Failures

__all__ = ["ENOUGH", "Allocation", "FillResult", "fill", "likely_reason"]

ENOUGH = "as many instances as allowed"

MANY = 3
"""After so many instances of one size, keeping what is known of their places pays off."""


class Allocation:
    """One new instance and the indices of its nodes, primary first."""

    __slots__ = ("instance", "nodes", "size")

    def __init__(self, instance: Instance, nodes: tuple[int, ...], size: Size) -> None:
        self.instance = instance
        self.nodes = nodes
        self.size = size


class FillResult:
    """What was placed, and why the filling ended.

    Parameters
    ----------
    name:
        Makes the name of an instance from its number.
    watch:
        Called after each instance, or after several that are placed at once. A reason that it
        returns ends the filling.
    spends:
        Whether each size uses up as much of a limit as instances are placed; see
        `Behaviour.counts_sizes_as_attempts`.  The failures are then those of the instance beyond
        the limit, as hspace reports them.

    Attributes
    ----------
    failures:
        What rejected placements at the last attempt.
    ended:
        Why there was no further attempt, in words; "" if the next one cannot be placed.
    interrupted:
        Whether a signal ended it.
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
        """The most frequent reason of the last attempt; among equals the first of `REASONS`."""
        return likely_reason(self.failures)


def likely_reason(failures: Failures) -> str:
    """Return the most frequent reason; among equals the first of `REASONS`."""
    return max(REASONS, key=lambda reason: failures.get(reason, 0))


def fill(site: CapacityState, size: Size, filling: FillResult, limit: int | None) -> bool:
    """Place instances of this size until none fits; return whether the next one cannot be placed.

    `filling` gets what is placed, up to `limit` instances; None: any number.
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
                _, filling.failures = site.find(coming(0))
            filling.ended = ENOUGH
            return False
        instance = coming(0)
        if number - start == MANY:
            places = site.next_place(instance, coming)
        path: Sequence[Nodes] = ()
        if places is not None and number + 1 != limit:  # the last one says what was rejected
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
