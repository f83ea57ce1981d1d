"""Execute transitions on the model: no step may lack capacity, in any order that is allowed.

`Execution` executes one step after the other, and reports the limits that each step violates.
"""

from __future__ import annotations

from bisect import insort

from iallocator.constraints.table import group_obstacle, move_words
from iallocator.limits.node import FORCED_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.instance import primary_vector
from iallocator.model.node_view import NodeView, capacities
from iallocator.transition.resources import (
    HARD_DIMENSIONS,
    OWN_SPINDLE_DIMENSION,
    describe_amount,
    room,
)
from iallocator.transition.step import DRAIN, FAILOVER, FENCE, MIGRATE, OFFLINE, ONLINE, UNDRAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.transition.resources import Amounts
    from iallocator.transition.step import Step
    from iallocator.transition.transition import ScheduledStep, Transition

__all__ = [
    "EXECUTION_ORDERS",
    "Execution",
    "carried_out",
    "check",
    "in_other_orders",
    "linear",
    "side_by_side",
    "view_of",
]

EXECUTION_ORDERS = 10
"""The number of other orders of the steps in which a transition is executed."""


class Execution:
    """Executes steps on `state`, which changes: the caller must use it in a trial.

    A step must begin where its instance is. Every node on which the instance gets a new role must
    be online, must not be emptied by the plan, must be within its hard limits, must have access to
    the storage pools of the instance, and must be in a group with its networks. The old primary of
    a failover becomes the secondary whatever its condition. Running instances move only if
    migration tags allow it.

    `closed` are online nodes that must receive no instance; `opened` are nodes that are powered on
    before the first step. If `spindles` is false, the free spindles of exclusive storage limit no
    step: htools check spindles for each move, and count them differently.
    """

    __slots__ = ("_closed", "_fenced", "_held", "_opened", "_spindles", "_state")

    def __init__(
        self,
        state: State,
        closed: Collection[int] = (),
        opened: Collection[int] = (),
        spindles: bool = True,
    ) -> None:
        self._spindles = spindles
        self._state = state
        self._closed = set(closed)
        self._opened = set(opened)
        self._fenced: set[int] = set()
        self._held: dict[str, Instance] = {}

    def carry_out(self, step: Step) -> list[str]:
        """Execute the step, and return its problems; an invalid step is executed if possible."""
        if step.instance is not None:
            return [f"{step.name}: {problem}" for problem in self._move(step, step.instance)]
        if step.node is not None:
            kind = step.kind
            node = step.node
            if kind in (ONLINE, UNDRAIN):
                self._opened.add(node)
                self._closed.discard(node)
            elif kind == FENCE:
                self._fenced.add(node)
            elif kind in (DRAIN, OFFLINE):
                self._closed.add(node)
        return []

    def take_out(self, name: str) -> None:
        """Remove the instance from the state, wherever it is."""
        instance = self._held.get(name) or self._state.cluster.instance_named(name)
        where = self._state.where.get(name)
        if instance is not None and where is not None:
            self._state.remove(instance, where)

    def _move(self, step: Step, instance: Instance) -> Iterator[str]:
        """Execute the step of an instance; yield the problems of the step."""
        state, after = self._state, step.after
        assert after is not None
        before = state.where.get(instance.name)
        if before != (step.before.nodes if step.before else None):
            yield "is not where the step begins"
            return
        yield from self._hindrance(step, instance)
        if before is not None:
            state.remove(self._held.get(instance.name, instance), before)
        arriving = instance
        if after.running != instance.uses_memory:  # a copy that runs, or does not, as `after` says
            arriving = instance.as_template(instance.template)
            arriving.uses_memory = after.running
            arriving.admin_state = "up" if after.running else "down"
            arriving.as_primary = primary_vector(arriving)
        self._held[instance.name] = arriving
        starts = after.running and not (step.before and step.before.running)
        new = [
            (role, index)
            for role, index in enumerate(after.nodes)
            if (before or ())[role : role + 1] != (index,) or (starts and role == 0)
        ]  # roles that it does not have yet
        barred = {index: self._barred(arriving, index, before or ()) for _, index in new}
        empty = {index: view_of(state, index) for _, index in new}
        state.place(arriving, after.nodes)
        for role, index in new:
            here = index in (before or ())
            node = state.cluster.nodes[index]
            name = node.name
            if not (here and role == 1):  # not the secondary that a failover leaves behind
                fenced = index in self._fenced
                usable = (node.online or index in self._opened) and not fenced
                if not usable and (fenced or not (here and starts)):
                    yield f"{name} is not online"
                elif index in self._closed and not here:
                    yield f"{name} is to be left, nothing may come to it"
                if barred[index]:
                    yield f"{name}: {barred[index]}"
            full = view_of(state, index)
            for check in checks_for(SECONDARY if role else PRIMARY, arriving, FORCED_LIMITS):
                if check.access or (here and check.local):
                    continue  # checked above; or its disks are there already
                if check.reason == "FailSpindles" and not self._spindles:
                    continue
                if check.fails(empty[index], full, arriving):
                    yield f"{name}: {check.numbers(empty[index], full, arriving)}"

    def _hindrance(self, step: Step, instance: Instance) -> Iterator[str]:
        """Yield the reasons why the instance cannot move from its old to its new primary node."""
        before, after = step.before, step.after
        if before is None or after is None or step.kind not in (MIGRATE, FAILOVER):
            return
        source, target = before.nodes[0], after.nodes[0]
        nodes = self._state.cluster.nodes
        if step.kind == MIGRATE:
            running = self._held.get(instance.name, instance).uses_memory
            if not running or source in self._fenced:
                yield "cannot be migrated, it does not run"
            elif nodes[source].offline and source not in self._opened:
                yield f"cannot be migrated, {nodes[source].name} is offline"
        rejected = move_words(self._state.cluster, source, target)
        if before.running and rejected:
            yield f"{nodes[target].name} {rejected}"

    def _barred(self, instance: Instance, index: int, before: tuple[int, ...]) -> str:
        """Return why access to storage or networks forbids `instance` on a node; "" if they do not.

        `index`: the node. `before`: the nodes of the instance before the step.
        """
        state = self._state
        nodes, access = state.cluster.nodes, state.access
        closed = "" if access is None else access.obstacle(index, instance, index in before)
        if closed:
            return closed
        group = nodes[index].group
        left = {nodes[other].group.index for other in before}
        if group.index in left:
            return ""
        return group_obstacle(state.cluster, group, instance)


