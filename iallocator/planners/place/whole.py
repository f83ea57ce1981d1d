"""A whole cluster placed: by the rules, and where those leave somebody out, by exact search.

What must start after something that was left out has no place either.
"""

from __future__ import annotations

from types import MappingProxyType

from iallocator.deadline import check
from iallocator.model.constraints import ORDER
from iallocator.planners.place.exact import place_exactly, why_not_begun
from iallocator.planners.place.scheduler import SchedulingPass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from iallocator.model.constraints import Constraint
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.planners.place.planned_place import PlannedPlace
    from iallocator.requests import Allocate

__all__ = ["drop_followers", "leaders_of", "name_leaders", "place_cluster"]


def leaders_of(one: SchedulingPass, name: str) -> list[Constraint]:
    """The musts by which the instance starts after others."""
    if one.relations is None:
        return []
    return [bond for bond in one.relations.of(name, ORDER) if bond.must and bond.other]


def name_leaders(one: SchedulingPass) -> None:
    """Say of those that were left out because of a leader which one that is."""
    for place in one.left_out:
        place.why = _missing_leader(one, place) or place.why


def drop_followers(one: SchedulingPass) -> None:
    """Take the places of those whose leaders will not run; each is told through which chain.

    What runs already without its leader is left alone.
    """
    dropped = True
    while dropped:
        check()
        dropped = False
        for place in one.places.values():
            why = "" if place.nodes is None else _missing_leader(one, place)
            if why:
                one.drop(place, why)
                dropped = True


def _missing_leader(one: SchedulingPass, place: PlannedPlace) -> str:
    """Why an instance cannot start, wherever that is, or ""."""
    if one.stuck(place.instance):
        return ""
    for bond in leaders_of(one, place.instance.name):
        leader = one.places.get(bond.other)
        if leader is None:
            reason = "which does not exist"
        elif not leader.instance.running:
            reason = "which does not run"
        elif leader.nodes is None:
            reason = f"which has no place ({leader.why})"
        elif one.context.cluster.nodes[leader.nodes[0]].offline:
            reason = "which stays on a node that is offline"
        else:
            continue
        lost = leader is not None and leader.runs and leader.nodes is None
        if lost or not place.runs:
            return f"it {bond.text}, {reason}"
    return ""


TOGETHER = "placed together with the others by exact search"


def place_cluster(
    context: Context,
    strategy: str,
    instances: Sequence[Instance],
    wanted: Sequence[Allocate],
    tell: Callable[[int, int], None] = lambda done, total: None,
    staying: Mapping[str, str] = MappingProxyType({}),
) -> SchedulingPass:
    """Place `instances` of the cluster, in their order, and then the new ones in `wanted`.

    Where they are now is taken from the state of `context`, on which they are in their new
    places afterwards.  The answer is the pass that gave them their places.  The disks of what is
    left out stay where they are: all choose again until these are counted.  What is tagged
    to keep running is never left out; where it would be, it stays where it is, and the
    others have to do with the rest.  Once time is up, the state may be anything.
    `tell` hears how many of how many have chosen.  Those in `staying` stay where they are, for
    the reason that stands there.
    """

    def tried(running: Collection[str]) -> SchedulingPass:
        stopped: dict[str, str] = {}
        kept = {**dict.fromkeys(running, "it must go on running"), **staying}
        while True:
            check()
            one = SchedulingPass(context, strategy, instances, wanted, kept, stopped, tell)
            one.run()
            drop_followers(one)
            if not one.uncounted:
                return one
            stopped |= one.uncounted
            one.take_back()

    one = tried(())
    if one.left_out and _searches(one) and _may_end(one):
        found = _searched(
            one, lambda: SchedulingPass(context, strategy, instances, wanted, staying)
        )
        if found is not None:
            return found
        if context.deadline.over() and not _wrongly_stopped(one):
            return one
        one = tried(())
    kept: set[str] = set()
    while stopped := _wrongly_stopped(one):
        kept |= stopped
        one.take_back()
        one = tried(kept)
    return one


def _searches(one: SchedulingPass) -> bool:
    """Return whether exact search is allowed in the group of an instance that is left out.

    A new instance may go to any group.
    """
    cluster = one.context.cluster
    groups = [
        group
        for place in one.left_out
        for group in ([cluster.nodes[place.before[0]].group] if place.before else cluster.groups)
    ]
    return one.context.searches_for(groups)


def _may_end(one: SchedulingPass) -> bool:
    """Whether an exact search can end within its budget; if not, a remark says why."""
    why = why_not_begun(one)
    one.context.remarks += filter(None, (why,))
    return not why


def _searched(one: SchedulingPass, again: Callable[[], SchedulingPass]) -> SchedulingPass | None:
    """A pass that leaves out less than `one`, by exact search; None if there is none.

    `one` is taken back in any case.
    """
    left_out = {place.instance.name for place in one.left_out}
    one.take_back()
    other = again()
    found = place_exactly(other, left_out)
    note = found.note().removeprefix("; ")
    if not found.places:
        other.take_back()
        other.context.remarks += filter(None, (note,))
        return None
    other.take(found.places, TOGETHER, "exact search found no place for it beside the others")
    drop_followers(other)
    name_leaders(other)
    still_out = {place.instance.name for place in other.left_out}
    if _wrongly_stopped(other) or left_out <= still_out:
        other.take_back()
        return None
    other.context.remarks += filter(None, (note,))
    return other


def _wrongly_stopped(one: SchedulingPass) -> set[str]:
    """Those that run and have to stay where they are, so that nothing is stopped that must run."""
    relations = one.relations
    stopped = {place.instance.name for place in one.left_out if place.runs}
    if relations is None or stopped.isdisjoint(relations.keep_running):
        return set()
    wrong = stopped & set(relations.keep_running)
    for name in list(wrong):
        wrong |= stopped & set(relations.group_of(name, sorted(stopped)))
        wrong |= {bond.other for bond in leaders_of(one, name) if bond.other in stopped}
    return wrong
