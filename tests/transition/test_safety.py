"""Test that no order of steps overloads a node, and that each dependency is necessary."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from random import Random

import pytest

from benchmarks.pacemaker import Graph, Problem, available, measure, ours, pacemakers, problem
from iallocator.ganeti.jobs import transition_document
from iallocator.transition.assemble import plan_transition
from iallocator.transition.dependencies import find_waits
from iallocator.transition.execution import check, linear, side_by_side
from iallocator.transition.planner import reasons
from iallocator.transition.resources import room
from iallocator.transition.schedule import ScheduleResult
from iallocator.transition.step import FAILOVER, Step
from iallocator.transition.transition import Transition
from tests.seeds import seeds

from .scenarios import Scenario, machine, make_cluster, scenario

KINDS: tuple[dict[str, float], ...] = (
    {},
    {"drbd": 0.5},
    {"drbd": 1.0},
    {"tight": 0.95},
    {"large": True, "tight": 0.6},
)
SEEDS = seeds(10, 25)


def planned(one: Scenario) -> Transition:
    """Return the transition to the target placement of a generated case."""
    return plan_transition(one.state, one.wanted)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_order_is_safe(seed: int, options: dict[str, float]) -> None:
    """Random orders of steps, also overlapping ones, violate no hard limit."""
    one = scenario(seed, **options)  # type: ignore[arg-type]
    assert check(one.state, planned(one), 5, seed) == []


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_steps_lead_to_the_planned_placements(seed: int, options: dict[str, float]) -> None:
    """Each instance reaches its target, or is reported and stays."""
    one = scenario(seed, **options)  # type: ignore[arg-type]
    transition = planned(one)
    left = {name for name, _ in transition.left}
    where = dict(one.state.where)
    for step in transition.steps:
        assert step.action.after is not None
        where[step.action.name] = step.action.after.nodes
    for name, wanted in one.wanted.items():
        assert where[name] == (one.state.where[name] if name in left else wanted)


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_instance_on_shared_storage_leaves_no_disk_behind(seed: int) -> None:
    """If instances may be stopped, those on shared storage always reach their targets."""
    assert planned(scenario(seed, tight=0.95)).left == []


def overdrawn(one: Scenario, transition: Transition, waits: Mapping[int, set[int]]) -> bool:
    """Return whether a node is overloaded at some moment that the dependencies permit.

    `waits` has the dependencies.
    """
    tasks = {step.number: step.action for step in transition.steps}
    start = room(one.state)
    waiting: list[tuple[frozenset[int], frozenset[int]]] = [(frozenset(), frozenset())]
    seen = set(waiting)
    while waiting:
        begun, done = waiting.pop()
        left = dict(start)
        for number in begun:
            for key, more in tasks[number].takes.items():
                if key in left:
                    left[key] -= more
        for number in done:
            for key, less in tasks[number].frees.items():
                if key in left:
                    left[key] += less
        if min(left.values()) < 0:
            return True
        following = [(begun, done | {n}) for n in begun - done]
        following += [(begun | {n}, done) for n in tasks if n not in begun and waits[n] <= done]
        for moment in following:
            if moment not in seen:
                seen.add(moment)
                waiting.append(moment)
    return False


SMALL = [seed for seed in range(80) if len(planned(scenario(seed, tight=0.6)).steps) <= 8]
"""Seeds of cases with so few steps that all moments can be checked."""


@pytest.mark.parametrize("seed", SMALL)
def test_every_wait_for_capacity_is_needed(seed: int) -> None:
    """Without any one of its dependencies on capacity, a transition can overload a node."""
    one = scenario(seed, tight=0.6)
    transition = planned(one)
    waits = {step.number: set(step.after) for step in transition.steps}
    assert not overdrawn(one, transition, waits)
    for step in transition.steps:
        for number, why in zip(step.after, step.because):
            if why.startswith("memory"):  # indirect dependencies remain
                rest = waits[step.number] - {number} | waits[number]
                assert overdrawn(one, transition, {**waits, step.number: rest})


def test_every_wait_is_needed_somewhere() -> None:
    """Some cases have dependencies, so that the test of their necessity can fail."""
    assert sum(planned(scenario(seed, tight=0.6)).waits for seed in SMALL) > 10


def test_check_finds_a_missing_wait() -> None:
    """The check by execution finds a missing dependency."""
    for seed in range(20):
        one = scenario(seed, tight=0.95)
        transition = planned(one)
        for step in transition.steps:
            step.after = []
        if transition.waits == 0 and check(one.state, transition, 5):
            return
    raise AssertionError("nothing was found in any of the scenarios")


def test_check_finds_a_wrong_order() -> None:
    """The check by execution finds steps in reverse order."""
    one = scenario(3, tight=0.95)
    transition = planned(one)
    assert linear(one.state, transition.steps[::-1])
    arrival = next(step.action for step in transition.steps if any(step.action.takes.values()))
    arrival.takes = dict.fromkeys(arrival.takes, 999)
    assert side_by_side(room(one.state), transition, Random(0))


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_same_input_gives_the_same_bytes(options: dict[str, float]) -> None:
    """A transition is byte-equal if it is made again, from targets in another order."""
    one, again = scenario(5, **options), scenario(5, **options)  # type: ignore[arg-type]
    again.wanted = dict(reversed(again.wanted.items()))
    assert json.dumps(transition_document(planned(one))) == json.dumps(
        transition_document(planned(again))
    )


pytestmark = pytest.mark.skipif(not available(), reason="crm_simulate is not installed")


def test_fewer_waits_and_never_overfull() -> None:
    """The transition has fewer dependencies than Pacemaker's, and never overloads a node."""
    figures = measure(range(30))
    for _, theirs, mine in figures.values():
        assert mine.overfull == 0
        assert mine.waits < theirs.waits
    count, theirs, mine = figures["Pacemaker overfills no node"]
    assert count > 3
    assert mine.longest < theirs.longest
    assert figures["all"][1].overfull > 0


