"""Test plans of several groups with one wrong part: the rest of the plan is kept.

Planners make no wrong plans. Each test makes the plan for a cluster that changes afterwards, or
lets the check of the steps reject every plan that moves a certain instance.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest

from iallocator import commands
from iallocator.model.instance import primary_vector
from iallocator.planners import verify
from iallocator.planners.intergroup.redistribute import Health, examine
from tests.builders import Json, as_bytes, cluster, rbd
from tests.command import moved, run
from tests.schemas import conforms

from .intergroup.scenarios import by_group, on_shared

Patch = pytest.MonkeyPatch
Spoil = Callable[[Any], object]

PLANNERS = {
    "balance": "iallocator.planners.balance.balance.balance_cluster",
    "squeeze": "iallocator.planners.squeeze.squeeze.squeeze_cluster",
    "reboot": "iallocator.planners.reboot.reboot.plan_reboots",
    "redistribute": "iallocator.planners.intergroup.redistribute.redistribute",
}
HUGE = 100000


def _replace(patch: Patch, where: str, replacement: Callable[..., Any]) -> None:
    """Replace a function by `replacement`, in all modules that import it."""
    for found in walk_packages(commands.__path__, "iallocator.commands."):
        import_module(found.name)  # a later import would keep the replacement
    module, _, name = where.rpartition(".")
    original = getattr(__import__(module, fromlist=[name]), name)
    for one in [one for key, one in sys.modules.items() if key.startswith("iallocator")]:
        if getattr(one, name, None) is original:
            patch.setattr(one, name, replacement)


def _afterwards(patch: Patch, command: str, spoil: Spoil) -> None:
    """Let `spoil` change the data after the planner of `command` has made its plan."""
    module, _, name = PLANNERS[command].rpartition(".")
    plan = getattr(__import__(module, fromlist=[name]), name)

    def planned(*arguments: Any, **options: Any) -> Any:
        done = plan(*arguments, **options)
        spoil(done)
        return done

    _replace(patch, PLANNERS[command], planned)


def _grows(name: str) -> Spoil:
    """Return a function that makes instance `name` larger than every node."""

    def spoil(done: Any) -> None:
        one = done.cluster.instance_named(name)
        one.memory = HUGE
        one.as_primary = primary_vector(one)

    return spoil


def _reject_steps(patch: Patch, *rejected: str) -> None:
    """Let the check of steps reject each plan that moves all instances of `rejected`."""
    check = verify.verify_transition

    def checked(state: Any, transition: Any, *arguments: Any) -> list[str]:
        moved = {step.action.name for step in transition.steps if step.action.instance}
        if moved.issuperset(rejected):
            return [f"step 1: {rejected[0]}: wrong on purpose"]
        return check(state, transition, *arguments)

    _replace(patch, "iallocator.planners.verify.verify_transition", checked)


def _plan(document: Json, command: str, *options: str) -> tuple[Json, str]:
    """Return the plan, of which a part is rejected as wrong, and stderr."""
    done = run(command, "--json", "--verify-plan", *options, stdin=as_bytes(document))
    assert done.returncode == 1, done.stderr
    plan: Json = json.loads(done.stdout)
    conforms(plan, "plan")
    return plan, done.stderr.decode()


def _two_uneven_groups() -> Json:
    """Return two groups with two instances on the first node of each."""
    held = {f"{group}{k}": rbd(node, memory=2048)
            for group, node in (("east", "node1"), ("west", "node3")) for k in (1, 2)}  # fmt: skip
    return cluster({"east": 2, "west": 2}, instances=held)


def _two_broken_groups() -> Json:
    """Return two groups with an offline node each, and a third group with capacity for both."""
    held = {"a": on_shared("node1"), "b": on_shared("node3"), "c": on_shared("node3")}
    broken = {"node1": {"offline": True}, "node3": {"offline": True}}
    return cluster({"east": 2, "west": 2, "south": 3}, instances=held, changes=broken)


def _two_turns() -> Json:
    """Return nodes of which only the last has free capacity, so that `reboot` needs two rounds."""
    held = {f"i{k}": rbd(f"node{k}", memory=3000) for k in (1, 2)}
    return cluster(3, memory=4096, instances=held)


BALANCE = ("--all-groups", "--n1=off")


def test_balance_cuts_the_plan_of_the_wrong_group_only(monkeypatch: Patch) -> None:
    """If the plan of the second group is wrong, `balance` cuts it and keeps that of the first."""
    document = _two_uneven_groups()
    plan = json.loads(run("balance", "--json", *BALANCE, stdin=as_bytes(document)).stdout)
    first, second = moved(plan)
    assert (first[:4], second[:4]) == ("east", "west")
    _afterwards(monkeypatch, "balance", _grows(second))
    plan, reported = _plan(document, "balance", *BALANCE)
    assert moved(plan) == [first]
    assert "breaks a limit" in by_group(plan)["west"]["reason"]
    assert "breaks a limit" not in by_group(plan)["east"]["reason"]
    assert "left out: the moves of group west from move 2 on" in reported


def test_balance_cuts_the_first_of_two_groups(monkeypatch: Patch) -> None:
    """If the plan of the first group is wrong, `balance` cuts it and keeps that of the second."""
    document = _two_uneven_groups()
    plan = json.loads(run("balance", "--json", *BALANCE, stdin=as_bytes(document)).stdout)
    first, second = moved(plan)
    _afterwards(monkeypatch, "balance", _grows(first))
    plan, reported = _plan(document, "balance", *BALANCE)
    assert moved(plan) == [second]
    assert "left out: the moves of group east from move 1 on" in reported


def test_balance_leaves_out_a_group_with_wrong_steps(monkeypatch: Patch) -> None:
    """If the steps of one group are wrong, `balance` leaves that group out."""
    document = _two_uneven_groups()
    plan = json.loads(run("balance", "--json", *BALANCE, stdin=as_bytes(document)).stdout)
    first, second = moved(plan)
    _reject_steps(monkeypatch, first)
    plan, reported = _plan(document, "balance", *BALANCE)
    assert moved(plan) == [second]
    assert "wrong on purpose" in by_group(plan)["east"]["reason"]
    assert "left out: the plan of group east" in reported


def test_balance_leaves_out_the_last_group_if_only_both_together_are_wrong(
    monkeypatch: Patch,
) -> None:
    """If only the steps of both groups together are wrong, `balance` keeps the first group."""
    document = _two_uneven_groups()
    plan = json.loads(run("balance", "--json", *BALANCE, stdin=as_bytes(document)).stdout)
    first, second = moved(plan)
    _reject_steps(monkeypatch, first, second)
    plan, reported = _plan(document, "balance", *BALANCE)
    assert moved(plan) == [first]
    assert "left out: the plan of group west" in reported


def test_balance_of_one_group_with_wrong_steps_is_rejected(monkeypatch: Patch) -> None:
    """If the steps of its only group are wrong, `balance` rejects the plan."""
    held = {f"i{k}": rbd("node1", memory=2048) for k in (1, 2)}
    document = cluster(2, instances=held)
    plan = json.loads(run("balance", "--json", *BALANCE, stdin=as_bytes(document)).stdout)
    _reject_steps(monkeypatch, *moved(plan))
    done = run("balance", "--json", *BALANCE, stdin=as_bytes(document))
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"wrong on purpose" in done.stderr


SQUEEZE = ("--n1=off", "--target-resources=0.1", "--minimal-resources=0", "--master-node=node1")


def test_squeeze_leaves_out_the_group_that_misses_its_reserve(monkeypatch: Patch) -> None:
    """`squeeze` leaves out the group in which a node would lack the reserve."""

    class Short:
        def missing(self, state: Any, nodes: Any) -> dict[int, str]:
            return {nodes[0]: "lacks the reserve"}

    def spoil(done: Any) -> None:
        done.reserves[done.cluster.nodes[0].group.index] = Short()

    document = _two_uneven_groups()
    _afterwards(monkeypatch, "squeeze", spoil)
    plan, reported = _plan(document, "squeeze", *SQUEEZE)
    assert plan["switched_nodes"] == ["node4"]
    (kept,) = (one["reason"] for one in plan["kept"] if one["node"] == "node2")
    assert kept == "node1 lacks the reserve"
    assert "left out: the plan of group east" in reported


def test_redistribute_leaves_out_a_group_with_wrong_moves(monkeypatch: Patch) -> None:
    """`redistribute` leaves out the repair of a group with wrong moves, and keeps others."""
    for wrong, left, after in (("c", ["a"], 2), ("a", ["b", "c"], 1)):
        with monkeypatch.context() as patch:
            _afterwards(patch, "redistribute", _grows(wrong))
            plan, reported = _plan(_two_broken_groups(), "redistribute", "--n1=off")
        bad = "east" if wrong == "a" else "west"
        assert sorted(moved(plan)) == left
        repaired = {name for name, one in by_group(plan).items() if one["repaired"]}
        assert repaired == {"east", "west"} - {bad}
        row = by_group(plan)[bad]
        assert row["verdict"] == "undecided"
        assert "breaks a limit" in row["reason"]
        assert f"left out: the repair of group {bad}" in reported
        assert plan["objective"] == {"before": 3, "after": after}
        assert plan["reason"] == "1 of 2 unhealthy groups cannot be repaired"


def test_redistribute_leaves_out_a_group_with_wrong_steps(monkeypatch: Patch) -> None:
    """`redistribute` leaves out the repair of a group with wrong steps, and keeps others."""
    _reject_steps(monkeypatch, "a")
    plan, reported = _plan(_two_broken_groups(), "redistribute", "--n1=off")
    assert sorted(moved(plan)) == ["b", "c"]
    assert "left out: the repair of group east" in reported


def test_redistribute_leaves_out_the_group_that_is_not_repaired(monkeypatch: Patch) -> None:
    """`redistribute` does not report a group as repaired that is not healthy at the end."""

    def spoil(done: Any) -> None:
        group, entries = done.repairs[-1]
        done.repairs[-1] = (group, entries[:-1])
        del done.plan.entries[-1]

    _afterwards(monkeypatch, "redistribute", spoil)
    plan, reported = _plan(_two_broken_groups(), "redistribute", "--n1=off")
    assert moved(plan) == ["a"]
    assert "group west is not healthy at the end" in by_group(plan)["west"]["reason"]
    assert "left out: the repair of group west" in reported


def test_reboot_leaves_out_nodes_with_wrong_moves(monkeypatch: Patch) -> None:
    """`reboot` leaves out the nodes of a round with wrong moves, with the reason."""
    document = _two_turns()
    _afterwards(monkeypatch, "reboot", _grows("i1"))
    plan, reported = _plan(document, "reboot", "--force", "--n1=off")
    rebooted = [name for one in plan["reboots"] for name in one["nodes"]]
    assert "node1" not in rebooted
    assert "node2" in rebooted
    assert set(moved(plan)) == {"i2"}
    (kept,) = (one["reason"] for one in plan["kept"] if one["node"] == "node1")
    assert "breaks a limit" in kept
    assert "left out: the reboot of node1" in reported


def test_reboot_leaves_out_nodes_with_wrong_steps(monkeypatch: Patch) -> None:
    """`reboot` leaves out the nodes of a round with wrong steps, and keeps the others."""
    _reject_steps(monkeypatch, "i2")
    plan, reported = _plan(_two_turns(), "reboot", "--force", "--n1=off")
    rebooted = [name for one in plan["reboots"] for name in one["nodes"]]
    assert "node1" in rebooted
    assert "node2" not in rebooted
    assert set(moved(plan)) == {"i1"}
    assert "left out: the reboot of" in reported


def test_squeeze_leaves_out_a_group_with_wrong_steps(monkeypatch: Patch) -> None:
    """`squeeze` leaves out a group with wrong steps, which keeps its nodes on."""
    held = {f"i{k}": rbd(f"node{k}") for k in (1, 2, 3, 4)}
    document = cluster({"east": 2, "west": 2}, instances=held)
    plan = json.loads(run("squeeze", "--json", *SQUEEZE, stdin=as_bytes(document)).stdout)
    freed, (first, second) = plan["switched_nodes"], moved(plan)
    _reject_steps(monkeypatch, first)
    plan, reported = _plan(document, "squeeze", *SQUEEZE)
    assert (plan["switched_nodes"], moved(plan)) == (freed[1:], [second])
    assert "left out: the plan of group east" in reported


def test_redistribute_leaves_out_the_last_repair_if_only_both_together_are_wrong(
    monkeypatch: Patch,
) -> None:
    """If only both repairs together are wrong, `redistribute` keeps the first one."""
    _reject_steps(monkeypatch, "a", "b")
    plan, reported = _plan(_two_broken_groups(), "redistribute", "--n1=off")
    assert moved(plan) == ["a"]
    assert "left out: the repair of group west" in reported


def test_redistribute_leaves_out_the_repair_that_harms_a_healthy_group(
    monkeypatch: Patch,
) -> None:
    """`redistribute` leaves out a repair that makes a receiving group unhealthy."""
    ends: list[bool] = []

    def examined(mover: Any, group: Any) -> Health:
        if ends and group.name == "south" and mover.context.state.where["b"][0] in group.nodes:
            return Health(group, [], [group.nodes[0]], [])
        return examine(mover, group)

    _afterwards(monkeypatch, "redistribute", lambda done: ends.append(True))
    monkeypatch.setattr("iallocator.planners.intergroup.redistribute.examine", examined)
    plan, reported = _plan(_two_broken_groups(), "redistribute", "--n1=off")
    assert moved(plan) == ["a"]
    assert "group south is not healthy at the end" in reported
    assert "left out: the repair of group west" in reported
