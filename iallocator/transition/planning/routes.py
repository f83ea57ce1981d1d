"""Which way every instance takes, and the steps of all of them tied together."""

from __future__ import annotations

from iallocator.transition.node_steps import fence_stuck, fences, node_steps
from iallocator.transition.paths import chain, creation, stopped_chain, stopping
from iallocator.transition.step import STOP, Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.transition.requirements import Demands
    from iallocator.transition.resources import Place

__all__ = ["Route", "build", "tie_orders"]


class Route:
    """The way of one instance.

    Attributes
    ----------
    present:
        Where it is; None for a new instance.
    wanted:
        Its nodes in the end; None: it is to be stopped where it is.
    steps:
        The elementary moves.
    stopped:
        Whether it is stopped before them and started after them.
    fenced:
        Whether its node is fenced because it cannot be stopped.
    """

    __slots__ = ("fenced", "instance", "present", "steps", "stopped", "wanted")

    def __init__(
        self,
        instance: Instance,
        present: Place | None,
        wanted: tuple[int, ...] | None,
        steps: Sequence[ElementaryMove] = (),
        stopped: bool = False,
        fenced: bool = False,
    ) -> None:
        self.instance = instance
        self.present = present
        self.wanted = wanted
        self.steps = tuple(steps)
        self.stopped = stopped
        self.fenced = fenced

    def by(self, steps: Sequence[ElementaryMove], stopped: bool = False) -> Route:
        """The same, another way."""
        return Route(self.instance, self.present, self.wanted, steps, stopped, self.fenced)

    def chained(self, cluster: Cluster) -> list[Step]:
        """Its steps, each after the one before."""
        if self.present is None:
            return creation(self.instance, self.wanted) if self.wanted else []
        if self.wanted is None:
            return stopping(self.instance, self.present)
        if not self.steps:
            return []
        if self.stopped:
            return stopped_chain(self.instance, self.present, self.steps, cluster)
        return chain(self.instance, self.present, self.steps, cluster, live=not self.fenced)


def build(
    cluster: Cluster,
    routes: Mapping[str, Route],
    demands: Demands,
    orders: Sequence[tuple[str, str, str]],
) -> list[Step]:
    """All steps of all `routes`, by name, with what each needs whatever the amounts."""
    chains = {name: routes[name].chained(cluster) for name in sorted(routes)}
    steps = [step for chained in chains.values() for step in chained]
    tie_orders(chains, orders)
    extra: list[Step] = []
    if demands.fence_offline:
        extra += fences(cluster, steps)
    by_node: dict[int, list[str]] = {}
    for name, route in sorted(routes.items()):
        if route.fenced and route.present is not None:
            by_node.setdefault(route.present.nodes[0], []).append(name)
    extra += (fence_stuck(cluster, node, names, steps) for node, names in sorted(by_node.items()))
    return [*extra, *node_steps(cluster, demands, steps), *steps]


def tie_orders(
    chains: Mapping[str, Sequence[Step]], orders: Sequence[tuple[str, str, str]]
) -> None:
    """Let what comes second start after the first, and stop before it."""
    for first, second, strength in orders:
        before = [step for step in chains.get(first, ()) if step.arrives]
        after = [step for step in chains.get(second, ()) if step.arrives]
        why = f"{second} {strength} start after {first}"
        if before and after:
            after[0].needs.setdefault(before[-1], why)
        stops = [_last_stop(chains.get(name, ())) for name in (first, second)]
        if stops[0] is not None and stops[1] is not None:
            why = f"{first} {strength} stop after {second}"
            stops[0].needs.setdefault(stops[1], why)


def _last_stop(chained: Sequence[Step]) -> Step | None:
    """The step that stops an instance for good."""
    return chained[-1] if chained and chained[-1].kind == STOP else None
