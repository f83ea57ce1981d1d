"""Collect further facts for the page of a plan: the cluster before and after, reasons of moves."""

from __future__ import annotations

from math import sqrt

from iallocator.documents.cluster_facts import health_at, inventory, nodes_at
from iallocator.model.moves import DRBD_FAILOVER
from iallocator.scoring.metrics import STATISTICS, terms
from iallocator.scoring.scalar import kernel_of
from iallocator.transition.paths import chain
from iallocator.transition.resources import Place

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iallocator.aliases import Json
    from iallocator.deadline import Deadline
    from iallocator.documents.cluster_facts import Examination
    from iallocator.model.cluster import Cluster
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.planners.check.health import GroupHealth
    from iallocator.planners.result import PlanResult

    Changes = list[tuple[str, float]]
    """The changes by a move: (statistic, change of its contribution to the score)."""

__all__ = ["changes_of_moves", "plan_facts"]


def plan_facts(
    done: PlanResult,
    how: Examination,
    remarks: Sequence[str] = (),
    health: tuple[Sequence[GroupHealth] | None, Sequence[GroupHealth] | None] = (None, None),
) -> Json:
    """Return the facts on the page of the plan `done` that the document leaves out.

    `remarks`: further text. `health`: the findings before and after the plan, if they are known
    already.
    """
    cluster, after = done.cluster, done.after()
    first = health_at(done.before, how, health[0])
    last = health_at(after, how, health[1], off=done.leaving, on=done.coming)
    leaving, coming = (cluster.node_names(sorted(some)) for some in (done.leaving, done.coming))
    how.deadline.spare(len(done.moves))
    changes = changes_of_moves(done.before, done.moves, how.deadline)
    return {
        "cluster": inventory(cluster),
        "remarks": [*remarks],
        "before": first,
        "after": last,
        "states": [nodes_at(done.before, "Before"), nodes_at(after, "After")],
        "leaving": leaving,
        "coming": coming,
        "moves": [
            {"steps": _steps(entry.move, cluster), "changes": change, "repairs": entry.repairs}
            for entry, change in zip(done.entries, changes, strict=True)
        ],
    }


def _steps(move: Move, cluster: Cluster) -> list[tuple[str, str]]:
    """Return the kind of each step of a move, as in the transition, and its target.

    The target is the name of a node; it is "" for a change of roles.
    """
    steps = []
    for step in chain(
        move.instance, Place(move.before, move.instance.uses_memory), move.steps, cluster
    ):
        assert step.move is not None
        kind, target = step.move
        steps.append((step.kind, "" if kind == DRBD_FAILOVER else cluster.nodes[target].name))
    return steps


def changes_of_moves(
    state: State, moves: Sequence[Move], deadline: Deadline
) -> list[Changes | None]:
    """Return for each move how it changes the statistics of the groups of its nodes.

    The moves are made one after the other on `state`, and undone at the end. Moves after the
    `deadline` have the result None. Cost: all nodes of the groups once, and then the nodes of each
    move.
    """
    if deadline.over():
        return [None] * len(moves)
    nodes = state.cluster.nodes
    groups = {nodes[index].group for move in moves for index in move.nodes}

    def terms_now(indices: Iterable[int]) -> list[float]:
        """Return each term of the score, summed over the groups of the nodes `indices`."""
        changes = []
        for group in {nodes[index].group for index in indices}:
            kernels[group].follow()
            changes.append(terms(kernels[group].totals, (), sqrt))
        return [sum(column) for column in zip(*changes)]

    changes: list[Changes | None] = []
    with state.trial():
        kernels = {group: kernel_of(state, group.nodes) for group in groups}
        for move in moves:
            if deadline.over():
                changes += [None] * (len(moves) - len(changes))
                break
            before = terms_now(move.nodes)
            move.apply(state)
            after = terms_now(move.nodes)
            changes.append([(s.name, new - old) for s, old, new in zip(STATISTICS, before, after)])
    return changes
