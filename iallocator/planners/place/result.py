"""A whole cluster placed anew: from the places to moves, a transition, and scores."""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, Deadline, Stopped, check
from iallocator.model.constraints import TOGETHER
from iallocator.model.state import State
from iallocator.placement.context import Context
from iallocator.planners.place.planned_place import PlannedPlace, runs, stopped_disks
from iallocator.planners.place.whole import place_cluster
from iallocator.planners.result import PlanResult, moves_of_transition
from iallocator.scoring.state_score import score_of
from iallocator.transition.assemble import plan_transition

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from iallocator.aliases import Json
    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings
    from iallocator.requests import Allocate
    from iallocator.transition.requirements import Demands
    from iallocator.transition.transition import Transition


__all__ = ["PlaceResult", "in_document_order", "place_anew"]


class PlaceResult(PlanResult):
    """What came of placing a cluster anew.

    Attributes
    ----------
    places:
        In the order in which instances chose.
    names:
        The instances in the order of the document, new ones last.
    """

    in_turn = False

    def __init__(
        self,
        strategy: str,
        before: State,
        places: Sequence[PlannedPlace],
        names: Sequence[str],
        new: Sequence[Instance],
        demands: Demands | None,
    ) -> None:
        super().__init__("place", before, demands)
        self.places = places
        self.strategy = strategy
        self._names = names
        self.new_instances = new
        self.add(moves_of_transition(before, self.transition))
        broken = {place.instance.name: place.broken for place in places}
        for entry in self.entries:
            entry.broken = broken[entry.move.instance.name]

    @property
    def scores(self) -> tuple[float, float]:
        """Of all nodes, before and after; lower is better."""
        scope = range(len(self.cluster.nodes))
        return score_of(self.before, scope), score_of(self.after(), scope)

    @property
    def left_out(self) -> Collection[str]:
        """Those that have no place."""
        return [place.instance.name for place in self.places if place.nodes is None]

    def _ordered(self) -> Transition:
        aims = {
            place.instance.name: place.nodes
            for place in self.places
            if place.nodes != place.before and (place.nodes or place.runs)
        }
        created = [instance for instance in self.new_instances if instance.name in aims]
        return plan_transition(self.before, aims, created, self.demands)

    def after(self) -> State:
        """The state once everybody is where the strategy wants them."""
        state = self.before.copy()
        for place in self.places:
            if place.nodes == place.before and place.nodes:
                continue
            if place.before:
                state.remove(place.instance, place.before)
            if place.nodes:
                state.place(place.instance, place.nodes)
            else:
                state.keep_disks(place.instance, stopped_disks(place.instance, place.before))
        return state

    def document(self) -> Json:
        """All but the transition as plain data."""
        by_name = {place.instance.name: place for place in self.places}
        nodes = self.cluster.nodes
        found = super().document() | {"strategy": self.strategy}
        found["placement"] = {
            name: None if (node := by_name[name].node) is None else nodes[node].name
            for name in self._names
        }
        return found | {"instances": [self._entry(place) for place in self.places]}

    def _entry(self, place: PlannedPlace) -> Json:
        names = self.cluster.node_names
        return {
            "instance": place.instance.name,
            "from": names(place.before),
            "to": names(place.nodes or ()),
            "runs": place.runs,
            "why": place.why,
            **({"broken": place.broken} if place.broken else {}),
        }


def in_document_order(cluster: Cluster, names: Sequence[str] | None) -> list[Instance]:
    """The instances of `cluster` as the document has them, whose order is `names`.

    None: as they stand in `cluster`, which is by name.
    """
    if names is None:
        return list(cluster.instances)
    position = {name: k for k, name in enumerate(names)}
    return sorted(cluster.instances, key=lambda i: position[i.name])


def place_anew(
    cluster: Cluster,
    settings: Settings,
    strategy: str,
    instances: Sequence[Instance],
    wanted: Sequence[Allocate],
    tell: Callable[[int, int], None] = lambda done, total: None,
) -> PlaceResult:
    """Place `instances` and then the new ones in `wanted` by one of Pacemaker's strategies.

    If it is interrupted before there is an answer, or time is up, everybody stays where they
    are: half an answer may not fit.  `tell` hears how many of how many have chosen.
    """
    new = [one.instance for one in wanted]
    deadline = Deadline.of_run(settings.planning_seconds)
    context = Context(cluster, settings, coming=new, deadline=deadline)
    before = State(cluster)
    names = [i.name for i in (*instances, *new)]
    demands = context.bonds.demands()
    try:
        with deadline:
            done = _kept_together(context, strategy, before, instances, wanted, tell)
    except Stopped as stop:
        why = stop.reason
        places = [_staying(before, instance, why) for instance in (*instances, *new)]
        done = PlaceResult(strategy, before, places, names, new, demands)
        done.plan.end(stop)
    if context.deadline.over():
        done.plan.reason = TIME_IS_UP
    done.remarks = [*context.remarks, *_lost_anyway(done)]
    return done


def _kept_together(
    context: Context,
    strategy: str,
    before: State,
    instances: Sequence[Instance],
    wanted: Sequence[Allocate],
    tell: Callable[[int, int], None],
) -> PlaceResult:
    """The places that the strategy finds; who would be parted on the way there stays at home."""
    new = [one.instance for one in wanted]
    names = [i.name for i in (*instances, *new)]
    said, staying = len(context.remarks), dict[str, str]()
    while True:
        check()
        chosen = place_cluster(context, strategy, instances, wanted, tell, staying)
        places = _with_broken(context, chosen.in_order)
        done = PlaceResult(strategy, before, places, names, new, context.bonds.demands())
        done.hopeless = chosen.survival.hopeless
        parted = _parted(done, context.bonds.relations)
        if parted.keys() <= staying.keys() or context.deadline.over():
            return done
        staying |= parted
        chosen.take_back()
        del context.remarks[said:]


def _parted(done: PlaceResult, relations: Relations | None) -> dict[str, str]:
    """Those whom the transition leaves behind, and all who must be together with them.

    Somebody of them would be parted from the others; each with why it has to stay.
    """
    found: dict[str, str] = {}
    if relations is None:
        return found
    for left, why in done.transition.left:
        rules = [rule for rule in relations.members_of.get(left, ()) if rule.kind == TOGETHER]
        others = [one.instance for rule in rules for one in rule.members if one.must]
        told = f"{left}, which it must be with, finds no way: {why}"
        found |= dict.fromkeys((name for name in others if name in done.before.where), told)
        if others:
            found[left] = why
    return found


def _with_broken(context: Context, places: list[PlannedPlace]) -> list[PlannedPlace]:
    """The places, and what is broken there; that is not known of what came late."""
    for place in places:
        if place.node is not None and not context.deadline.over():
            place.broken = context.bonds.broken(place.instance, place.node)
    return places


def _lost_anyway(done: PlaceResult) -> list[str]:
    """What ``strict`` does not count, for people."""
    names = [done.cluster.nodes[index].name for index in sorted(done.hopeless)]
    told = "cannot be survived, wherever instances go"
    return [f"the failure of {', '.join(names)} {told}"] if names else []


def _staying(before: State, instance: Instance, why: str) -> PlannedPlace:
    """An instance that stays as it is, because placing was ended."""
    nodes = before.where.get(instance.name, ())
    place = PlannedPlace(instance, nodes, bool(nodes) and runs(before, instance))
    place.nodes, place.why = nodes or None, why
    return place
