"""The steps of one instance from where it is to where it is wanted, and ways round."""

from __future__ import annotations

from iallocator.model import moves
from iallocator.transition.resources import Place
from iallocator.transition.step import (
    CREATE,
    FAILOVER,
    MIGRATE,
    MOVE,
    REPLACE_DISKS,
    START,
    STOP,
    Step,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove


__all__ = ["NoWayError", "chain", "creation", "detours", "shortest", "stopped_chain", "stopping"]


class NoWayError(Exception):
    """No moves lead from one place to another; the reason is a sentence about the instance.

    Not a `LookupError`: one of those is a bug, which must not pass for this.
    """


def shortest(
    present: Nodes,
    wanted: Nodes,
    online: Callable[[int], bool] = lambda node: True,
    receives: Callable[[int, int], bool] = lambda source, target: True,
) -> list[ElementaryMove]:
    """Elementary moves from `present` to `wanted`: fewest copies of disks, then fewest failovers.

    The primary goes from one node to another only where `receives`.

    A primary that is not online fails over first; a node that is not online gets no
    new role but that of the secondary it fails over from.

    Raises
    ------
    NoWayError
        If there is no such way.
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
            following.append((moves.FAILOVER, nodes[1]))
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
    """The actions that carry out `steps` one after the other, from `place` on.

    Running instances migrate if `live`, but not off a node that is offline: nobody is
    there to send the memory.  Those on local disks are stopped, copied and started again.
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


def creation(instance: Instance, nodes: Nodes) -> list[Step]:
    """The action that makes a new instance."""
    place = Place(nodes, instance.uses_memory)
    return [Step(CREATE, instance=instance, after=place)]


def stopping(instance: Instance, place: Place) -> list[Step]:
    """The action that stops a running instance where it is; none if it does not run."""
    if not place.running:
        return []
    return [Step(STOP, instance=instance, before=place, after=Place(place.nodes, False))]


def stopped_chain(
    instance: Instance, place: Place, steps: Sequence[ElementaryMove], cluster: Cluster
) -> list[Step]:
    """The same as `chain`, but the instance is stopped first and started in the end."""
    made = stopping(instance, place)
    made += chain(instance, Place(place.nodes, False), steps, cluster)
    made[1].needs[made[0]] = "the step before"
    last = made[-1].after
    assert last is not None
    start = Step(START, instance=instance, before=last, after=Place(last.nodes, True))
    start.needs[made[-1]] = "the step before"
    return [*made, start]


def detours(
    present: Nodes, wanted: Nodes, thirds: Sequence[int], online: Callable[[int], bool]
) -> Iterator[list[ElementaryMove]]:
    """Other ways than the shortest, through one of `thirds` or in another order of steps."""
    direct = shortest(present, wanted, online)
    seen = [direct]
    for begin in _beginnings(present, thirds, online):
        nodes = moves.places_after(present, begin)
        try:
            steps = [*begin, *shortest(nodes, wanted, online)]
        except NoWayError:
            continue
        if steps not in seen:
            seen.append(steps)
            yield steps


def _beginnings(
    present: Nodes, thirds: Sequence[int], online: Callable[[int], bool]
) -> Iterator[list[ElementaryMove]]:
    if len(present) == 1:
        yield from ([(moves.FAILOVER_TO, third)] for third in thirds if third not in present)
        return
    primary, mirror = present
    others = [third for third in thirds if third not in present]
    fails_over: list[ElementaryMove] = [(moves.FAILOVER, mirror)] if online(mirror) else []
    if fails_over:
        yield fails_over
    for third in others:
        replaced: ElementaryMove = (moves.REPLACE_SECONDARY, third)
        if online(primary):
            yield [replaced]
            yield [replaced, (moves.FAILOVER, third)]
        if fails_over:
            yield [*fails_over, replaced]
