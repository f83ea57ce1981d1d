"""Represent the result of a planner, in one form for all planners."""

from __future__ import annotations

from iallocator.deadline import Stopped
from iallocator.light import copy
from iallocator.model.moves import Move, replay
from iallocator.model.state import State
from iallocator.planners.plan import Plan, PlanEntry
from iallocator.planners.quality import RUN_INTERRUPTED, SCORE_MEASURE, Quality, bounded
from iallocator.scoring.scalar import kernel_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from iallocator.aliases import Json
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.planners.quality import Bounding
    from iallocator.planners.verify import Problem
    from iallocator.scoring.scalar import ScalarKernel
    from iallocator.transition.requirements import Demands
    from iallocator.transition.separations import Separations
    from iallocator.transition.transition import Transition


__all__ = ["GroupPlan", "GroupPlans", "GroupRow", "PlanResult", "moves_of_transition"]


class GroupRow:
    """The part of a planner's report that is about one group.

    Attributes
    ----------
    group:
        The group.
    members:
        Plain data beside ``group`` and ``reason``; see ``schemas/plan.schema.json``.
    reason:
        Why the group has this plan, in words; "" if there is nothing to explain.
    """

    __slots__ = ("group", "members", "reason")

    def __init__(self, group: Group, members: Json | None = None, reason: str = "") -> None:
        self.group = group
        self.members: Json = members or {}
        self.reason = reason

    def document(self) -> Json:
        """Return the row as plain data."""
        return {"group": self.group.name, **self.members, "reason": self.reason}


