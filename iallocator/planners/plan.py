"""A plan as data: moves in order, with the score after each and the traffic they cause."""

from __future__ import annotations

from iallocator.model.moves import apply_steps, places_after

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.model.state import State

__all__ = ["Plan", "PlannedMove", "replay", "traffic"]


def traffic(instance: Instance, letters: Sequence[str]) -> int:
    """MiB that travel between nodes: ``r`` copies the disks, a live migration the memory.

    A failover of an instance that does not run copies nothing.
    """
    memory = instance.memory if instance.running else 0
    return sum(instance.disk if letter == "r" else memory for letter in letters)


class PlannedMove:
    """One move of a plan.

    Attributes
    ----------
    before, after:
        The instance's nodes, primary first.
    steps:
        The elementary moves, in order.
    notation:
        The same as balancers write it: ``f r:node3 f``.
    score:
        Of the group or cluster that is balanced, after the move.
    copied:
        MiB that travel between nodes; see `traffic`.
    broken:
        What the instance should rather not do there, for people; see `plans.broken`.
    """

    __slots__ = ("after", "before", "broken", "copied", "instance", "notation", "score", "steps")

    def __init__(
        self,
        instance: Instance,
        before: tuple[int, ...],
        steps: Sequence[ElementaryMove],
        notation: str,
        score: float,
        copied: int,
    ) -> None:
        self.instance = instance
        self.before = before
        self.steps = tuple(steps)
        self.after = places_after(before, self.steps)
        self.notation = notation
        self.score = score
        self.copied = copied
        self.broken: list[str] = []

    @property
    def nodes(self) -> frozenset[int]:
        """All nodes that the move touches."""
        targets = [target for _, target in self.steps]
        return frozenset((*self.before, *targets))

    def document(self, cluster: Cluster) -> dict[str, object]:
        """As plain data; see ``schemas/plan.schema.json``."""
        entry: dict[str, object] = {
            "instance": self.instance.name,
            "from": cluster.node_names(self.before),
            "to": cluster.node_names(self.after),
            "move": self.notation,
            "score": self.score,
            "copied_mib": self.copied,
        }
        return entry | {"broken": self.broken} if self.broken else entry


class Plan:
    """What a planner found.

    Attributes
    ----------
    command:
        The planner.
    before, after:
        Scores, lower is better.
    moves:
        In the order in which they are to be made.
    reason:
        Why the plan ends where it ends, for people.
    interrupted:
        Whether someone interrupted the planner.
    """

    __slots__ = ("before", "command", "interrupted", "moves", "reason")

    def __init__(self, command: str, before: float) -> None:
        self.command = command
        self.before = before
        self.moves: list[PlannedMove] = []
        self.reason = ""
        self.interrupted = False

    def stop_at_best(self) -> None:
        """Keep what was found before an interruption: the moves up to the lowest score."""
        self.interrupted = True
        self.reason = "interrupted"
        while self.moves and self.after > min([self.before, *(m.score for m in self.moves)]):
            self.moves.pop()

    @property
    def after(self) -> float:
        """The score after the last move."""
        return self.moves[-1].score if self.moves else self.before

    @property
    def copied(self) -> int:
        """MiB that travel between nodes if all moves are made."""
        return sum(move.copied for move in self.moves)


def replay(state: State, moves: Sequence[PlannedMove]) -> None:
    """Carry out `moves` on `state`."""
    for move in moves:
        apply_steps(state, move.instance, move.steps)
