"""Freeing nodes by exact search: all instances on shared storage placed at once.

Moving one instance after the other can end with an instance that has no place though
another arrangement would have one for all.  Here the solver is asked for a placement that
leaves every online node its reserve, with as few moves as it finds; the moves are then put
into an order in which each fits.
"""

from __future__ import annotations

from iallocator.limits.node import FORCED_LIMITS
from iallocator.model.moves import FAILOVER_TO, apply_steps
from iallocator.model.state import State
from iallocator.planners.eligible import score_of
from iallocator.planners.plan import PlannedMove, traffic
from iallocator.scoring import Kernels
from iallocator.solver.highs import solve
from iallocator.solver.placement_problem import PlacementProblem
from iallocator.solver.problem import FOUND, IMPOSSIBLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.planners.squeeze.headroom import Headroom
    from iallocator.solver.problem import Problem
    from iallocator.solver.refine import Deadline

__all__ = ["PROVED", "arrange"]

PROVED = "proved: no arrangement of the instances leaves every node its reserve"

MOVING = 1.0
"""What moving an instance costs, beside its memory as a share of all."""


def arrange(
    cluster: Cluster,
    scope: Sequence[int],
    movable: Sequence[Instance],
    reserve: Headroom,
    deadline: Deadline,
    evacuate: bool,
) -> tuple[list[PlannedMove] | None, bool]:
    """Moves of `movable` after which every online node of `scope` has the reserve.

    Only instances on shared storage are moved.  `evacuate`: none may stay on a node of
    `scope` that is not online; otherwise those on such nodes are not looked at.  None if no
    moves are found; then the second says whether it is proved that there are none.
    """
    state = State(cluster)
    nodes = cluster.nodes
    flexible = [
        i for i in movable if i.shared and (evacuate or nodes[state.where[i.name][0]].online)
    ]
    moving = {instance.name for instance in flexible}
    stuck = [
        index
        for index in scope
        if not nodes[index].online and any(i.name not in moving for i in state.instances_on(index))
    ]
    if evacuate and stuck:
        return None, False
    problem = _problem(cluster, scope, flexible, reserve)
    answer = solve(problem, deadline.left)
    if answer.status != FOUND:
        mirrored = any(state.reserved[index] for index in scope)  # then rows are too strict
        return None, answer.status == IMPOSSIBLE and not mirrored
    wanted: dict[str, tuple[int, ...]] = answer.values(problem)
    return _in_order(state, scope, flexible, wanted), False


def _problem(
    cluster: Cluster, scope: Sequence[int], flexible: Sequence[Instance], reserve: Headroom
) -> Problem:
    """Every flexible instance on an online node, and the reserve on each of those."""
    state = State(cluster)
    for instance in flexible:
        state.remove(instance, instance.nodes)
    online = [index for index in scope if cluster.nodes[index].online]
    kernel = Kernels(state, [(len(online), 0)]).make(state, scope)
    places = PlacementProblem(state, tags=False)  # forced moves may break exclusion
    whole = sum(instance.memory for instance in flexible) + 1
    for instance in flexible:
        found = kernel.singles(instance, online, {}, FORCED_LIMITS)
        own = instance.nodes[0]
        moving = MOVING + instance.memory / whole
        listed = [(0.0 if nodes[0] == own else moving, nodes) for _, nodes in found.row(0)]
        places.add(instance, listed, distinct=own)
    for index in online:
        places.occupy(reserve.instance, index)
    return places.problem()


def _in_order(
    state: State,
    scope: Sequence[int],
    flexible: Sequence[Instance],
    wanted: dict[str, tuple[int, ...]],
) -> list[PlannedMove] | None:
    """The moves to `wanted`, each made when it fits; None if they block each other."""
    kernels = Kernels(state, [(len(scope), 0)])
    waiting = [i for i in flexible if wanted[i.name] != state.where[i.name]]
    moves: list[PlannedMove] = []
    while waiting:
        for instance in waiting:
            before, target = state.where[instance.name], wanted[instance.name][0]
            with state.trial():
                state.remove(instance, before)
                fits = kernels.make(state, scope).singles(instance, [target], {}, FORCED_LIMITS)
            if fits.feasible:
                break
        else:
            return None
        steps = [(FAILOVER_TO, target)]
        apply_steps(state, instance, steps)
        waiting.remove(instance)
        notation = f"fa:{state.cluster.nodes[target].name}"
        score, copied = score_of(state, scope), traffic(instance, ["f"])
        moves.append(PlannedMove(instance, before, steps, notation, score, copied))
    return moves
