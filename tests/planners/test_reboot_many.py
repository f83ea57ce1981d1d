"""Test `reboot` with many nodes: fewer plans, moves to the emptiest node, and no other limits."""

from __future__ import annotations

import json

import pytest

from benchmarks.clusters import Shape, document
from iallocator.planners.reboot import drain_plan
from tests.builders import Json, as_bytes
from tests.command import plan_of, run
from tests.conformance.documents import document as generated
from tests.schemas import conforms
from tests.seeds import seeds

KINDS = ("allocate", "relocate", "node-evacuate", "change-group")


def rebooted(plan: Json) -> int:
    """Return the number of nodes in the groups of the plan."""
    return sum(len(one["nodes"]) for one in plan["reboots"])


@pytest.mark.parametrize("template", ["rbd", "plain", "drbd"])
def test_many_nodes_are_planned_without_scores(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No score is computed, each node is rebooted, and the groups are few."""
    shape = Shape(drain_plan.MANY + 10, template, per_node=3)

    def scored(*_: object, **__: object) -> None:
        raise AssertionError("scores of all nodes")

    monkeypatch.setattr(drain_plan, "move_anywhere", scored)
    plan = plan_of("reboot", document(shape), "--force")
    assert rebooted(plan) == shape.nodes
    assert len(plan["reboots"]) <= (8 if template == "drbd" else 2)


@pytest.mark.parametrize("seed", seeds(24, 200, 3100))
@pytest.mark.parametrize("words", [(), ("--full-evacuation",), ("--n1=off",)])
def test_plan_for_many_nodes_keeps_all_limits(
    seed: int, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan passes its verification, and has all nodes, in groups or with a reason."""
    made = as_bytes(generated(seed, KINDS[seed % len(KINDS)]))
    plans = []
    for number in drain_plan.MANY, 0:
        monkeypatch.setattr(drain_plan, "MANY", number)
        done = run("reboot", "--force", "--json", "--verify-plan", *words, stdin=made)
        assert done.returncode in (0, 1), done.stderr
        plans.append(json.loads(done.stdout))
        conforms(plans[-1], "plan")
        assert b"not proper" not in done.stderr
    few, many = plans
    assert rebooted(many) + len(many["kept"]) == rebooted(few) + len(few["kept"])
    assert rebooted(many) >= rebooted(few)
