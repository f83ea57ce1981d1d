"""The verifier: executes a plan, or its transition, on the state and checks every limit.

It shares no code with the search that found the plan.  `iallocator.transition.execution` checks
each step: nodes, hard limits, storage pools, networks and migration tags.  After each move, or the
last move of a colocation group, soft limits and hard constraints are checked.  In the end,
`iallocator.planners.outcome` compares the state with the initial one.
"""

from __future__ import annotations

from iallocator.limits.node import ALL_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.model.constraints import TOGETHER
from iallocator.model.tags import new_conflict
from iallocator.planners.outcome import Outcome
from iallocator.planners.plan import ends_of_colocation_groups
from iallocator.planners.step_overlaps import overlap_problems
from iallocator.transition.execution import Execution, carried_out, in_other_orders, view_of
from iallocator.transition.paths import chain
from iallocator.transition.resources import Place
from iallocator.transition.step import FENCE, REPLACE_DISKS, STOP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Group
    from iallocator.model.moves import Move
    from iallocator.model.state import State
    from iallocator.n1 import Failure
    from iallocator.planners.outcome import Failures
    from iallocator.planners.plan import PlanEntry
    from iallocator.planners.plan_limits import PlanLimits
    from iallocator.transition.step import Step
    from iallocator.transition.transition import ScheduledStep, Transition

__all__ = ["Problem", "verify_moves", "verify_transition"]


STUCK = "cannot be stopped, and must not be stopped by force"


class Problem:
    """Something wrong with a plan.

    Attributes
    ----------
    noun, number:
        The kind and the number of the first move or step that is wrong.
    text:
        What is wrong.
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
    """Return what is wrong with the moves of `entries`, made one after the other; or [].

    They begin at `state`, which is left as it is.  `failures` keeps results of N+1 from one call to
    the next.  Cost: a few dozen checks per move, and one simulation of each failure of each group
    concerned.
    """
    problems: list[Problem] = []
    moves = [entry.move for entry in entries]
    touched = [(move.instance.name, (*move.before, *move.after)) for move in moves]
    outcome = Outcome(state, touched, limits, failures)
    with state.trial():
        execution = Execution(state, limits.leaving, limits.coming)
        rule_counts = None if limits.relations is None else limits.relations.live(state)
        held: dict[str, int | None] = {}
        final = {move.instance.name: number for number, move in enumerate(moves, start=1)}
        first = {move.instance.name: state.where.get(move.instance.name) for move in moves}
        for number, (move, last) in enumerate(
            zip(moves, ends_of_colocation_groups(entries)), start=1
        ):
            home = limits.returns and move.after == first[move.instance.name]
            found = list(_made(state, execution, move, limits, home))
            problems += (Problem("move", number, text) for text in found)
            if state.where.get(move.instance.name) != move.after:
                return problems  # the next moves begin elsewhere
            held.setdefault(move.instance.name, move.before[0])
            if last and limits.relations is not None and rule_counts is not None:
                broken = limits.relations.newly_broken(held, state.where, rule_counts.now())
                texts = (
                    f"{name}: must be {bond.text}"
                    for name, bond in broken
                    if bond.kind != TOGETHER or final.get(bond.other, 0) <= number
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
    """Carry out a move; yield what is wrong with it.

    `home`: whether the instance returns to its first node; soft limits do not apply then.
    """
    instance, relations = move.instance, limits.relations
    if relations is not None and instance.name in relations.stuck:
        yield f"{instance.name}: {STUCK}"
    start = Place(move.before, instance.uses_memory)
    for step in chain(instance, start, move.steps, state.cluster):
        yield from _uncopied(state, step, limits)
        yield from execution.carry_out(step)
    if state.where.get(instance.name) == move.after and not home:
        yield from (f"{instance.name}: {text}" for text in _soft(state, move, limits))


def _uncopied(state: State, step: Step, limits: PlanLimits) -> Iterator[str]:
    """Yield the instance if the step copies its disks from an offline primary."""
    if step.kind != REPLACE_DISKS or limits.settings.behaviour.copies_from_offline:
        return
    assert step.before is not None
    source = step.before.nodes[0]
    if state.cluster.nodes[source].offline and source not in (*limits.coming, *limits.leaving):
        yield f"{step.name}: its disks cannot be copied, its primary is offline"


def _soft(state: State, move: Move, limits: PlanLimits) -> Iterator[str]:
    """Yield the soft limits that an instance violates on its new nodes, after the move.

    If the instance will return, soft limits do not apply on its former secondary, which is the only
    node that can take it.
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
                continue  # checked at each step; its disks were there
            there = state.primaries[index].values()
            if one.reason == "FailTags" and limits.returns and not new_conflict(instance, there):
                continue  # it shares its exclusion tag with the same instances at home
            if one.fails(empty[index], full[index], instance):
                name = state.cluster.nodes[index].name
                yield f"{name}: {one.numbers(empty[index], full[index], instance)}"


def _losses(state: State, moves: Sequence[Move], outcome: Outcome) -> list[Problem]:
    """Return the failures that violate N+1 in the end, each with the first move that breaks it."""
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


def _carry(state: State, moves: Sequence[Move]) -> None:
    for move in moves:
        if state.where.get(move.instance.name) == move.before:
            state.remove(move.instance, move.before)
            state.place(move.instance, move.after)


def verify_transition(
    state: State,
    transition: Transition,
    limits: PlanLimits,
    rounds: int = 10,
    over: Callable[[], bool] = lambda: False,
    failures: Failures | None = None,
) -> list[str]:
    """Return what is wrong with a transition that begins at `state`; or [].

    The steps are executed in the order of their numbers, and in `rounds` random orders that the
    dependencies allow.  Anti-affinity must hold in each of them, and the final state must satisfy
    all limits.  `over` returns whether time is up; then only one random order is executed.
    `failures` keeps results of N+1 from one call to the next.
    """
    steps = [step for step in transition.steps if step.action.instance is not None]
    moved = [(step.action.name, _concerned(step.action)) for step in steps]
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
    problems += overlap_problems(state, transition, limits, rounds, over=over)
    problems += (f"in the end: {text}" for text in ends)
    for step in steps:
        texts = _uncopied(state, step.action, limits)
        problems += (f"step {step.number}: {text}" for text in texts)
    if limits.relations is not None:
        problems += _stopped(state, transition.steps, limits.relations)
    return problems


def _concerned(action: Step) -> tuple[int, ...]:
    """Return the nodes that a step changes for N+1: none if it only starts or stops an instance."""
    before, after = _nodes(action.before), _nodes(action.after)
    return () if before == after else (*before, *after)


def _nodes(place: Place | None) -> tuple[int, ...]:
    return place.nodes if place else ()


def _stopped(state: State, steps: Sequence[ScheduledStep], relations: Relations) -> Iterator[str]:
    """Yield the steps that stop an instance which must keep running, or move one that is stuck."""
    fenced: set[int | None] = set()
    for step in steps:
        action, instance = step.action, step.action.instance
        if action.kind == FENCE:
            fenced.add(action.node)
        if instance is None or not _runs(action.before):
            continue
        if action.kind == STOP and instance.name in relations.keep_running:
            yield f"step {step.number}: {instance.name}: must keep running, and is stopped"
        home = _nodes(action.before)[0]
        leaves = action.after is None or action.after.nodes[0] != home or action.kind == STOP
        if instance.name in relations.stuck and leaves and home not in fenced:
            yield f"step {step.number}: {instance.name}: {STUCK}"


def _runs(place: Place | None) -> bool:
    return place is not None and place.running
