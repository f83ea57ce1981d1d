"""Find a legal sequence for all requested steps, or for as many as possible and say why."""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.model.moves import FAILOVER
from iallocator.transition.paths import NoWayError, shortest
from iallocator.transition.planning.cycle_breaking import CycleBreaker
from iallocator.transition.planning.order_graph import circular, without_circles
from iallocator.transition.planning.planning_state import PlanningState
from iallocator.transition.planning.routes import Route
from iallocator.transition.planning.schedule import TIE_BREAKS, schedule
from iallocator.transition.planning.unstoppable import fence_for_stuck
from iallocator.transition.requirements import MUST
from iallocator.transition.resources import Place, describe_amount

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.model.state import State
    from iallocator.transition.planning.schedule import ScheduleResult
    from iallocator.transition.requirements import Demands
    from iallocator.transition.resources import Key
    from iallocator.transition.step import Step

__all__ = ["TransitionPlanner", "reasons"]


def reasons(cluster: Cluster, found: ScheduleResult) -> dict[str, str]:
    """By instance that is left, what its first step lacks, and who holds that."""
    waiting = set(found.left)
    heads: dict[str, Step] = {}
    for step in found.left:
        if step.name and step.name not in heads and not waiting & step.needs.keys():
            heads[step.name] = step
    lacking = {name: _lacks(found, step) for name, step in heads.items()}
    holders_of = _holders(found)
    holders = {
        name: {holder for key in keys for holder in holders_of.get(key, ())} - {name}
        for name, keys in lacking.items()
    }
    told_of: dict[str, str] = {}
    for name, keys in lacking.items():
        if not keys:
            continue
        (node, what), amount = keys[0], heads[name].takes[keys[0]]
        free = max(found.room[node, what], 0)
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


def _lacks(found: ScheduleResult, step: Step) -> list[Key]:
    room = found.room
    return sorted(key for key, more in step.takes.items() if key in room and room[key] < more)


def _holders(found: ScheduleResult) -> dict[Key, set[str]]:
    """What is held -> who of those left would free it."""
    holders: dict[Key, set[str]] = {}
    for step in found.left:
        for key in step.frees:
            holders.setdefault(key, set()).add(step.name)
    return holders


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


if TYPE_CHECKING:
    Orders = Sequence[tuple[str, str, str]]


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
        self._retry(given_up)
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

    def _retry(self, given_up: Mapping[str, Route]) -> None:
        """Take back in what fits now that others stay."""
        for name, route in list(given_up.items())[:RETRIED]:
            if self.exhausted:
                return
            routes = {**self.routes, name: route}
            found = self.attempt(routes, begin=self._best)
            if not found.left and not self._lacks_base(name):
                self.routes, self._best = routes, found.order
                self.left = [one for one in self.left if one[0] != name]

    def _lacks_base(self, name: str) -> bool:
        """Whether something that it must start after does not start."""
        gone = {one for one, _ in self.left if one in self.new}
        return any(
            second == name and strength == MUST and first in gone
            for first, second, strength in self.demands.orders
        )

    def _keep_powered(self) -> None:
        """Nodes on which something stays are not powered off."""
        cluster = self.state.cluster
        for index in self.demands.nodes.power_off:
            stays = sorted(
                instance.name
                for instance in self.state.instances_on(index)
                if self._stays(instance, index)
            )
            if stays:
                self.left.append((cluster.nodes[index].name, f"{', '.join(stays)} stays there"))
                self.demands.nodes = self.demands.nodes.without(index)

    def _stays(self, instance: Instance, index: int) -> bool:
        route = self.routes.get(instance.name)
        if route is None:
            return True
        return route.wanted is not None and index in route.wanted
