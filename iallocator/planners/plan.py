"""A plan as data: moves in order, with the score after each and the traffic they cause."""

from __future__ import annotations

from iallocator.deadline import Stopped, TimeIsUp
from iallocator.model.moves import apply_steps, places_after

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.moves import ElementaryMove
    from iallocator.model.state import State

__all__ = [
    "Plan", "PlannedMove", "ends_of_units", "mark_units", "note_broken", "replay", "traffic",
]  # fmt: skip


def traffic(instance: Instance, letters: Sequence[str]) -> int:
    """Return the MiB that travel between nodes: ``r`` copies the disks, a migration the memory.

    To fail over an instance that does not run copies nothing, and so does any move of a
    forthcoming instance, which has no disks yet.  To move an instance on local disks copies these.
    """
    if instance.forthcoming:
        return 0
    if not instance.kind.migrates:
        return instance.disk * len(letters)
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
        What the instance should rather not do there, for people; see `note_broken`.
    unit:
        The names of all that move together with it, itself among them, because they must be
        together; () if it moves alone.  Their moves are consecutive, and only after the
        last of them all musts hold.
    mends:
        Whether it is made for the sake of a must that is broken, whatever the score.
    """

    __slots__ = (
        "after", "before", "broken", "copied", "instance", "mends", "notation", "score", "steps",
        "unit",
    )  # fmt: skip

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
        self.unit: tuple[str, ...] = ()
        self.mends = False

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
        if self.broken:
            entry["broken"] = self.broken
        if self.unit:
            entry["unit"] = list(self.unit)
        return entry


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
    stop:
        What ended the planner early: a signal, or the deadline; None if nothing did.
    """

    __slots__ = ("before", "command", "moves", "reason", "stop")

    def __init__(self, command: str, before: float) -> None:
        self.command = command
        self.before = before
        self.moves: list[PlannedMove] = []
        self.reason = ""
        self.stop: Stopped | None = None

    @property
    def interrupted(self) -> bool:
        """Whether a person interrupted the planner."""
        return self.stop is not None and not isinstance(self.stop, TimeIsUp)

    def end(self, stop: Stopped) -> None:
        """The planner was interrupted: what was found until then is the plan."""
        self.stop, self.reason = stop, stop.reason

    def stop_at_best(self, stop: Stopped) -> None:
        """Keep what was found before an interruption: the moves up to the lowest score.

        What mends a must stays, and units stay whole.
        """
        self.end(stop)
        keep = max((k for k, m in enumerate(self.moves, start=1) if m.mends), default=0)
        ends = [k for k, last in enumerate(ends_of_units(self.moves), start=1) if last]
        scores = {k: self.moves[k - 1].score if k else self.before for k in (0, *ends) if k >= keep}
        if scores:
            del self.moves[min(scores, key=lambda k: (scores[k], -k)) :]

    @property
    def after(self) -> float:
        """The score after the last move."""
        return self.moves[-1].score if self.moves else self.before

    @property
    def mended(self) -> int:
        """How many moves are made to mend broken musts."""
        return sum(move.mends for move in self.moves)

    @property
    def copied(self) -> int:
        """MiB that travel between nodes if all moves are made."""
        return sum(move.copied for move in self.moves)


def mark_units(moves: Sequence[PlannedMove], units: Mapping[str, Sequence[str]]) -> None:
    """Tell moves of instances that must be together, see `units`, that they are one.

    Where others come between them, because they make the room, those belong to it.
    """
    last = {move.instance.name: position for position, move in enumerate(moves)}
    start = 0
    while start < len(moves):
        end = start + 1
        position = start
        while position < end:
            unit = units.get(moves[position].instance.name, ())
            end = max(end, 1 + max((last.get(name, 0) for name in unit), default=0))
            position += 1
        if end - start > 1:
            names = tuple(sorted(move.instance.name for move in moves[start:end]))
            for move in moves[start:end]:
                move.unit = names
        start = end


def ends_of_units(moves: Sequence[PlannedMove]) -> list[bool]:
    """Per move whether all musts hold after it: all but those within a unit."""
    ends = []
    seen: set[str] = set()
    for move, following in zip(moves, [*moves[1:], None]):
        seen.add(move.instance.name)
        inside = bool(move.unit) and seen != set(move.unit)
        if not inside or following is None or following.unit != move.unit:
            ends.append(True)
            seen = set()
        else:
            ends.append(False)
    return ends


def replay(state: State, moves: Sequence[PlannedMove]) -> None:
    """Carry out `moves` on `state`."""
    for move in moves:
        apply_steps(state, move.instance, move.steps)


def note_broken(state: State, moves: Iterable[PlannedMove], relations: Relations | None) -> None:
    """Tell every move which wishes its instance breaks after it, as the others are then.

    The moves begin at `state`, which is left as it is.
    """
    if relations is None:
        return
    rule_counts = relations.live(state)
    with state.trial():
        for move in moves:
            name = move.instance.name
            apply_steps(state, move.instance, move.steps)
            broken = relations.violated_soft(name, state.where[name][0], rule_counts.now())
            move.broken = [bond.text_with_price for bond in broken]
