"""Executing a transition on the model: no step may find too little room, in any order allowed."""

from __future__ import annotations

from iallocator.limits.node import FORCED_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.instance import primary_vector
from iallocator.model.node_view import NodeView, capacities
from iallocator.transition.resources import room, told
from iallocator.transition.step import FENCE, MIGRATE, ONLINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.transition.resources import Amounts, Place
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
        task = by_number[chosen].task
        if chosen in waiting:
            del waiting[chosen]
            running.append(chosen)
            for key, more in task.takes.items():
                if key not in left:
                    continue
                left[key] -= more
                if left[key] < 0:
                    node = transition.cluster.nodes[key[0]].name
                    problems.append(
                        f"step {chosen}: {task.name} lacks {told(key[1], -left[key])} on {node}"
                    )
            continue
        running.remove(chosen)
        for key, less in task.frees.items():
            if key in left:
                left[key] += less
        for after in waiting.values():
            after.discard(chosen)
    return problems


def linear(state: State, steps: Sequence[ScheduledStep]) -> list[str]:
    """Execute one step after the other; say where an instance, a node or a limit is against it.

    `state` is left as it is.
    """
    problems: list[str] = []
    held: dict[str, Instance] = {}
    lifted: set[int] = set()
    fenced: set[int] = set()
    with state.trial():
        for step in steps:
            task = step.task
            if task.kind == ONLINE and task.node is not None:
                lifted.add(task.node)
            if task.kind == FENCE and task.node is not None:
                fenced.add(task.node)
            if task.instance is None:
                continue
            problems += (
                f"step {step.number}: {task.name}: {problem}"
                for problem in _execute(state, step, held, lifted, fenced)
            )
    return problems


def _execute(
    state: State,
    step: ScheduledStep,
    held: dict[str, Instance],
    lifted: set[int],
    fenced: set[int],
) -> Iterator[str]:
    task, nodes = step.task, state.cluster.nodes
    instance = task.instance
    assert instance is not None
    before = state.where.get(instance.name)
    if before != (task.before.nodes if task.before else None):
        yield "is not where the step begins"
        return
    if before is not None:
        present = held.get(instance.name, instance)
        if task.kind == MIGRATE and (not present.uses_memory or before[0] in fenced):
            yield "cannot be migrated, it does not run"
        state.remove(present, before)
    after = task.after
    assert after is not None
    arriving = _as(instance, after)
    held[instance.name] = arriving
    pools = state.pools
    for index in after.nodes if pools is not None else ():
        if pools is not None and pools.bars(index, arriving, index in (before or ())):
            yield f"{nodes[index].name}: {pools.why(index, arriving)}"
    empty = {index: _view(state, index) for index in after.nodes}
    state.place(arriving, after.nodes)
    present_nodes = before or ()
    for role, index in enumerate(after.nodes):
        starts = role == 0 and after.running and not (task.before and task.before.running)
        if present_nodes[role : role + 1] == (index,) and not starts:
            continue  # it has this role already
        node, was_here = nodes[index], index in present_nodes
        usable = node.online or index in lifted
        left_over = was_here and role == 1  # the mirror that a failover leaves behind
        if not left_over and (index in fenced or not (usable or (was_here and starts))):
            yield f"{node.name} is not online"
        full = _view(state, index)
        for one in checks_for(SECONDARY if role else PRIMARY, arriving, FORCED_LIMITS):
            if one.pools or (was_here and one.local):
                continue  # looked at before; its disks are there already
            if one.fails(empty[index], full, arriving):
                yield f"{node.name}: {one.numbers(empty[index], full, arriving)}"


def _as(instance: Instance, place: Place) -> Instance:
    """The instance as it is at `place`: running, or not."""
    if place.running == instance.uses_memory:
        return instance
    twin = instance.as_template(instance.template)
    twin.uses_memory = place.running
    twin.admin_state = "up" if place.running else "down"
    twin.as_primary = primary_vector(twin)
    return twin


def _view(state: State, index: int) -> NodeView:
    node = state.cluster.nodes[index]
    return NodeView(state.row(index), capacities(node), state.reserved[index])
