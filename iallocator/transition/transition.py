"""A transition: numbered steps, and what each waits for."""

from __future__ import annotations

from iallocator.transition.dependencies import find_waits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.transition.resources import Amounts
    from iallocator.transition.step import Step

__all__ = ["ScheduledStep", "Transition", "number"]


class ScheduledStep:
    """One step.

    Attributes
    ----------
    number:
        From 1 on; what it waits for has lower numbers.
    level:
        How many steps come one after the other up to it, at least 1.
    action:
        What is done.
    after:
        Numbers of the steps that it waits for, ascending.  What those wait for in turn
        is left out.
    because:
        Per number in `after`, why, for people.
    position:
        In the legal sequence from which the transition was made.
    """

    __slots__ = ("action", "after", "because", "level", "number", "position")

    def __init__(self, action: Step, position: int, level: int) -> None:
        self.action = action
        self.position = position
        self.level = level
        self.number = 0
        self.after: list[int] = []
        self.because: list[str] = []


class Transition:
    """Steps in the order of their numbers.

    Attributes
    ----------
    steps:
        What is to be done.
    left:
        (instance or node, why): what is wanted but cannot be done; it stays as it is.
    pairs:
        How many steps wait for how many others, directly or not: the less the better.
    remarks:
        What else is worth knowing: a wish of order that was not met, a way round.
    sequence:
        Of a transition made of moves: their positions, in an order in which they can be
        made one after the other.
    shares:
        (instance, index of a node): who comes there before those have left that it must not
        meet, because the moves, as they were judged, stand in that order; see `remarks`.
    """

    __slots__ = ("cluster", "left", "pairs", "remarks", "sequence", "shares", "steps")

    def __init__(self, cluster: Cluster, steps: Sequence[ScheduledStep]) -> None:
        self.cluster = cluster
        self.steps = list(steps)
        self.pairs = 0
        self.left: list[tuple[str, str]] = []
        self.remarks: list[str] = []
        self.sequence: list[int] = []
        self.shares: frozenset[tuple[str, int]] = frozenset()

    @property
    def waits(self) -> int:
        """How many waits there are."""
        return sum(len(step.after) for step in self.steps)

    @property
    def longest(self) -> int:
        """How many steps come one after the other in the longest chain."""
        return max((step.level for step in self.steps), default=0)


def number(cluster: Cluster, sequence: Sequence[Step], room: Amounts) -> Transition:
    """The transition of the steps in a legal `sequence`, given `room` at first.

    Steps are numbered by levels: those that wait for nothing come first; within a level
    as in the sequence.
    """
    found = find_waits(cluster, sequence, room)
    steps: list[ScheduledStep] = []
    for position, (action, needs) in enumerate(zip(sequence, found.needs)):
        level = 1 + max((steps[source].level for source in needs), default=0)
        steps.append(ScheduledStep(action, position, level))
    ordered = sorted(steps, key=lambda step: (step.level, step.position))
    for value, step in enumerate(ordered, start=1):
        step.number = value
    for step, needs in zip(steps, found.needs):
        by_number = sorted((steps[source].number, why) for source, why in needs.items())
        step.after = [value for value, _ in by_number]
        step.because = [why for _, why in by_number]
    transition = Transition(cluster, ordered)
    transition.pairs = sum(known.bit_count() for known in found.known)
    transition.remarks = [
        f"{sequence[k].name}: too little room for it at its moment, whatever is done before"
        for k in found.overdrawn
    ]
    return transition
