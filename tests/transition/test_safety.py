"""Whatever order a transition allows, and whatever runs side by side, no limit is broken."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

import pytest

from iallocator.ganeti.jobs import transition_document
from iallocator.transition.assemble import plan_transition
from iallocator.transition.execution import check, linear, side_by_side
from iallocator.transition.resources import room
from iallocator.transition.transition import Transition
from tests.seeds import seeds

from .worlds import World, world

KINDS: tuple[dict[str, float], ...] = (
    {},
    {"drbd": 0.5},
    {"drbd": 1.0},
    {"tight": 0.95},
    {"large": True, "tight": 0.6},
)
SEEDS = seeds(10, 25)


def planned(one: World) -> Transition:
    """The transition of a generated world."""
    return plan_transition(one.state, one.wanted)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_any_order_is_safe(seed: int, options: dict[str, float]) -> None:
    """Random orders, one step after the other and overlapping, break no hard limit."""
    one = world(seed, **options)  # type: ignore[arg-type]
    assert check(one.state, planned(one), 5, seed) == []


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_steps_lead_to_what_is_wanted(seed: int, options: dict[str, float]) -> None:
    """What is not said to be left arrives; what is left stays."""
    one = world(seed, **options)  # type: ignore[arg-type]
    transition = planned(one)
    left = {name for name, _ in transition.left}
    where = dict(one.state.where)
    for step in transition.steps:
        assert step.action.after is not None
        where[step.action.name] = step.action.after.nodes
    for name, wanted in one.wanted.items():
        assert where[name] == (one.state.where[name] if name in left else wanted)


@pytest.mark.parametrize("seed", seeds(20, 60))
def test_shared_storage_leaves_nothing(seed: int) -> None:
    """Where instances may be stopped, memory alone never makes a wish impossible."""
    assert planned(world(seed, tight=0.95)).left == []


def overdrawn(one: World, transition: Transition, waits: Mapping[int, set[int]]) -> bool:
    """Whether some moment that `waits` allow overdraws a node: all moments are looked at."""
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


SMALL = [seed for seed in range(80) if len(planned(world(seed, tight=0.6)).steps) <= 8]
"""Worlds of which all moments can be looked at."""


@pytest.mark.parametrize("seed", SMALL)
def test_every_wait_for_room_is_needed(seed: int) -> None:
    """Of small transitions every moment is looked at: all are safe, and none is without a wait."""
    one = world(seed, tight=0.6)
    transition = planned(one)
    waits = {step.number: set(step.after) for step in transition.steps}
    assert not overdrawn(one, transition, waits)
    for step in transition.steps:
        for number, why in zip(step.after, step.because):
            if why.startswith("memory"):  # what is waited for in turn stays waited for
                rest = waits[step.number] - {number} | waits[number]
                assert overdrawn(one, transition, {**waits, step.number: rest})


def test_every_wait_is_needed_somewhere() -> None:
    """The test above is about something."""
    assert sum(planned(world(seed, tight=0.6)).waits for seed in SMALL) > 10


def test_check_finds_a_wait_that_is_missing() -> None:
    """Executing on the model notices if a needed wait is taken away."""
    for seed in range(20):
        one = world(seed, tight=0.95)
        transition = planned(one)
        for step in transition.steps:
            step.after = []
        if transition.waits == 0 and check(one.state, transition, 5):
            return
    raise AssertionError("nothing was found in any of the worlds")


def test_check_finds_a_wrong_order() -> None:
    """Steps carried out backwards are not where they begin, or find no room."""
    one = world(3, tight=0.95)
    transition = planned(one)
    assert linear(one.state, transition.steps[::-1])
    arrival = next(step.action for step in transition.steps if any(step.action.takes.values()))
    arrival.takes = dict.fromkeys(arrival.takes, 999)
    assert side_by_side(room(one.state), transition, Random(0))


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_same_input_gives_the_same_bytes(options: dict[str, float]) -> None:
    """Made twice, and from wishes in another order."""
    one, again = world(5, **options), world(5, **options)  # type: ignore[arg-type]
    again.wanted = dict(reversed(again.wanted.items()))
    assert json.dumps(transition_document(planned(one))) == json.dumps(
        transition_document(planned(again))
    )
