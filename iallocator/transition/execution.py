"""Execute transitions on the model: no step may lack capacity, in any order that is allowed.

`Execution` carries out one step after the other, and reports which limits each step breaks.
"""

from __future__ import annotations

from bisect import insort

from iallocator.constraints.table import MIGRATION_TAGS, NETWORKS
from iallocator.limits.node import FORCED_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.instance import primary_vector
from iallocator.model.node_view import NodeView, capacities
from iallocator.transition.resources import HARD, OWN_SPINDLES, describe_amount, room
from iallocator.transition.step import DRAIN, FAILOVER, FENCE, MIGRATE, OFFLINE, ONLINE, UNDRAIN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.transition.resources import Amounts, Place
    from iallocator.transition.step import Step
    from iallocator.transition.transition import ScheduledStep, Transition

__all__ = [
    "Execution",
    "carried_out",
    "check",
    "in_other_orders",
    "linear",
    "side_by_side",
    "view_of",
]


class Execution:
    """Carries steps out on `state`, which changes: do it in a trial.

    A step must begin where its instance is.  Every node with a new role must be online and
    not be left by the plan, within its hard limits, reach the storage pools, and be in a
    group with the networks; the old primary of a failover stays as the mirror whatever its
    condition.  What runs moves only where migration tags let it.

    `closed` are nodes to which nothing comes, though they are online; `opened` those that
    are powered on before the first step. With `spindles` False, the free spindles of exclusive
    storage limit no step: htools check them move by move, and count them in another way.
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
        """What is wrong with the step, which is made all the same where it can be."""
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
        """Count with the instance no more, wherever it is."""
        instance = self._held.get(name) or self._state.cluster.instance_named(name)
        where = self._state.where.get(name)
        if instance is not None and where is not None:
            self._state.remove(instance, where)

    def _move(self, step: Step, instance: Instance) -> Iterator[str]:
        state, after = self._state, step.after
        assert after is not None
        before = state.where.get(instance.name)
        if before != (step.before.nodes if step.before else None):
            yield "is not where the step begins"
            return
        yield from self._hindrance(step, instance)
        if before is not None:
            state.remove(self._held.get(instance.name, instance), before)
        arriving = self._held[instance.name] = _as(instance, after)
        starts = after.running and not (step.before and step.before.running)
        new = [
            (role, index)
            for role, index in enumerate(after.nodes)
            if (before or ())[role : role + 1] != (index,) or (starts and role == 0)
        ]  # the other roles it has already
        barred = {index: self._barred(arriving, index, before or ()) for _, index in new}
        empty = {index: view_of(state, index) for _, index in new}
        state.place(arriving, after.nodes)
        for role, index in new:
            here = index in (before or ())
            yield from self._unusable(index, role, here, starts)
            name = state.cluster.nodes[index].name
            if barred[index] and not (here and role == 1):  # nor the mirror left behind
                yield f"{name}: {barred[index]}"
            full = view_of(state, index)
            for check in checks_for(SECONDARY if role else PRIMARY, arriving, FORCED_LIMITS):
                if check.access or (here and check.local):
                    continue  # looked at before; its disks are there already
                if check.reason == "FailSpindles" and not self._spindles:
                    continue
                if check.fails(empty[index], full, arriving):
                    yield f"{name}: {check.numbers(empty[index], full, arriving)}"

    def _hindrance(self, step: Step, instance: Instance) -> Iterator[str]:
        """Why the instance cannot go from its old primary to the new one."""
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
        lacking = sorted(MIGRATION_TAGS.missing(self._state.cluster, source, target))
        if before.running and lacking:
            yield (
                f"{nodes[target].name} does not take what comes from {nodes[source].name}: "
                f"migration tag{'s' * (len(lacking) > 1)} {', '.join(lacking)}"
            )

    def _unusable(self, index: int, role: int, here: bool, starts: bool) -> Iterator[str]:
        """Why the node gets no new role, for its own condition."""
        node = self._state.cluster.nodes[index]
        if here and role == 1:
            return  # the mirror that a failover leaves behind
        usable = (node.online or index in self._opened) and index not in self._fenced
        if not usable and not (here and starts and index not in self._fenced):
            yield f"{node.name} is not online"
        elif index in self._closed and not here:
            yield f"{node.name} is to be left, nothing may come to it"

    def _barred(self, instance: Instance, index: int, before: tuple[int, ...]) -> str:
        """Return why access or networks keep an instance off that is on no node now; or ""."""
        state = self._state
        nodes, pools = state.cluster.nodes, state.pools
        closed = "" if pools is None else pools.obstacle(index, instance, index in before)
        if closed:
            return closed
        group = nodes[index].group
        left = {nodes[other].group.index for other in before}
        if group.index not in left and NETWORKS.missing(group, instance):
            missing = ", ".join(sorted(set(instance.networks) - group.networks))
            return f"group {group.name} is not connected to {missing}"
        return ""


def _as(instance: Instance, place: Place) -> Instance:
    """The instance as it is at `place`: running, or not."""
    if place.running == instance.uses_memory:
        return instance
    twin = instance.as_template(instance.template)
    twin.uses_memory = place.running
    twin.admin_state = "up" if place.running else "down"
    twin.as_primary = primary_vector(twin)
    return twin


def view_of(state: State, index: int, min_disk: float = 0.0) -> NodeView:
    """The node at `index` as checks see it; `min_disk` is the share of disk to keep free."""
    return NodeView.of(state, index, capacities(state.cluster.nodes[index], min_disk))


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
