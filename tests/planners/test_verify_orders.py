"""Test how many orders of steps the verifier tries, and how much work each step causes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from iallocator.cli import main
from iallocator.deadline import Deadline
from iallocator.transition import execution as verify
from tests import builders

LATE = "iallocator: time is up before all 10 other orders of the steps were tried"


def transition(count: int, chances: Random) -> SimpleNamespace:
    """Return a transition of `count` steps with random dependencies and no use of resources."""
    steps = [
        SimpleNamespace(
            number=number,
            after=[chances.randint(1, number - 1) for _ in range(number > 1 and 2)],
            action=SimpleNamespace(name="one", takes={}, frees={}),
        )
        for number in range(1, count + 1)
    ]
    return SimpleNamespace(steps=steps, cluster=None)


def test_random_order_of_steps_keeps_every_wait() -> None:
    """A random order has each step once, after its dependencies; seeds give different orders."""
    made = transition(60, Random(1))
    orders = set()
    for seed in range(5):
        order = [step.number for step in verify.shuffled(made, Random(seed))]  # type: ignore[arg-type]
        place = {number: k for k, number in enumerate(order)}
        assert sorted(order) == [step.number for step in made.steps]
        assert all(place[a] < place[step.number] for step in made.steps for a in step.after)
        orders.add(tuple(order))
    assert len(orders) == 5


@pytest.mark.parametrize("walk", ["shuffled", "side_by_side"])
def test_check_of_many_steps_executes_few_lines_for_each(walk: str) -> None:
    """The number of lines executed by the check of steps is proportional to their number."""
    lines = []
    for count in (150, 300):
        made, chances, seen = transition(count, Random(2)), Random(3), [0]

        def traced(frame: object, event: str, _: object, seen: list[int] = seen) -> Any:
            seen[0] += event == "line"
            return sys.gettrace()

        before = sys.gettrace()
        sys.settrace(cast(Any, traced))
        try:
            getattr(verify, walk)(*([] if walk == "shuffled" else [{}]), made, chances)
        finally:
            sys.settrace(before)
        lines.append(seen[0])
    assert lines[1] < 2.6 * lines[0]


class PassesAfterPlanning(Deadline):
    """A deadline that passes as soon as planning is done."""

    def over(self) -> bool:
        """Return whether the planning has ended, so that the deadline has passed."""
        return Deadline.current is not self


@pytest.mark.parametrize("late", [True, False])
def test_verify_plan_tries_one_other_order_once_time_is_up(
    late: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once time is up, the verifier tries one other order, and reports that on stderr.

    The plan is still printed.
    """
    tried = []
    plain = verify.shuffled

    def counted(*arguments: object) -> object:
        tried.append(1)
        return plain(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(verify, "shuffled", counted)
    if late:
        monkeypatch.setattr("iallocator.commands.verification.Deadline", PassesAfterPlanning)
    instances = {f"inst{k}": builders.rbd("node1") for k in range(4)}
    path = tmp_path / "cluster.json"
    path.write_bytes(builders.as_bytes(builders.cluster(3, instances=instances)))
    assert main(["balance", "--json", "--verify-plan", "--n1=off", str(path)]) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["moves"]
    assert len(tried) == (1 if late else 10)
    assert (LATE in output.err) == late
