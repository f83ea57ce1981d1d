"""Executing a transition on the model: no step may find too little room, in any order allowed."""

from __future__ import annotations

from iallocator.transition.execution import Execution
from iallocator.transition.resources import describe_amount, room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.model.state import State
    from iallocator.transition.resources import Amounts
    from iallocator.transition.transition import ScheduledStep, Transition

__all__ = ["check", "linear", "side_by_side"]


def check(state: State, transition: Transition, rounds: int = 10, seed: int = 0) -> list[str]:
    """What is wrong with a transition that begins at `state`; an empty list if nothing is.

    It is executed in the order of its numbers and in `rounds` random orders that the
    waits allow, one step after the other and with steps that overlap.
    """
    from random import Random

    rng = Random(seed)
    problems = linear(state, transition.steps)
    for _ in range(rounds):
        problems += linear(state, shuffled(transition, rng))
        problems += side_by_side(room(state), transition, rng)
    return list(dict.fromkeys(problems))


def shuffled(transition: Transition, rng: object) -> list[ScheduledStep]:
    """The steps in a random order that the waits allow; `rng` is a `random.Random`."""
    waiting = {step.number: set(step.after) for step in transition.steps}
    by_number = {step.number: step for step in transition.steps}
    order = []
    while waiting:
        ready = sorted(number for number, after in waiting.items() if not after)
        chosen = rng.choice(ready)  # type: ignore[attr-defined]
        order.append(by_number[chosen])
        del waiting[chosen]
        for after in waiting.values():
            after.discard(chosen)
    return order


def side_by_side(left: Amounts, transition: Transition, rng: object) -> list[str]:
    """Execute with steps that overlap at random: what begins takes, what ends gives back.

    `left`: what every node has at first; it is changed.
    """
    problems = []
    waiting = {step.number: set(step.after) for step in transition.steps}
    by_number = {step.number: step for step in transition.steps}
    running: list[int] = []
    while waiting or running:
        ready = sorted(number for number, after in waiting.items() if not after)
        chosen = rng.choice([*ready, *running])  # type: ignore[attr-defined]
        action = by_number[chosen].action
        if chosen in waiting:
            del waiting[chosen]
            running.append(chosen)
            for key, more in action.takes.items():
                if key not in left:
                    continue
                left[key] -= more
                if left[key] < 0:
                    node = transition.cluster.nodes[key[0]].name
                    lacking = describe_amount(key[1], -left[key])
                    problems.append(f"step {chosen}: {action.name} lacks {lacking} on {node}")
            continue
        running.remove(chosen)
        for key, less in action.frees.items():
            if key in left:
                left[key] += less
        for after in waiting.values():
            after.discard(chosen)
    return problems


def linear(state: State, steps: Sequence[ScheduledStep]) -> list[str]:
    """Execute one step after the other; say where an instance, a node or a limit is against it.

    `state` is left as it is.
    """
    with state.trial():
        execution = Execution(state)
        return [
            f"step {step.number}: {problem}"
            for step in steps
            for problem in execution.carry_out(step.action)
        ]
