"""The steps of nodes around those of instances: fencing, power, flags and tags."""

from __future__ import annotations

from iallocator.transition.step import (
    DRAIN,
    FENCE,
    OFFLINE,
    ONLINE,
    POWER_OFF,
    POWER_ON,
    TAG,
    UNTAG,
    Step,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.transition.requirements import Demands

__all__ = ["BEFORE_MOVES", "fence_stuck", "fences", "node_steps"]

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


def node_steps(cluster: Cluster, demands: Demands, steps: Sequence[Step]) -> list[Step]:
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

    for index in demands.power_on:
        add(POWER_ON, index)
        online = add(ONLINE, index)
        for step in at.get(index, ()):
            if step.comes_to(index) or step.leaves(index):
                step.needs[online] = f"{cluster.nodes[index].name} is online"
    for index in (*demands.drain, *(n for n in demands.power_off if n not in demands.drain)):
        node = cluster.nodes[index]
        if not node.drained and not node.offline:
            drain = add(DRAIN, index)
            for step in at.get(index, ()):
                if step.leaves(index):
                    step.needs[drain] = f"{node.name} is drained"
    for index in demands.power_off:
        if not cluster.nodes[index].offline:
            offline = add(OFFLINE, index)
            for step in at.get(index, ()):
                if step.leaves(index) or _ends_on(step, index):
                    offline.needs[step] = f"{step.name} leaves {cluster.nodes[index].name}"
        add(POWER_OFF, index)
    for kind, tags in ((TAG, demands.add_tags), (UNTAG, demands.remove_tags)):
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
