"""Undo an earlier plan: move instances back to their previous nodes.

The goal of each instance is known, so the search only chooses greedily which instances can return.
First it plans the return of all instances at once: the result is the placement before the earlier
plan, and instances can swap places. If this plan breaks a limit, instances return one after the
other as far as the `Evaluator` accepts each of them. Then the search tries each remaining instance
once, together with those that return. An instance that cannot return stays where it is, and the
result has the reason.

The verifier checks every candidate plan against all limits. The transition moves each instance with
as few copies of its disks as possible.

Cost: a transition and its verification for each instance that does not return with all others.
"""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.model.moves import Move
from iallocator.model.state import State
from iallocator.placement.context import Context
from iallocator.planners.intergroup.context import IntergroupContext, forbidden
from iallocator.planners.plan_limits import PlanLimits
from iallocator.planners.result import PlanResult, moves_of_transition
from iallocator.planners.verify import verify_transition
from iallocator.scoring.scalar import score_of
from iallocator.transition.assemble import plan_transition
from iallocator.transition.requirements import demands_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings
    from iallocator.transition.requirements import Demands
    from iallocator.transition.transition import Transition

__all__ = ["UndoResult", "plan_undo"]


class UndoResult(PlanResult):
    """The plan that moves instances back to their previous nodes.

    Attributes
    ----------
    homes:
        Name of an instance -> the nodes to which it returns.
    staying:
        Name of an instance -> why it does not return.
    """

    in_turn = False

    def __init__(self, before: State, homes: Mapping[str, Nodes], demands: Demands | None) -> None:
        super().__init__("undo", before, demands)
        self.homes = dict(homes)
        self.staying: dict[str, str] = {}
        nodes = self.cluster.nodes
        self.between_groups = any(
            nodes[before.where[name][0]].group is not nodes[home[0]].group
            for name, home in self.homes.items()
        )
        self.add(moves_of_transition(before, self.transition))

    def _ordered(self) -> Transition:
        return plan_transition(self.before, self.homes, (), self.demands)

    @property
    def scores(self) -> tuple[float, float]:
        """Return the scores over all nodes, before and after the plan; lower is better."""
        scope = range(len(self.cluster.nodes))
        return score_of(self.before, scope), score_of(self.after(), scope)

    @property
    def incomplete(self) -> bool:
        """Return whether some instance does not return."""
        return bool(self.staying)

    def stay(self, staying: Mapping[str, str]) -> None:
        """Store why instances do not return, in this result and in its transition.

        `staying`: name of an instance -> the reason.
        """
        self.staying = dict(staying)
        self.transition.left = [*self.transition.left, *self.staying.items()]


def plan_undo(
    cluster: Cluster, settings: Settings, moved: Mapping[str, Sequence[str]], deadline: Deadline
) -> UndoResult:
    """Plan to move instances back to the nodes `moved`, as far as the limits allow.

    Parameters
    ----------
    cluster
        The cluster in its present state.
    settings
        The settings of the run; those of each group apply to its nodes.
    moved
        Name of an instance -> the names of its previous nodes, primary first.
    deadline
        When it passes, the instances that are not yet planned stay where they are.
    """
    before = State(cluster)
    homes, staying = _possible(before, settings, moved)
    nodes = cluster.nodes
    crossing = any(
        nodes[before.where[n][0]].group is not nodes[h[0]].group for n, h in homes.items()
    )
    context = (IntergroupContext if crossing else Context)(cluster, settings, deadline=deadline)
    demands = demands_of(context.affinity.relations)
    done = UndoResult(before, homes, demands)
    if _problem(done, context):
        # Move instances back one after the other, as long as one of them can move
        state = context.state
        instances = {one.name: one for one in cluster.instances}
        chosen: dict[str, Nodes] = {}
        rejected: dict[str, str] = {}
        progress = True
        while progress and not context.deadline.over():
            progress = False
            for name, home in homes.items():
                check()
                if name in chosen:
                    continue
                here = state.where[name]
                evaluator = context.evaluator(cluster.nodes[home[0]].group)
                rejection = evaluator.check(Move(instances[name], here, home))
                if rejection is not None:
                    rejected[name] = rejection.text
                    continue
                state.remove(instances[name], here)
                state.place(instances[name], home)
                chosen[name] = home
                progress = True
        rejected = {n: rejected.get(n, "time is up") for n in homes if n not in chosen}
        done = UndoResult(before, chosen, demands)
        while done.homes and (problem := _problem(done, context)):
            *rest, last = done.homes  # keep the longest beginning that keeps all limits
            rejected[last] = problem
            done = UndoResult(before, {name: done.homes[name] for name in rest}, demands)
        for name in list(rejected):
            check()
            if deadline.over():
                break
            more = UndoResult(before, {**done.homes, name: homes[name]}, demands)
            if not _problem(more, context):
                done = more
                del rejected[name]
        staying |= rejected
    done.stay(staying)
    return done


def _possible(
    before: State, settings: Settings, moved: Mapping[str, Sequence[str]]
) -> tuple[dict[str, Nodes], dict[str, str]]:
    """Return the previous nodes of each instance that may return, and the reasons of the others.

    Both are by name of the instance.
    """
    cluster = before.cluster
    known = {node.name: node for node in cluster.nodes}
    homes: dict[str, Nodes] = {}
    staying: dict[str, str] = {}
    for name, names in moved.items():
        here = before.where.get(name)
        missing = [one for one in names if one not in known]
        if here is None or missing:
            staying[name] = f"{missing[0] if missing else name} is gone"
            continue
        nodes = [known[one] for one in names]
        # A node that is not online takes over no instance, not even as its secondary
        closed = [
            node
            for node in nodes
            if not node.online
            and (node.index not in here or (node is nodes[0] and node.index != here[0]))
        ]
        home = nodes[0].group
        hindered = (
            ""
            if home is cluster.nodes[here[0]].group
            else forbidden(settings.by_group.get(home.index, settings))
        )
        if closed:
            how = "offline" if closed[0].offline else "drained"
            staying[name] = f"{closed[0].name} is {how}"
        elif hindered:
            staying[name] = hindered
        elif len(nodes) != len(here):
            staying[name] = f"it is on {len(here)} nodes now, and was on {len(nodes)}"
        else:
            homes[name] = tuple(node.index for node in nodes)
    return homes, staying


def _problem(done: UndoResult, context: Context) -> str:
    """Return the first problem of a plan, its steps or its final state; "" if there is none."""
    if done.transition.left:
        name, reason = done.transition.left[0]
        return f"{name}: {reason}"
    relations = context.affinity.relations
    limits = PlanLimits(context.settings, relations, between_groups=done.between_groups)
    return next(iter(verify_transition(done.before, done.transition, limits, rounds=1)), "")