class PlanResult:
    """The result of a planner.

    Attributes
    ----------
    plan:
        The moves, the scores, and why the plan ends.
    before:
        The initial state.
    groups:
        The report on each group, in the order of the groups.
    members:
        Plain data that the document of this planner has beside that of all plans.
    demands:
        The constraints on the order of the steps; None if there are none.
    remarks:
        Notes for stderr; a warning begins with ``Warning: ``.
    shortfalls:
        Errors for stderr: requested changes that the plan does not make. They are also shown
        with ``--quiet``.
    new_instances:
        The instances that the plan creates.
    intolerable_nodes:
        Indices of nodes. With ``strict``, no plan can make their failures tolerated.
    bounding:
        Returns the bound of the value that any plan can reach; None if this planner has no bound.
    known_bound:
        A bound that is known without `bounding`, even if the time limit passes; None if there
        is none.
    quality:
        How good the plan is; None until `assess` has determined it.
    between_groups:
        Whether instances may change their group.
    in_turn:
        Whether every move was checked in the state after the moves before it.
    moves_are_optional:
        Whether each instance may also stay on its nodes. Then its stickiness is a penalty of a
        move.
    returns:
        Whether every instance returns to its initial nodes.
    serves_in_parts:
        Whether the plan is executed although the verification left out parts of it.
    measure:
        Name of the value of which `bounding` returns a bound.
    """

    between_groups = False
    in_turn = True
    moves_are_optional = False
    returns = False
    serves_in_parts = False
    measure = SCORE_MEASURE

    def __init__(self, command: str, before: State, demands: Demands | None = None) -> None:
        self.plan = Plan(command, 0.0)
        self.before = before
        self.groups: list[GroupRow] = []
        self.members: Json = {}
        self.demands = demands
        self.remarks: list[str] = []
        self.shortfalls: list[str] = []
        self.new_instances: Sequence[Instance] = ()
        self.intolerable_nodes: Collection[int] = ()
        self.bounding: Bounding | None = None
        self.known_bound: float | None = None
        self.quality: Quality | None = None
        self._transition: Transition | None = None

    @property
    def cluster(self) -> Cluster:
        """Return the cluster of the plan."""
        return self.before.cluster

    @property
    def entries(self) -> list[PlanEntry]:
        """Return the moves with scores and violations; each is legal after the moves before it."""
        return self.plan.entries

    @property
    def moves(self) -> list[Move]:
        """Return the moves alone, in the order of `entries`."""
        return [entry.move for entry in self.entries]

    @property
    def interrupted(self) -> bool:
        """Return whether a signal interrupted the planner."""
        return self.plan.interrupted

    @property
    def incomplete(self) -> bool:
        """Return whether the plan leaves out a part of the request."""
        return False

    @property
    def scores(self) -> tuple[float, float]:
        """Return the scores before and after the plan; lower is better."""
        return self.plan.before, self.plan.after

    @property
    def reached(self) -> float:
        """Return the value that the plan reaches; `bounding` returns a bound of this value."""
        return self.scores[1]

    def assess(self, deadline: Deadline) -> None:
        """Compute the bound of the plan within `deadline`, and store the comparison in `quality`.

        If a signal comes during this work, the run counts as interrupted; the moves do not change.
        """
        if self.bounding is None:
            return
        bound, reason = self.known_bound, RUN_INTERRUPTED
        if not self.interrupted:
            least, reason, stop = bounded(self.bounding, deadline)
            bound = self.known_bound if least is None else least
            if stop is not None:
                self.plan.stop = stop
        self.quality = Quality(self.reached, bound, reason, self.measure)

    @property
    def leaving(self) -> Collection[int]:
        """Return the indices of the nodes that the plan empties and then powers off."""
        return ()

    @property
    def hand_commands(self) -> Mapping[int, Sequence[str]]:
        """Return index of a node that is rebooted -> two commands, "" for no command.

        The first command reboots the node; the second one checks the node after the reboot.
        """
        return {}

    @property
    def coming(self) -> Collection[int]:
        """Return the indices of the nodes that are powered on before the first move."""
        return ()

    @property
    def left_out(self) -> Collection[str]:
        """Return the names of the instances that do not run after the plan."""
        return ()

    @property
    def transition(self) -> Transition:
        """Return the steps of the plan and their dependencies; computed at the first access."""
        if self._transition is None:
            self._transition = self._ordered()
        return self._transition

    def _ordered(self) -> Transition:
        from iallocator.transition.assemble import transition_of_moves
        from iallocator.transition.resources import room

        orders = self.demands.orders if self.demands else ()
        return transition_of_moves(
            self.cluster,
            room(self.before),
            self.moves,
            orders=orders,
            separations=self.separations(),
        )

    def separations(self) -> Separations:
        """Return the pairs of instances that must not share a node while the plan is executed."""
        from iallocator.transition.separations import Separations

        ends = {move.instance.name: move.after for move in self.moves}
        return Separations(self.before, ends, self.demands)

    def job_sets(self) -> list[list[int]]:
        """Return sets of positions of moves; the moves of one set can be made at the same time.

        The sets are in an order that the dependencies of the steps allow.
        """
        order = self.transition.sequence or range(len(self.moves))
        return self._job_sets(order)

    def job_sets_from_end(self) -> list[list[int]]:
        """Return sets of moves as hbal divides them: the last set is made large first.

        The form of the result is that of `job_sets`.
        """
        order = self.transition.sequence or range(len(self.moves))
        return [one[::-1] for one in reversed(self._job_sets(order[::-1]))]

    def _job_sets(self, order: Sequence[int]) -> list[list[int]]:
        """Return sets of positions of moves that share no node; moves are taken in this `order`."""
        from iallocator.ganeti.jobs import job_sets

        moves = self.moves
        return [[order[k] for k in one] for one in job_sets([moves[k].nodes for k in order])]

    def row(self, group: Group) -> GroupRow:
        """Return the report on `group`."""
        return next(row for row in self.groups if row.group is group)

    def add(self, entries: Iterable[PlanEntry]) -> None:
        """Append `entries` to the moves of the plan."""
        self.plan.entries += entries

    def after(self) -> State:
        """Return a copy of the initial state in which all moves have been made."""
        state = self.before.copy()
        replay(state, self.moves)
        return state

    def without(self, problem: Problem, reason: str) -> str:
        """Remove the moves that cause `problem`, and record `reason` in the plan.

        Return a description of the removed moves; "" if the plan is useless without them.
        """
        return ""

    def leave_out(self, part: object, reason: str) -> str:
        """Remove `part`, one of the `parts`, and record `reason` in the plan.

        Return a description of the removed part; "" if the plan is useless without it.
        """
        return ""

    def parts(self) -> list[tuple[object, PlanResult]]:
        """Return the parts of the plan that are useful alone, in order, each with its own plan.

        A part is a node group, or the nodes of one round of reboots.
        """
        return []

    def failed_parts(self) -> list[tuple[object, str]]:
        """Return the parts of the plan that do not reach their goal, each with the reason."""
        return []

    def document(self) -> Json:
        """Return the plan without its transition, as defined in ``schemas/plan.schema.json``."""
        before, after = self.scores
        result: Json = {"command": self.plan.command, "scores": {"before": before, "after": after}}
        if self.plan.reason:
            result["reason"] = self.plan.reason
        result["moves"] = [entry.document(self.cluster) for entry in self.entries]
        result["job_sets"] = self.job_sets()
        if self.groups:
            result["groups"] = [row.document() for row in self.groups]
        if self.quality is not None:
            result |= self.quality.document()
        return result | self.members


