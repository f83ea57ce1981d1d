"""The state of the planning of a transition: routes, given-up instances, and the cost so far."""

from __future__ import annotations

from iallocator.constraints.table import move_rejections
from iallocator.light import copy
from iallocator.model.constraints import MUST
from iallocator.model.moves import REPLACE_SECONDARY, places_after
from iallocator.transition.paths import Route, build
from iallocator.transition.resources import Place, room
from iallocator.transition.schedule import MOST_CHOICES, schedule
from iallocator.transition.separations import Separations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.transition.requirements import Demands
    from iallocator.transition.schedule import ScheduleResult
    from iallocator.transition.step import Step

    Orders = Sequence[tuple[str, str, str]]

__all__ = ["PlanningState"]

MOST_STEP_TESTS = 1_000_000
"""The number of tests of steps after which no more routes are tried: about a few seconds."""


class PlanningState:
    """The routes of all instances that are decided so far.

    Attributes
    ----------
    left, remarks:
        (instance or node, reason) of changes that cannot be made; messages about the transition.
    routes:
        Name of an instance -> its route.
    orders:
        The orders of starts that are enforced.
    new, room:
        The instances that do not exist yet, by name; the free amounts of the nodes before all
        steps.
    separations:
        The instances that must not share a node during the transition; `room` includes their
        amounts.
    looks:
        How often the search has tested a step so far.
    """

    def __init__(
        self,
        state: State,
        wanted: Mapping[str, tuple[int, ...] | None],
        new: Iterable[Instance],
        demands: Demands,
    ) -> None:
        self.state = state
        self.demands = copy(demands)
        self.left: list[tuple[str, str]] = []
        self.remarks: list[str] = []
        self.routes: dict[str, Route] = {}
        self.new = {instance.name: instance for instance in new}
        self.separations = Separations(state, wanted, self.demands, self.new.values())
        self.room = room(state, demands.limits) | self.separations.room
        self.orders: Orders = []
        self.looks = 0

    @property
    def exhausted(self) -> bool:
        """Return whether enough routes were tried, by the number of tests, not by the time."""
        return self.looks > MOST_STEP_TESTS

    def online(self, index: int) -> bool:
        """Return whether the node is online, now or after the transition powers it on."""
        if index in self.demands.nodes.power_on:
            return True
        return self.state.cluster.nodes[index].online and index not in self.demands.nodes.power_off

    def drop(self, name: str, reason: str) -> None:
        """Give up the change of an instance, and of the instances that cannot start without it."""
        route = self.routes.pop(name, None)
        self.left.append((name, reason))
        if name in self.new or (route is not None and route.wanted is None):
            self.without(name)

    def without(self, name: str) -> None:
        """Give up the new instances that must start after `name`, which does not run at the end."""
        for first, second, strength in self.demands.orders:
            after = self.routes.get(second)
            if first == name and strength == MUST and after and after.present is None:
                self.drop(second, f"must start after {name}, which does not start")

    def built(self, routes: Mapping[str, Route], orders: Orders) -> list[Step]:
        """Return all steps of `routes`, with their dependencies that do not come from capacity."""
        made = build(self.state.cluster, routes, self.demands, orders)
        self.separations.charge(made)
        return made

    def attempt(
        self,
        routes: Mapping[str, Route],
        orders: Orders | None = None,
        branches: int = MOST_CHOICES,
        begin: Sequence[Step] = (),
    ) -> ScheduleResult:
        """Return the longest legal sequence of the steps of `routes`.

        `orders`: the orders of starts to meet; None for `self.orders`. `branches`: the most
        branches of the search. `begin`: an earlier sequence, which is tried as the beginning.
        """
        chosen = self.orders if orders is None else orders
        steps = self.built(routes, chosen)
        result = schedule(steps, self.room, branches)
        self.looks += result.looks
        if result.left and begin:
            other = schedule(steps, self.room, branches, begin)
            self.looks += other.looks
            if len(other.left) < len(result.left):
                return other
        return result

    def receives(self, source: int, target: int) -> bool:
        """Return whether migration tags allow a migration from node `source` to node `target`."""
        return not move_rejections(self.state.cluster, source, (target,))

    def lacks_tags(self, place: Place, steps: Sequence[tuple[str, int]]) -> bool:
        """Return whether migration tags forbid a migration on the route of `steps` from `place`."""
        nodes = place.nodes
        for step in steps:
            after = places_after(nodes, [step])
            moved = step[0] != REPLACE_SECONDARY and place.running
            if moved and move_rejections(self.state.cluster, nodes[0], after[:1]):
                return True
            nodes = after
        return False
