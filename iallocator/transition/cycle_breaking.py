"""Break cycles of instances that wait for each other's capacity, by another route for one of them.

The other route leads through a third node with enough free capacity. If there is no such node, the
instance is stopped, which frees its memory, and started on its new node.
"""

from __future__ import annotations

from itertools import combinations, islice

from iallocator.model.constraints import MUST
from iallocator.transition.paths import longer_routes
from iallocator.transition.resources import SOFT_DIMENSIONS, Place, footprint, room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.transition.paths import Route
    from iallocator.transition.planning_state import PlanningState
    from iallocator.transition.schedule import ScheduleResult

__all__ = ["BetterRoutes", "CycleBreaker", "OtherRoute"]

MOST_MEMBERS_TRIED = 24
"""The most waiting instances that are tried on other routes."""

MOST_THIRD_NODES = 6
"""The most third nodes that are tried for an instance."""

MOST_ROUTES_TRIED = 150
"""The most other routes that are tried; fewer in a large transition."""

MOST_TRIED_STEPS = 30000
"""The approximate limit of the number of steps in the sequences of all tried routes together."""

MOST_PAIRED_ROUTES = 12
"""How many routes through a third node, and how many stops, are combined in pairs."""

MOST_BRANCHES = 60
"""The most branches of the search for a sequence with one set of other routes."""


class OtherRoute:
    """Another route of one instance, and the remark about this route."""

    __slots__ = ("route", "words")

    def __init__(self, route: Route, words: str) -> None:
        self.route = route
        self.words = words


class BetterRoutes:
    """Other routes of instances, the new order of steps, and how many instances stay behind."""

    __slots__ = ("behind", "order", "ways")

    def __init__(self, ways: list[OtherRoute], schedule: ScheduleResult) -> None:
        self.ways = ways
        self.order = schedule.order
        self.behind = len({step.name for step in schedule.left} - {""})


