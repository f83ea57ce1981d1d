"""What each step waits for, told from what the steps take and give back alone."""

from __future__ import annotations

from collections.abc import Sequence

from iallocator.transition.dependencies import find_waits
from iallocator.transition.planner import reasons
from iallocator.transition.schedule import ScheduleResult
from iallocator.transition.step import FAILOVER, Step

from .worlds import machine, make_cluster

KEY = (0, "memory")


def step(takes: float = 0, frees: float = 0, after: Sequence[Step] = ()) -> Step:
    """One that takes and gives back so much memory on the first node, some after others."""
    made = Step(FAILOVER)
    made.takes = {KEY: takes} if takes else {}
    made.frees = {KEY: frees} if frees else {}
    made.needs = dict.fromkeys(after, "the step before")
    return made


def waits(steps: list[Step], room: float) -> list[dict[int, str]]:
    """What each of `steps` waits for; there is enough room for all."""
    found = find_waits(make_cluster(1, []), steps, {KEY: room})
    assert found.overdrawn == []
    return found.needs


def test_room_of_a_step_that_is_waited_for_anyway_counts_once() -> None:
    """What is lacking besides comes from another departure."""
    first, second = step(frees=5), step(frees=5)
    assert waits([first, second, step(takes=9, after=[first])], 0)[2] == {
        0: "the step before",
        1: "memory on node1",
    }


def test_arrival_where_too_much_is_in_use_waits_for_what_settles_it() -> None:
    """One departure is enough to settle it, and leaves room for who comes."""
    departures = [step(frees=1), step(frees=1), step(frees=6)]
    assert waits([*departures, step(takes=1)], -3)[3] == {2: "memory on node1"}


def test_arrival_where_too_much_is_in_use_cannot_spend_what_settles_it() -> None:
    """Of two departures, one settles it; what the other gives back is there to be taken."""
    assert waits([step(frees=3), step(frees=4), step(takes=4)], -3)[2] == {
        0: "memory on node1",
        1: "memory on node1",
    }


def test_room_is_handed_on_so_that_nobody_waits_without_need() -> None:
    """Who comes after both departures lives on the one that the other does not wait for."""
    first, second = step(frees=1), step(frees=1)
    both, one = step(takes=1, after=[first, second]), step(takes=1, after=[second])
    assert waits([first, second, both, one], 0)[3] == {1: "the step before"}


def test_reason_of_a_step_that_lacks_nothing_names_nobody_it_waits_for() -> None:
    """A search that ends before its turn came says so; it said "waits for , which ..."."""
    one = Step(FAILOVER, instance=machine("one", (0,), 5))
    found = ScheduleResult([], [one], {KEY: 5}, looks=0)
    told = reasons(make_cluster(1, []), found)
    assert told == {"one": "no order of steps was found in which its turn comes"}
