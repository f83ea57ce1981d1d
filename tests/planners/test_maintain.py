"""Test `maintain`: its groups of nodes, the moves after each group, and the nodes left out."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Any

import pytest

from tests.builders import Json, as_bytes, cluster, instance, rbd
from tests.command import complaint, run
from tests.conformance.documents import KINDS
from tests.conformance.documents import document as drawn
from tests.matrix.plan_checks import problems
from tests.schemas import conforms
from tests.seeds import seeds

SHARED = cluster(
    4,
    instances={f"s{k}": rbd(f"node{k % 4 + 1}", memory=900 + 10 * k) for k in range(8)},
)
"""A cluster of four nodes with two instances on shared storage each."""

MIRRORED = cluster(
    4, instances={f"d{k}": instance(f"node{k}", f"node{k % 4 + 1}") for k in range(1, 5)}
)
"""A cluster of drbd instances in a ring: each node is primary of one and secondary of another."""


def campaign(document: Json, *options: str, status: int = 0) -> Json:
    """Return the plan of maintain, verified in many orders of its steps."""
    words = ("--master-node=node4", "--json", "--verify-plan", *options)
    done = run("maintain", *words, stdin=as_bytes(document))
    assert done.returncode == status, done
    found: Json = json.loads(done.stdout)
    conforms(found, "plan")
    assert problems(document, found) == []
    return found


def away(plan: Json) -> list[str]:
    """Return the nodes of all groups of the campaign in the order of maintenance."""
    return [node for group in plan["reboots"] for node in group["nodes"]]


def ends(document: Json, plan: Json) -> dict[str, Any]:
    """Return the nodes of each instance after all moves of the campaign."""
    found = {name: one["nodes"] for name, one in document["instances"].items()}
    return found | {move["instance"]: move["to"] for move in plan["moves"]}


@pytest.mark.parametrize("document", [SHARED, MIRRORED], ids=["shared", "mirrored"])
@pytest.mark.parametrize("after", ["back", "stay", "balance"])
def test_every_node_is_rebooted_once_and_the_master_last(document: Json, after: str) -> None:
    """`maintain` drains, empties, reboots and undrains each node once, the master last.

    The master node is only rebooted.
    """
    plan = campaign(document, f"--after={after}")
    assert sorted(away(plan)) == sorted(document["nodes"])
    assert away(plan)[-1] == "node4"
    where = {name: one["nodes"] for name, one in document["instances"].items()}
    drained: set[str] = set()
    for step in plan["transition"]["steps"]:
        if step["kind"] == "drain":
            drained.add(step["node"])
        elif step["kind"] == "undrain":
            drained.remove(step["node"])
        elif step["kind"] == "reboot":
            assert step["node"] in drained or step["node"] == "node4"
            assert step["node"] not in {nodes[0] for nodes in where.values()}
        elif step["kind"] == "promote":
            assert step["node"] not in drained
        else:
            where[step["instance"]] = step["to"]
            assert step["kind"] == "replace-disks" or step["to"][0] not in drained
    assert not drained
    assert where == ends(document, plan)
    if after == "back":
        assert where == {name: one["nodes"] for name, one in document["instances"].items()}


def test_balance_moves_instances_back_to_the_empty_nodes() -> None:
    """With --after balance, no node is empty at the end; with --after stay, the last one is."""
    stay, balance = (campaign(SHARED, f"--after={after}") for after in ("stay", "balance"))
    empty = [
        set(SHARED["nodes"]) - {nodes[0] for nodes in ends(SHARED, plan).values()}
        for plan in (stay, balance)
    ]
    assert "node4" in empty[0]
    assert not empty[1]
    assert any(group["placements_after"] for group in balance["reboots"])
    assert not any(group["placements_after"] for group in stay["reboots"])


def test_moves_of_a_balancing_wait_until_all_nodes_of_the_group_are_back() -> None:
    """The balancing of a campaign begins when all nodes of the group are undrained."""
    plan = campaign(SHARED, "--after=balance")
    steps = {step["number"]: step for step in plan["transition"]["steps"]}

    def before(number: int) -> set[int]:
        direct = steps[number]["depends_on"]
        return {*direct}.union(*map(before, direct))

    balancing = [
        (move["instance"], group["nodes"]) for group in plan["reboots"]
        for move in group["placements_after"]
    ]  # fmt: skip
    assert balancing
    for name, nodes in balancing:
        waits = before(next(n for n in reversed(steps) if steps[n].get("instance") == name))
        undrained = {steps[n]["node"] for n in waits if steps[n]["kind"] == "undrain"}
        assert undrained >= set(nodes) - {"node4"}


@pytest.mark.parametrize("after", ["back", "stay"])
@pytest.mark.parametrize("most", [1, 2])
def test_parallel_limits_the_nodes_of_a_group(after: str, most: int) -> None:
    """--parallel limits the nodes of a group; without it, all empty nodes are one group."""
    document = cluster(5)
    words = (f"--after={after}", "--n1=off")
    assert [len(group["nodes"]) for group in campaign(document, *words)["reboots"]] == [5]
    plan = campaign(document, *words, f"--parallel={most}")
    sizes = [len(group["nodes"]) for group in plan["reboots"]]
    assert (max(sizes), sum(sizes), len(sizes)) == (most, 5, -(-5 // most))
    if after == "back":
        assert (plan["bound"], plan["proved"]) == (len(sizes), True)


def test_only_and_skip_choose_nodes() -> None:
    """With --only and --skip, other nodes are in no group and are not reported as left out."""
    plan = campaign(SHARED, "--only=node2")
    assert (away(plan), plan["kept"]) == (["node2"], [])
    plan = campaign(SHARED, "--skip=node1,node4")
    assert (sorted(away(plan)), plan["kept"]) == (["node2", "node3"], [])


def test_node_that_is_not_online_is_listed_and_included_only_on_request() -> None:
    """`maintain` includes a node that is not online only on request, and lists it otherwise.

    The exit status is 1 only if --only names the node.
    """
    document = cluster(4, changes={"node2": {"drained": True}, "node3": {"offline": True}})
    plan = campaign(document)
    assert plan["kept"] == [
        {"node": "node2", "reason": "it is drained"}, {"node": "node3", "reason": "it is offline"}
    ]  # fmt: skip
    plan = campaign(document, "--only=node1,node3", status=1)
    assert (away(plan), [one["node"] for one in plan["kept"]]) == (["node1"], ["node3"])


def test_node_on_which_the_command_runs_is_left_out_with_a_reason() -> None:
    """`maintain` leaves out the node on which it runs, as its reboot would end the campaign.

    If --skip names that node, the exit status is 0.
    """
    plan = campaign(SHARED, "--local-node=node2", status=1)
    assert "node2" not in away(plan)
    (kept,) = plan["kept"]
    assert kept["node"] == "node2"
    assert "the command runs on it" in kept["reason"]
    assert campaign(SHARED, "--local-node=node2", "--skip=node2")["kept"] == []


def test_unknown_master_is_rejected() -> None:
    """`maintain` rejects a cluster without a known master node, as no order would be safe."""
    done = run("maintain", "--json", stdin=as_bytes(SHARED))
    assert done.returncode == 1
    assert json.loads(done.stdout)["reboots"] == []
    assert b"the master node is unknown" in done.stderr


def test_commands_are_those_of_each_node_in_document_text_and_script() -> None:
    """`maintain` replaces {node} in the command of each node, and leaves other braces alone.

    The commands are in the document, in the text and in the script.
    """
    words = ("--run=ssh {node} 'a ${x} {node}'", "--check=ping -c1 {node}", "--only=node1,node2")
    plan = campaign(SHARED, *words, "--parallel=1")
    assert [group["shell_commands"] for group in plan["reboots"]] == [
        ["ssh node1 'a ${x} node1'"], ["ssh node2 'a ${x} node2'"]
    ]  # fmt: skip
    assert [group["check_commands"] for group in plan["reboots"]] == [
        ["ping -c1 node1"], ["ping -c1 node2"]
    ]  # fmt: skip
    done = run("maintain", "--force", "-C", *words, stdin=as_bytes(SHARED))
    text = done.stdout.decode()
    assert re.search(r"run +node1 +ssh node1 'a \$\{x\} node1'", text)
    script = text[text.index("echo jobset") :].splitlines()
    order = [
        next(k for k, line in enumerate(script) if part in line)
        for part in ("drained=yes --auto-promote node1", "( ssh node1", "wait until node1, and",
                     "( ping -c1 node1", "drained=no node1", "--master-candidate=yes node1")
    ]  # fmt: skip
    assert order == sorted(order)


@pytest.mark.parametrize("parallel", [1, 2])
def test_node_is_a_master_candidate_again_when_all_nodes_of_its_group_are_back(
    parallel: int,
) -> None:
    """A node gets its role back by a step that depends on the reboots of its whole group.

    Ganeti writes the SSH key of a new master candidate to the nodes that answer. In a group of one
    node, the node gets the role back when it is undrained.
    """
    plan = campaign(SHARED, "--only=node1,node2", f"--parallel={parallel}")
    steps = plan["transition"]["steps"]
    reboots = {step["number"] for step in steps if step["kind"] == "reboot"}
    promotes = [step for step in steps if step["kind"] == "promote"]
    undrains = [step for step in steps if step["kind"] == "undrain"]
    assert len(undrains) == 2
    assert all(
        step["opcodes"][0].get("master_candidate", False) == (parallel == 1) for step in undrains
    )
    assert [step["node"] for step in promotes] == (["node1", "node2"] if parallel == 2 else [])
    before = {step["number"]: set(step["depends_on"]) for step in steps}
    for step in promotes:
        needed = set(before[step["number"]])
        for _ in steps:
            needed |= {one for number in needed for one in before[number]}
        assert reboots <= needed
        assert step["opcodes"][0]["master_candidate"] is True


def test_person_must_act_if_there_is_no_command() -> None:
    """Without a command, the script of maintain waits for a person at each node."""
    done = run("maintain", "--force", "-C", "--only=node1", stdin=as_bytes(SHARED))
    assert b"by hand  node1  maintain and reboot" in done.stdout
    assert b"press Enter: reboot node1, and wait until" in done.stdout


def test_estimate_is_the_copies_at_the_bandwidth_and_the_time_of_each_group() -> None:
    """The estimate of maintain adds the time of work to the time of the copies of each group."""
    plan = campaign(SHARED, "--bandwidth=10", "--work-time=100", "--parallel=1")
    for group in plan["reboots"]:
        expected = 100 + group["copied_mib"] / 10
        assert group["estimated_seconds"] == pytest.approx(expected, abs=1)
    whole = plan["campaign"]
    assert whole["copied_mib"] == sum(move["copied_mib"] for move in plan["moves"]) > 0
    assert whole["estimated_seconds"] == sum(g["estimated_seconds"] for g in plan["reboots"])


@pytest.mark.parametrize("minutes", [-10, 25, 90])
def test_plan_reports_the_groups_that_end_before_until(minutes: int) -> None:
    """Without -X, `maintain --until` reports how many groups end before that time."""
    moment = (datetime.now(UTC) + timedelta(minutes=minutes)).replace(microsecond=0)
    until = moment.isoformat().replace("+00:00", "Z")
    words = ("--bandwidth=1000", "--work-time=600", "--parallel=1", f"--until={until}")
    plan = campaign(SHARED, *words)
    assert plan["campaign"]["until"] == until
    times = accumulate(group["estimated_seconds"] for group in plan["reboots"])
    expected = sum(time <= minutes * 60 for time in times)
    assert plan["campaign"]["groups_until"] == expected == {-10: 0, 25: 2, 90: 4}[minutes]
    text = run("maintain", "--force", *words, stdin=as_bytes(SHARED)).stdout.decode()
    part = "all groups would end" if minutes == 90 else f"{expected} groups of 4 would end; the"
    assert f"Before {until} (--until), {part}" in text


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--run=reboot",), "--run: expected {node} in the command"),
        (("--check=true",), "--check: expected {node} in the command"),
        (("--only=node1", "--skip=node1"), "--only and --skip contradict each other: node1"),
        (("--only=node9",), "--only: unknown node node9"),
        (("--skip=node9",), "--skip: unknown node node9"),
        (("--local-node=node9",), "--local-node: unknown node node9"),
        (("--parallel=0",), "--parallel"),
        (("--undo=journal",), "is undone by iallocator balance -L --undo JOURNAL"),
    ],
)
def test_options_that_cannot_act_are_rejected(words: tuple[str, ...], error: str) -> None:
    """`maintain` rejects an option without effect; the message names it and what was expected."""
    assert error in complaint(run("maintain", "--force", *words, stdin=as_bytes(SHARED)))


def test_instance_that_would_violate_a_soft_limit_elsewhere_keeps_its_node() -> None:
    """With --after stay, `maintain` skips a node if an instance would then break a soft limit.

    With --after back, the instance may break the limit on its secondary during the reboot.
    """
    document = cluster(
        2, cpus=2,
        instances={"a": instance("node1", "node2", vcpus=6), "b": instance("node2", vcpus=6,
                   disk_template="plain")},
    )  # fmt: skip
    words = ("--force", "--json", "--n1=off", "--only=node1")
    back, stay = (
        run("maintain", *words, f"--after={after}", stdin=as_bytes(document))
        for after in ("back", "stay")
    )
    assert away(json.loads(back.stdout)) == ["node1"]
    assert away(json.loads(stay.stdout)) == []
    assert "an instance would stay elsewhere" in json.loads(stay.stdout)["kept"][0]["reason"]


@pytest.mark.parametrize("after", ["stay", "balance"])
@pytest.mark.parametrize("seed", seeds(3, 12))
def test_drawn_campaigns_keep_all_limits(seed: int, after: str) -> None:
    """Random campaigns keep all limits; the test checks them without code of the planner."""
    document = drawn(seed, KINDS[seed % len(KINDS)])
    words = ("--force", "--json", "--verify-plan", f"--after={after}")
    done = run("maintain", *words, stdin=as_bytes(document))
    assert done.returncode in (0, 1), done
    assert b"left out: " not in done.stderr
    plan = json.loads(done.stdout)
    assert problems(document, plan) == []
