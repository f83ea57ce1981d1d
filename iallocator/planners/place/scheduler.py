"""Placing a whole cluster anew by Pacemaker's rules: who goes where, and why.

Every instance gets its turn, the running ones too; there is no way back from a choice.
A choice is made among the nodes that the limits of nodes, migration tags, networks and
storage allow, and it must keep global N+1: no failure that could be survived before may
become unsurvivable, see `Survival`.
"""

from __future__ import annotations

from contextlib import contextmanager
from types import MappingProxyType

from iallocator.planners.place.chooser import Chooser
from iallocator.planners.place.openings import Openings
from iallocator.planners.place.planned_place import PlannedPlace, runs, stopped_disks
from iallocator.planners.place.survival import Survival
from iallocator.ranking.pacemaker import facts_of, kind_of, node_scores_of
from iallocator.ranking.pacemaker.colocation_sets import ColocationSet, in_turn, units_of
from iallocator.ranking.pacemaker.ledger import Ledger
from iallocator.transition.planning.unstoppable import stays_for_good

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.placement.context import Context
    from iallocator.requests import Allocate

__all__ = ["SchedulingPass"]


class SchedulingPass:
    """One pass over all instances, on the state of a context.

    `instances` of the cluster choose in their order, then the new ones in `wanted`; where
    they are now is taken from the state, on which they are in their new places afterwards.
    `kept`: the names of those that stay where they are, and why.
    `stopped`: the names of those that are expected to be left out: until they find a place,
    their disks take room where they are; and why they shall have none, "" if they may.

    Cost: every limit of every node of its group for each instance; for instances on two
    nodes that again for each primary that is tried.

    Attributes
    ----------
    places:
        Name → where it is and will be.
    units:
        The instances that choose together, in the order in which they do.
    homes:
        Name → the node where it runs, for those that do.
    facts, weigher, ledger:
        What Pacemaker's tags say, the scores by them, and what every node has left.
    survival:
        Which placements keep global N+1.
    openings:
        Which nodes may be chosen.
    """

    def __init__(
        self,
        context: Context,
        strategy: str,
        instances: Sequence[Instance],
        wanted: Sequence[Allocate],
        kept: Mapping[str, str] = MappingProxyType({}),
        stopped: Mapping[str, str] | None = None,
        tell: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        cluster, state = context.cluster, context.state
        self.context = context
        self._kept = kept
        self._tell = tell
        self._stopped = stopped or {}
        self._left_disks: set[str] = set()
        self._dropped: set[str] = set()
        self.kind = kind_of(strategy)
        self._wanted = {one.instance.name: one for one in wanted}
        self.facts = facts_of(context)
        self.weigher = node_scores_of(context)
        self.survival = Survival(context)
        self.relations = context.bonds.relations
        self._demands = context.bonds.demands()
        self.places = {
            i.name: PlannedPlace(i, state.where[i.name], runs(state, i)) for i in instances
        }
        self.places |= {one.instance.name: PlannedPlace(one.instance, (), False) for one in wanted}
        self.homes = {name: place.before[0] for name, place in self.places.items() if place.runs}
        self.openings = Openings(context, self.facts, self.places, self.homes, self._wanted)
        for instance in instances:
            place = self.places[instance.name]
            if self.stuck(instance) and place.holds:
                continue
            state.remove(instance, place.before)
            if self.stuck(instance):  # it does not run, and keeps nobody away
                self.leave_disks(place)
        self.survival.forgive()
        with state.trial():
            for instance in instances:
                if instance.name in state.where:
                    state.remove(instance, state.where[instance.name])
            self.ledger = Ledger(self.facts, state, range(len(cluster.nodes)))
        self._chooser = Chooser(
            context, self.kind, self.facts, self.weigher, self.ledger,
            self.openings, self.survival, self.homes,
        )  # fmt: skip
        for name in kept:
            if self.places[name].holds:
                self.count(self.places[name].instance, self.places[name].before)
        for name in self._stopped:
            self.leave_disks(self.places[name])
        everybody = [*instances, *(one.instance for one in wanted)]
        units = units_of(
            self.facts, self.weigher, everybody, self.homes, lambda i: bool(self.stuck(i))
        )
        self.units = in_turn(self.kind, cluster, self.facts, self.weigher, self.ledger, units)

    def run(self) -> None:
        """Give every unit its turn.

        Raises
        ------
        TimeIsUp
            If time is up before all had it.
        """
        for done, unit in enumerate(self.units):
            self.context.deadline.raise_if_over()
            self._tell(done, len(self.units))
            for position in range(len(unit.members)):
                self._member(unit, position)

    def take(self, found: Mapping[str, Nodes], why: str, why_not: str) -> None:
        """Give everybody the place that was `found` for all together, instead of turns."""
        for place in self.in_order:
            name, stuck = place.instance.name, self.stuck(place.instance)
            if stuck:
                self._stay(place, stuck)
                continue
            if name in found:
                self.put(place, found[name])
            else:
                self.leave_disks(place)
            place.why = why if name in found else why_not

    @property
    def in_order(self) -> list[PlannedPlace]:
        """All of them, in the order in which they choose."""
        return [self.places[member.name] for unit in self.units for member in unit.members]

    def take_back(self) -> None:
        """Have the state as it was before the pass."""
        state = self.context.state
        for name in list(self._left_disks):
            self._lift_disks(self.places[name])
        moved = [p for p in self.places.values() if state.where.get(p.instance.name) != p.before]
        for place in moved:
            if place.instance.name in state.where:
                state.remove(place.instance, state.where[place.instance.name])
        for place in moved:
            if place.before:
                state.place(place.instance, place.before)

    @contextmanager
    def all_off(self) -> Iterator[None]:
        """A ``with`` block in which those that may move are off the state, disks and all."""
        state = self.context.state
        with state.trial():
            for name in self._left_disks:
                place = self.places[name]
                state.keep_disks(place.instance, place.before, -1)
            for name, place in self.places.items():
                if name in state.where and not self.stuck(place.instance):
                    state.remove(place.instance, state.where[name])
            yield

    def stuck(self, instance: Instance) -> str:
        """Why an instance stays as it is, or ""."""
        if instance.name in self._kept:
            return self._kept[instance.name]
        if not instance.auto_balance:
            return "it is not managed (auto_balance is false)"
        if instance.forthcoming:
            return "it does not exist yet"
        home = self.homes.get(instance.name)
        if home is not None and self.facts.kept[home]:
            return "its node is in maintenance"
        before = self.places[instance.name].before
        if home is not None and stays_for_good(self._demands, instance.name):
            return "it cannot be stopped, and must not be by force"
        if before and not instance.mirrored:
            return f"disks of type {instance.template} are on its node only"
        if len(before) == 1 and instance.required_nodes == 2:
            return "it has no mirror to move to"
        return self._cut_off(instance, before)

    def _cut_off(self, instance: Instance, before: tuple[int, ...]) -> str:
        """Why an instance of an offline node cannot begin at its mirror, or ""."""
        nodes, pools = self.context.cluster.nodes, self.context.state.pools
        if len(before) < 2 or pools is None or not nodes[before[0]].offline:
            return ""
        if not pools.bars(before[1], instance, here=True):
            return ""
        return f"its secondary {nodes[before[1]].name} {pools.why(before[1], instance)}"

    def _member(self, unit: ColocationSet, position: int) -> None:
        instance = unit.members[position]
        place = self.places[instance.name]
        stuck = self.stuck(instance)
        if stuck:
            self._stay(place, stuck)
            return
        place.why = self._stopped.get(instance.name, "")
        if place.why:
            return
        expected = self._lift_disks(place)
        self._place(unit, position, place)
        if expected and place.nodes is None:
            self.leave_disks(place)

    def _place(self, unit: ColocationSet, position: int, place: PlannedPlace) -> None:
        """Put the instance at this `position` of `unit` where it goes, if there is a place."""
        names = self.context.cluster.nodes
        for field in filter(None, self.openings.fields(place)):
            allowed = field
            if position:
                before = self.places[unit.members[position - 1].name]
                allowed = [index for index in field if index == before.node]
                if not allowed:
                    where = "nowhere" if before.node is None else f"to {names[before.node].name}"
                    place.why = f"rule 8: {before.instance.name} goes {where}, and it follows"
                    continue
            nodes = self._chooser.choose(unit, position, place, allowed)
            if nodes is not None:
                self.put(place, nodes)
                return
        place.why = place.why or "no node may be used"

    @property
    def lenient(self) -> set[int]:
        """The nodes of groups where soft limits do not count."""
        context = self.context
        groups = context.cluster.groups
        return {
            index
            for group in groups
            if context.settings_of(group).ignore_soft_errors
            for index in group.nodes
        }

    @property
    def left_out(self) -> list[PlannedPlace]:
        """Those that found no place, though they may go somewhere."""
        return [
            place
            for place in self.places.values()
            if place.nodes is None and not self.stuck(place.instance)
        ]

    @property
    def uncounted(self) -> dict[str, str]:
        """Those that were left out, and whose disks took no room while others chose.

        With the reason if their place was taken from them.
        """
        return {
            place.instance.name: place.why if place.instance.name in self._dropped else ""
            for place in self.left_out
            if stopped_disks(place.instance, place.before)
            and place.instance.name not in self._left_disks
        }

    def drop(self, place: PlannedPlace, why: str) -> None:
        """Take an instance's place from it."""
        name = place.instance.name
        self.context.state.remove(place.instance, self.context.state.where[name])
        place.nodes = None
        place.why = why
        self._dropped.add(name)

    def leave_disks(self, place: PlannedPlace) -> None:
        """Count the disks of an instance that is off the state where they are."""
        nodes = stopped_disks(place.instance, place.before)
        if nodes:
            self.context.state.keep_disks(place.instance, nodes)
            self._left_disks.add(place.instance.name)

    def _lift_disks(self, place: PlannedPlace) -> bool:
        """Take back `leave_disks`; whether there was something to take back."""
        if place.instance.name not in self._left_disks:
            return False
        self._left_disks.remove(place.instance.name)
        self.context.state.keep_disks(place.instance, place.before, -1)
        return True

    def _stay(self, place: PlannedPlace, why: str) -> None:
        """Count a pinned instance where it is, or will be; one that does not run takes nothing."""
        if not place.holds:
            place.why = f"rule 7: it does not run, and stays so: {why}"
            return
        place.nodes = place.before
        place.why = f"rule 7: it stays: {why}"
        if place.instance.name not in self._kept:
            self.count(place.instance, place.before)

    def count_the_stuck(self) -> None:
        """Count those that stay where they are, and are not counted from the beginning."""
        for place in self.places.values():
            if place.instance.name not in self._kept and place.holds and self.stuck(place.instance):
                self.count(place.instance, place.before)

    def put(self, place: PlannedPlace, nodes: Nodes) -> None:
        """Give an instance that is off the state its place."""
        place.nodes = nodes
        self.context.state.place(place.instance, nodes)
        self.count(place.instance, nodes)

    def count(self, instance: Instance, nodes: Sequence[int]) -> None:
        """Take what `instance` needs from what `nodes` have left."""
        for index in nodes:
            self.ledger.take(index, self.facts.of(instance).needs)
