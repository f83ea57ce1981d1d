"""What must start after something that was left out has no place either."""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.model.constraints import ORDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.constraints import Constraint
    from iallocator.planners.place.planned_place import PlannedPlace
    from iallocator.planners.place.scheduler import SchedulingPass

__all__ = ["drop_followers", "leaders_of", "name_leaders"]


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
