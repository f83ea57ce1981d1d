"""The elementary steps of each instance to its place, and the steps of nodes around them.

Steps of nodes are fencing, power, flags and tags.
"""

from __future__ import annotations

from iallocator.transition.paths import chain, creation, stopped_chain, stopping
from iallocator.transition.step import (
    DRAIN,
    FENCE,
    OFFLINE,
    ONLINE,
    POWER_OFF,
    POWER_ON,
    STOP,
    TAG,
    UNTAG,
    Step,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.transition.requirements import Demands, NodeChanges
    from iallocator.transition.resources import Place

__all__ = ["BEFORE_MOVES", "Route", "build", "fence_stuck", "fences", "node_steps", "tie_orders"]

BEFORE_MOVES = (POWER_ON, ONLINE, DRAIN)
"""The steps of nodes that come before those of instances; the others come after them."""


def fences(cluster: Cluster, steps: Sequence[Step]) -> list[Step]:
    """Fencing of every offline node on which something ran that is to run elsewhere.

    Only the first step of what ran there waits for it: the rest of the transition does
    not care, nor do instances that only had their mirror there or were stopped.
    """
    made: dict[int, Step] = {}
    for step in steps:
        if step.before is None or not step.before.running or step.after is None:
            continue
        source = step.before.nodes[0]
        if cluster.nodes[source].offline and step.after.nodes[0] != source:
            fence = made.setdefault(source, Step(FENCE, node=source))
            step.needs[fence] = f"fencing of {cluster.nodes[source].name}"
    return [made[index] for index in sorted(made, key=lambda one: cluster.nodes[one].name)]


def fence_stuck(cluster: Cluster, node: int, stuck: Sequence[str], steps: Sequence[Step]) -> Step:
    """Fencing of `node`, where the instances `stuck` cannot be stopped.

    After everything else has left the node; `stuck` start elsewhere after that.
    """
    fence = Step(FENCE, node=node)
    name = cluster.nodes[node].name
    for step in steps:
        if step.name in stuck:
            if step.before and step.before.nodes[0] == node and step.before.running:
                step.needs[fence] = f"fencing of {name}"
        elif _ends_on(step, node):
            fence.needs[step] = f"{step.name} leaves {name}"
    return fence


def _ends_on(step: Step, node: int) -> bool:
    """Whether the instance no longer runs on `node` after the step."""
    if step.before is None or not step.before.running or step.before.nodes[0] != node:
        return False
    after = step.after
    return after is None or not after.running or after.nodes[0] != node


def node_steps(cluster: Cluster, changes: NodeChanges, steps: Sequence[Step]) -> list[Step]:
    """Power, flags and tags of nodes, tied to the steps of instances in `steps`."""
    made: list[Step] = []
    last: dict[int, Step] = {}
    at = _by_node(steps)

    def add(kind: str, index: int, tags: Sequence[str] = ()) -> Step:
        step = Step(kind, node=index, tags=tags)
        if index in last:
            step.needs[last[index]] = "the step before"
        made.append(step)
        last[index] = step
        return step

    for index in changes.power_on:
        add(POWER_ON, index)
        online = add(ONLINE, index)
        for step in at.get(index, ()):
            if step.comes_to(index) or step.leaves(index):
                step.needs[online] = f"{cluster.nodes[index].name} is online"
    for index in (*changes.drain, *(n for n in changes.power_off if n not in changes.drain)):
        node = cluster.nodes[index]
        if not node.drained and not node.offline:
            drain = add(DRAIN, index)
            for step in at.get(index, ()):
                if step.leaves(index):
                    step.needs[drain] = f"{node.name} is drained"
    for index in changes.power_off:
        if not cluster.nodes[index].offline:
            offline = add(OFFLINE, index)
            for step in at.get(index, ()):
                if step.leaves(index) or _ends_on(step, index):
                    offline.needs[step] = f"{step.name} leaves {cluster.nodes[index].name}"
        add(POWER_OFF, index)
    for kind, tags in ((TAG, changes.add_tags), (UNTAG, changes.remove_tags)):
        for index in tags:
            if tags[index]:
                add(kind, index, tags[index])
    return made


def _by_node(steps: Sequence[Step]) -> dict[int, list[Step]]:
    """Index of a node -> the steps that begin or end there, in their order."""
    found: dict[int, list[Step]] = {}
    for step in steps:
        places = (step.before, step.after)
        for index in dict.fromkeys(k for place in places if place for k in place.nodes):
            found.setdefault(index, []).append(step)
    return found


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
    return [*extra, *node_steps(cluster, demands.nodes, steps), *steps]


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
