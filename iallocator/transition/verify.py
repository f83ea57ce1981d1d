"""Executing a transition on the model: no step may find too little room, in any order allowed."""

from __future__ import annotations

from bisect import insort

from iallocator.transition.execution import Execution
from iallocator.transition.resources import HARD, OWN_SPINDLES, describe_amount, room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.model.state import State
    from iallocator.transition.resources import Amounts
    from iallocator.transition.transition import ScheduledStep, Transition

__all__ = ["carried_out", "check", "in_other_orders", "linear", "side_by_side"]


def check(
    state: State,
    transition: Transition,
    rounds: int = 10,
    seed: int = 0,
    over: Callable[[], bool] = lambda: False,
) -> list[str]:
    """What is wrong with a transition that begins at `state`; an empty list if nothing is.

    It is executed in the order of its numbers and in `rounds` random orders that the
    waits allow, one step after the other and with steps that overlap; when the time is
    `over`, in no more than one.
    """
    problems = linear(state, transition.steps)
    problems += in_other_orders(state, transition, rounds, seed, over)
    return list(dict.fromkeys(problems))


def in_other_orders(
    state: State,
    transition: Transition,
    rounds: int,
    seed: int = 0,
    over: Callable[[], bool] = lambda: False,
    spindles: bool = True,
) -> list[str]:
    """What `check` finds wrong in random orders, often the same.

    `spindles`: whether the spindles of exclusive storage count, see `Execution`.
    """
    from random import Random

    rng = Random(seed)
    problems: list[str] = []
    for k in range(rounds):
        if k and over():
            break
        problems += linear(state, shuffled(transition, rng), spindles)
        names = HARD if spindles else [name for name in HARD if name != OWN_SPINDLES]
        problems += side_by_side(room(state, names), transition, rng)
    return problems


class _Waits:
    """Which steps of a transition may begin, by the steps that are done."""

    def __init__(self, transition: Transition) -> None:
        self._open = {step.number: len(set(step.after)) for step in transition.steps}
        self._followers: dict[int, list[int]] = {number: [] for number in self._open}
        for step in transition.steps:
            for number in set(step.after):
                self._followers[number].append(step.number)
        self.ready = sorted(number for number, count in self._open.items() if not count)

    def done(self, number: int) -> None:
        """A step has ended; `ready` stays sorted."""
        for follower in self._followers[number]:
            self._open[follower] -= 1
            if not self._open[follower]:
                insort(self.ready, follower)


def shuffled(transition: Transition, rng: object) -> list[ScheduledStep]:
    """The steps in a random order that the waits allow; `rng` is a `random.Random`."""
    waits, order = _Waits(transition), []
    by_number = {step.number: step for step in transition.steps}
    while waits.ready:
        chosen = waits.ready.pop(rng.randrange(len(waits.ready)))  # type: ignore[attr-defined]
        order.append(by_number[chosen])
        waits.done(chosen)
    return order


def side_by_side(left: Amounts, transition: Transition, rng: object) -> list[str]:
    """Execute with steps that overlap at random: what begins takes, what ends gives back.

    `left`: what every node has at first; it is changed.
    """
    problems: list[str] = []
    waits = _Waits(transition)
    by_number = {step.number: step for step in transition.steps}
    running: list[int] = []
    while waits.ready or running:
        which = rng.randrange(len(waits.ready) + len(running))  # type: ignore[attr-defined]
        if which < len(waits.ready):
            chosen = waits.ready.pop(which)
            running.append(chosen)
            problems += _taken(left, transition, by_number[chosen])
            continue
        chosen = running.pop(which - len(waits.ready))
        for key, less in by_number[chosen].action.frees.items():
            if key in left:
                left[key] += less
        waits.done(chosen)
    return problems


def _taken(left: Amounts, transition: Transition, step: ScheduledStep) -> Iterator[str]:
    """Take what a step needs from what is `left`; say what is lacking."""
    for key, more in step.action.takes.items():
        if key not in left:
            continue
        left[key] -= more
        if left[key] < 0:
            node = transition.cluster.nodes[key[0]].name
            lacking = describe_amount(key[1], -left[key])
            yield f"step {step.number}: {step.action.name} lacks {lacking} on {node}"


def linear(state: State, steps: Sequence[ScheduledStep], spindles: bool = True) -> list[str]:
    """Execute one step after the other; say where an instance, a node or a limit is against it.

    `state` is left as it is. `spindles`: see `Execution`.
    """
    with state.trial():
        return carried_out(Execution(state, spindles=spindles), steps)


def carried_out(execution: Execution, steps: Sequence[ScheduledStep]) -> list[str]:
    """Carry one step out after the other; say what is against each."""
    return [
        f"step {step.number}: {problem}"
        for step in steps
        for problem in execution.carry_out(step.action)
    ]
