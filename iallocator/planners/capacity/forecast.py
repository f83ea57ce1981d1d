"""How many more instances like those of the past fit, until the first is refused.

What was asked for is asked again, round after round, each in another order, until one finds no
place; that several times over, since it depends on the order.
"""

from __future__ import annotations

from copy import copy
from random import Random
from statistics import median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.planners.capacity.fill import CapacityState

__all__ = ["ORDERS", "Forecast", "forecast"]

ORDERS = 9
"""How often the cluster is filled."""


class Forecast:
    """What was found.

    Attributes
    ----------
    sizes:
        How many instances the past asked for.
    counts:
        Order by order how many fitted before the first refusal.
    reasons:
        Order by order what refused most placements of that one.
    ended:
        Why not all orders were tried, or one was not finished (it counts for nothing); "".
    """

    __slots__ = ("counts", "ended", "reasons", "sizes")

    def __init__(self, sizes: int) -> None:
        self.sizes = sizes
        self.counts: list[int] = []
        self.reasons: list[str] = []
        self.ended = ""

    def document(self) -> dict[str, object]:
        """As plain data; nulls where no order was finished."""
        counts = self.counts
        return {
            "asked": self.sizes,
            "counts": counts,
            "reasons": self.reasons,
            "median": median(counts) if counts else None,
            "lowest": min(counts, default=None),
            "highest": max(counts, default=None),
            "end": self.ended,
        }


def forecast(
    past: Sequence[Instance],
    site: Callable[[], CapacityState],
    limit: int | None,
    name: Callable[[int], str],
    watch: Callable[[], str],
) -> Forecast:
    """Fill `ORDERS` new sites with copies of `past`, `limit` at most each.

    `name` makes names of numbers; what `watch` says after an instance ends it all.
    """
    from iallocator.planners.capacity.fill import likely_reason

    found = Forecast(len(past))
    for order in range(ORDERS):
        here = site()
        count = 0
        for one in _asked(past, Random(order)):
            found.ended = watch()
            if found.ended:
                return found
            if count == limit:
                found.reasons.append("as many instances as allowed")
                break
            new = _named(one, name(count), len(here.state.cluster.instances) + count)
            nodes, failures = here.find(new)
            if not nodes:
                found.reasons.append(likely_reason(failures))
                break
            here.place(new, nodes)
            count += 1
        found.counts.append(count)
    return found


def _asked(past: Sequence[Instance], rng: Random) -> Iterator[Instance]:
    """What was asked for, over and over, each round in an order of its own."""
    while True:
        yield from rng.sample(past, len(past))


def _named(one: Instance, name: str, order: int) -> Instance:
    """A copy of `one` that is another instance."""
    new = copy(one)
    new.name, new.order = name, order
    return new
