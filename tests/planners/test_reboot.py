"""Test `reboot`: groups of nodes that are rebooted together, their limits and their number."""

from __future__ import annotations

import json
from itertools import combinations
from random import Random
from typing import Any

import pytest

from benchmarks.clusters import Shape, document
from benchmarks.gap import as_text, read
from benchmarks.planners_gap import (
    MOVABLE,
    Steps,
    drains,
    fewest_groups,
    reboot_case,
    rebooted,
    valid,
)
from iallocator.options.settings import Settings
from iallocator.planners.reboot import drain_plan
from iallocator.planners.reboot.drain_plan import DrainPlanner, RebootContext
from iallocator.planners.reboot.options import RebootOptions
from iallocator.planners.reboot.reboot import plan_reboots
from iallocator.sources.text import read_text
from iallocator.wire.reading import Reading
from tests.builders import Json, as_bytes, cluster, instance, rbd
from tests.cli.effects_of_planners import HARD_TO_DRAIN
from tests.command import json_of, plan_of, run
from tests.conformance.documents import document as generated
from tests.matrix.documents import tagged
from tests.matrix.plan_checks import problems
from tests.model.make import model_of
from tests.schemas import conforms
from tests.seeds import seeds


def _planned(document: Json, *options: str) -> tuple[int, Json]:
    """Return the exit status and the plan of reboot, verified in many orders of its steps."""
    words = ("--force", "--json", "--verify-plan", *options)
    done = run("reboot", *words, stdin=as_bytes(document))
    assert b"refused" not in done.stderr
    return done.returncode, json.loads(done.stdout)


def _groups(plan: Json) -> list[list[str]]:
    return [sorted(group["nodes"]) for group in plan["reboots"]]


def test_two_nodes_with_a_common_secondary_are_in_one_group_if_it_has_capacity() -> None:
    """`reboot` groups two nodes if their common secondary has capacity; hroller does not."""
    both = {"a": instance("node1", "node3"), "b": instance("node2", "node3")}
    _, plan = _planned(cluster(3, instances=both))
    assert _groups(plan) == [["node1", "node2"], ["node3"]]
    large = {
        "a": instance("node1", "node3", memory=5000), "b": instance("node2", "node3", memory=5000)
    }  # fmt: skip
    _, plan = _planned(cluster(3, memory=8192, instances=large), "--n1=off")
    assert len(plan["reboots"]) == 3


def test_instances_on_shared_storage_leave_and_return_with_n1_kept() -> None:
    """`reboot` moves instances on shared storage away and back, and keeps N+1.

    Of three nodes, one is rebooted at a time, so that the other two keep N+1.
    """
    shared = {f"i{k}": instance(f"node{k}", disk_template="ext") for k in (1, 2, 3)}
    _, plan = _planned(cluster(3, instances=shared))
    assert len(plan["reboots"]) == 3
    kinds = [step["kind"] for step in plan["transition"]["steps"]]
    assert (kinds.count("drain"), kinds.count("reboot"), kinds.count("undrain")) == (3, 3, 3)
    ends = {move["instance"]: move["to"] for move in plan["moves"]}
    assert ends == {name: one["nodes"] for name, one in shared.items()}
    _, plan = _planned(cluster(3, instances=shared), "--n1=off")
    assert len(plan["reboots"]) == 2


def test_node_that_cannot_be_emptied_is_left_out_with_a_reason() -> None:
    """`reboot` leaves out a node that cannot be emptied, with the reason and status 1."""
    both = {"a": instance("node1", disk_template="ext", memory=6000),
            "b": instance("node2", disk_template="ext", memory=1000)}  # fmt: skip
    document = cluster(2, memory=8192, instances=both)
    document["nodes"]["node2"]["total_memory"] = 4096
    status, plan = _planned(document)
    assert status == 1
    assert _groups(plan) == [["node2"]]
    assert [one["node"] for one in plan["kept"]] == ["node1"]
    assert "a has no other place" in plan["kept"][0]["reason"]


def test_quiet_reports_why_a_node_is_not_rebooted() -> None:
    """With --quiet, `reboot` still reports on stderr why a node is not rebooted."""
    both = {"a": instance("node1", disk_template="ext", memory=6000),
            "b": instance("node2", disk_template="ext", memory=1000)}  # fmt: skip
    document = cluster(2, memory=8192, instances=both)
    document["nodes"]["node2"]["total_memory"] = 4096
    done = run("reboot", "--force", "--quiet", "--html=-", stdin=as_bytes(document))
    assert done.returncode == 1
    assert done.stderr.startswith(b"iallocator: node1 is not rebooted: ")
    assert b"node1 is not rebooted: " in done.stdout
    assert b"iallocator: node1" not in done.stdout


