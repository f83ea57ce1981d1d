"""Test that answers to generated documents with tags violate no satisfied constraint."""

from __future__ import annotations

import json

import pytest

from iallocator.deadline import Deadline
from tests.command import respond
from tests.seeds import seeds

from .documents import tagged
from .plan_checks import problems
from .planners import run

REQUESTS = {
    "score": (),
    "pacemaker-balanced": ("--strategy=pacemaker-balanced",),
    "affinity": ("--strategy=affinity",),
    "inter-group": ("--inter-group=yes",),
    "--optimal": ("--optimal",),
}

ROOM = ("--target-resources=0.5", "--minimal-resources=0.2")

PLANNERS = [
    pytest.param(seeds(2, 12), ("balance",), id="balance"),
    pytest.param(seeds(2, 12), ("balance", "--max-length=3"), id="swap"),
    pytest.param(seeds(2, 12), ("balance", "--cost=20"), id="--cost"),
    pytest.param(seeds(2, 12), ("squeeze", *ROOM), id="squeeze"),
    pytest.param(seeds(2, 12), ("squeeze", "--optimal", *ROOM), id="squeeze --optimal"),
    pytest.param(
        seeds(2, 12),
        ("squeeze", "--all", "--exact-search=no", *ROOM),
        id="squeeze of all",
    ),
    pytest.param(seeds(8, 60, 30), ("redistribute",), id="redistribute"),
    pytest.param(seeds(8, 60, 30), ("redistribute", "--optimal"), id="redistribute --optimal"),
    pytest.param(seeds(20, 60), ("compress",), id="compress"),
    pytest.param(seeds(20, 60), ("compress", "--optimal"), id="compress --optimal"),
    pytest.param(seeds(10, 40), ("balance-groups",), id="balance-groups"),
    pytest.param(seeds(2, 12), ("place", "--strategy=pacemaker-balanced"), id="place"),
    pytest.param(seeds(2, 12), ("place", "--strategy=pacemaker-minimal"), id="place minimal"),
    pytest.param(
        seeds(2, 12), ("place", "--strategy=pacemaker-default", "--optimal"), id="place --optimal"
    ),
]
"""Command of each planner, and the documents for it."""


@pytest.mark.parametrize("options", REQUESTS.values(), ids=REQUESTS)
def test_request_on_tagged_documents_adds_no_violation(options: tuple[str, ...]) -> None:
    """No answer to a request violates a constraint that was satisfied before.

    Offline nodes, hard limits, tags and hard constraints are checked.
    """
    placed = 0
    for seed in seeds(14, 40):
        document = tagged(seed)
        response = respond(document, *options)
        assert problems(document, response) == [], seed
        placed += bool(response["success"])
    assert placed > 5


@pytest.mark.parametrize(("numbers", "command"), PLANNERS)
def test_plan_on_tagged_documents_adds_no_violation(
    numbers: range, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No plan violates a constraint that was satisfied before, or fails its verification."""
    moved = 0
    for seed in numbers:
        document = tagged(seed)
        if (
            "--all" in command
        ):  # slow otherwise; the number of looks at the clock decides when the time is up
            looks = iter([False] * 100)
            monkeypatch.setattr(Deadline, "over", lambda self, looks=looks: next(looks, True))
        options = ("--json", "--verify-plan", *command[1:])
        plan = json.loads(run(command[0], document, *options))
        on = plan.get("switched_nodes", ()) if plan.get("action") == "online" else ()
        powered = plan.get("power_on", on)
        assert problems(document, plan, powered) == [], seed
        moved += bool(plan["moves"])
    assert moved > 0
