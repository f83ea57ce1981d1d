"""A transition: numbered steps, each with the steps on which it depends."""

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
    """One step of a transition.

    Attributes
    ----------
    number:
        The number of the step, from 1 on; the steps on which it depends have lower numbers.
    level:
        The length of the longest chain of dependent steps that ends with it, at least 1.
    action:
        The change that the step makes.
    after:
        Numbers of the steps on which it depends, ascending. Indirect dependencies are left out.
    because:
        For each number in `after`, the reason as text.
    position:
        The position of the step in the legal sequence from which the transition was made.
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
        The steps, in the order of their numbers.
    left:
        (instance or node, reason): requested changes that cannot be made.
    pairs:
        The number of pairs of steps of which one depends on the other, even indirectly; lower is
        better.
    remarks:
        Messages: orders that were dropped, temporary moves.
    sequence:
        For a transition made from moves: the positions of the moves, in an order in which they are
        legal one after the other.
    shares:
        (instance, index of a node): the instance arrives at the node before other instances have
        left from which it must be separate, because the verified moves have that order. `remarks`
        has a message about each.
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
        """Return the number of dependencies."""
        return sum(len(step.after) for step in self.steps)

    @property
    def longest(self) -> int:
        """Return the number of steps in the longest chain of dependent steps."""
        return max((step.level for step in self.steps), default=0)


def number(cluster: Cluster, sequence: Sequence[Step], room: Amounts) -> Transition:
    """Return the transition with the steps of a legal `sequence`.

    Steps are numbered by level: steps without dependencies first. Within a level, the order of the
    sequence is kept. `room`: the free amounts before the sequence.
    """
    waits = find_waits(cluster, sequence, room)
    steps: list[ScheduledStep] = []
    for position, (action, needs) in enumerate(zip(sequence, waits.needs)):
        level = 1 + max((steps[source].level for source in needs), default=0)
        steps.append(ScheduledStep(action, position, level))
    ordered = sorted(steps, key=lambda step: (step.level, step.position))
    for value, step in enumerate(ordered, start=1):
        step.number = value
    for step, needs in zip(steps, waits.needs):
        by_number = sorted((steps[source].number, why) for source, why in needs.items())
        step.after = [value for value, _ in by_number]
        step.because = [why for _, why in by_number]
    transition = Transition(cluster, ordered)
    transition.pairs = sum(known.bit_count() for known in waits.known)
    transition.remarks = [
        f"{sequence[k].name}: too little room for it at its moment, whatever is done before"
        for k in waits.overdrawn
    ]
    return transition