class CycleBreaker:
    """Finds other routes when no further step of a sequence can be done."""

    def __init__(self, planning: PlanningState, schedule: ScheduleResult) -> None:
        self._planning = planning
        self._schedule = schedule
        self._names = sorted({step.name for step in schedule.left} - {""})
        size = len(schedule.order) + len(schedule.left)
        self._trials = max(
            MOST_PAIRED_ROUTES, min(MOST_ROUTES_TRIED, MOST_TRIED_STEPS // max(size, 1))
        )
        self._soft_room = room(planning.state, SOFT_DIMENSIONS)
        wanted = {name: r.wanted for name, r in planning.routes.items() if r.wanted is not None}
        self._places = (planning.state.where, wanted)

    def best(self) -> BetterRoutes:
        """Return other routes with which all instances arrive, or the fewest instances stay behind.

        The search tries one route through a third node, one stop, two of these together, and all
        stops. Without an improvement, the result has no routes.
        """
        around = list(islice(self._around(), self._trials))
        # Stops, except of instances that must keep running, or on which others depend
        planning, stops = self._planning, []
        demands = planning.demands
        bases = {first for first, _, strength in demands.orders if strength == MUST}
        running = demands.stops.keep_running | demands.stops.stuck | bases
        for name in self._members():
            route = planning.routes[name]
            if route.present is not None and route.present.running and name not in running:
                words = "is stopped and started: others need its room, and no third node has any"
                stops.append(OtherRoute(route.by(route.steps, stopped=True), f"{name} {words}"))
        pairs = (
            [one, other]
            for one, other in combinations(
                [*around[:MOST_PAIRED_ROUTES], *stops[:MOST_PAIRED_ROUTES]], 2
            )
            if one.route.instance is not other.route.instance
        )
        for choices in (([one] for one in around), ([one] for one in stops), pairs):
            best = BetterRoutes([], self._schedule)
            for ways in islice(choices, self._trials):
                next_routes = self._go(ways)
                if next_routes.behind < best.behind:
                    best = next_routes
                if not next_routes.behind or self._planning.exhausted:
                    break
            if best.ways:
                return best
        # All stops, without those that do not let more instances arrive
        best = self._go(stops)
        if best.behind >= len(self._names):
            return BetterRoutes([], self._schedule)
        for way in stops:
            next_routes = self._go([one for one in best.ways if one is not way])
            if next_routes.behind <= best.behind:
                best = next_routes
        return best

    def _go(self, ways: list[OtherRoute]) -> BetterRoutes:
        """Return the result of a search for a sequence with the other routes `ways`."""
        others = {way.route.instance.name: way.route for way in ways}
        routes = self._planning.routes | others
        begin = self._schedule.order
        return BetterRoutes(
            ways, self._planning.attempt(routes, branches=MOST_BRANCHES, begin=begin)
        )

    def _members(self) -> list[str]:
        """Return waiting instances that hold capacity that others lack, the smallest first."""
        room = self._schedule.room
        left = self._schedule.left
        requiring = {
            key
            for step in left
            for key, amount in step.takes.items()
            if key in room and room[key] < amount
        }
        routes = self._planning.routes
        members = []
        for name in self._names:
            route = routes[name]
            if route.present is None or route.wanted is None or route.fenced or not route.steps:
                continue
            gives = {key for step in left if step.name == name for key in step.frees}
            if gives & requiring:
                members.append(name)

        def copied(name: str) -> float:
            """Return the MiB that another route copies; 0 for a forthcoming instance."""
            instance = routes[name].instance
            if instance.forthcoming:
                return 0
            return instance.memory + (instance.disk if instance.needs_secondary else 0)

        members.sort(key=lambda name: (copied(name), name))
        return members[:MOST_MEMBERS_TRIED]

    def _around(self) -> Iterator[OtherRoute]:
        """Yield other routes of waiting instances: by a third node, or in another order."""
        planning = self._planning
        cluster, room = planning.state.cluster, self._schedule.room
        allows_temporary_move = planning.demands.allows_temporary_move
        pending = {key for step in self._schedule.left for key in step.takes}
        for name in self._members():
            route = planning.routes[name]
            present, wanted = route.present, route.wanted
            assert present is not None
            assert wanted is not None
            # Third nodes: first those where no soft limit is exceeded, and no other instance waits
            instance = route.instance
            groups = {cluster.nodes[index].group.index for index in (*present.nodes, *wanted)}
            reaching = cluster.reach(instance)
            candidates = []
            for node in cluster.nodes:
                index = node.index
                if node.group.index not in groups or not planning.online(index):
                    continue
                if reaching is not None and index not in reaching:
                    continue
                if index in present.nodes:
                    continue
                if not all(allows_temporary_move(instance, index, where) for where in self._places):
                    continue  # a hard constraint, with the others on their old or new nodes
                if node.exclusive_storage and instance.local and instance.spindles is None:
                    continue
                there = Place((index,), present.running)
                held = footprint(instance, there) | planning.separations.held(instance, there)
                fits = all(room.get(key, amount) >= amount for key, amount in held.items())
                if fits or (len(wanted) > 1 and index in wanted):
                    exclusion_tags = planning.state.exclusion[index]
                    strained = any(tag in exclusion_tags for tag in instance.exclusion) or any(
                        self._soft_room.get(key, amount) < amount for key, amount in held.items()
                    )
                    candidates.append(
                        (strained, any(key in pending for key in held), node.name, index)
                    )
            thirds = [index for *_, index in sorted(candidates)[:MOST_THIRD_NODES]]
            for steps in longer_routes(present.nodes, wanted, thirds, planning.online):
                if not planning.lacks_tags(present, steps):
                    on_the_way = [n for _, n in steps if n not in (*present.nodes, *wanted)]
                    nodes = planning.state.cluster.node_names(list(dict.fromkeys(on_the_way)))
                    through = f"through {', '.join(nodes)}" if nodes else "in another order"
                    yield OtherRoute(
                        route.by(steps), f"{name} goes {through}: others need its room"
                    )
