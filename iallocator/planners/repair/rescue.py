"""Plan the rescue of a dead node: its instances fail over by priority, then get new secondaries.

`ReturnResult` is the plan for the return of the node, which is powered on and set online, or
undrained.

`Repairs` chooses the new nodes. All failovers come before all new secondaries, because failovers
end the outage, and a copy of disks takes hours. Soft limits and global N+1 reject no node, as for
requests that must move an instance.

An instance cannot be saved if its data is only on the dead node, if its secondary is offline too,
or if no node has free capacity for the instance. Such an instance is not moved.
"""

from __future__ import annotations

from iallocator.deadline import TIME_IS_UP, check
from iallocator.light import copy
from iallocator.model.state import State
from iallocator.model.tags import REPAIR_FAILOVER, REPAIR_REINSTALL
from iallocator.planners.plan import PlanEntry
from iallocator.planners.repair.repair import Repairs
from iallocator.planners.result import PlanResult
from iallocator.scoring.scalar import kernel_of, score_of
from iallocator.tags.pacemaker import rescues
from iallocator.transition.assemble import transition_of_moves
from iallocator.transition.requirements import NodeChanges, demands_of
from iallocator.transition.resources import room
from iallocator.transition.step import DEMOTE, ONLINE, POWER_ON, REPLACE_DISKS, UNDRAIN, Step
from iallocator.transition.transition import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iallocator.aliases import Json
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.moves import Move
    from iallocator.options.settings import Settings
    from iallocator.transition.transition import Transition

__all__ = ["QuietResult", "RescueResult", "ReturnResult", "nodes_to_watch", "plan_rescue"]


class RescueResult(PlanResult):
    """The plan that rescues the instances of a dead node.

    Attributes
    ----------
    dead:
        The index of the dead node.
    marked:
        Whether the node is marked offline in Ganeti.
    evidence:
        What shows that the node is dead, as plain data.
    lost:
        Name of each instance that cannot be saved -> why.
    degraded:
        Name of each instance that is saved, but gets no new secondary -> why.
    priorities:
        Name of an instance -> its priority; an instance that is not listed has 0.
    units:
        Sets of names of instances that are rescued together.
    """

    in_turn = False
    serves_in_parts = True

    def __init__(self, before: State, repairs: Repairs, dead: int, marked: bool) -> None:
        relations = repairs.relations
        super().__init__("rescue", before, demands_of(relations))
        self.dead = dead
        self.marked = marked
        self.evidence: Json = {}
        self.lost: dict[str, str] = {}
        self.degraded: dict[str, str] = {}
        self.priorities: Mapping[str, int] = relations.priorities if relations is not None else {}
        self.units: list[tuple[str, ...]] = []
        # The instances of the node must move: no plan is rejected for failures of other nodes
        self.intolerable_nodes = frozenset(before.cluster.nodes[dead].group.nodes)

    @property
    def scores(self) -> tuple[float, float]:
        """Return the scores of the dead node's group before and after the plan; lower is better."""
        scope = self.cluster.nodes[self.dead].group.nodes
        return score_of(self.before, scope), score_of(self.after(), scope)

    @property
    def incomplete(self) -> bool:
        """Return whether an instance is not saved, or gets no new secondary."""
        return bool(self.lost or self.degraded)

    def _ordered(self) -> Transition:
        unmarked = () if self.marked else (self.dead,)
        transition = transition_of_moves(
            self.cluster,
            room(self.before),
            self.moves,
            orders=self.demands.orders if self.demands else (),
            around=NodeChanges(dead=[self.dead], unmarked=unmarked),
            separations=self.separations(),
        )
        for step in transition.steps:
            step.action.alone = step.action.kind == REPLACE_DISKS
        return transition

    def parts(self) -> list[tuple[object, PlanResult]]:
        """Return (names, plan for these instances alone) for each set that is rescued together."""
        parts: list[tuple[object, PlanResult]] = []
        for names in self.units:
            alone = copy(self)
            alone.plan, alone._transition = copy(self.plan), None
            alone.plan.entries = [one for one in self.entries if one.move.instance.name in names]
            parts.append((names, alone))
        return parts

    def leave_out(self, part: object, reason: str) -> str:
        """Remove the set of instances `part` from the plan, for `reason`; return their names."""
        names = next(unit for unit in self.units if unit == part)
        self.units.remove(names)
        self.plan.entries = [one for one in self.entries if one.move.instance.name not in names]
        self.lost |= dict.fromkeys(names, reason)
        self._transition = None
        return ", ".join(names)

    def document(self) -> Json:
        """Return the plan without its transition; see ``schemas/plan.schema.json``."""
        document = super().document()
        document["node"] = self.cluster.nodes[self.dead].name
        document["evidence"] = self.evidence
        document["unsaved"] = self._listed(self.lost)
        document["degraded"] = self._listed(self.degraded)
        return document

    def _listed(self, reasons: Mapping[str, str]) -> list[Json]:
        return [
            {"instance": name, "priority": self.priorities.get(name, 0), "reason": why}
            for name, why in sorted(
                reasons.items(), key=lambda one: -self.priorities.get(one[0], 0)
            )
        ]


