"""Forecast how many more instances like those of earlier requests fit.

The earlier requests are repeated in random order, round after round, until one is rejected.  This
is done several times, because the result depends on the order.  Each request is answered by all
groups, networks, storage pools, tags, limits, N+1 and the strategy in effect.
"""

from __future__ import annotations

from random import Random
from statistics import median

from iallocator.constraints.table import REASONS
from iallocator.deadline import check
from iallocator.handlers.allocate import allocation_request
from iallocator.light import copy
from iallocator.placement.context import Context
from iallocator.placement.groups import collect_offers
from iallocator.planners.capacity.fill import EXPECTED_INSTANCES, likely_reason
from iallocator.planners.capacity.site import added
from iallocator.requests import Allocate
from iallocator.scoring import Kernels

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.deadline import Stopped
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings

    Past = tuple[Allocate, Settings]
    """A request for a new instance, and its settings."""

__all__ = ["FORECAST_ORDERS", "Forecast", "Site"]

FORECAST_ORDERS = 9
"""The number of random orders in which the cluster is filled."""

FIRST_COPIES = 64
"""The number of coming instances that the first contexts know; each later one knows twice as
many."""


class Forecast:
    """The number of instances that fit before the first rejection, in several orders.

    Attributes
    ----------
    sizes:
        The number of earlier requests.
    counts:
        For each order, the number of instances that were placed before the first rejection.
    reasons:
        For each order, the reason of most rejections of the rejected instance, or why no group
        was tried.
    rejected_initially:
        The number of orders that ended with an instance that the initial cluster rejects, too.
    ended:
        Why an order was not tried, or not finished and therefore not counted; "" if all were
        finished.
    interrupted:
        Whether a signal ended the forecast.
    """

    __slots__ = (
        "_site",
        "counts",
        "ended",
        "interrupted",
        "reasons",
        "rejected_initially",
        "sizes",
    )

    def __init__(self, site: Site) -> None:
        self._site = site
        self.sizes = len(site.past)
        self.counts: list[int] = []
        self.reasons: list[str] = []
        self.rejected_initially = 0
        self.ended = ""
        self.interrupted = False

    def run(self, limit: int | None) -> None:
        """Fill the cluster in several random orders, with at most `limit` instances in each."""
        for order in range(FORECAST_ORDERS):
            filling = _Filling(self._site, Random(order))
            reason = ""
            while not reason:
                check()
                full = filling.count == limit
                reason = "as many instances as allowed" if full else filling.next()
            self.reasons.append(reason)
            self.counts.append(filling.count)
            self.rejected_initially += self._site.never_takes(filling.rejected)

    def end(self, stop: Stopped) -> None:
        """Record that `stop` ended the forecast early."""
        self.ended = stop.reason
        self.interrupted = stop.interrupted
        del self.reasons[len(self.counts) :]

    def document(self) -> dict[str, object]:
        """Return the forecast as plain data; its numbers are null if no order was finished."""
        counts = self.counts
        return {
            "asked": self.sizes,
            "counts": counts,
            "reasons": self.reasons,
            "hopeless": self.rejected_initially,
            "median": median(counts) if counts else None,
            "lowest": min(counts, default=None),
            "highest": max(counts, default=None),
            "end": self.ended,
        }


class Site:
    """A cluster that is filled several times with instances like those of earlier requests.

    Attributes
    ----------
    past:
        The requests, each with its settings; equal settings are one object.
    usable:
        The names of the nodes that may be used.
    min_disk:
        The share of the disk of every node that stays free, from 0 to 1.
    name:
        Makes the name of an instance from its number.
    """

    def __init__(
        self,
        cluster: Cluster,
        past: Sequence[Past],
        usable: Sequence[str],
        min_disk: float,
        name: Callable[[int], str],
    ) -> None:
        self.cluster = cluster
        self.past = past
        self.usable = usable
        self.min_disk = min_disk
        self.name = name

    def asked(self, rng: Random) -> Iterator[Past]:
        """Yield the requests in endless rounds, each round in a random order of its own."""
        count = 0
        while True:
            check()
            for one, settings in rng.sample(self.past, len(self.past)):
                new = copy(one.instance)
                new.name = self.name(count)
                new.order = len(self.cluster.instances) + count
                yield Allocate(new, one.group_name, one.restrict_to), settings
                count += 1

    def never_takes(self, rejected: Past | None) -> bool:
        """Return whether the initial cluster rejects an instance like the `rejected` one."""
        if rejected is None:
            return False
        alone = copy(self)
        alone.past = [rejected]
        return bool(_Filling(alone, Random(0)).next())

    def context(self, settings: Settings, coming: Sequence[Instance]) -> Context:
        """Return a context of the initial cluster with `settings`.

        It knows the constraints of the new instances `coming`.
        """
        nodes = len(self.cluster.nodes)
        pairs = any(one.instance.required_nodes == 2 for one, _ in self.past)
        squares = sum(len(group.nodes) ** 2 for group in self.cluster.groups) * pairs
        counts = [(nodes, squares)] * EXPECTED_INSTANCES
        context = Context(self.cluster, settings, counts, coming)
        context.kernels = Kernels(context.state, counts, self.min_disk)
        context.kernels.many = True
        return context


class _Filling:
    """One filling of a site, with a context for each of the settings, all in one state.

    Attributes
    ----------
    rejected:
        The request that was rejected; None if none was.
    """

    def __init__(self, site: Site, rng: Random) -> None:
        self._site = site
        self._asked = site.asked(rng)
        self._coming: list[Past] = []
        self._placed: list[tuple[Instance, Nodes]] = []
        self._contexts: dict[int, Context] = {}
        self.rejected: Past | None = None

    @property
    def count(self) -> int:
        """Return the number of instances that have been placed."""
        return len(self._placed)

    def next(self) -> str:
        """Place one more instance; return "", or the reason of most rejections if it fails."""
        if self.count == len(self._coming):
            # Renew the contexts, with twice as many of the next instances. Without constraints
            # between instances, a context need not know the names of new instances.
            for _ in range(max(FIRST_COPIES, len(self._coming))):
                self._coming.append(next(self._asked))
            contexts = self._contexts.values()
            if not contexts or any(one.affinity.relations is not None for one in contexts):
                coming = [one.instance for one, _ in self._coming]
                every = {id(own): own for _, own in self._site.past}
                self._contexts = {
                    key: self._site.context(own, coming) for key, own in every.items()
                }
                for context in self._contexts.values():
                    for instance, nodes in self._placed:
                        context.state.place(instance, nodes)
        self.rejected = request, settings = self._coming[self.count]
        context = self._contexts[id(settings)]
        allocation = allocation_request(context, request)
        if allocation is None:
            return f"Group {request.group_name} does not exist"
        usable = self._site.usable
        allocation.allowed = [
            n for n in usable if allocation.allowed is None or n in allocation.allowed
        ]
        allocation.counted = False
        offers = collect_offers(context, allocation)
        if offers.best is None:
            failures = added(offer.failures for offer in offers.ranked)
            if not failures:
                return offers.line or "no group has nodes"
            unlisted = [reason for reason in failures if reason not in REASONS]
            reasons = [likely_reason(failures), *unlisted]
            return max(reasons, key=lambda reason: failures.get(reason, 0))
        nodes = offers.best.nodes[0]
        for each in self._contexts.values():
            each.state.place(request.instance, nodes)
        self._placed.append((request.instance, nodes))
        self.rejected = None
        return ""
