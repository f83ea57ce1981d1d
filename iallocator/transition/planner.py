"""Find a legal sequence of all requested steps, or of as many as possible with the reason.

An instance that cannot be stopped, and must not be stopped by force, stays where it is. If an
instance that must keep running depends on such an instance, the node is fenced instead.
"""

from __future__ import annotations

from iallocator.constraints.order_graph import circular, dependents, without_cycles
from iallocator.deadline import check
from iallocator.model.constraints import MUST
from iallocator.model.moves import DRBD_FAILOVER
from iallocator.transition.cycle_breaking import CycleBreaker
from iallocator.transition.paths import NoWayError, Route, shortest
from iallocator.transition.planning_state import PlanningState
from iallocator.transition.resources import Place, change, describe_amount, room
from iallocator.transition.schedule import TIE_BREAKS, schedule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.model.state import State
    from iallocator.transition.requirements import Demands
    from iallocator.transition.resources import Key
    from iallocator.transition.schedule import ScheduleResult
    from iallocator.transition.step import Step

    Orders = Sequence[tuple[str, str, str]]

__all__ = ["TransitionPlanner", "reasons", "stays_for_good"]


def reasons(cluster: Cluster, result: ScheduleResult) -> dict[str, str]:
    """Return each instance that cannot move -> the lacking capacity, and the instances that use it.

    Keys are names, values are texts.
    """
    waiting = set(result.left)
    heads: dict[str, Step] = {}
    for step in result.left:
        if step.name and step.name not in heads and not waiting & step.needs.keys():
            heads[step.name] = step
    free_after = result.room
    lacking = {
        name: sorted(
            key for key, more in step.takes.items() if key in free_after and free_after[key] < more
        )
        for name, step in heads.items()
    }
    holders_of: dict[Key, set[str]] = {}  # what is held -> the instances left that would free it
    for step in result.left:
        for key in step.frees:
            holders_of.setdefault(key, set()).add(step.name)
    holders = {
        name: {holder for key in keys for holder in holders_of.get(key, ())} - {name}
        for name, keys in lacking.items()
    }
    reason_of: dict[str, str] = {}
    for name, keys in lacking.items():
        if not keys:
            continue
        (node, what), amount = keys[0], heads[name].takes[keys[0]]
        free = max(free_after[node, what], 0)
        needed = describe_amount(what, amount)
        text = f"needs {needed} on {cluster.nodes[node].name}, {free:.12g} free at that moment"
        cycle = _shortest_cycle(name, holders)
        if cycle:
            around = " waits for ".join([*cycle, cycle[0]])
            text += f"; {around}; no way through a third node or with a stop was found"
        elif holders[name]:
            text += f"; {', '.join(sorted(holders[name]))} would have to leave before"
        reason_of[name] = text
    for step in result.left:
        if step.name and step.name not in reason_of:
            names = sorted({one.name or one.kind for one in step.needs if one in waiting})
            reason_of[step.name] = (
                f"waits for {', '.join(names)}, which cannot be done"
                if names
                else "no order of steps was found in which its turn comes"
            )
    return reason_of


def _shortest_cycle(start: str, holders: dict[str, set[str]]) -> list[str]:
    """Return the shortest cycle of instances that wait for each other, from `start` on.

    `holders`: instance -> the instances that hold the capacity for which it waits.
    """
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


MOST_RETRIED_INSTANCES = 40
"""The most instances that are tried again one by one after they were given up."""

MANY_STEPS = 150
"""The number of steps above which only one sequence is searched for."""


