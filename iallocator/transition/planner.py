"""Find a legal sequence for all requested steps, or for as many as possible and say why.

An instance that cannot be stopped, and must not be by force, stays where it is; or its node is
fenced, if an instance that must keep running depends on it.
"""

from __future__ import annotations

from iallocator.constraints.order_graph import circular, dependents, without_circles
from iallocator.deadline import check
from iallocator.model.moves import FAILOVER
from iallocator.transition.cycle_breaking import CycleBreaker
from iallocator.transition.paths import NoWayError, Route, shortest
from iallocator.transition.planning_state import PlanningState
from iallocator.transition.requirements import MUST
from iallocator.transition.resources import Place, change, describe_amount, room
from iallocator.transition.schedule import TIE_BREAKS, schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.model.state import State
    from iallocator.transition.requirements import Demands
    from iallocator.transition.resources import Amounts, Key
    from iallocator.transition.schedule import ScheduleResult
    from iallocator.transition.step import Step

    Orders = Sequence[tuple[str, str, str]]

__all__ = ["TransitionPlanner", "reasons", "stays_for_good"]


def reasons(cluster: Cluster, found: ScheduleResult) -> dict[str, str]:
    """By instance that is left, what its first step lacks, and who holds that."""
    waiting = set(found.left)
    heads: dict[str, Step] = {}
    for step in found.left:
        if step.name and step.name not in heads and not waiting & step.needs.keys():
            heads[step.name] = step
    free_after = found.room
    lacking = {
        name: sorted(
            key for key, more in step.takes.items() if key in free_after and free_after[key] < more
        )
        for name, step in heads.items()
    }
    holders_of: dict[Key, set[str]] = {}  # what is held -> the instances left that would free it
    for step in found.left:
        for key in step.frees:
            holders_of.setdefault(key, set()).add(step.name)
    holders = {
        name: {holder for key in keys for holder in holders_of.get(key, ())} - {name}
        for name, keys in lacking.items()
    }
    told_of: dict[str, str] = {}
    for name, keys in lacking.items():
        if not keys:
            continue
        (node, what), amount = keys[0], heads[name].takes[keys[0]]
        free = max(free_after[node, what], 0)
        needed = describe_amount(what, amount)
        text = f"needs {needed} on {cluster.nodes[node].name}, {free:.12g} free at that moment"
        circle = _circle(name, holders)
        if circle:
            around = " waits for ".join([*circle, circle[0]])
            text += f"; {around}; no way through a third node or with a stop was found"
        elif holders[name]:
            text += f"; {', '.join(sorted(holders[name]))} would have to leave before"
        told_of[name] = text
    for step in found.left:
        if step.name and step.name not in told_of:
            names = sorted({one.name or one.kind for one in step.needs if one in waiting})
            told_of[step.name] = (
                f"waits for {', '.join(names)}, which cannot be done"
                if names
                else "no order of steps was found in which its turn comes"
            )
    return told_of


def _circle(start: str, holders: dict[str, set[str]]) -> list[str]:
    """The shortest way from an instance over those it waits for back to itself."""
    paths = [[start]]
    seen: set[str] = set()
    while paths:
        path = paths.pop(0)
        for name in sorted(holders.get(path[-1], ())):
            if name == start:
                return path
            if name not in seen:
                seen.add(name)
                paths.append([*path, name])
    return []


RETRIED = 40
"""How many of the instances that were given up are tried once more, one by one."""

MANY = 150
"""For more steps than this, only one sequence is looked for."""