def test_nodes_that_are_not_rebooted_have_one_line_on_stderr() -> None:
    """`reboot` prints one line on stderr if nodes are not rebooted; the table has the reasons."""
    both = {name: instance(node, disk_template="ext", memory=6000)
            for name, node in (("a", "node1"), ("b", "node2"))}  # fmt: skip
    done = run("reboot", "--force", stdin=as_bytes(cluster(2, memory=8192, instances=both)))
    assert done.returncode == 1
    assert done.stderr == b"iallocator: 2 nodes are not rebooted: node1, node2\n"
    assert done.stdout.startswith(b"No node can be rebooted\n")
    assert b"a has no other place" in done.stdout


@pytest.mark.parametrize("kind", MOVABLE)
def test_that_no_node_can_be_rebooted_is_proved(kind: str) -> None:
    """`reboot` proves that no node can be rebooted, only where no placement drains a node."""
    proved = 0
    for seed in seeds(12, 200, 2000):
        machines, homes = reboot_case(seed, kind)
        done = plan_reboots(read(as_text(machines, homes)), Settings(), RebootOptions(force=True))
        assert done.bounding is not None
        if done.rounds or done.bounding() is None:
            continue
        best = fewest_groups(machines, homes)
        if best is not None:
            proved += 1
            assert best == ([], 0)
    assert proved >= 1


def test_proof_that_no_node_can_be_rebooted_is_stated() -> None:
    """`reboot` says that it is proved that no node can be rebooted."""
    both = {name: instance(node, disk_template="ext", memory=6000)
            for name, node in (("a", "node1"), ("b", "node2"))}  # fmt: skip
    document = cluster(2, memory=8192, instances=both)
    done = run("reboot", "--force", stdin=as_bytes(document))
    assert b"0 groups of nodes; it is proved that no node can be rebooted\n" in done.stdout
    _, plan = _planned(document)
    assert (plan["reached"], plan["bound"], plan["proved"]) == (0, 0, True)
    assert plan["gap"] == {"absolute": 0.0, "relative": 0.0}


def test_steps_of_a_round_come_after_those_of_the_one_before() -> None:
    """A round of reboot drains no node before the instances of the previous round are back."""
    shared = {f"i{k}": instance(f"node{k}", disk_template="ext") for k in (1, 2, 3)}
    _, plan = _planned(cluster(3, instances=shared))
    steps = {step["number"]: step for step in plan["transition"]["steps"]}

    def before(number: int) -> set[int]:
        found = set(steps[number]["depends_on"])
        return found.union(*(before(other) for other in steps[number]["depends_on"]))

    second = plan["reboots"][1]["nodes"][0]
    drain = next(n for n, s in steps.items() if s["kind"] == "drain" and s["node"] == second)
    first = plan["reboots"][0]["placements"][0]["instance"]
    assert {n for n, s in steps.items() if s.get("instance") == first} <= before(drain)


def test_full_evacuation_gives_every_instance_two_other_nodes() -> None:
    """With full evacuation, a rebooted node has no instances, secondaries included."""
    pairs = {"a": instance("node1", "node2"), "b": instance("node3", "node1")}
    _, plan = _planned(cluster(4, instances=pairs), "--full-evacuation")
    for group in plan["reboots"]:
        away = {name: one["nodes"] for name, one in pairs.items()}
        away |= {move["instance"]: move["nodes"] for move in group["placements"]}
        assert all(set(nodes).isdisjoint(group["nodes"]) for nodes in away.values())
        assert all(len(set(nodes)) == 2 for nodes in away.values())


def test_groups_of_tagged_clusters_violate_nothing_while_they_are_rebooted() -> None:
    """While a group of reboot is down, limits, pools, tags and affinity hold.

    The test checks this from the document alone.
    """
    moved = 0
    for seed in range(12):
        document = tagged(seed)
        _, plan = _planned(document, *(("--full-evacuation",) * (seed % 2)))
        for group in plan["reboots"]:
            moves = [{"instance": m["instance"], "to": m["nodes"]} for m in group["placements"]]
            assert problems(document, {"command": "reboot", "moves": moves}) == [], seed
            moved += len(moves)
    assert moved > 10


