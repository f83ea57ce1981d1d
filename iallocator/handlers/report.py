"""Moves of instances as results, jobs and entries of ``solutions``."""

from __future__ import annotations

from iallocator.reply import Reply
from iallocator.transition.opcodes import job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from iallocator.context import Context
    from iallocator.handlers.moving import Move, Outcome
    from iallocator.model.instance import Instance

__all__ = ["MoveReport", "move_entry"]


class MoveReport:
    """What came of a request that moves instances, collected one by one."""

    __slots__ = ("_context", "_failed", "_jobs", "_moved", "_solutions")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._moved: list[list[Any]] = []
        self._failed: list[list[str]] = []
        self._jobs: list[list[dict[str, Any]]] = []
        self._solutions: list[dict[str, Any]] = []

    def moved(self, instance: Instance, move: Move, entry: dict[str, Any]) -> None:
        """Count a move that the result asks for."""
        cluster = self._context.cluster
        names = cluster.node_names(move.nodes)
        group = cluster.nodes[move.nodes[0]].group.name
        self._moved.append([instance.name, group, names])
        like_hail = self._context.settings.like_hail
        self._jobs.append(job(cluster, instance, move.steps, like_hail))
        self._solutions.append(entry)

    def failed(self, instance: Instance, message: str, entry: dict[str, Any]) -> None:
        """Count an instance that stays where it is."""
        self._failed.append([instance.name, message])
        self._solutions.append(entry)

    def reply(self) -> Reply:
        """Everything as one reply, successful even if single instances failed."""
        info = (
            f"{len(self._failed)} instances failed to move and "
            f"{len(self._moved)} were moved successfully"
        )
        info += "".join(f"; {name}: {message}" for name, message in self._failed)
        return Reply(True, info, [self._moved, self._failed, self._jobs], self._solutions)


def move_entry(context: Context, instance: Instance, outcome: Outcome) -> dict[str, Any]:
    """One instance as an entry of ``solutions``: the best way to move it, and others."""
    entry: dict[str, Any] = {"instance": instance.name}
    if outcome.best is None:
        entry |= {"nodes": [], "reason": outcome.message}
    else:
        entry |= _described(context, outcome.best)
        if context.settings.top > 1:
            entry["alternatives"] = [_described(context, move) for move in outcome.moves]
    return entry | {"failures": dict(sorted(outcome.failures.items()))}


def _described(context: Context, move: Move) -> dict[str, Any]:
    cluster = context.cluster
    steps = [{"move": kind, "node": cluster.nodes[target].name} for kind, target in move.steps]
    return {
        "group": cluster.nodes[move.nodes[0]].group.name,
        "nodes": cluster.node_names(move.nodes),
        "score": round(move.score, 8),
        "moves": steps,
    }
