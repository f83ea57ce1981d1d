"""Test the local search that planners share, on a list of numbers."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import pytest

from iallocator.deadline import TIME_IS_UP, Deadline
from iallocator.planners.search import (
    LOCAL_OPTIMUM,
    STALLED,
    Acceptance,
    LocalSearch,
    Neighbourhood,
    lower,
)

Objective = tuple[float, ...]


class Add:
    """A step that adds an amount to one number of the list."""

    def __init__(self, position: int, amount: int) -> None:
        self.position = position
        self.amount = amount

    def apply(self, state: list[int]) -> None:
        """Add the amount to the number."""
        state[self.position] += self.amount


class Less(Neighbourhood[list[int], Add]):
    """Neighbourhood with the step that lowers one number by 1, but not below 0."""

    def __init__(self, position: int, name: str = "") -> None:
        self.position = position
        self.name = name or f"less {position}"

    def best(
        self, state: list[int], objective: Objective, allows: Callable[[Add], bool]
    ) -> Add | None:
        """Return the step if the search permits it, else None."""
        step = Add(self.position, -1)
        return step if state[self.position] > 0 and allows(step) else None


class Exchange(Add):
    """Step that lowers the first number by 1 and raises the second one by 5."""

    def apply(self, state: list[int]) -> None:
        """Change both numbers of the list."""
        state[0] -= 1
        state[1] += 5


class Trade(Less):
    """Neighbourhood with the step that lowers the first number and raises the second one."""

    def best(
        self, state: list[int], objective: Objective, allows: Callable[[Add], bool]
    ) -> Add | None:
        """Return the step that changes both numbers if the search permits it, else None."""
        return Exchange(0, -1) if state[0] else None


def search(
    *moves: Neighbourhood[list[int], Add], deadline: Deadline | None = None, **options: object
) -> LocalSearch[list[int], Add]:
    """Return a local search for a list of low numbers; earlier numbers take precedence."""
    acceptance: Acceptance[Add] = Acceptance(**options)  # type: ignore[arg-type]
    return LocalSearch(moves, tuple, acceptance, deadline or Deadline(None))


def test_search_takes_steps_of_a_later_neighbourhood_only_without_earlier_ones() -> None:
    """The search uses a later neighbourhood only if earlier ones have no step.

    The search ends at a local optimum, and counts the steps by neighbourhood.
    """
    order: list[str] = []

    class Noted(Less):
        def best(
            self, state: list[int], objective: Objective, allows: Callable[[Add], bool]
        ) -> Add | None:
            found = super().best(state, objective, allows)
            order.extend([self.name] * (found is not None))
            return found

    state, work = [2, 3], search(Noted(1, "second"), Noted(0, "first"))
    assert work.run(state) == LOCAL_OPTIMUM
    assert state == [0, 0]
    assert work.steps == {"second": 3, "first": 2}
    assert order == ["second"] * 3 + ["first"] * 2


def test_search_lowers_an_earlier_number_though_a_later_one_rises() -> None:
    """The search takes a step that lowers an earlier number and raises a later one."""
    state = [3, 0]
    assert search(Trade(0)).run(state) == LOCAL_OPTIMUM
    assert state == [0, 15]


def test_search_ends_after_a_step_that_lowers_nothing() -> None:
    """The search ends with the reason STALLED after a step that lowers no objective."""

    class Worse(Less):
        def best(
            self, state: list[int], objective: Objective, allows: Callable[[Add], bool]
        ) -> Add | None:
            return Add(0, 1)

    state = [1]
    assert search(Worse(0)).run(state) == STALLED
    assert state == [2]


def test_search_ends_for_the_reason_of_the_acceptance() -> None:
    """The local search stops when its `ended` function returns a reason, and returns that."""
    state = [5]
    work = search(Less(0), ended=lambda: "enough" if state[0] <= 2 else "")
    assert (work.run(state), state) == ("enough", [2])


def test_search_passes_the_acceptance_to_neighbourhoods() -> None:
    """The local search takes no step that its `allows` function rejects."""
    state = [2, 2]
    work = search(Less(0), Less(1), allows=lambda step: step.position == 1)
    assert (work.run(state), state) == (LOCAL_OPTIMUM, [2, 0])


def test_search_after_its_deadline_takes_no_step() -> None:
    """The search takes no further step once its deadline has passed."""
    deadline = Mock(wraps=Deadline(None))
    deadline.over.side_effect = [False, True]
    state = [5]
    assert (search(Less(0), deadline=deadline).run(state), state) == (TIME_IS_UP, [4])


def test_lower_compares_infinite_numbers() -> None:
    """A finite objective is lower than an infinite one; two infinite ones are equal."""
    infinite = float("inf")
    assert lower((2.0, 5.0), (infinite, infinite))
    assert not lower((infinite, 5.0), (infinite, 5.0))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((1.0, 9.0), (2.0, 0.0), True),
        ((1.0, 9.0), (1.0, 0.0), False),
        ((1.0, 0.0), (1.0 + 1e-12, -1.0), False),
        ((1e6, 0.0), (1e6 + 1e-4, -1.0), False),
        ((1.0, 0.0), (1.0, 0.0), False),
    ],
)
def test_lower_ignores_differences_within_the_tolerance(
    one: Objective, other: Objective, expected: bool
) -> None:
    """Differences of objectives within the relative tolerance are ignored."""
    assert lower(one, other, 1e-9) is expected
