"""A plan as data: moves in order, with their scores and violated constraints.

`PlanEntry` holds a move with the attributes that only a plan needs: score, colocation group and
violated constraints.
"""

from __future__ import annotations

from iallocator.deadline import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.moves import Move
    from iallocator.model.state import State

__all__ = [
    "Plan", "PlanEntry", "ends_of_colocation_groups", "mark_colocation_groups", "note_broken",
]  # fmt: skip


class PlanEntry:
    """One move of a plan.

    Attributes
    ----------
    move:
        The move.
    score:
        The score of the balanced group or cluster after the move; lower is better.
    colocated:
        The names of all instances of its colocation group that move together, with its own
        name; () if the instance moves alone. The moves of these instances are consecutive. All
        hard constraints are satisfied only after the last of them.
    repairs:
        Whether the move is made to satisfy a violated hard constraint, even if the score rises.
    broken:
        The soft constraints that the instance violates after the move, in words; see `note_broken`.
    """

    __slots__ = ("broken", "colocated", "move", "repairs", "score")

    def __init__(
        self,
        move: Move,
        score: float = 0.0,
        colocated: tuple[str, ...] = (),
        repairs: bool = False,
    ) -> None:
        self.move = move
        self.score = score
        self.colocated = colocated
        self.repairs = repairs
        self.broken: list[str] = []

    def document(self, cluster: Cluster) -> dict[str, object]:
        """Return the entry as plain data, as defined in ``schemas/plan.schema.json``."""
        move = self.move
        result: dict[str, object] = {
            "instance": move.instance.name,
            "from": cluster.node_names(move.before),
            "to": cluster.node_names(move.after),
            "move": move.notation(cluster),
            "score": self.score,
            "copied_mib": move.copied,
        }
        if self.broken:
            result["broken"] = self.broken
        if self.colocated:
            result["unit"] = list(self.colocated)
        return result


class Plan:
    """The moves that a planner found.

    Attributes
    ----------
    command:
        The name of the planner.
    before, after:
        The scores before and after the plan; lower is better.
    entries:
        The moves in the order in which they must be made.
    reason:
        Why the plan has no more moves, in words.
    stop:
        What ended the planner early: a signal, or the deadline; None if nothing did.
    """

    __slots__ = ("before", "command", "entries", "reason", "stop")

    def __init__(self, command: str, before: float) -> None:
        self.command = command
        self.before = before
        self.entries: list[PlanEntry] = []
        self.reason = ""
        self.stop: Stopped | None = None

    @property
    def moves(self) -> list[Move]:
        """Return the moves alone, in order."""
        return [entry.move for entry in self.entries]

    @property
    def interrupted(self) -> bool:
        """Return whether a signal interrupted the planner."""
        return self.stop is not None and self.stop.interrupted

    def end(self, stop: Stopped) -> None:
        """Record that `stop` ended the planner; the moves found until then are the plan."""
        self.stop, self.reason = stop, stop.reason

    def stop_at_best(self, stop: Stopped) -> None:
        """Record that `stop` ended the planner, and keep the moves up to the lowest score.

        Moves that satisfy a violated hard constraint stay, and colocation groups stay whole.
        """
        self.end(stop)
        entries = self.entries
        keep = max((k for k, entry in enumerate(entries, start=1) if entry.repairs), default=0)
        ends = [k for k, last in enumerate(ends_of_colocation_groups(entries), start=1) if last]
        scores = {k: entries[k - 1].score if k else self.before for k in (0, *ends) if k >= keep}
        if scores:
            del entries[min(scores, key=lambda k: (scores[k], -k)) :]

    @property
    def after(self) -> float:
        """Return the score after the last move."""
        return self.entries[-1].score if self.entries else self.before

    @property
    def repaired(self) -> int:
        """Return the number of moves that satisfy violated hard constraints."""
        return sum(entry.repairs for entry in self.entries)

    @property
    def copied(self) -> int:
        """Return the amount that all moves copy between nodes, in MiB."""
        return sum(entry.move.copied for entry in self.entries)


def mark_colocation_groups(
    entries: Sequence[PlanEntry], groups: Mapping[str, Sequence[str]]
) -> None:
    """Record at the moves of a colocation group which instances move together.

    `groups`: name of an instance -> the names in its colocation group. Moves of other instances
    between them, which make room, count as members.
    """
    last = {entry.move.instance.name: position for position, entry in enumerate(entries)}
    start = 0
    while start < len(entries):
        end = start + 1
        position = start
        while position < end:
            group = groups.get(entries[position].move.instance.name, ())
            end = max(end, 1 + max((last.get(name, 0) for name in group), default=0))
            position += 1
        if end - start > 1:
            names = tuple(sorted(entry.move.instance.name for entry in entries[start:end]))
            for entry in entries[start:end]:
                entry.colocated = names
        start = end


def ends_of_colocation_groups(entries: Sequence[PlanEntry]) -> list[bool]:
    """Return for each move whether it is the last of its colocation group, or moves alone.

    All hard constraints are satisfied only after such moves.
    """
    ends = []
    seen: set[str] = set()
    for entry, following in zip(entries, [*entries[1:], None]):
        seen.add(entry.move.instance.name)
        inside = bool(entry.colocated) and seen != set(entry.colocated)
        if not inside or following is None or following.colocated != entry.colocated:
            ends.append(True)
            seen = set()
        else:
            ends.append(False)
    return ends


def note_broken(state: State, entries: Iterable[PlanEntry], relations: Relations | None) -> None:
    """Record at each move the soft constraints that its instance violates after it.

    The moves begin in `state`, which is not changed.
    """
    if relations is None:
        return
    rule_counts = relations.live(state)
    with state.trial():
        for entry in entries:
            name = entry.move.instance.name
            entry.move.apply(state)
            broken = relations.violated_soft(name, state.where[name][0], rule_counts.now())
            entry.broken = [constraint.text_with_penalty for constraint in broken]