@pytest.mark.parametrize("options", [(), ("--full-evacuation",)])
def test_instances_that_share_an_exclusion_tag_before_may_share_it_during_the_reboot(
    options: tuple[str, ...],
) -> None:
    """Two drbd instances with a common exclusion tag may share their other node in a reboot."""
    web = {"tags": ["service:web"]}
    pairs = {name: instance("node1", "node2") | web for name in ("a", "b")}
    document = cluster(3, instances=pairs, tags=("htools:iextags:service",))
    status, plan = _planned(document, *options)
    assert (status, plan["kept"]) == (0, [])


@pytest.mark.parametrize("nodes", [2, 3])
def test_instances_on_shared_storage_share_an_exclusion_tag_during_the_reboot_as_before(
    nodes: int,
) -> None:
    """Instances that share an exclusion tag on one node may stay together during its reboot.

    They do not move to a node with a third instance that has the tag.
    """
    web = {"tags": ["service:web"], "disk_template": "ext"}
    homes = {"a": "node1", "b": "node1"} | ({"c": "node2"} if nodes == 3 else {})
    instances = {name: instance(home) | web for name, home in homes.items()}
    document = cluster(nodes, instances=instances, tags=("htools:iextags:service",))
    status, plan = _planned(document)
    assert (status, plan["kept"]) == (0, [])
    away = {move["instance"]: move["nodes"] for move in plan["reboots"][0]["placements"]}
    assert away == {"a": [f"node{nodes}"], "b": [f"node{nodes}"]}


def test_new_conflict_of_exclusion_tags_keeps_a_node_from_being_rebooted() -> None:
    """`reboot` leaves out a node if a failover would join two instances with one exclusion tag."""
    web = {"tags": ["service:web"]}
    pairs = {"a": instance("node1", "node2") | web, "b": instance("node2", "node1") | web}
    document = cluster(2, instances=pairs, tags=("htools:iextags:service",))
    status, plan = _planned(document)
    assert status == 1
    reasons = [one["reason"] for one in plan["kept"]]
    assert reasons[0] == "a cannot fail over to node2: b has the same exclusion tag"


def _mixed_cluster(rng: Random) -> dict[str, Any]:
    """Return a random cluster with a few nodes in two groups and instances of every kind."""
    free = {f"node{k}": 10000 for k in range(1, 6)}
    names = list(free)
    instances = {}
    for k in range(rng.randint(4, 12)):
        memory = rng.choice([1500, 3000, 5000])
        home = max(rng.sample(names, 2), key=lambda name: free[name])
        template = rng.choice(["rbd", "rbd", "plain", "drbd"])
        nodes = [home]
        if template == "drbd":
            group = names[:3] if home in names[:3] else names[3:]
            nodes.append(rng.choice([name for name in group if name != home]))
        if free[home] >= memory:
            free[home] -= memory
            instances[f"i{k}"] = instance(*nodes, disk_template=template, memory=memory)
    return cluster({"east": 3, "west": 2}, memory=10000, instances=instances)


def test_set_that_sums_reject_is_rejected_by_simulation() -> None:
    """Each set of nodes that sums reject for reboot is also rejected by brute force."""
    rejected = 0
    for seed in range(40):
        model = model_of(_mixed_cluster(Random(seed)))
        planner = DrainPlanner(RebootContext(model, Settings()), RebootOptions(force=True))
        for size in (2, 3):
            for gone in combinations(range(5), size):
                if planner.bound.lacks(gone):
                    rejected += 1
                    planner.bound.lacks = lambda drained: False  # type: ignore[method-assign]
                    assert planner.plan(gone).reason
                    del planner.bound.lacks
    assert rejected > 20


def test_fewest_groups_by_memory_are_proved() -> None:
    """`reboot` proves by sums of memory that no fewer groups are possible."""
    instances = {f"i{k}": rbd(f"node{1 + k % 6}", memory=1000) for k in range(24)}
    model = model_of(cluster(6, memory=6400, instances=instances))
    settings = Settings()
    settings.n1 = "off"
    done = plan_reboots(model, settings, RebootOptions(force=True))
    assert len(done.rounds) == 3
    assert done.plan.reason == "no fewer groups are possible: proved"


@pytest.mark.parametrize("nodes", [5, 10])
def test_fewest_groups_are_proved_by_memory_for_failovers(nodes: int) -> None:
    """`reboot` proves by sums that fewer groups would violate N+1."""
    done = plan_reboots(
        model_of(document(Shape(nodes, "rbd"))), Settings(), RebootOptions(force=True)
    )
    assert len(done.rounds) == {5: 5, 10: 3}[nodes]
    assert done.plan.reason == "no fewer groups are possible: proved"


