"""Verify a plan: execute its moves, or its transition, on the state and check every limit.

The verifier shares no code with the search that found the plan.  `iallocator.transition.execution`
checks each step: nodes, hard limits, storage pools, networks and migration tags.  Soft limits and
hard constraints are checked after each move; for a colocation group, after its last move.  At the
end, `iallocator.planners.outcome` compares the final state with the initial one.

Overlapping steps are simulated from the numbers, nodes and dependencies of the steps alone. This
simulation finds meetings of separated instances, and starts that are too early.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain as chained

from iallocator.constraints.order_graph import circular
from iallocator.limits.node import ALL_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.constraints import ORDER, TOGETHER
from iallocator.model.tags import new_conflict
from iallocator.planners.outcome import Outcome
from iallocator.planners.plan import ends_of_colocation_groups
from iallocator.tags.affinity import constraint_between
from iallocator.transition.execution import (
    EXECUTION_ORDERS,
    Execution,
    carried_out,
    in_other_orders,
    view_of,
)
from iallocator.transition.paths import chain
from iallocator.transition.resources import Place
from iallocator.transition.step import CREATE, FAILOVER, FENCE, REPLACE_DISKS, START, STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from random import Random

    from iallocator.constraints.relations import Relations
    from iallocator.constraints.rule_violations import Pair
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.n1 import Failure
    from iallocator.planners.outcome import Failures
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.plan_limits import PlanLimits
    from iallocator.transition.step import Step
    from iallocator.transition.transition import ScheduledStep, Transition

__all__ = ["Problem", "lost_between", "verify_moves", "verify_transition"]

STUCK_WORDS = "cannot be stopped, and must not be stopped by force"


class Problem:
    """A limit or constraint that a plan violates.

    Attributes
    ----------
    noun, number:
        "move" or "step", and the number of the first move or step with the problem.
    text:
        The problem in words.
    group:
        The group with the wrong plan; None if that is not known.
    """

    __slots__ = ("group", "noun", "number", "text")

    def __init__(self, noun: str, number: int, text: str, group: Group | None = None) -> None:
        self.group = group
        self.noun = noun
        self.number = number
        self.text = text

    def __str__(self) -> str:
        return f"{self.noun} {self.number}: {self.text}"


def verify_moves(
    state: State,
    entries: Sequence[PlanEntry],
    limits: PlanLimits,
    failures: Failures | None = None,
) -> list[Problem]:
    """Return the problems of the moves of `entries`, made one after the other; [] if none.

    The moves begin at `state`, which is not changed.  `failures` keeps results of N+1 from one call
    to the next.  Cost: a few dozen checks per move, and one simulation of each failure of each
    group concerned.
    """
    problems: list[Problem] = []
    moves = [entry.move for entry in entries]
    touched = [(move.instance.name, (*move.before, *move.after)) for move in moves]
    outcome = Outcome(state, touched, limits, failures)
    with state.trial():
        execution = Execution(state, limits.power.off, limits.power.on)
        rule_counts = None if limits.relations is None else limits.relations.live(state)
        held: dict[str, int | None] = {}
        final = {move.instance.name: number for number, move in enumerate(moves, start=1)}
        first = {move.instance.name: state.where.get(move.instance.name) for move in moves}
        for number, (move, last) in enumerate(
            zip(moves, ends_of_colocation_groups(entries)), start=1
        ):
            home = limits.returns and move.after == first[move.instance.name]
            made = list(_made(state, execution, move, limits, home))
            problems += (Problem("move", number, text) for text in made)
            if state.where.get(move.instance.name) != move.after:
                return problems  # the next moves begin elsewhere
            held.setdefault(move.instance.name, move.before[0])
            if last and limits.relations is not None and rule_counts is not None:
                broken = limits.relations.newly_broken(held, state.where, rule_counts.now())
                texts = (
                    f"{name}: must be {constraint.text}"
                    for name, constraint in broken
                    if constraint.kind != TOGETHER or final.get(constraint.other, 0) <= number
                )  # a member that has not moved yet is checked after its own move
                problems += (Problem("move", number, text) for text in texts)
                held = {}
        ends = [*outcome.of_instances(state), *outcome.of_nodes(state)]
        nodes = state.cluster.nodes
        groups = {name: nodes[state.where[name][0]].group for name, _ in ends if name}
    problems += (
        Problem("move", final.get(name, len(moves)), text, groups.get(name)) for name, text in ends
    )
    problems += _losses(state, moves, outcome)
    for problem in problems:
        if problem.group is None and 0 < problem.number <= len(moves):
            problem.group = nodes[moves[problem.number - 1].before[0]].group
    distinct = {str(problem): problem for problem in problems}
    return sorted(distinct.values(), key=lambda one: one.number)


def _made(
    state: State, execution: Execution, move: Move, limits: PlanLimits, home: bool
) -> Iterator[str]:
    """Execute a move on the state; yield the limits that it violates.

    `home`: whether the instance returns to its first nodes; soft limits do not apply then.
    """
    instance, relations = move.instance, limits.relations
    if relations is not None and instance.name in relations.stuck:
        yield f"{instance.name}: {STUCK_WORDS}"
    start = Place(move.before, instance.uses_memory)
    for step in chain(instance, start, move.steps, state.cluster):
        yield from _uncopied(state, step, limits)
        yield from execution.carry_out(step)
    if state.where.get(instance.name) == move.after and not home:
        yield from (f"{instance.name}: {text}" for text in _soft(state, move, limits))


def _uncopied(state: State, step: Step, limits: PlanLimits) -> Iterator[str]:
    """Yield a problem if the step copies the disks of its instance from an offline primary."""
    if step.kind != REPLACE_DISKS or limits.settings.behaviour.copies_from_offline:
        return
    assert step.before is not None
    source = step.before.nodes[0]
    if state.cluster.nodes[source].offline and source not in (*limits.power.on, *limits.power.off):
        yield f"{step.name}: its disks cannot be copied, its primary is offline"


def _soft(state: State, move: Move, limits: PlanLimits) -> Iterator[str]:
    """Yield the soft limits that an instance violates on its new nodes, after the move.

    If the instance will return, soft limits do not apply on its former secondary, because no other
    node can take over the instance.
    """
    instance, before, after = move.instance, move.before, move.after
    if before == after or limits.forced(state, before, after[0]):
        return
    full = {index: view_of(state, index, limits.min_disk) for index in after}
    with state.trial():
        state.remove(instance, after)
        empty = {index: view_of(state, index, limits.min_disk) for index in after}
    for role, index in enumerate(after):
        here = index in before
        if before[role : role + 1] == (index,) or (here and role == 1):
            continue  # it had this role, or is the secondary that a failover leaves behind
        if here and limits.returns:
            continue
        for one in checks_for(SECONDARY if role else PRIMARY, instance, ALL_LIMITS):
            if one.forced or (here and one.local):
                continue  # hard limits are checked at each step; the disks were on this node before
            there = state.primaries[index].values()
            if one.reason == "FailTags" and limits.returns and not new_conflict(instance, there):
                continue  # it shares its exclusion tag with the same instances at home
            if one.fails(empty[index], full[index], instance):
                name = state.cluster.nodes[index].name
                yield f"{name}: {one.numbers(empty[index], full[index], instance)}"


def _losses(state: State, moves: Sequence[Move], outcome: Outcome) -> list[Problem]:
    """Return the failures that violate N+1 after all moves, each with the move that causes it.

    The cause is the first move after which the failure is not tolerated.
    """
    with state.trial():
        _carry(state, moves)
        lost = outcome.lost(state)
    if not lost:
        return []
    first: dict[Failure, int] = {}
    with state.trial():
        for number, move in enumerate(moves, start=1):
            _carry(state, [move])
            for failure in outcome.lost(state):
                if failure in lost:
                    first.setdefault(failure, number)
    # Without moves, nodes that are powered off break it
    return [Problem("move", first.get(failure, len(moves)), text) for failure, text in lost.items()]


def lost_between(
    state: State, moves: Sequence[Move], limits: PlanLimits, failures: Failures | None = None
) -> list[Problem]:
    """Return failures that are tolerated initially, but not between two steps of one move.

    During a move of several steps, ``f r:X f`` for example, the instance is on other nodes than
    before and after the move. `state` is the initial state, and is not changed. `failures` keeps
    results of N+1 from one call to the next.

    Cost: one check of the failures concerned for each step of such moves.
    """
    touched = [(move.instance.name, sorted(move.nodes)) for move in moves]
    outcome = Outcome(state, touched, limits, failures)
    problems: list[Problem] = []
    with state.trial():
        initial = outcome.lost(state).keys() if any(len(m.steps) > 1 for m in moves) else ()
        for number, move in enumerate(moves, start=1):
            instance = move.instance
            if len(move.steps) > 1 and state.where.get(instance.name) == move.before:
                place = Place(move.before, instance.uses_memory)
                for step in [*chain(instance, place, move.steps, state.cluster)][:-1]:
                    if step.after is None or step.after.nodes == state.where[instance.name]:
                        continue
                    state.remove(instance, state.where[instance.name])
                    state.place(instance, step.after.nodes)
                    problems += (
                        Problem("move", number, f"{text} during the move")
                        for failure, text in outcome.lost(state).items()
                        if failure not in initial
                    )
                state.remove(instance, state.where[instance.name])
                state.place(instance, move.before)
            _carry(state, [move])
    return list({str(one): one for one in problems}.values())


def _carry(state: State, moves: Sequence[Move]) -> None:
    for move in moves:
        if state.where.get(move.instance.name) == move.before:
            state.remove(move.instance, move.before)
            state.place(move.instance, move.after)


def verify_transition(
    state: State,
    transition: Transition,
    limits: PlanLimits,
    rounds: int = EXECUTION_ORDERS,
    over: Callable[[], bool] = lambda: False,
    failures: Failures | None = None,
) -> list[str]:
    """Return the problems of a transition that begins at `state`, in words; [] if none.

    The steps are executed in the order of their numbers, and in `rounds` random orders that the
    dependencies allow.  Anti-affinity constraints must be met in each order, and the final state
    must satisfy all limits.  `over` returns whether time is up; if it is, only one random order is
    executed. `failures` keeps results of N+1 from one call to the next.
    """
    steps = [step for step in transition.steps if step.action.instance is not None]
    # The nodes that a step changes for N+1: none if it only starts or stops an instance
    ends_of = ((_nodes(step.action.before), _nodes(step.action.after)) for step in steps)
    changed = [() if before == after else (*before, *after) for before, after in ends_of]
    moved = [(step.action.name, nodes) for step, nodes in zip(steps, changed)]
    outcome = Outcome(state, moved, limits, failures)
    spindles = not limits.settings.behaviour.counts_spindles_anywhere
    with state.trial():
        execution = Execution(state, spindles=spindles)
        problems = carried_out(execution, transition.steps)
        for name in limits.left_out:
            execution.take_out(name)
        ends = [text for _, text in outcome.of_instances(state)]
        ends += (text for _, text in outcome.of_nodes(state))
        ends += (text for _, text in outcome.soft(state))
        ends += outcome.lost(state).values()
    problems += in_other_orders(state, transition, rounds, over=over, spindles=spindles)
    problems = list(dict.fromkeys(problems))

    # Simulate the transition with as many steps at a time as the dependencies allow, and then in
    # random orders
    from random import Random

    overlaps, rng = _Overlaps(state, transition, limits), Random(0)
    wrong = list(overlaps.simulate(_events(transition, None)))
    for k in range(rounds):
        if k and over():
            break
        wrong += overlaps.simulate(_events(transition, rng))
    problems += dict.fromkeys(wrong)

    problems += (f"in the end: {text}" for text in ends)
    for step in steps:
        texts = _uncopied(state, step.action, limits)
        problems += (f"step {step.number}: {text}" for text in texts)
    if limits.relations is not None:
        problems += _stopped(state, transition.steps, limits.relations)
    return problems


def _nodes(place: Place | None) -> tuple[int, ...]:
    return place.nodes if place else ()


def _stopped(state: State, steps: Sequence[ScheduledStep], relations: Relations) -> Iterator[str]:
    """Yield a problem for each step that stops an instance which must keep running or is stuck.

    A stuck instance cannot be stopped: a step must not move it either, unless its node is fenced.
    """
    fenced: set[int | None] = set()
    for step in steps:
        action, instance = step.action, step.action.instance
        if action.kind == FENCE:
            fenced.add(action.node)
        place = action.before
        if instance is None or not (place is not None and place.running):
            continue
        if action.kind == STOP and instance.name in relations.keep_running:
            yield f"step {step.number}: {instance.name}: must keep running, and is stopped"
        home = _nodes(action.before)[0]
        leaves = action.after is None or action.after.nodes[0] != home or action.kind == STOP
        if instance.name in relations.stuck and leaves and home not in fenced:
            yield f"step {step.number}: {instance.name}: {STUCK_WORDS}"


def _events(transition: Transition, rng: Random | None) -> Iterator[tuple[int, bool]]:
    """Yield the begin and the end of each step, in an order that the dependencies allow.

    An event is the number of a step, and True for its begin or False for its end. With `rng`, the
    order is random. Without it, each step begins as early as possible.
    """
    waiting = {step.number: len(step.after) for step in transition.steps}
    followers: dict[int, list[int]] = {number: [] for number in waiting}
    for step in transition.steps:
        for number in step.after:
            followers[number].append(step.number)
    ready = [number for number, count in waiting.items() if not count]
    running: list[int] = []
    while ready or running:
        k = rng.randrange(len(ready) + len(running)) if rng else 0
        begins = k < len(ready)
        chosen = ready.pop(k) if begins else running.pop(k - len(ready))
        yield chosen, begins
        if begins:
            running.append(chosen)
            continue
        for number in followers[chosen]:
            waiting[number] -= 1
            if not waiting[number]:
                ready.append(number)


class _Overlaps:
    """The nodes on which each instance of a transition may run, while steps overlap."""

    def __init__(self, state: State, transition: Transition, limits: PlanLimits) -> None:
        self._state = state
        self._steps = {step.number: step.action for step in transition.steps}
        self._shares = transition.shares
        self._relations = limits.relations
        movers = {t.name: t.instance for t in self._steps.values() if t.instance is not None}
        idle = {name for name in limits.left_out if name not in movers}
        # primary nodes at first: of the moving instances, and of those that they must not meet
        self._tags = {name: one.exclusion for name, one in movers.items() if one.exclusion}
        others = {other.instance for name in movers for _, other, _ in self._separations(name)}
        tags = set(chained.from_iterable(self._tags.values()))
        self._first: dict[str, set[int]] = {}
        for index, here in enumerate(state.primaries):
            for name, one in here.items():
                relevant = name in movers or name in others or not tags.isdisjoint(one.exclusion)
                if relevant and name not in idle:
                    self._first[name] = {index}
                    self._tags[name] = one.exclusion
        last = {name: set(homes) for name, homes in self._first.items()}
        for number in sorted(self._steps):
            step = self._steps[number]
            if step.instance is not None:
                last[step.name] = _running(step.after, step.instance)
        self._most = self._tag_counts(self._first) | self._tag_counts(last)
        self._ends = (self._first, last)
        # Name -> the instances after which it must start, without circular orders
        self._predecessors: dict[str, list[str]] = {}
        relations = limits.relations
        if relations is not None:
            starts = {step.name for step in self._steps.values() if self._starts(step)}
            rules = [r for name in sorted(starts) for r in relations.of(name, ORDER) if r.must]
            orders = [(rule.other, rule.instance, rule.strength) for rule in rules]
            orders = [order for order in orders if order[0] in starts]
            in_cycles = {name for cycle in circular(orders) for name in cycle}
            for former, latter, _ in orders:
                if former not in in_cycles or latter not in in_cycles:
                    self._predecessors.setdefault(latter, []).append(former)

    def _tag_counts(self, homes: dict[str, set[int]]) -> Counter[tuple[int, str]]:
        """Return (node, exclusion tag) -> how many of `homes` with this tag may be on the node.

        `homes`: name of an instance -> the nodes on which it may be.
        """
        return Counter(
            (node, tag)
            for name, nodes in homes.items()
            for node in nodes
            for tag in self._tags.get(name, ())
        )

    def simulate(self, events: Iterable[tuple[int, bool]]) -> Iterator[str]:
        """Execute begins and ends of steps; yield the forbidden meetings and the early starts."""
        at = {name: set(homes) for name, homes in self._first.items()}
        present = self._tag_counts({n: self._unshared(n, homes) for n, homes in at.items()})
        pending = Counter(step.name for step in self._steps.values() if self._starts(step))
        for number, begins in events:
            step = self._steps[number]
            if step.instance is None:
                continue
            name = step.name
            if begins:
                if self._starts(step):
                    for former in self._predecessors.get(name, ()):
                        if pending[former]:
                            yield f"step {number}: {name} starts, and must start after {former}"
                new = _running(step.after, step.instance) - at.get(name, set())
                at[name] = at.get(name, set()) | new
                present.update(self._tag_counts({name: self._unshared(name, new)}))
                for node in new:
                    yield from self._meetings(number, step, node, at, present)
            else:
                left_nodes = at.get(name, set()) - _running(step.after, step.instance)
                present.subtract(self._tag_counts({name: self._unshared(name, left_nodes)}))
                at[name] = _running(step.after, step.instance)
                pending[name] -= self._starts(step)

    def _starts(self, step: Step) -> bool:
        """Return whether the instance runs after the step, but not before it."""
        if step.after is None or not step.after.running:
            return False
        nodes = self._state.cluster.nodes
        dead = step.before is not None and nodes[step.before.nodes[0]].offline
        return step.kind in (CREATE, START) or (step.kind == FAILOVER and dead)

    def _unshared(self, name: str, nodes: set[int]) -> set[int]:
        """Return those of `nodes` on which the instance `name` must not meet other instances."""
        return {node for node in nodes if (name, node) not in self._shares}

    def _meetings(
        self,
        number: int,
        step: Step,
        node: int,
        at: dict[str, set[int]],
        present: Counter[tuple[int, str]],
    ) -> Iterator[str]:
        """Yield the forbidden meetings of the instance of `step`, which may now run on `node`.

        `at`: name of an instance -> the nodes on which it may run. `present`: (node, exclusion tag)
        -> the number of instances that may be there, without those that the transition permits to
        meet others there.
        """
        if (step.name, node) in self._shares:  # then no meeting with it is forbidden there
            return
        where = self._state.cluster.nodes[node].name
        for tag in self._tags.get(step.name, ()):
            if present[node, tag] > max(1, self._most[node, tag]):
                text = f"{step.name} meets another with exclusion tag {tag} on {where}"
                yield f"step {number}: {text}"
        for pair in self._separations(step.name):
            other = pair[1].instance
            homes = {home for home in at.get(other, ()) if (other, home) not in self._shares}
            if not any(self._violates(pair, node, home) for home in homes):
                continue
            violated_at_an_end = any(
                self._violates(pair, one, home)
                for ends in self._ends
                for one in ends.get(pair[0].instance, ())
                for home in ends.get(other, ())
            )
            if not violated_at_an_end:
                text = constraint_between(*pair).text
                yield f"step {number}: {step.name}: must be {text}, and meets it on {where}"

    def _separations(self, name: str) -> Iterable[Pair]:
        """Return the hard anti-affinity constraints of an instance."""
        return () if self._relations is None else self._relations.hard_separations(name)

    def _violates(self, pair: Pair, node: int, home: int) -> bool:
        """Return whether `node` and `home` are in one failure domain of a separated pair."""
        assert self._relations is not None
        return self._relations.domains.zones(pair[2]).share(node, home)


def _running(place: Place | None, instance: Instance) -> set[int]:
    """Return the node on which an instance may run; none while it is stopped for a step."""
    if place is None or (instance.uses_memory and not place.running):
        return set()
    return {place.nodes[0]}
