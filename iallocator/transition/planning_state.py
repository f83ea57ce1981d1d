"""What is known while a transition is planned: the ways, what is given up, what it has cost."""

from __future__ import annotations

from dataclasses import replace

from iallocator.constraints.table import MIGRATION_TAGS
from iallocator.model.moves import REPLACE_SECONDARY, places_after
from iallocator.transition.paths import Route, build
from iallocator.transition.requirements import MUST
from iallocator.transition.resources import Place, room
from iallocator.transition.schedule import BRANCHES, schedule
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

ENOUGH = 1_000_000
"""After so many looks whether a step fits, a few seconds, no other ways are tried."""


class PlanningState:
    """The ways of all instances, as far as they are decided.

    Attributes
    ----------
    left, remarks:
        As in `Transition`.
    routes:
        The ways, by name of the instance.
    orders:
        What must, or should, start before what.
    new, room:
        The instances that are not there yet, by name; what the nodes have left at first.
    separations:
        Who must not meet whom on the way; `room` counts that, too.
    looks:
        What the search has cost until now.
    """

    def __init__(
        self,
        state: State,
        wanted: Mapping[str, tuple[int, ...] | None],
        new: Iterable[Instance],
        demands: Demands,
    ) -> None:
        self.state = state
        self.demands = replace(demands)
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
        """Whether enough ways have been tried: the same for the same input, unlike a clock."""
        return self.looks > ENOUGH

    def online(self, index: int) -> bool:
        """Whether something may come to the node, once it is powered on if it is to be."""
        if index in self.demands.nodes.power_on:
            return True
        return self.state.cluster.nodes[index].online and index not in self.demands.nodes.power_off

    def drop(self, name: str, reason: str) -> None:
        """Leave an instance as it is, and what cannot start without it."""
        route = self.routes.pop(name, None)
        self.left.append((name, reason))
        if name in self.new or (route is not None and route.wanted is None):
            self.without(name)

    def without(self, name: str) -> None:
        """Give up what must start after an instance that does not run in the end."""
        for first, second, strength in self.demands.orders:
            after = self.routes.get(second)
            if first == name and strength == MUST and after and after.present is None:
                self.drop(second, f"must start after {name}, which does not start")

    def built(self, routes: Mapping[str, Route], orders: Orders) -> list[Step]:
        """All steps on these ways, with what each needs."""
        made = build(self.state.cluster, routes, self.demands, orders)
        self.separations.charge(made)
        return made

    def attempt(
        self,
        routes: Mapping[str, Route],
        orders: Orders | None = None,
        branches: int = BRANCHES,
        begin: Sequence[Step] = (),
    ) -> ScheduleResult:
        """The longest sequence on these ways; `begin`: one that did not come to its end."""
        chosen = self.orders if orders is None else orders
        steps = self.built(routes, chosen)
        found = schedule(steps, self.room, branches)
        self.looks += found.looks
        if found.left and begin:
            other = schedule(steps, self.room, branches, begin)
            self.looks += other.looks
            if len(other.left) < len(found.left):
                return other
        return found

    def receives(self, source: int, target: int) -> bool:
        """Whether migration tags let something that runs go from one node to the other."""
        return not MIGRATION_TAGS.missing(self.state.cluster, source, target)

    def lacks_tags(self, place: Place, steps: Sequence[tuple[str, int]]) -> bool:
        """Whether a migration on this way is forbidden by tags."""
        nodes = place.nodes
        for step in steps:
            after = places_after(nodes, [step])
            moved = step[0] != REPLACE_SECONDARY and place.running
            if moved and MIGRATION_TAGS.missing(self.state.cluster, nodes[0], after[0]):
                return True
            nodes = after
        return False