@pytest.mark.parametrize("kind", MOVABLE)
def test_sums_reject_no_set_of_nodes_that_can_be_drained(kind: str) -> None:
    """Sums of memory reject only sets of nodes for which every placement violates a limit."""
    rejected = 0
    for seed in range(12):
        machines, homes = reboot_case(seed, kind)
        if len(machines) > 4 or not valid(machines, homes, True, Steps()):
            continue
        text = as_text(machines, homes).encode()
        model = read_text(text, "cluster", Reading(static_kvm_memory=0)).cluster
        bound = DrainPlanner(RebootContext(model, Settings()), RebootOptions(force=True)).bound
        best = fewest_groups(machines, homes)
        assert best is None or bound.fewest(best[0]) <= best[1]
        for size in (2, 3):
            for gone in combinations(range(len(machines)), size):
                if bound.lacks(gone):
                    rejected += 1
                    assert not drains(machines, homes, gone, Steps())
    assert rejected >= 3


FOUND_BY_SEARCH = [(190, "shared"), (224, "mixed"), (119, "plain and shared")]
"""Seeds and kinds of full clusters where every greedy choice of nodes violates N+1."""


@pytest.mark.parametrize(("seed", "kind"), FOUND_BY_SEARCH)
def test_search_finds_nodes_where_greedy_choices_fail(seed: int, kind: str) -> None:
    """`reboot` drains a node that can be drained, although greedy choices violate N+1."""
    machines, homes = reboot_case(seed, kind)
    nodes, groups, _ = rebooted(as_text(machines, homes))
    assert (nodes, groups) == {
        "shared": ([0], 1),
        "mixed": ([0, 1, 2, 3, 4], 5),
        "plain and shared": ([2, 3, 4], 3),
    }[kind]


def test_optimal_proves_that_the_groups_are_the_fewest() -> None:
    """`reboot --optimal` proves that its groups are the fewest; the default search does not."""
    plain = json_of("reboot", "--force", "-", document=HARD_TO_DRAIN)
    proved = json_of("reboot", "--force", "--optimal", "-", document=HARD_TO_DRAIN)
    assert (plain["reached"], plain["proved"]) == (6, False)
    assert (proved["reached"], proved["bound"], proved["proved"]) == (6, 6, True)


@pytest.mark.parametrize("kind", ["shared", "mixed", "plain and shared"])
def test_groups_are_the_fewest_possible_ones(kind: str) -> None:
    """`reboot` drains all nodes that can be drained, in the least number of groups."""
    compared = 0
    for seed in range(1000, 1012):
        machines, homes = reboot_case(seed, kind)
        if len(machines) < 6:
            best = fewest_groups(machines, homes)
            if best is not None:
                compared += 1
                assert rebooted(as_text(machines, homes))[:2] == best
    assert compared >= 3


KINDS = ("allocate", "relocate", "node-evacuate", "change-group")


def _node_count(plan: Json) -> int:
    """Return the number of nodes in the groups of the plan."""
    return sum(len(one["nodes"]) for one in plan["reboots"])


@pytest.mark.parametrize("template", ["rbd", "plain", "drbd"])
def test_many_nodes_are_planned_without_scores(
    template: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`reboot` plans groups for many nodes without computing any score."""
    shape = Shape(drain_plan.MANY_NODES + 10, template, per_node=3)

    def scored(*_: object, **__: object) -> None:
        raise AssertionError("scores of all nodes")

    monkeypatch.setattr(drain_plan, "move_anywhere", scored)
    plan = plan_of("reboot", document(shape), "--force")
    assert _node_count(plan) == shape.nodes
    assert len(plan["reboots"]) <= (8 if template == "drbd" else 2)


@pytest.mark.parametrize("seed", seeds(24, 200, 3100))
@pytest.mark.parametrize("words", [(), ("--full-evacuation",), ("--n1=off",)])
def test_plan_for_many_nodes_keeps_all_limits(
    seed: int, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of reboot for many nodes passes its verification, and has every node.

    A node is in a group, or is left out with a reason.
    """
    made = as_bytes(generated(seed, KINDS[seed % len(KINDS)]))
    plans = []
    for number in drain_plan.MANY_NODES, 0:
        monkeypatch.setattr(drain_plan, "MANY_NODES", number)
        done = run("reboot", "--force", "--json", "--verify-plan", *words, stdin=made)
        assert done.returncode in (0, 1), done.stderr
        plans.append(json.loads(done.stdout))
        conforms(plans[-1], "plan")
        assert b"not proper" not in done.stderr
    few, many = plans
    assert _node_count(many) + len(many["kept"]) == _node_count(few) + len(few["kept"])
    assert _node_count(many) >= _node_count(few)
