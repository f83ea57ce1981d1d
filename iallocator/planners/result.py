"""What a planner found, in the one shape that all planners share."""

from __future__ import annotations

from iallocator.model.state import State
from iallocator.planners.plan import Plan, replay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from iallocator.aliases import Json
    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.planners.plan import PlannedMove
    from iallocator.transition.requirements import Demands
    from iallocator.transition.separations import Separations
    from iallocator.transition.transition import Transition


__all__ = ["GroupPlan", "GroupPlans", "GroupRow", "PlanResult"]


class GroupRow:
    """What is said of one group.

    Attributes
    ----------
    members:
        As plain data, beside ``group`` and ``reason``; see ``schemas/plan.schema.json``.
    reason:
        For people; "" if there is nothing to explain.
    """

    __slots__ = ("group", "members", "reason")

    def __init__(self, group: Group, members: Json | None = None, reason: str = "") -> None:
        self.group = group
        self.members: Json = members or {}
        self.reason = reason

    def document(self) -> Json:
        """As plain data."""
        return {"group": self.group.name, **self.members, "reason": self.reason}


class PlanResult:
    """What a planner found.

    Attributes
    ----------
    plan:
        The moves, the scores, and why it ends where it ends.
    before:
        The state that it begins at.
    groups:
        What is said of each group, in their order.
    demands:
        What is asked of the order of the steps; None for nothing.
    remarks:
        What a person should know besides.
    new_instances:
        Those that the plan creates.
    hopeless:
        Indices of nodes whose failure is lost whatever the plan does, where ``strict`` holds.
    between_groups:
        Whether instances may change their group.
    in_turn:
        Whether every move was judged as things are when those before it have been made.
    returns:
        Whether everybody comes back to where it was.
    """

    between_groups = False
    in_turn = True
    returns = False

    def __init__(self, command: str, before: State, demands: Demands | None = None) -> None:
        self.plan = Plan(command, 0.0)
        self.before = before
        self.groups: list[GroupRow] = []
        self.members: Json = {}
        self.demands = demands
        self.remarks: list[str] = []
        self.new_instances: Sequence[Instance] = ()
        self.hopeless: Collection[int] = ()
        self._transition: Transition | None = None

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return self.before.cluster

    @property
    def moves(self) -> list[PlannedMove]:
        """In the order in which they were found; each is legal after those before it."""
        return self.plan.moves

    @property
    def interrupted(self) -> bool:
        """Whether someone did not want to wait for all of it."""
        return self.plan.interrupted

    @property
    def scores(self) -> tuple[float, float]:
        """Before and after; lower is better."""
        return self.plan.before, self.plan.after

    @property
    def leaving(self) -> Collection[int]:
        """Nodes that are to be empty and off in the end."""
        return ()

    @property
    def coming(self) -> Collection[int]:
        """Nodes that are powered on before anything else."""
        return ()

    @property
    def left_out(self) -> Collection[str]:
        """Instances that do not run in the end."""
        return ()

    @property
    def transition(self) -> Transition:
        """The steps, and what each waits for; made when first asked for."""
        if self._transition is None:
            self._transition = self._ordered()
        return self._transition

    def _ordered(self) -> Transition:
        from iallocator.transition.assemble import transition_of_moves
        from iallocator.transition.resources import room

        moves = [(move.instance, move.before, move.steps) for move in self.moves]
        orders = self.demands.orders if self.demands else ()
        return transition_of_moves(
            self.cluster,
            room(self.before),
            moves,
            orders=orders,
            separations=self.separations(),
        )

    def separations(self) -> Separations:
        """Who must not meet whom on the way."""
        from iallocator.transition.separations import Separations

        ends = {move.instance.name: move.after for move in self.moves}
        return Separations(self.before, ends, self.demands)

    def job_sets(self) -> list[list[int]]:
        """Positions of the moves in an order that the transition allows, those of a set at once."""
        from iallocator.ganeti.job_sets import job_sets

        moves = self.moves
        order = self.transition.sequence or range(len(moves))
        sets = job_sets([moves[position].nodes for position in order])
        return [[order[k] for k in one] for one in sets]

    def row(self, group: Group) -> GroupRow:
        """What is said of `group`."""
        return next(row for row in self.groups if row.group is group)

    def add(self, moves: Iterable[PlannedMove]) -> None:
        """Append moves."""
        self.plan.moves += moves

    def after(self) -> State:
        """The state once all moves are made."""
        state = self.before.copy()
        replay(state, self.moves)
        return state

    def keep(self, count: int, reason: str) -> bool:
        """Make only the first `count` moves, for `reason`; whether the plan bears that."""
        return False

    def document(self) -> Json:
        """All but the transition as plain data; see ``schemas/plan.schema.json``."""
        before, after = self.scores
        found: Json = {"command": self.plan.command, "scores": {"before": before, "after": after}}
        if self.plan.reason:
            found["reason"] = self.plan.reason
        found["moves"] = [move.document(self.cluster) for move in self.moves]
        found["job_sets"] = self.job_sets()
        if self.groups:
            found["groups"] = [row.document() for row in self.groups]
        return found | self.members


class GroupPlan:
    """The plan for one group."""

    __slots__ = ("group", "plan")

    def __init__(self, group: Group, plan: Plan) -> None:
        self.group = group
        self.plan = plan

    def row(self) -> GroupRow:
        """What is said of the group."""
        plan = self.plan
        members = {
            "before": plan.before,
            "after": plan.after,
            "moves": len(plan.moves),
            "copied_mib": plan.copied,
        }
        return GroupRow(self.group, members, plan.reason)


class GroupPlans(PlanResult):
    """Plans for several groups, each within its group: scores add up, moves follow each other."""

    def __init__(
        self,
        command: str,
        before: State,
        plans: Sequence[GroupPlan] = (),
        stop: KeyboardInterrupt | None = None,
        demands: Demands | None = None,
    ) -> None:
        super().__init__(command, before, demands)
        self.plans = list(plans)
        if stop is not None:
            self.plan.end(stop)

    @property
    def moves(self) -> list[PlannedMove]:
        """Those of all groups."""
        return [move for one in self.plans for move in one.plan.moves]

    @property
    def interrupted(self) -> bool:
        """Whether someone did not want to wait for all of it."""
        return self.plan.interrupted or any(one.plan.interrupted for one in self.plans)

    @property
    def scores(self) -> tuple[float, float]:
        """The sums over the groups."""
        plans = [one.plan for one in self.plans]
        return sum(plan.before for plan in plans), sum(plan.after for plan in plans)

    def keep(self, count: int, reason: str) -> bool:
        """Every move is worth making by itself."""
        for one in self.plans:
            if len(one.plan.moves) > count:
                del one.plan.moves[count:]
                one.plan.reason = reason
            count -= len(one.plan.moves)
        self._transition = None
        return True

    def document(self) -> Json:
        """All but the transition as plain data."""
        self.groups = [one.row() for one in self.plans]
        return super().document()
