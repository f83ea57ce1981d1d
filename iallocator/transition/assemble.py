"""From present and wanted places to a transition."""

from __future__ import annotations

from iallocator.transition.paths import chain
from iallocator.transition.planning.planner import TransitionPlanner
from iallocator.transition.planning.reorder import arrange
from iallocator.transition.planning.routes import BEFORE_MOVES, fences, node_steps, tie_orders
from iallocator.transition.requirements import Demands, NodeChanges
from iallocator.transition.resources import Place
from iallocator.transition.transition import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.transition.resources import Amounts
    from iallocator.transition.separations import Separations
    from iallocator.transition.step import Step
    from iallocator.transition.transition import Transition

__all__ = ["plan_transition", "transition_of_moves"]


def plan_transition(
    state: State,
    wanted: Mapping[str, tuple[int, ...] | None],
    new: Iterable[Instance] = (),
    demands: Demands | None = None,
) -> Transition:
    """The steps from `state` to where every instance in `wanted` shall be.

    Parameters
    ----------
    state
        Who is where now; it is left as it is.
    wanted
        Instance name -> indices of its nodes, primary first; None: stop it.  Instances
        that are not named stay.
    new
        Instances that do not exist yet, `wanted` says where.
    demands
        Orders, nodes to power, and what else there is to heed.

    What cannot be done is in `Transition.left`, with the reason.

    Raises
    ------
    LookupError
        If a name in `wanted` is unknown.
    """
    demands = demands or Demands()
    planner = TransitionPlanner(state, wanted, new, demands)
    found = [number(state.cluster, sequence, planner.room) for sequence in planner.plan()]
    transition = min(found, key=lambda one: (one.pairs, one.longest))
    transition.left = planner.left
    transition.remarks = planner.remarks + transition.remarks
    return transition


def transition_of_moves(
    cluster: Cluster,
    left: Amounts,
    moves: Iterable[Move],
    orders: Sequence[tuple[str, str, str]] = (),
    around: NodeChanges | None = None,
    separations: Separations | None = None,
) -> Transition:
    """The steps of moves that are legal one after the other, waiting for what they must.

    What ran on an offline node waits until that is fenced.

    Parameters
    ----------
    cluster
        Its nodes.
    left
        What every node has left before the first move, as `amounts.room` says it.
    moves
        The moves.  An instance may move more than once.
    orders
        As in `Demands`.  The moves are made in another sequence if these ask for it;
        those that cannot be met are remarked upon.
    around
        Which nodes are to be powered, drained or tagged.
    separations
        Who must not meet whom on the way.
    """
    moves = list(moves)
    arranged = arrange(cluster, left, moves, orders, separations)
    chains: dict[str, list[Step]] = {}
    last: dict[str, Step] = {}
    sequence: list[Step] = []
    off = around.power_on if around is not None else ()
    for move in (moves[k] for k in arranged.positions):
        instance, name = move.instance, move.instance.name
        live = name in last or move.before[0] not in off  # nothing runs on a node that is off
        made = chain(instance, Place(move.before, instance.uses_memory), move.steps, cluster, live)
        if not made:
            continue
        if name in last:
            made[0].needs[last[name]] = "the step before"
        last[name] = made[-1]
        sequence += made
        chains.setdefault(name, []).extend(made)
    tie_orders(chains, arranged.orders)
    shared: list[str] = []
    if separations is not None:
        separations.charge(sequence)
        shared = separations.yield_to(sequence)
        left = left | separations.room
    if around is not None:
        made = node_steps(cluster, around, sequence)
        first = [action for action in made if action.kind in BEFORE_MOVES]
        sequence = [*first, *sequence, *(action for action in made if action not in first)]
    transition = number(cluster, [*fences(cluster, sequence), *sequence], left)
    transition.remarks += arranged.remarks + shared
    transition.sequence = list(arranged.positions)
    transition.shares = separations.shares if separations is not None else frozenset()
    return transition