class GroupPlan:
    """The plan for one group.

    Attributes
    ----------
    group, plan:
        The group and its moves.
    bounding:
        Returns a lower bound of the score of the group; None if there is none.
    """

    __slots__ = ("bounding", "group", "plan")

    def __init__(self, group: Group, plan: Plan, bounding: Bounding | None = None) -> None:
        self.group = group
        self.plan = plan
        self.bounding = bounding

    def row(self) -> GroupRow:
        """Return the report on the group: scores before and after, moves, MiB to copy, reason."""
        plan = self.plan
        members = {
            "before": plan.before,
            "after": plan.after,
            "moves": len(plan.entries),
            "copied_mib": plan.copied,
        }
        return GroupRow(self.group, members, plan.reason)


class GroupPlans(PlanResult):
    """The plans of several groups, executed one after the other; their scores are added.

    Attributes
    ----------
    keeps_n1_on_the_way:
        Whether no failure may lose more instances between two moves than initially.
    """

    moves_are_optional = True
    keeps_n1_on_the_way = True

    def __init__(
        self,
        command: str,
        before: State,
        plans: Sequence[GroupPlan] = (),
        stop: Stopped | None = None,
        demands: Demands | None = None,
    ) -> None:
        super().__init__(command, before, demands)
        self.plans = list(plans)
        if stop is not None:
            self.plan.end(stop)

    @property
    def entries(self) -> list[PlanEntry]:
        """Return the moves of all groups, in order."""
        return [entry for one in self.plans for entry in one.plan.entries]

    @property
    def interrupted(self) -> bool:
        """Return whether a signal interrupted the planner."""
        return self.plan.interrupted or any(one.plan.interrupted for one in self.plans)

    @property
    def scores(self) -> tuple[float, float]:
        """Return the sums of the scores of the groups, before and after; lower is better."""
        plans = [one.plan for one in self.plans]
        return sum(plan.before for plan in plans), sum(plan.after for plan in plans)

    def sum_of_bounds(self) -> float | None:
        """Return a lower bound of the sum of the scores; None if a group has no known bound."""
        total = 0.0
        for one in self.plans:
            bound = None if one.bounding is None else one.bounding()
            if bound is None:
                return None
            total += bound
        return total if self.plans else None

    def replace_moves(self, entries: Sequence[list[PlanEntry]]) -> list[list[PlanEntry]]:
        """Set the moves of each plan to `entries`; return the previous moves of each plan."""
        before = [one.plan.entries for one in self.plans]
        for one, some in zip(self.plans, entries, strict=True):
            one.plan.entries = some
        self._transition = None
        return before

    def without(self, problem: Problem, reason: str) -> str:
        """Cut the plan of one group before the move that causes `problem`; return what was cut.

        The other groups keep their plans. `reason` is recorded in the plan that is cut.
        """
        count = problem.number - 1
        for one in self.plans:
            if 0 <= count < len(one.plan.entries):
                del one.plan.entries[count:]
                one.plan.reason = reason
                self._transition = None
                return f"the moves of group {one.group.name} from move {problem.number} on"
            count -= len(one.plan.entries)
        return ""

    def leave_out(self, part: object, reason: str) -> str:
        """Remove the moves of group `part` from the plan; return a description of them.

        `reason` is recorded in the plan of the group. The description is "" if the group has no
        moves.
        """
        for one in self.plans:
            if one.group is part and one.plan.entries:
                one.plan.entries = []
                one.plan.reason = reason
                self._transition = None
                return f"the plan of group {one.group.name}"
        return ""

    def parts(self) -> list[tuple[object, PlanResult]]:
        """Return each group that has moves, with a result that contains only its plan."""
        parts: list[tuple[object, PlanResult]] = []
        for one in self.plans:
            if one.plan.entries:
                alone = copy(self)
                alone.plans, alone._transition = [one], None
                parts.append((one.group, alone))
        return parts

    def document(self) -> Json:
        """Return the plans without their transition as plain data."""
        self.groups = [one.row() for one in self.plans]
        return super().document()


def moves_of_transition(before: State, transition: Transition) -> list[PlanEntry]:
    """Return the moves that the steps of a transition make, with the score after each move.

    Consecutive steps of one instance are one move. The move ends before a step that depends on a
    step of another instance.
    """
    from iallocator.ganeti.jobs import chains

    actions = {step.number: step.action for step in transition.steps}
    state, names = before.copy(), before.cluster.nodes
    kernels: dict[int, ScalarKernel] = {}  # one per group
    entries = []
    for chain in chains(transition.steps):
        steps = [actions[number] for number in chain if actions[number].move is not None]
        if not steps or steps[0].instance is None or steps[0].before is None:
            continue
        instance, present = steps[0].instance, steps[0].before.nodes
        made = [step.move for step in steps if step.move is not None]
        group = names[present[0]].group
        if group.index not in kernels:
            kernels[group.index] = kernel_of(state, group.nodes)
        move = Move.by_steps(instance, present, made)
        move.apply(state)
        for kernel in kernels.values():
            kernel.follow()
        entries.append(PlanEntry(move, kernels[group.index].score()))
    return entries