def view_of(state: State, index: int, min_disk: float = 0.0) -> NodeView:
    """Return the data of node `index` for checks; `min_disk`: the share of disk to keep free."""
    return NodeView.of(state, index, capacities(state.cluster.nodes[index], min_disk))


def check(
    state: State,
    transition: Transition,
    rounds: int = EXECUTION_ORDERS,
    seed: int = 0,
    over: Callable[[], bool] = lambda: False,
) -> list[str]:
    """Return the problems of a transition that begins at `state`; an empty list if it is valid.

    The transition is executed in the order of its numbers, and in `rounds` random orders that its
    dependencies allow. In each random order, the steps are executed one after the other, and
    overlapping. When `over` returns true, no further order is tried.
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
    """Return the problems of a transition in `rounds` random orders of its steps.

    A problem that appears in several orders is listed several times. `over` returns whether the
    time is up; then no further order is tried. `spindles`: whether the free spindles of exclusive
    storage limit steps.
    """
    from random import Random

    rng = Random(seed)
    problems: list[str] = []
    for k in range(rounds):
        if k and over():
            break
        problems += linear(state, shuffled(transition, rng), spindles)
        names = (
            HARD_DIMENSIONS
            if spindles
            else [name for name in HARD_DIMENSIONS if name != OWN_SPINDLE_DIMENSION]
        )
        problems += side_by_side(room(state, names), transition, rng)
    return problems


class _Waits:
    """Tracks the steps of a transition that may begin, given the steps that are done."""

    def __init__(self, transition: Transition) -> None:
        self._open = {step.number: len(set(step.after)) for step in transition.steps}
        self._followers: dict[int, list[int]] = {number: [] for number in self._open}
        for step in transition.steps:
            for number in set(step.after):
                self._followers[number].append(step.number)
        self.ready = sorted(number for number, count in self._open.items() if not count)

    def done(self, number: int) -> None:
        """Record that a step has ended, and add the steps that may begin now to `ready`."""
        for follower in self._followers[number]:
            self._open[follower] -= 1
            if not self._open[follower]:
                insort(self.ready, follower)


def shuffled(transition: Transition, rng: object) -> list[ScheduledStep]:
    """Return the steps in a random legal order; `rng` is a `random.Random`."""
    waits, order = _Waits(transition), []
    by_number = {step.number: step for step in transition.steps}
    while waits.ready:
        chosen = waits.ready.pop(rng.randrange(len(waits.ready)))  # type: ignore[attr-defined]
        order.append(by_number[chosen])
        waits.done(chosen)
    return order


def side_by_side(left: Amounts, transition: Transition, rng: object) -> list[str]:
    """Execute steps that overlap at random; return the amounts that are lacking, as text.

    A step takes capacity at its beginning, and frees capacity at its end.

    `left`: the free amounts of every node before the transition; the function changes them.
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
            step = by_number[chosen]
            for key, more in step.action.takes.items():
                if key not in left:
                    continue
                left[key] -= more
                if left[key] < 0:
                    node = transition.cluster.nodes[key[0]].name
                    lacking = describe_amount(key[1], -left[key])
                    problems.append(
                        f"step {step.number}: {step.action.name} lacks {lacking} on {node}"
                    )
            continue
        chosen = running.pop(which - len(waits.ready))
        for key, less in by_number[chosen].action.frees.items():
            if key in left:
                left[key] += less
        waits.done(chosen)
    return problems


def linear(state: State, steps: Sequence[ScheduledStep], spindles: bool = True) -> list[str]:
    """Execute one step after the other, and undo the steps; return the problems.

    `spindles`: whether the free spindles of exclusive storage limit steps.
    """
    with state.trial():
        return carried_out(Execution(state, spindles=spindles), steps)


def carried_out(execution: Execution, steps: Sequence[ScheduledStep]) -> list[str]:
    """Execute one step after the other; return the problems, each with the number of its step."""
    return [
        f"step {step.number}: {problem}"
        for step in steps
        for problem in execution.carry_out(step.action)
    ]
