"""Convert the moves of instances to the result, the jobs and the entries of ``solutions``."""

from __future__ import annotations

from iallocator.ganeti.opcodes import job
from iallocator.reply import Reply
from iallocator.tolerances import WRITTEN_DECIMALS
from iallocator.transition.requirements import demands_of
from iallocator.transition.resources import room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.placement.context import Context
    from iallocator.placement.results import MoveResult, ScoredMove
    from iallocator.transition.requirements import Demands
    from iallocator.transition.transition import Transition

__all__ = ["MoveReport", "move_entry", "starts_in_vain"]


def starts_in_vain(context: Context, moved: Sequence[Instance]) -> str:
    """Return the text for ``info`` on instances that start after one that cannot run; also warn."""
    nodes = context.cluster.nodes
    starting = [one for one in moved if one.running and nodes[one.nodes[0]].offline]
    unsupported = [f"{name} {why}" for name, why in context.affinity.unsupported(starting).items()]
    context.remarks += (f"Warning: {text}" for text in unsupported)
    return "".join(f"; {text}" for text in unsupported)


class MoveReport:
    """The reply to a request that moves instances, collected one instance at a time."""

    __slots__ = ("_context", "_failed", "_jobs", "_made", "_moved", "_solutions")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._moved: list[list[Any]] = []
        self._failed: list[list[str]] = []
        self._jobs: list[list[dict[str, Any]]] = []
        self._made: list[Move] = []
        self._solutions: list[dict[str, Any]] = []

    def moved(self, move: Move, entry: dict[str, Any]) -> None:
        """Add a move to the reply."""
        cluster, instance = self._context.cluster, move.instance
        names = cluster.node_names(move.after)
        group = cluster.nodes[move.after[0]].group.name
        self._moved.append([instance.name, group, names])
        migrates_stopped = self._context.settings.behaviour.migrates_stopped
        self._jobs.append(job(cluster, instance, move.steps, migrates_stopped))
        self._made.append(move)
        self._solutions.append(entry)

    def failed(
        self, instance: Instance, message: str, entry: dict[str, Any], more: str = ""
    ) -> None:
        """Record that `instance` is not moved because of `message`.

        `entry`: its entry of ``solutions``; `more`: a text that only people read.
        """
        message += more
        unkept = self._context.affinity.unsatisfiable(instance)
        message += f"; it {unkept}" if unkept and unkept not in message else ""
        self._failed.append([instance.name, message])
        self._solutions.append(entry)

    def reply(self, note: str = "") -> Reply:
        """Return the whole reply; it is successful even if some instances failed.

        `note` is added to ``info``.
        """
        transition = None
        if self._made and self._context.settings.behaviour.tells_transition:
            transition = self._transition()
        info = (
            f"{len(self._failed)} instances failed to move and "
            f"{len(self._moved)} were moved successfully"
        )
        info += "".join(f"; {name}: {message}" for name, message in self._failed) + note
        info += starts_in_vain(self._context, [move.instance for move in self._made])
        reply = Reply(True, info, [self._moved, self._failed, self._jobs], self._solutions)
        reply.transition = transition
        return reply

    def _transition(self) -> dict[str, Any]:
        """Return the transition of the moves; the jobs receive the dependencies of its steps."""
        from iallocator.ganeti.jobs import link_jobs, transition_document
        from iallocator.transition.assemble import transition_of_moves
        from iallocator.transition.schedule import arrange
        from iallocator.transition.separations import Separations

        cluster, state = self._context.cluster, self._context.state
        demands = demands_of(self._context.affinity.relations)
        with state.trial():
            for move in self._made:
                state.remove(move.instance, move.after)
                state.place(move.instance, move.before)
            left = room(state)
            ends = {move.instance.name: move.after for move in self._made}
            separations = Separations(state, ends, demands)
            if demands and any(move.instance.name in demands.stops.stuck for move in self._made):
                transition = self._around_stuck(demands)
                link_jobs(transition, self._jobs, [move.instance.name for move in self._made])
                return transition_document(transition)
        orders = demands.orders if demands else ()
        if orders:
            self._take(arrange(cluster, left, self._made, orders, separations).positions)
        transition = transition_of_moves(
            cluster, left, self._made, orders=orders, separations=separations
        )
        link_jobs(transition, self._jobs, [move.instance.name for move in self._made])
        return transition_document(transition)

    def _take(self, positions: Sequence[int]) -> None:
        """Keep only the moves at `positions` of the reply, in this order."""
        self._made[:] = [self._made[k] for k in positions]
        self._moved[:] = [self._moved[k] for k in positions]
        self._jobs[:] = [self._jobs[k] for k in positions]

    def _around_stuck(self, demands: Demands) -> Transition:
        """Return the transition if some instances cannot be stopped; moves that stop them fail."""
        from iallocator.transition.assemble import plan_transition

        wanted = {move.instance.name: move.after for move in self._made}
        transition = plan_transition(self._context.state, wanted, demands=demands)
        left = {name: why for name, why in transition.left if name in wanted}
        for entry in self._solutions:
            if entry["instance"] in left:
                why = left[entry["instance"]]
                self._failed.append([entry["instance"], why])
                entry |= {"nodes": [], "reason": why}
        last = {step.action.name: step.number for step in transition.steps}
        names = [move.instance.name for move in self._made]
        kept = [k for k, name in enumerate(names) if name not in left]
        self._take(sorted(kept, key=lambda k: last.get(names[k], 0)))
        return transition


def move_entry(context: Context, instance: Instance, outcome: MoveResult) -> dict[str, Any]:
    """Return the entry of ``solutions`` for one instance: its best move, and other moves."""
    if context.trace is not None:
        context.trace.decided(instance, outcome)
    entry: dict[str, Any] = {"instance": instance.name}
    if outcome.best is None:
        entry |= {"nodes": [], "reason": outcome.message}
    else:
        entry |= _described(context, outcome.scored[0])
        if outcome.others is not None:
            entry["secondaries"] = context.cluster.node_names(outcome.others)
        group = context.cluster.nodes[outcome.best.after[0]].group
        if context.settings_of(group).top > 1:
            entry["alternatives"] = [_described(context, scored) for scored in outcome.scored]
    return entry | {"failures": dict(sorted(outcome.failures.items()))}


def _described(context: Context, scored: ScoredMove) -> dict[str, Any]:
    cluster, move = context.cluster, scored.move
    steps = [{"move": kind, "node": cluster.nodes[target].name} for kind, target in move.steps]
    return {
        "group": cluster.nodes[move.after[0]].group.name,
        "nodes": cluster.node_names(move.after),
        "score": round(scored.score, WRITTEN_DECIMALS),
        **({"penalty": scored.penalty} if scored.penalty else {}),
        "moves": steps,
    } | scored.extra
