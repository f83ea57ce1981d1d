"""Place all instances of a cluster anew by a strategy, and plan the moves and their order.

The instances are placed by Pacemaker's rules. If the rules leave out an instance, exact search
tries to place all instances, or more than the rules. An instance that must start after a left out
instance is left out, too.
"""

from __future__ import annotations

from types import MappingProxyType

from iallocator.deadline import TIME_IS_UP, Deadline, Stopped, check
from iallocator.model.constraints import ORDER, TOGETHER
from iallocator.model.state import State
from iallocator.placement.context import Context
from iallocator.planners.place.exact import place_exactly, why_not_begun
from iallocator.planners.place.scheduler import (
    PlannedPlace,
    SchedulingPass,
    runs,
    stopped_disks,
)
from iallocator.planners.quality import LEFT_OUT_MEASURE
from iallocator.planners.result import PlanResult, moves_of_transition
from iallocator.scoring.scalar import score_of
from iallocator.transition.assemble import plan_transition
from iallocator.transition.requirements import demands_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.constraints import Constraint
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings
    from iallocator.requests import Allocate
    from iallocator.transition.requirements import Demands
    from iallocator.transition.transition import Transition

__all__ = ["PlaceResult", "in_document_order", "place_anew"]

SEARCHED = "placed together with the others by exact search"


class PlaceResult(PlanResult):
    """The result of a full re-placement of a cluster.

    Parameters
    ----------
    strategy:
        The name of the strategy, for example ``pacemaker-balanced``.
    before:
        The initial state.
    places:
        The present and the planned nodes of each instance, in the order of placing.
    names:
        The names of the instances in the order of the document, new instances last.
    new:
        The instances that the plan creates if they are placed.
    demands:
        The constraints on the order of the steps; None if there are none.
    """

    in_turn = False
    measure = LEFT_OUT_MEASURE

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
        """Return the cluster score before and after the plan; lower is better."""
        scope = range(len(self.cluster.nodes))
        return score_of(self.before, scope), score_of(self.after(), scope)

    @property
    def reached(self) -> float:
        """Return the number of instances that are left out."""
        return len(self.left_out)

    @property
    def left_out(self) -> Collection[str]:
        """Return the names of the instances that are left out."""
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
        """Return the state after the plan; left out instances keep their disks on their nodes."""
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
        """Return the plan, its strategy and the place of each instance, without the transition."""
        by_name = {place.instance.name: place for place in self.places}
        nodes = self.cluster.nodes
        result = super().document() | {"strategy": self.strategy}
        result["placement"] = {
            name: None if (node := by_name[name].node) is None else nodes[node].name
            for name in self._names
        }
        names = self.cluster.node_names
        result["instances"] = [
            {
                "instance": place.instance.name,
                "from": names(place.before),
                "to": names(place.nodes or ()),
                "runs": place.runs,
                "why": place.why,
                **({"broken": place.broken} if place.broken else {}),
            }
            for place in self.places
        ]
        return result


