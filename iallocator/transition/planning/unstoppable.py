"""Instances that cannot be stopped, and must not be by force."""

from __future__ import annotations

from iallocator.transition.paths import NoWayError, shortest
from iallocator.transition.planning.order_graph import dependents
from iallocator.transition.planning.routes import Route
from iallocator.transition.requirements import MUST
from iallocator.transition.resources import Place, change, room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.model.instance import Instance
    from iallocator.transition.planning.planning_state import PlanningState
    from iallocator.transition.requirements import Demands
    from iallocator.transition.resources import Amounts

__all__ = ["fence_for_stuck", "stays_for_good"]


def fence_for_stuck(planning: PlanningState) -> None:
    """Decide what becomes of the instances in `Demands.stuck` that are to go elsewhere.

    If something that must keep running depends on it, directly or not, its node is to
    be fenced once everything else has left it; what was to stay there leaves, too.
    Otherwise the instance stays where it is.
    """
    demands = planning.demands
    for name in sorted(demands.stuck):
        route = planning.routes.get(name)
        if route is None or route.present is None or not route.present.running:
            continue
        needing = _needing(demands, name)
        if not needing:
            planning.drop(
                name, "cannot be stopped, and nothing that must keep running depends on it"
            )
        else:
            _fence(planning, name, route.present.nodes[0], needing)


def stays_for_good(demands: Demands | None, name: str) -> bool:
    """Whether an instance, if it runs, cannot be moved, and nothing asks for fencing its node."""
    return demands is not None and name in demands.stuck and not _needing(demands, name)


def _needing(demands: Demands, name: str) -> list[str]:
    """What must keep running, and starts after `name`, directly or not."""
    musts = [order for order in demands.orders if order[2] == MUST]
    return [one for one in dependents(musts, name) if one in demands.keep_running]


def _fence(planning: PlanningState, name: str, node: int, needing: list[str]) -> None:
    """Have `node` fenced for `name`, and emptied before."""
    cluster = planning.state.cluster
    for instance in _staying(planning, node):
        route = _elsewhere(planning, instance, node)
        if route is None:
            planning.drop(
                name,
                f"cannot be stopped, and {cluster.nodes[node].name} cannot be fenced for "
                f"{', '.join(needing)}: {instance.name} has no other place",
            )
            return
        planning.routes[instance.name] = route
        planning.remarks.append(
            f"{instance.name} leaves {cluster.nodes[node].name}, which is to be fenced"
        )
    planning.routes[name].fenced = True
    planning.remarks.append(
        f"{cluster.nodes[node].name} is to be fenced: {name} cannot be stopped, and "
        f"{', '.join(needing)} must keep running"
    )


def _staying(planning: PlanningState, node: int) -> list[Instance]:
    """What would still run on `node` in the end, by name."""
    held = planning.state.primaries[node]
    found = []
    for name in sorted(held):
        route = planning.routes.get(name)
        stays = route is None or (route.wanted is not None and route.wanted[0] == node)
        if held[name].uses_memory and stays:
            found.append(held[name])
    return found


def _elsewhere(planning: PlanningState, instance: Instance, node: int) -> Route | None:
    """A way off `node` to where there is room in the end, the first by name."""
    if not instance.kind.relocatable or instance.name in planning.demands.stuck:
        return None
    final = _final_room(planning)
    present = Place(planning.state.where[instance.name], True)
    for nodes in _places(planning, present.nodes, node):
        takes, _ = change(instance, present, Place(nodes, True))
        if all(final.get(key, amount) >= amount for key, amount in takes.items()):
            try:
                steps = shortest(present.nodes, nodes, planning.online)
            except NoWayError:
                continue
            if not planning.lacks_tags(present, steps):
                return Route(instance, present, nodes, steps)
    return None


def _places(
    planning: PlanningState, present: tuple[int, ...], node: int
) -> Iterator[tuple[int, ...]]:
    """Where an instance could go: its mirror first, then the other nodes of the group."""
    if len(present) > 1:
        yield (present[1], present[0])
    cluster = planning.state.cluster
    members = cluster.nodes[node].group.nodes
    for index in sorted(members, key=lambda one: cluster.nodes[one].name):
        if index not in present and planning.online(index):
            yield (index, *present[1:])


def _final_room(planning: PlanningState) -> Amounts:
    """What every node has left once all is where it is wanted."""
    left = room(planning.state, planning.demands.limits)
    for route in planning.routes.values():
        before = route.present
        running = before.running if before else route.instance.uses_memory
        if route.wanted is not None:
            after = Place(route.wanted, running)
        elif before is not None:
            after = Place(before.nodes, False)
        else:
            continue
        takes, frees = change(route.instance, before, after)
        for key, amount in takes.items():
            if key in left:
                left[key] -= amount
        for key, amount in frees.items():
            if key in left:
                left[key] += amount
    return left