class TransitionPlanner(PlanningState):
    """Finds the way of every instance, and a sequence in which all of them fit."""

    def __init__(
        self,
        state: State,
        wanted: Mapping[str, tuple[int, ...] | None],
        new: Iterable[Instance],
        demands: Demands,
    ) -> None:
        super().__init__(state, wanted, new, demands)
        known = {instance.name: instance for instance in state.cluster.instances} | self.new
        unknown = sorted(wanted.keys() - known.keys())
        if unknown:
            raise LookupError(f"unknown instances: {', '.join(unknown)}")
        for name in sorted(wanted):
            self._begin(known[name], wanted[name])
        self.orders = self._sort_orders()
        self._best: list[Step] = []

    def plan(self) -> list[list[Step]]:
        """Legal sequences of the same steps; what they leave out is in `left`."""
        fence_for_stuck(self)
        self._keep_powered()
        given_up: dict[str, Route] = {}
        while True:
            check()
            found = self.attempt(self.routes, begin=self._best)
            self._best = found.order
            if not found.left:
                break
            if self._relax() or self._way_round(found):
                continue
            # Leave what cannot be done as it is
            names = sorted({step.name for step in found.left} - {""})
            if not names:
                raise AssertionError("steps of nodes wait for each other")
            why = reasons(self.state.cluster, found)
            dropped = {name: self.routes[name] for name in names if name in self.routes}
            for name in dropped:
                if name in self.routes:
                    self.drop(name, why.get(name, "waits for what cannot be done"))
            given_up |= dropped
            self._keep_powered()
        # Take back in what fits now that others stay
        for name, route in list(given_up.items())[:RETRIED]:
            if self.exhausted:
                break
            routes = {**self.routes, name: route}
            found = self.attempt(routes, begin=self._best)
            gone = {one for one, _ in self.left if one in self.new}
            lacks_base = any(
                second == name and strength == MUST and first in gone
                for first, second, strength in self.demands.orders
            )
            if not found.left and not lacks_base:
                self.routes, self._best = routes, found.order
                self.left = [one for one in self.left if one[0] != name]
        return [self._best, *self._others()]

    def _others(self) -> Iterator[list[Step]]:
        """More sequences on the same ways, in which other steps go first."""
        if len(self._best) > MANY:
            return
        for taste in range(len(TIE_BREAKS)):
            for turned in (False, True):
                built = self.built(self.routes, self.orders)
                found = schedule(built[::-1] if turned else built, self.room, taste=taste)
                if not found.left:
                    yield found.order

    def _begin(self, instance: Instance, nodes: tuple[int, ...] | None) -> None:
        """Note the direct way of one instance."""
        name = instance.name
        present = self.state.where.get(name)
        if present is None:
            problem = next((n for n in nodes or () if not self.online(n)), None)
            if problem is not None:
                self.drop(name, f"{self.state.cluster.nodes[problem].name} is not online")
            elif nodes:
                self.routes[name] = Route(instance, None, nodes)
            return
        place = Place(present, instance.uses_memory)
        if nodes is None:
            if place.running:
                self.routes[name] = Route(instance, place, None)
            return
        if nodes == present:
            return
        if not instance.kind.relocatable:
            self.drop(name, f"instances of type {instance.template} cannot be moved")
            return
        try:
            steps = self._way(instance, place, nodes)
        except NoWayError as error:
            self.drop(name, str(error))
            return
        self.routes[name] = Route(instance, place, nodes, steps)

    def _way(self, instance: Instance, place: Place, nodes: Nodes) -> list[ElementaryMove]:
        """The shortest way that migration tags allow; rather past nodes where it must not be.

        Raises
        ------
        NoWayError
            If there is none.
        """
        direct = shortest(place.nodes, nodes, self.online)
        lacking = self.lacks_tags(place, direct)

        def open_(target: int) -> bool:
            ends = place.nodes[0], nodes[0]
            return target in ends or self.demands.may_pass(instance, target, {})

        def lets(source: int, target: int) -> bool:
            return open_(target) and (not place.running or self.receives(source, target))

        if not lacking and all(open_(node) for kind, node in direct if kind == FAILOVER):
            return direct
        try:
            return shortest(place.nodes, nodes, self.online, lets)
        except NoWayError:
            pass
        if lacking:
            try:
                direct = shortest(place.nodes, nodes, self.online, self.receives)
            except NoWayError:
                raise NoWayError("a node on its way lacks a migration tag") from None
        self.remarks.append(
            f"{instance.name} passes a node where it must not be, for lack of others"
        )
        return direct

    def _sort_orders(self) -> list[tuple[str, str, str]]:
        """The orders that can all be met; instances in circles of musts are left as they are."""
        musts = [order for order in self.demands.orders if order[2] == MUST]
        for circle in circular(musts):
            words = " after ".join((*circle, circle[0]))
            for name in circle:
                if name in self.routes:
                    self.drop(name, f"must start after itself: {words}")
        musts = [o for o in musts if o[0] in self.routes and o[1] in self.routes]
        gone = [name for name, _ in self.left if name in self.new]
        gone += (name for name, route in self.routes.items() if route.wanted is None)
        for name in sorted(gone):
            self.without(name)
        shoulds = [order for order in self.demands.orders if order[2] != MUST]
        kept, dropped = without_circles(musts, shoulds)
        self.remarks += (f"{b} does not wait for {a}: a circle of orders" for a, b, _ in dropped)
        return kept

    def _relax(self) -> bool:
        """Drop the wishes of order that stand in the way, the last ones first."""
        musts = [order for order in self.orders if order[2] == MUST]
        shoulds = [order for order in self.orders if order[2] != MUST]
        if not shoulds or self.attempt(self.routes, musts).left:
            return False
        kept = list(musts)
        for order in shoulds:
            if self.attempt(self.routes, [*kept, order]).left:
                self.remarks.append(
                    f"{order[1]} does not wait for {order[0]}: no room in that order"
                )
            else:
                kept.append(order)
        self.orders = kept
        return True

    def _way_round(self, found: ScheduleResult) -> bool:
        """Send some instances another way, if that lets more of them arrive."""
        if self.exhausted:
            return False
        better = CycleBreaker(self, found).best()
        self._best = better.order
        for way in better.ways:
            self.routes[way.route.instance.name] = way.route
            self.remarks.append(way.words)
        return bool(better.ways)

    def _keep_powered(self) -> None:
        """Nodes on which something stays are not powered off."""
        cluster = self.state.cluster
        for index in self.demands.nodes.power_off:
            stays = []
            for instance in self.state.instances_on(index):
                route = self.routes.get(instance.name)
                if route is None or (route.wanted is not None and index in route.wanted):
                    stays.append(instance.name)
            if stays:
                self.left.append(
                    (cluster.nodes[index].name, f"{', '.join(sorted(stays))} stays there")
                )
                self.demands.nodes = self.demands.nodes.without(index)


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
    held = planning.state.primaries[node]
    staying = []  # what would still run on `node` in the end
    for other in sorted(held):
        kept = planning.routes.get(other)
        stays = kept is None or (kept.wanted is not None and kept.wanted[0] == node)
        if held[other].uses_memory and stays:
            staying.append(held[other])
    for instance in staying:
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


def _elsewhere(planning: PlanningState, instance: Instance, node: int) -> Route | None:
    """A way off `node` to where there is room in the end, the first by name."""
    if not instance.kind.relocatable or instance.name in planning.demands.stuck:
        return None
    final = _final_room(planning)
    present = Place(planning.state.where[instance.name], True)
    # The secondary first, then the other nodes of the group
    primary, *mirrors = present.nodes
    places: list[Nodes] = [(mirrors[0], primary)] if mirrors else []
    cluster = planning.state.cluster
    members = cluster.nodes[node].group.nodes
    for index in sorted(members, key=lambda one: cluster.nodes[one].name):
        if index not in present.nodes and planning.online(index):
            places.append((index, *mirrors))
    for nodes in places:
        takes, _ = change(instance, present, Place(nodes, True))
        if all(final.get(key, amount) >= amount for key, amount in takes.items()):
            try:
                steps = shortest(present.nodes, nodes, planning.online)
            except NoWayError:
                continue
            if not planning.lacks_tags(present, steps):
                return Route(instance, present, nodes, steps)
    return None


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