def in_document_order(cluster: Cluster, names: Sequence[str] | None) -> list[Instance]:
    """Return the instances of `cluster` in the order of `names`.

    `names`: the names of all instances, in the order of the document; None: the order of `cluster`,
    which is by name.
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
    report: Callable[[int, int], None] = lambda done, total: None,
    staying: Mapping[str, str] = MappingProxyType({}),
) -> PlaceResult:
    """Place `instances`, and then the new instances of `wanted`, by one of Pacemaker's strategies.

    If a signal or the time limit ends the run before every instance has a place, all instances stay
    on their nodes, because a part of the placement may not be possible.

    Parameters
    ----------
    cluster, settings:
        The cluster, and the settings of the run.
    strategy:
        The name of the strategy, for example ``pacemaker-balanced``.
    instances:
        The instances of the cluster, in the order that decides between equal instances.
    wanted:
        The requests for new instances.
    report:
        Called with the number of colocation sets that are placed, and the number of all.
    staying:
        Name of an instance -> why it stays on its nodes.
    """
    new = [one.instance for one in wanted]
    deadline = Deadline.of_run(settings.planning_seconds)
    context = Context(cluster, settings, coming=new, deadline=deadline)
    before = State(cluster)
    names = [i.name for i in (*instances, *new)]
    demands = demands_of(context.affinity.relations)
    known, staying = len(context.remarks), dict(staying)
    try:
        with deadline:
            while True:
                check()
                chosen = _place_cluster(context, strategy, instances, wanted, report, staying)
                done = PlaceResult(strategy, before, chosen.in_order, names, new, demands)
                done.intolerable_nodes = chosen.intolerable_nodes
                immovable = done.reached - len(chosen.left_out)  # stopped, and no plan moves them
                done.known_bound = float(chosen.fewest_out + immovable)
                separated = _separated(done, context.affinity.relations)
                if separated.keys() <= staying.keys() or deadline.over():
                    break
                staying |= separated
                del context.remarks[known:]
    except Stopped as stop:
        places = []
        for instance in (*instances, *new):
            nodes = before.where.get(instance.name, ())
            place = PlannedPlace(instance, nodes, bool(nodes) and runs(before, instance))
            place.nodes, place.why = nodes or None, stop.reason
            places.append(place)
        done = PlaceResult(strategy, before, places, names, new, demands)
        done.known_bound = 0.0
        done.plan.end(stop)
    done.bounding = lambda: done.known_bound
    if context.deadline.over():
        done.plan.reason = TIME_IS_UP
    intolerable_nodes = ", ".join(
        cluster.nodes[index].name for index in sorted(done.intolerable_nodes)
    )
    remark = f"the failure of {intolerable_nodes} is not tolerated, wherever instances go"
    done.remarks = [*context.remarks, *([remark] if intolerable_nodes else [])]
    return done


def _separated(done: PlaceResult, relations: Relations | None) -> dict[str, str]:
    """Return name -> reason for the instances that must stay to keep colocation groups together.

    If the transition of `done` cannot move a member of a colocation group, all placed members must
    stay.
    """
    reasons: dict[str, str] = {}
    if relations is None:
        return reasons
    for left, why in done.transition.left:
        rules = [rule for rule in relations.members_of.get(left, ()) if rule.kind == TOGETHER]
        others = [one.instance for rule in rules for one in rule.members if one.must]
        reason = f"{left}, which it must be with, cannot be moved: {why}"
        reasons |= dict.fromkeys((name for name in others if name in done.before.where), reason)
        if others:
            reasons[left] = why
    return reasons


def _place_cluster(
    context: Context,
    strategy: str,
    instances: Sequence[Instance],
    wanted: Sequence[Allocate],
    report: Callable[[int, int], None],
    staying: Mapping[str, str] = MappingProxyType({}),
) -> SchedulingPass:
    """Return the best pass that places `instances`, and then the new instances of `wanted`.

    The state of `context` has the present places, and is not changed. The disks of a left out
    instance stay on its nodes. If a pass leaves out an instance without counting these disks, all
    instances are placed again, with these disks counted. A running instance with the tag
    keep-running is never left out. If a pass leaves it out, the instance stays on its nodes, and
    all other instances are placed again.

    `staying`: name of an instance -> why it stays on its nodes.
    """
    state, fewest_out = context.state, 0

    def attempt(running: Collection[str]) -> SchedulingPass:
        stopped: dict[str, str] = {}
        kept = {**dict.fromkeys(running, "it must keep running"), **staying}
        while True:
            check()
            with state.trial():
                planned = SchedulingPass(
                    context, strategy, instances, wanted, kept, stopped, report
                )
                planned.run()
                _drop_followers(planned)
                uncounted = planned.uncounted
                if not uncounted:
                    _note_violations(planned)
                    return planned
            stopped |= uncounted

    def search(left_out: set[str]) -> SchedulingPass | None:
        """Search exactly for a placement that places one of `left_out`; None if there is none.

        The placement stops no instance that must keep running. The search also sets `fewest_out`,
        the bound of the number of instances that are left out.
        """
        nonlocal fewest_out
        with state.trial():
            planned = SchedulingPass(context, strategy, instances, wanted, staying)
            joint = place_exactly(planned, left_out)
            fewest_out = joint.fewest_out()
            note = joint.note().removeprefix("; ")
            if not joint.places:
                context.remarks += filter(None, (note,))
                return None
            planned.take(joint.places, SEARCHED, "exact search cannot place it beside the others")
            _drop_followers(planned)
            for place in planned.left_out:
                place.why = _missing_leader(planned, place) or place.why
            still_out = {place.instance.name for place in planned.left_out}
            if _wrongly_stopped(planned) or left_out <= still_out:
                return None
            context.remarks += filter(None, (note,))
            _note_violations(planned)
            return planned

    best = attempt(())
    # Exact search must be allowed in the group of an instance that is left out; a new instance may
    # go to any group
    cluster = context.cluster
    groups = [
        group
        for place in best.left_out
        for group in ([cluster.nodes[place.before[0]].group] if place.before else cluster.groups)
    ]
    if best.left_out and context.searches_for(groups):
        why = why_not_begun(best)
        context.remarks += filter(None, (why,))
        better = None if why else search({place.instance.name for place in best.left_out})
        if better is not None:
            better.fewest_out = fewest_out
            return better
    kept: set[str] = set()
    while stopped := _wrongly_stopped(best):
        kept |= stopped
        best = attempt(kept)
    best.fewest_out = fewest_out
    return best


def _note_violations(planned: SchedulingPass) -> None:
    """Record the soft constraints that each instance violates in its place, until time is up."""
    context = planned.context
    for place in planned.places.values():
        if place.node is not None and not context.deadline.over():
            place.broken = context.affinity.broken(place.instance, place.node)


def _wrongly_stopped(planned: SchedulingPass) -> set[str]:
    """Return the names of left out instances that must keep running, so they must stay instead.

    They are the running instances with the tag keep-running, the members of their colocation
    groups, and the instances after which they must start.
    """
    relations = planned.relations
    stopped = {place.instance.name for place in planned.left_out if place.runs}
    if relations is None or stopped.isdisjoint(relations.keep_running):
        return set()
    wrong = stopped & set(relations.keep_running)
    for name in list(wrong):
        wrong |= stopped & set(relations.group_of(name, sorted(stopped)))
        wrong |= {
            constraint.other
            for constraint in _leaders_of(planned, name)
            if constraint.other in stopped
        }
    return wrong


def _leaders_of(planned: SchedulingPass, name: str) -> list[Constraint]:
    """Return the hard constraints by which the instance `name` must start after others."""
    if planned.relations is None:
        return []
    return [
        constraint
        for constraint in planned.relations.of(name, ORDER)
        if constraint.must and constraint.other
    ]


def _drop_followers(planned: SchedulingPass) -> None:
    """Withdraw the place of each instance that must start after an instance that will not run.

    An instance that runs already without its leader keeps its place.
    """
    dropped = True
    while dropped:
        check()
        dropped = False
        for place in planned.places.values():
            why = "" if place.nodes is None else _missing_leader(planned, place)
            if why:
                planned.drop(place, why)
                dropped = True


def _missing_leader(planned: SchedulingPass, place: PlannedPlace) -> str:
    """Return why an instance cannot start after an instance that must run first; "" if it can."""
    if planned.stuck(place.instance):
        return ""
    for constraint in _leaders_of(planned, place.instance.name):
        leader = planned.places.get(constraint.other)
        if leader is None:
            reason = "which does not exist"
        elif not leader.instance.running:
            reason = "which does not run"
        elif leader.nodes is None:
            reason = f"which cannot be placed ({leader.why})"
        elif planned.context.cluster.nodes[leader.nodes[0]].offline:
            reason = "which stays on a node that is offline"
        else:
            continue
        lost = leader is not None and leader.runs and leader.nodes is None
        if lost or not place.runs:
            return f"it {constraint.text}, {reason}"
    return ""