class TransitionPlanner(PlanningState):
    """Finds the route of every instance, and a sequence of steps in which all of them fit."""

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
        hard = [order for order in self.demands.orders if order[2] == MUST]
        for cycle in circular(hard):
            words = " after ".join((*cycle, cycle[0]))
            for name in cycle:
                if name in self.routes:
                    self.drop(name, f"must start after itself: {words}")
        hard = [o for o in hard if o[0] in self.routes and o[1] in self.routes]
        left_out = [name for name, _ in self.left if name in self.new]
        left_out += (name for name, route in self.routes.items() if route.wanted is None)
        for name in sorted(left_out):
            self.without(name)
        soft = [order for order in self.demands.orders if order[2] != MUST]
        kept, dropped = without_cycles(hard, soft)
        self.remarks += (f"{b} does not wait for {a}: a cycle of orders" for a, b, _ in dropped)
        self.orders = kept
        self._best: list[Step] = []

    def plan(self) -> list[list[Step]]:
        """Return legal sequences of one set of steps; `left` has the instances that cannot move."""
        fence_for_stuck(self)
        self._keep_powered()
        given_up: dict[str, Route] = {}
        while True:
            check()
            result = self.attempt(self.routes, begin=self._best)
            self._best = result.order
            if not result.left:
                break
            if self._relax():
                continue
            if not self.exhausted:
                # Let some instances take another route, if more of them arrive then
                better = CycleBreaker(self, result).best()
                self._best = better.order
                for way in better.ways:
                    self.routes[way.route.instance.name] = way.route
                    self.remarks.append(way.words)
                if better.ways:
                    continue
            # Give up the changes that cannot be made
            names = sorted({step.name for step in result.left} - {""})
            if not names:
                raise AssertionError("steps of nodes wait for each other")
            why = reasons(self.state.cluster, result)
            dropped = {name: self.routes[name] for name in names if name in self.routes}
            for name in dropped:
                if name in self.routes:
                    self.drop(name, why.get(name, "waits for what cannot be done"))
            given_up |= dropped
            self._keep_powered()
        # Try the instances again that may fit now that others stay
        for name, route in list(given_up.items())[:MOST_RETRIED_INSTANCES]:
            if self.exhausted:
                break
            routes = {**self.routes, name: route}
            result = self.attempt(routes, begin=self._best)
            left_out = {one for one, _ in self.left if one in self.new}
            lacks_base = any(
                second == name and strength == MUST and first in left_out
                for first, second, strength in self.demands.orders
            )
            if not result.left and not lacks_base:
                self.routes, self._best = routes, result.order
                self.left = [one for one in self.left if one[0] != name]
        # More sequences on the same routes, in which other steps are first
        sequences = [self._best]
        for tie_break in range(len(TIE_BREAKS)) if len(self._best) <= MANY_STEPS else ():
            for turned in (False, True):
                built = self.built(self.routes, self.orders)
                result = schedule(built[::-1] if turned else built, self.room, tie_break=tie_break)
                if not result.left:
                    sequences.append(result.order)
        return sequences

    def _begin(self, instance: Instance, nodes: tuple[int, ...] | None) -> None:
        """Record the direct route of `instance` to `nodes`; None: the instance is stopped."""
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
        """Return the shortest route from `place` to `nodes` that migration tags allow.

        Raises
        ------
        NoWayError
            If there is no such route.
        """
        direct = shortest(place.nodes, nodes, self.online)
        lacking = self.lacks_tags(place, direct)

        def open_(target: int) -> bool:
            ends = place.nodes[0], nodes[0]
            return target in ends or self.demands.allows_temporary_move(instance, target, {})

        def lets(source: int, target: int) -> bool:
            return open_(target) and (not place.running or self.receives(source, target))

        if not lacking and all(open_(node) for kind, node in direct if kind == DRBD_FAILOVER):
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

    def _relax(self) -> bool:
        """Drop the soft orders that prevent a sequence, the last first; return whether it helps."""
        hard = [order for order in self.orders if order[2] == MUST]
        soft = [order for order in self.orders if order[2] != MUST]
        if not soft or self.attempt(self.routes, hard).left:
            return False
        kept = list(hard)
        for order in soft:
            if self.attempt(self.routes, [*kept, order]).left:
                self.remarks.append(
                    f"{order[1]} does not wait for {order[0]}: no room in that order"
                )
            else:
                kept.append(order)
        self.orders = kept
        return True

    def _keep_powered(self) -> None:
        """Cancel the power-off of nodes on which an instance stays, and record the reason."""
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
    """Decide for instances that should move, but cannot be stopped, whether their nodes are fenced.

    If another instance that must keep running depends on such an instance, even indirectly, the
    node is fenced after all other instances have left it; this includes instances that were to stay
    on the node. Otherwise, the instance stays on its nodes.
    """
    demands, cluster = planning.demands, planning.state.cluster
    for name in sorted(demands.stops.stuck):
        route = planning.routes.get(name)
        if route is None or route.present is None or not route.present.running:
            continue
        needing = _needing(demands, name)
        if not needing:
            planning.drop(
                name, "cannot be stopped, and nothing that must keep running depends on it"
            )
            continue
        node = route.present.nodes[0]
        title, needed_by = cluster.nodes[node].name, ", ".join(needing)
        held = planning.state.primaries[node]
        staying = []  # instances that would still run on `node` at the end
        for other in sorted(held):
            kept = planning.routes.get(other)
            stays = kept is None or (kept.wanted is not None and kept.wanted[0] == node)
            if held[other].uses_memory and stays:
                staying.append(held[other])
        for instance in staying:
            away = _elsewhere(planning, instance, node)
            if away is None:
                planning.drop(
                    name,
                    f"cannot be stopped, and {title} cannot be fenced for {needed_by}: "
                    f"{instance.name} has no other place",
                )
                break
            planning.routes[instance.name] = away
            planning.remarks.append(f"{instance.name} leaves {title}, which is to be fenced")
        else:
            planning.routes[name].fenced = True
            planning.remarks.append(
                f"{title} is to be fenced: {name} cannot be stopped, and {needed_by} must keep "
                "running"
            )


def stays_for_good(demands: Demands | None, name: str) -> bool:
    """Return whether the instance `name` cannot be stopped, and its node must not be fenced."""
    return demands is not None and name in demands.stops.stuck and not _needing(demands, name)


def _needing(demands: Demands, name: str) -> list[str]:
    """Return the instances that must keep running and must start after `name`, even indirectly."""
    hard = [order for order in demands.orders if order[2] == MUST]
    return [one for one in dependents(hard, name) if one in demands.stops.keep_running]


def _elsewhere(planning: PlanningState, instance: Instance, node: int) -> Route | None:
    """Return a route of `instance` away from `node`, which will be fenced; None if none fits.

    The new nodes must have enough capacity after all requested changes. The secondary is tried
    first, then the nodes of the group by name.
    """
    if not instance.kind.relocatable or instance.name in planning.demands.stops.stuck:
        return None
    # The free amounts of every node after all requested changes
    final = room(planning.state, planning.demands.limits)
    for other in planning.routes.values():
        before = other.present
        running = before.running if before else other.instance.uses_memory
        if other.wanted is not None:
            after = Place(other.wanted, running)
        elif before is not None:
            after = Place(before.nodes, False)
        else:
            continue
        takes, frees = change(other.instance, before, after)
        for key in takes.keys() & final.keys():
            final[key] -= takes[key]
        for key in frees.keys() & final.keys():
            final[key] += frees[key]
    present = Place(planning.state.where[instance.name], True)
    # The secondary first, then the other nodes of the group
    primary, *secondaries = present.nodes
    places: list[Nodes] = [(secondaries[0], primary)] if secondaries else []
    cluster = planning.state.cluster
    members = cluster.nodes[node].group.nodes
    for index in sorted(members, key=lambda one: cluster.nodes[one].name):
        if index not in present.nodes and planning.online(index):
            places.append((index, *secondaries))
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
