"""Find the steps of each instance from its present to its new nodes, and the steps of nodes.

Steps of nodes are fencing, power on and off, changes of flags, and changes of tags.
"""

from __future__ import annotations

from iallocator.model import moves
from iallocator.transition.resources import Place
from iallocator.transition.step import (
    CREATE,
    DRAIN,
    FAILOVER,
    FENCE,
    MIGRATE,
    MOVE,
    OFFLINE,
    ONLINE,
    POWER_OFF,
    POWER_ON,
    REPLACE_DISKS,
    START,
    STOP,
    TAG,
    UNTAG,
    Step,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.transition.requirements import Demands, NodeChanges

__all__ = [
    "BEFORE_MOVES",
    "NoWayError",
    "Route",
    "build",
    "chain",
    "dead_steps",
    "fences",
    "longer_routes",
    "node_steps",
    "shortest",
    "stopping",
    "tie_orders",
]


class NoWayError(Exception):
    """No sequence of moves leads to the new nodes; the text is a sentence about the instance.

    This class is not a `LookupError`, because a `LookupError` is a bug that must not be caught as a
    missing route.
    """


def shortest(
    present: Nodes,
    wanted: Nodes,
    online: Callable[[int], bool] = lambda node: True,
    receives: Callable[[int, int], bool] = lambda source, target: True,
) -> list[ElementaryMove]:
    """Return the elementary moves from `present` to `wanted` with the fewest copies of disks.

    Of several such sequences, one with the fewest failovers is returned. The primary moves from one
    node to another only if `receives` allows it. A primary that is not online fails over first. A
    node that is not online gets no new role except that of the secondary after a failover.

    Raises
    ------
    NoWayError
        If no sequence of moves leads to `wanted`.
    """
    if present == wanted:
        return []
    if len(present) != len(wanted):
        raise NoWayError("it would have to change its disk template")
    if len(present) == 1:
        if not online(wanted[0]):
            raise NoWayError("its new node is not online")
        return [(moves.FAILOVER_TO, wanted[0])]
    best: dict[Nodes, tuple[int, int]] = {present: (0, 0)}
    waiting: list[tuple[tuple[int, int], list[ElementaryMove], Nodes]] = [((0, 0), [], present)]
    while waiting:  # a handful of places: the first of the sorted list is the nearest
        waiting.sort(key=lambda one: (one[0], len(one[1])))
        (copies, failovers), steps, nodes = waiting.pop(0)
        if nodes == wanted:
            return steps
        following: list[ElementaryMove] = []
        if online(nodes[1]) and receives(*nodes):
            following.append((moves.DRBD_FAILOVER, nodes[1]))
        if online(nodes[0]):
            following += (
                (moves.REPLACE_SECONDARY, n) for n in wanted if n not in nodes and online(n)
            )
        for step in following:
            after = moves.places_after(nodes, [step])
            copy = step[0] == moves.REPLACE_SECONDARY
            cost = (copies + copy, failovers + (not copy))
            if after not in best or cost < best[after]:
                best[after] = cost
                waiting.append((cost, [*steps, step], after))
    raise NoWayError(
        "no sequence of failovers and replaced secondaries over online nodes leads there"
    )


def chain(
    instance: Instance,
    place: Place,
    steps: Sequence[ElementaryMove],
    cluster: Cluster,
    live: bool = True,
) -> list[Step]:
    """Return the steps that execute elementary moves one after the other, beginning at `place`.

    Running instances are migrated if `live`, except from an offline node, which cannot send their
    memory. Instances on local disks are stopped, copied and started again.
    """
    made: list[Step] = []
    for step in steps:
        after = Place(moves.places_after(place.nodes, [step]), place.running)
        if step[0] == moves.REPLACE_SECONDARY:
            kind = REPLACE_DISKS
        elif not instance.kind.migrates:
            kind = MOVE
        else:
            reachable = not cluster.nodes[place.nodes[0]].offline
            kind = MIGRATE if place.running and live and reachable else FAILOVER
        action = Step(kind, instance=instance, before=place, after=after, move=step)
        if made:
            action.needs[made[-1]] = "the step before"
        made.append(action)
        place = after
    return made


def stopping(instance: Instance, place: Place) -> list[Step]:
    """Return the step that stops a running instance on its node; [] if it does not run."""
    if not place.running:
        return []
    return [Step(STOP, instance=instance, before=place, after=Place(place.nodes, False))]


def longer_routes(
    present: Nodes, wanted: Nodes, thirds: Sequence[int], online: Callable[[int], bool]
) -> Iterator[list[ElementaryMove]]:
    """Yield sequences of moves from `present` to `wanted` other than the shortest.

    Such a sequence uses a temporary node out of `thirds`, or another order of steps.
    """
    direct = shortest(present, wanted, online)
    seen = [direct]
    others = [third for third in thirds if third not in present]
    begins: list[list[ElementaryMove]] = []
    if len(present) == 1:
        begins += ([(moves.FAILOVER_TO, third)] for third in others)
    else:
        primary, secondary = present
        fails_over: list[ElementaryMove] = [(moves.DRBD_FAILOVER, secondary)]
        fails_over = fails_over if online(secondary) else []
        if fails_over:
            begins.append(fails_over)
        for third in others:
            replaced: ElementaryMove = (moves.REPLACE_SECONDARY, third)
            if online(primary):
                begins += [replaced], [replaced, (moves.DRBD_FAILOVER, third)]
            if fails_over:
                begins.append([*fails_over, replaced])
    for begin in begins:
        nodes = moves.places_after(present, begin)
        try:
            steps = [*begin, *shortest(nodes, wanted, online)]
        except NoWayError:
            continue
        if steps not in seen:
            seen.append(steps)
            yield steps


BEFORE_MOVES = (POWER_ON, ONLINE, DRAIN)
"""Kinds of steps of nodes that precede the steps of instances; the other kinds follow them."""


def fences(cluster: Cluster, steps: Sequence[Step], known: Collection[int] = ()) -> list[Step]:
    """Return a fencing step for each offline node on which an instance of `steps` was running.

    The first step that starts such an instance elsewhere depends on the fencing of its node.
    Instances that were stopped, or that had only their secondary on the node, do not depend on it.
    `known`: nodes that other steps fence.
    """
    made: dict[int, Step] = {}
    for step in steps:
        if step.before is None or not step.before.running or step.after is None:
            continue
        source = step.before.nodes[0]
        off = cluster.nodes[source].offline and source not in known
        if off and step.after.nodes[0] != source:
            fence = made.setdefault(source, Step(FENCE, node=source))
            step.needs[fence] = f"fencing of {cluster.nodes[source].name}"
    return [made[index] for index in sorted(made, key=lambda one: cluster.nodes[one].name)]


def fence_stuck(cluster: Cluster, node: int, stuck: Sequence[str], steps: Sequence[Step]) -> Step:
    """Return the step that fences `node`, on which the instances `stuck` cannot be stopped.

    The step depends on the steps of all other instances that leave the node. The instances `stuck`
    start on other nodes after it.
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
    """Return whether the instance of the step runs on `node` before the step, and not after it."""
    if step.before is None or not step.before.running or step.before.nodes[0] != node:
        return False
    after = step.after
    return after is None or not after.running or after.nodes[0] != node


def dead_steps(cluster: Cluster, changes: NodeChanges, steps: Sequence[Step]) -> list[Step]:
    """Return the steps that fence dead nodes and set them offline; add dependencies to `steps`.

    Every step of an instance that has a role on a dead node depends on the last of these steps.
    """
    made: list[Step] = []
    for index in changes.dead:
        name = cluster.nodes[index].name
        last, why = Step(FENCE, node=index), f"fencing of {name}"
        made.append(last)
        if index in changes.unmarked:
            offline = Step(OFFLINE, node=index)
            offline.needs[last] = why
            last, why = offline, f"{name} is offline"
            made.append(offline)
        for step in steps:
            if step.before is not None and index in step.before.nodes:
                step.needs[last] = why
    return made


def node_steps(cluster: Cluster, changes: NodeChanges, steps: Sequence[Step]) -> list[Step]:
    """Return the steps that change power, flags and tags of nodes, with the dependencies."""
    made: list[Step] = []
    last: dict[int, Step] = {}
    at: dict[int, list[Step]] = {}  # node -> the steps that begin or end there, in their order
    for step in steps:
        places = (step.before, step.after)
        for index in dict.fromkeys(k for place in places if place for k in place.nodes):
            at.setdefault(index, []).append(step)

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


class Route:
    """The route of one instance from its present nodes to its new nodes.

    Attributes
    ----------
    present:
        The present place of the instance; None for a new instance.
    wanted:
        The nodes of the instance at the end; None: it is stopped on its present nodes.
    steps:
        The elementary moves of the route, in order.
    stopped:
        Whether the instance is stopped before the moves and started after them.
    fenced:
        Whether its primary node is fenced because the instance cannot be stopped.
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
        """Return a copy of this route with other elementary moves."""
        return Route(self.instance, self.present, self.wanted, steps, stopped, self.fenced)

    def chained(self, cluster: Cluster) -> list[Step]:
        """Return the steps of the route; each step depends on the one before."""
        if self.present is None:
            if not self.wanted:
                return []
            place = Place(self.wanted, self.instance.uses_memory)
            return [Step(CREATE, instance=self.instance, after=place)]
        if self.wanted is None:
            return stopping(self.instance, self.present)
        if not self.steps:
            return []
        if not self.stopped:
            return chain(self.instance, self.present, self.steps, cluster, live=not self.fenced)
        made = stopping(self.instance, self.present)
        halted = Place(self.present.nodes, False)
        made += chain(self.instance, halted, self.steps, cluster)
        made[1].needs[made[0]] = "the step before"
        last = made[-1].after
        assert last is not None
        start = Step(START, instance=self.instance, before=last, after=Place(last.nodes, True))
        start.needs[made[-1]] = "the step before"
        return [*made, start]


def build(
    cluster: Cluster,
    routes: Mapping[str, Route],
    demands: Demands,
    orders: Sequence[tuple[str, str, str]],
) -> list[Step]:
    """Return the steps of all `routes`, each with the steps that must end before it begins.

    The steps are in the order of the names of the instances.
    """
    chains = {name: routes[name].chained(cluster) for name in sorted(routes)}
    steps = [step for chained in chains.values() for step in chained]
    tie_orders(chains, orders)
    extra = [*fences(cluster, steps)]
    by_node: dict[int, list[str]] = {}
    for name, route in sorted(routes.items()):
        if route.fenced and route.present is not None:
            by_node.setdefault(route.present.nodes[0], []).append(name)
    extra += (fence_stuck(cluster, node, names, steps) for node, names in sorted(by_node.items()))
    return [*extra, *node_steps(cluster, demands.nodes, steps), *steps]


def tie_orders(
    chains: Mapping[str, Sequence[Step]], orders: Sequence[tuple[str, str, str]]
) -> None:
    """Add the dependencies of `orders` to the steps of instances.

    The second instance of an order starts after the first, and stops before it. `chains`: name of
    an instance -> its steps, in order.
    """
    for first, second, strength in orders:
        before = [step for step in chains.get(first, ()) if step.arrives]
        after = [step for step in chains.get(second, ()) if step.arrives]
        why = f"{second} {strength} start after {first}"
        if before and after:
            after[0].needs.setdefault(before[-1], why)
        one, other = chains.get(first), chains.get(second)
        if one and other and one[-1].kind == other[-1].kind == STOP:
            one[-1].needs.setdefault(other[-1], f"{first} {strength} stop after {second}")