def test_pacemaker_ignores_amounts() -> None:
    """Pacemaker lets an arrival wait for a departure even if the node has enough capacity."""
    one = Problem(3, 12, {"comes": (1, 0, 1), "goes": (1, 1, 2)})
    assert pacemakers(one).ordered()["comes"] == {"goes"}
    assert ours(one).ordered()["comes"] == set()


def test_transition_of_pacemaker_overfills_nodes_in_a_cycle() -> None:
    """Pacemaker overloads a node if two instances swap nodes."""
    one = Problem(3, 12, {"a": (8, 0, 1), "b": (8, 1, 0)})
    assert _ever_overfull(one, pacemakers(one))
    assert not _ever_overfull(one, ours(one))


def test_overfull_intermediate_states_are_found() -> None:
    """The check for overloaded nodes finds an overload in a plan without dependencies."""
    one = problem(1)
    graph = ours(one)
    graph.waits = {action: set() for action in graph.waits}
    assert _ever_overfull(Problem(one.nodes, 7, one.machines), graph)


def _ever_overfull(one: Problem, graph: Graph) -> bool:
    rng = Random(0)
    return any(graph.overfull(one, rng) for _ in range(20))


KEY = (0, "memory")


def step(takes: float = 0, frees: float = 0, after: Sequence[Step] = ()) -> Step:
    """Return a step after `after` that uses `takes` MiB on the first node, and frees `frees`."""
    made = Step(FAILOVER)
    made.takes = {KEY: takes} if takes else {}
    made.frees = {KEY: frees} if frees else {}
    made.needs = dict.fromkeys(after, "the step before")
    return made


def waits(steps: list[Step], room: float) -> list[dict[int, str]]:
    """Return the dependencies of each step on a node with `room` MiB."""
    found = find_waits(make_cluster(1, []), steps, {KEY: room})
    assert found.overdrawn == []
    return found.needs


def test_capacity_released_by_a_step_that_is_waited_for_counts_once() -> None:
    """Capacity freed by a step that another step depends on is counted once."""
    first, second = step(frees=5), step(frees=5)
    assert waits([first, second, step(takes=9, after=[first])], 0)[2] == {
        0: "the step before",
        1: "memory on node1",
    }


def test_arrival_on_an_overcommitted_node_waits_for_the_release() -> None:
    """One departure resolves the overload of a node and leaves capacity for an arrival."""
    departures = [step(frees=1), step(frees=1), step(frees=6)]
    assert waits([*departures, step(takes=1)], -3)[3] == {2: "memory on node1"}


def test_arrival_on_an_overcommitted_node_cannot_use_that_release() -> None:
    """A departure that resolves an overload gives no capacity to an arrival."""
    assert waits([step(frees=3), step(frees=4), step(takes=4)], -3)[2] == {
        0: "memory on node1",
        1: "memory on node1",
    }


def test_released_capacity_is_assigned_without_needless_dependencies() -> None:
    """Freed capacity is assigned so that no step has a needless dependency."""
    first, second = step(frees=1), step(frees=1)
    both, one = step(takes=1, after=[first, second]), step(takes=1, after=[second])
    assert waits([first, second, both, one], 0)[3] == {1: "the step before"}


def test_reason_of_a_step_that_lacks_nothing_names_no_other_instance() -> None:
    """The reason of a step that lacks no capacity names no other instance."""
    one = Step(FAILOVER, instance=machine("one", (0,), 5))
    found = ScheduleResult([], [one], {KEY: 5}, looks=0)
    reported = reasons(make_cluster(1, []), found)
    assert reported == {"one": "no order of steps was found in which its turn comes"}