class QuietResult(PlanResult):
    """The result of a watch that rescues no node now.

    Attributes
    ----------
    calls_person:
        Whether the administrator must act.
    """

    in_turn = False

    def __init__(self, before: State, reason: str, calls_person: bool) -> None:
        super().__init__("rescue", before)
        self.plan.reason = reason
        self.calls_person = calls_person

    @property
    def incomplete(self) -> bool:
        """Return whether the administrator must act."""
        return self.calls_person


class ReturnResult(PlanResult):
    """The plan for the return of a node: it is powered on and set online, or it is undrained.

    Ganeti powers the node on if the node has an out-of-band program. Without this program, the node
    must be running already.

    Attributes
    ----------
    node:
        The index of the node.
    demoted:
        The indices of nodes that lose the role of master candidate once the node is online.
    """

    in_turn = False

    def __init__(self, before: State, node: int) -> None:
        super().__init__("rescue", before)
        self.node = node
        self.demoted: list[int] = []
        here = self.cluster.nodes[node]
        if here.online:
            self.plan.reason = f"{here.name} is online, and not drained"

    def _ordered(self) -> Transition:
        node, steps = self.cluster.nodes[self.node], list[Step]()
        if node.offline:
            online = Step(ONLINE, node=self.node)
            online.promotes = node.master_candidate
            if node.oob_program:
                steps.append(Step(POWER_ON, node=self.node))
                online.needs[steps[0]] = f"{node.name} is powered on"
            steps.append(online)
            for index in self.demoted:
                steps.append(Step(DEMOTE, node=index))
                steps[-1].needs[online] = f"{node.name} is online"
        elif node.drained:
            steps.append(Step(UNDRAIN, node=self.node))
        return number(self.cluster, steps, room(self.before))

    def document(self) -> Json:
        """Return the plan without its transition; see ``schemas/plan.schema.json``."""
        return {**super().document(), "node": self.cluster.nodes[self.node].name, "returns": True}


def nodes_to_watch(cluster: Cluster, nodes: Iterable[Node], prefix: str) -> list[Node]:
    """Return those of `nodes` that have instances, and that tags allow to rescue automatically."""
    used = {index for instance in cluster.instances for index in instance.nodes}
    return [node for node in nodes if node.index in used and rescues(node, prefix)]


def plan_rescue(
    cluster: Cluster, settings: Settings, dead: int, marked: bool, deadline: Deadline
) -> RescueResult:
    """Return the plan that rescues the instances with their primary or secondary on node `dead`.

    Parameters
    ----------
    cluster
        The cluster. The dead node must be offline in it.
    settings
        The settings of each node group.
    dead
        The index of the dead node.
    marked
        Whether the node is marked offline in Ganeti.
    deadline
        When it passes, instances without a failover are reported as lost, and instances without a
        new secondary as degraded.
    """
    repairs = Repairs(cluster, settings, deadline, secondaries_later=True)
    done = RescueResult(State(cluster), repairs, dead, marked)
    ordered = repairs.by_importance([one for one in cluster.instances if dead in one.nodes])
    needed = [one for one in map(repairs.needed, ordered) if one is not None]
    moves: list[Move] = []
    for unit in repairs.in_units([one for one in needed if one.kind == REPAIR_FAILOVER]):
        check()
        if not deadline.over():
            repairs.placed(unit)
        made = [move for repair in unit for move in repair.moves]
        if made:
            moves += made
            done.units.append(tuple(repair.instance.name for repair in unit))
    for repair in needed:
        name, instance = repair.instance.name, repair.instance
        if repair.kind == REPAIR_FAILOVER and not repair.moves:
            done.lost[name] = TIME_IS_UP if deadline.over() else repair.reason
        elif repair.kind == REPAIR_REINSTALL:
            done.lost[name] = f"its data is only on {repair.dead}, offline"
        elif not repair.kind:
            done.lost[name] = f"its disks are on {repair.dead}, offline"
        elif len(instance.nodes) > 1:
            check()
            count = len(repair.moves)
            why = TIME_IS_UP if deadline.over() else repairs.give_secondary(repair)
            if why:
                done.degraded[name] = why
            elif not count:
                done.units.append((name,))
            moves += repair.moves[count:]
    state = done.before.copy()
    kernel = kernel_of(state, cluster.nodes[dead].group.nodes)
    entries = []
    for move in moves:
        move.apply(state)
        kernel.follow()
        entries.append(PlanEntry(move, kernel.score()))
    done.add(entries)
    if not done.moves:
        what = "can be saved" if ordered else "is on the node"
        done.plan.reason = f"no instance {what}"
    return done
