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


def fences(cluster: Cluster, tasks: Sequence[Step]) -> list[Step]:
    """Fencing of every offline node on which something ran that is to run elsewhere.

    Only the first step of what ran there waits for it: the rest of the transition does
    not care, nor do instances that only had their mirror there or were stopped.
    """
    made: dict[int, Step] = {}
    for task in tasks:
        if task.before is None or not task.before.running or task.after is None:
            continue
        source = task.before.nodes[0]
        if cluster.nodes[source].offline and task.after.nodes[0] != source:
            fence = made.setdefault(source, Step(FENCE, node=source))
            task.needs[fence] = f"fencing of {cluster.nodes[source].name}"
    return [made[index] for index in sorted(made, key=lambda one: cluster.nodes[one].name)]


def fence_stuck(cluster: Cluster, node: int, stuck: Sequence[str], tasks: Sequence[Step]) -> Step:
    """Fencing of `node`, where the instances `stuck` cannot be stopped.

    After everything else has left the node; `stuck` start elsewhere after that.
    """
    fence = Step(FENCE, node=node)
    name = cluster.nodes[node].name
    for task in tasks:
        if task.name in stuck:
            if task.before and task.before.nodes[0] == node and task.before.running:
                task.needs[fence] = f"fencing of {name}"
        elif _ends_on(task, node):
            fence.needs[task] = f"{task.name} leaves {name}"
    return fence


def _ends_on(task: Step, node: int) -> bool:
    """Whether the instance no longer runs on `node` after the step."""
    if task.before is None or not task.before.running or task.before.nodes[0] != node:
        return False
    after = task.after
    return after is None or not after.running or after.nodes[0] != node


def node_steps(cluster: Cluster, demands: Demands, tasks: Sequence[Step]) -> list[Step]:
    """Power, flags and tags of nodes, tied to the steps of instances in `tasks`."""
    made: list[Step] = []
    last: dict[int, Step] = {}

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
        for task in tasks:
            if task.comes_to(index) or task.leaves(index):
                task.needs[online] = f"{cluster.nodes[index].name} is online"
    for index in (*demands.drain, *(n for n in demands.power_off if n not in demands.drain)):
        node = cluster.nodes[index]
        if not node.drained and not node.offline:
            drain = add(DRAIN, index)
            for task in tasks:
                if task.leaves(index):
                    task.needs[drain] = f"{node.name} is drained"
    for index in demands.power_off:
        if not cluster.nodes[index].offline:
            offline = add(OFFLINE, index)
            for task in tasks:
                if task.leaves(index) or _ends_on(task, index):
                    offline.needs[task] = f"{task.name} leaves {cluster.nodes[index].name}"
        add(POWER_OFF, index)
    for kind, tags in ((TAG, demands.add_tags), (UNTAG, demands.remove_tags)):
        for index in tags:
            if tags[index]:
                add(kind, index, tags[index])
    return made
