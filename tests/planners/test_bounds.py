"""Test the bound of the best possible result that each plan states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.gap import STORAGE, Home, Machine, as_text
from benchmarks.proofs import cluster_of
from iallocator.deadline import SIGNALLED, Stopped, check
from iallocator.planners import quality
from iallocator.planners.balance import score_bound
from iallocator.planners.quality import Quality
from tests.builders import Json, cluster, instance, rbd
from tests.cli.effects_of_planners import (
    MANY_FIT,
    MANY_SETS,
    MANY_SMALL,
    MUCH_TO_PLACE,
    SIMULATED,
)
from tests.command import json_of, printed
from tests.conformance.bounds import COUNTED, MODES, balance_bound, clusters
from tests.conformance.whole_groups import redistribute_case
from tests.schemas import conforms
from tests.seeds import seeds

Result = tuple[float, float, bool]
"""The result that a plan reaches, its bound, and whether the result is proved to be the best."""

BOUND = ("bound", "gap", "proved", "bound_reason")


@pytest.mark.parametrize(
    ("planner", "kind"), [(name, kind) for name in COUNTED for kind in COUNTED[name][1]]
)
def test_bound_of_a_number_is_never_worse_than_the_best_number(planner: str, kind: str) -> None:
    """The bound of a counted result allows the best result, which is found by trying everything."""
    bound, known = COUNTED[planner][0], 0
    for seed in seeds(8, 20, 3000):
        found = bound(seed, kind)
        if found is not None:
            assert found.wrong() == "", seed
            known += found.bound is not None
    assert known


@pytest.mark.parametrize(
    ("planner", "seed", "kind"),
    [
        ("compress", 38, "shared"),  # the virtual cpus of the others are exactly enough
        ("compress", 8, "plain and shared"),  # the ratio of virtual cpus is ignored
        ("compress", 18, "mixed"),  # a failure in the other group is not tolerated already
        ("redistribute", 7, "shared"),  # no group is healthy
        ("place", 11, "shared"),  # instances come from an offline node: soft limits are ignored
        ("place", 24, "shared"),  # as before; soft N+1 is ignored, too
        ("place", 28, "drbd"),  # a node has too little for its own instances, which may stay
        ("place", 44, "mixed"),  # disks may stay on the offline node
        ("place", 931337, "drbd"),  # the secondary is new, too, and its soft limits are ignored
        ("place", 932320, "drbd"),  # those without limits come last, though they keep a role
    ],
)
def test_no_result_is_wrongly_reported_as_the_best(planner: str, seed: int, kind: str) -> None:
    """No bound of a planner excludes the best result, which is found by trying everything."""
    found = COUNTED[planner][0](seed, kind)
    assert found is not None
    assert found.wrong() == ""


@pytest.mark.parametrize(
    ("command", "text", "plain", "best"),
    [
        ("redistribute", redistribute_case(0, "drbd").text(), (1, 0, False), (0, 0, True)),
        ("redistribute", redistribute_case(1, "mixed").text(), (3, 0, False), (3, 3, True)),
        ("compress --n1=strict", SIMULATED, (0, 0.776, False), (0, 0, True)),
        ("squeeze", MANY_SETS, (1, 2, False), (1, 1, True)),
        ("place --n1=off", MUCH_TO_PLACE, (1, 0, False), (0, 0, True)),
    ],
)
def test_optimal_finds_a_better_plan_or_proves_that_there_is_none(
    command: str, text: str, plain: Result, best: Result, tmp_path: Path
) -> None:
    """`--optimal` finds a better plan than the default, or proves that there is none."""
    file = tmp_path / "cluster.data"
    file.write_text(text)
    words = (*command.split(), "-t", str(file), "--static-kvm-node-memory=0")

    def found(*more: str) -> Result:
        plan = json_of(*words, *more)
        return plan["reached"], round(plan["bound"], 3), plan["proved"]

    assert found() == plain
    assert found("--optimal") == best


def test_optimal_capacity_finds_one_more_of_many_and_a_proof(tmp_path: Path) -> None:
    """`capacity --optimal` places one more of 346 instances, and proves that 347 is the most."""
    file = tmp_path / "cluster.data"
    file.write_text(MANY_FIT)
    words = ("capacity", "-t", str(file), *MANY_SMALL)
    plain, best = json_of(*words)["standard"], json_of(*words, "--optimal")["standard"]
    assert (plain["reached"], plain["bound"], plain["proved"]) == (346, 356, False)
    assert (best["reached"], best["bound"], best["proved"]) == (347, 347, True)


def test_capacity_states_a_bound_if_a_node_fails_n1_already(tmp_path: Path) -> None:
    """`capacity` of drbd states the most by the disks of both nodes, though node0 lacks memory."""
    machines = [Machine(f"node{k}", 8192, 102400, 8) for k in range(3)]
    homes = [Home(f"inst{k}", 3000, 0, 1, "rbd", (0,)) for k in range(4)]
    file = tmp_path / "cluster.data"
    file.write_text(as_text(machines, homes))
    words = ("--disk-template=drbd", "--standard-alloc=30g,128,1", "--accept-existing-errors")
    found = json_of("capacity", "-t", str(file), *words)["standard"]
    assert (found["reached"], found["bound"], found["proved"]) == (3, 4, False)


def test_place_leaves_out_no_instance_if_all_can_stay(tmp_path: Path) -> None:
    """`place` stops no instance if all can stay, though nodes already lack failover memory."""
    file = tmp_path / "cluster.data"
    file.write_text(cluster_of("place", 2, "drbd").text())
    plan = json_of("place", "-t", str(file), "--static-kvm-node-memory=0")
    assert (plan["reached"], plan["bound"], plan["proved"]) == (0, 0, True)


def test_place_proves_the_fewest_left_out_if_nodes_lack_memory_for_failovers(
    tmp_path: Path,
) -> None:
    """`place` proves its result on a cluster with nodes that already lack failover memory."""
    machines = [Machine(f"node{k}", 16384, 1 << 20, 64) for k in range(3)]
    homes = [
        Home("a", 8192, 1024, 1, "drbd", (0, 1)), Home("b", 10240, 1024, 1, "rbd", (1,)),
        Home("big", 12288, 1024, 1, "rbd", (2,)),
    ]  # fmt: skip
    file = tmp_path / "cluster.data"
    file.write_text(as_text(machines, homes, 2))
    plan = json_of("place", "-t", str(file), "--static-kvm-node-memory=0", "--n1=off")
    assert (plan["reached"], plan["bound"], plan["proved"]) == (1, 1, True)


def test_bound_of_place_counts_instances_that_cannot_leave_an_offline_node(tmp_path: Path) -> None:
    """An instance with its only disks on an offline node is left out by every plan."""
    machines = [Machine(f"node{k}", 16384, 1 << 20, 64) for k in range(2)]
    homes = [Home("a", 1024, 1024, 1, "plain", (1,)), Home("b", 1024, 1024, 1, "rbd", (1,))]
    file = tmp_path / "cluster.data"
    file.write_text(as_text(machines, homes, 1))
    plan = json_of("place", "-t", str(file), "--static-kvm-node-memory=0")
    assert (plan["reached"], plan["bound"], plan["proved"]) == (1, 1, True)


def test_capacity_of_zero_is_proved_without_a_trial() -> None:
    """`capacity` proves that no instance fits if a node failure is not tolerated already."""
    homes = {f"i{k}": rbd(f"node{k}", memory=6000) for k in (1, 2, 3)}
    words = ("capacity", "--disk-template=rbd", "--standard-alloc=1g,1g,1", "-")
    found = json_of(*words, document=cluster(3, instances=homes))["standard"]
    assert (found["reached"], found["bound"], found["proved"]) == (0, 0, True)


def shared_groups() -> Json:
    """Return a cluster of two groups on one storage pool, each with two nodes and few instances."""
    homes = {f"i{k}": rbd(f"node{k}", memory=500) for k in (1, 2, 3)}
    return cluster({"east": 2, "west": 2}, instances=homes)


@pytest.mark.parametrize(
    ("words", "measure", "reached", "line"),
    [
        (["squeeze"], "freed nodes", 0, "0 nodes freed; proved to be the most possible"),
        (["reboot", "--force"], "groups of nodes", 2, "2 groups of nodes; proved to be the fewest"),
        (["compress"], "free share", None, "; proved to be the largest possible"),
        (["redistribute"], "unhealthy groups", 0, "0 unhealthy groups left; proved to be"),
        (["place"], "left out", 0, "0 instances left out; proved to be the fewest possible"),
        (["capacity"], "instances", None, "more instances; proved to be the most possible"),
    ],
)
def test_planners_state_their_bound_in_json_text_and_page(
    words: list[str], measure: str, reached: int | None, line: str, tmp_path: Path
) -> None:
    """Each planner states its bound, and whether it is reached, in JSON, text and page."""
    document = shared_groups()
    found = json_of(*words, "-", document=document)
    conforms(found, "capacity" if words == ["capacity"] else "plan")
    found = found.get("standard", found)
    assert found["measure"] == measure
    assert reached in (None, found["reached"])
    assert found["proved"] is True
    assert found["bound"] == found["reached"]
    page = tmp_path / "page.html"
    text = printed(*words, f"--html={page}", "-", document=document)
    assert line in text
    assert line.split(";")[1] in page.read_text()
    hail = {"squeeze": "--compat=hail", "capacity": "--compat=hail"}.get(words[0])
    if hail:
        assert "bound" not in json_of(*words, hail, "-", document=document)


def uneven(count: int = 6, **more: Any) -> Json:
    """Return a cluster of three equal nodes, with all instances on the first one."""
    homes = {f"i{k}": rbd("node1", memory=1024) for k in range(count)}
    return cluster(instances=homes, **more)


@pytest.mark.parametrize("kind", STORAGE)
def test_bound_of_balance_is_never_above_the_lowest_score(kind: str) -> None:
    """The bound of balance never exceeds the lowest score, found by trying all placements."""
    proved = 0
    for seed, text in clusters(kind, seeds(12, 40, 4000)):
        found = balance_bound(text, MODES[seed % len(MODES)])
        assert found.bound is not None
        assert found.wrong() == "", seed
        proved += Quality(found.reached, found.bound).proved
    assert proved >= 5


def test_balance_states_its_bound_in_json_text_and_page(tmp_path: Path) -> None:
    """`balance` states in JSON, text and page that an even placement is proved to be the best."""
    found = json_of("balance", "--n1=off", "-", document=uneven())
    conforms(found, "plan")
    assert found["bound"] == pytest.approx(found["scores"]["after"], abs=1e-9)
    assert found["proved"] is True
    assert found["gap"]["absolute"] < 1e-9
    line = "4 moves to 0.0000; proved to be the best possible without -l and --cost"
    page = tmp_path / "page.html"
    text = printed("balance", "--n1=off", f"--html={page}", "-", document=uneven())
    assert line.split(";")[1] in text
    assert line.split(";")[1] in page.read_text()


def test_bound_of_balance_ignores_the_number_of_moves_and_the_traffic() -> None:
    """The limits of moves and traffic do not change the bound of balance."""
    whole = json_of("balance", "--n1=off", "-", document=uneven())
    for options in (["-l1"], ["--cost=0"], ["-l0"]):
        found = json_of("balance", "--n1=off", *options, "-", document=uneven())
        assert found["bound"] == whole["bound"]
        assert found["proved"] is False
        reached = found["scores"]["after"]
        assert found["gap"]["absolute"] == pytest.approx(reached - found["bound"])


def test_bound_counts_instances_that_cannot_leave_an_offline_node() -> None:
    """The bound of balance includes instances that cannot leave an offline node."""
    homes = {
        "stuck": instance("node2", disk_template="plain"),
        "shared": rbd("node1"),
    }
    document = cluster(instances=homes, changes={"node2": {"offline": True}})
    found = json_of("balance", "--n1=off", "-", document=document)
    assert found["bound"] > 20
    assert found["proved"] is True


def test_bound_of_several_groups_is_the_sum() -> None:
    """With --all-groups, the result and the bound of balance are sums over the groups."""
    homes = {
        name: rbd(node, memory=memory)
        for name, node, memory in (("a", "node1", 1024), ("b", "node1", 512), ("c", "node3", 256))
    }
    document = cluster({"default": 2, "other": 2}, instances=homes)
    bounds = [
        json_of("balance", "--n1=off", f"-G{group}", "-", document=document)["bound"]
        for group in ("default", "other")
    ]
    found = json_of("balance", "--n1=off", "--all-groups", "-", document=document)
    assert found["bound"] == pytest.approx(sum(bounds))


@pytest.mark.parametrize("command", ["balance", "redistribute"])
def test_quick_bound_is_stated_if_the_time_limit_ends_the_plan(command: str) -> None:
    """If the time limit ends a plan of balance, the plan of a small cluster still has a bound."""
    document = uneven()
    found = json_of(command, "--time-limit=0.000001", "-", document=document, status=3)
    conforms(found, "plan")
    assert found["bound"] is not None
    assert found["bound"] == json_of(command, "-", document=document)["bound"]


@pytest.mark.parametrize(
    ("options", "status", "reason"),
    [
        (["--time-limit=0"], 3, "the time limit ended the plan first"),
        ([], 0, "it was not found within 0.2 s"),
    ],
)
def test_bound_is_unknown_if_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, options: list[str], status: int, reason: str
) -> None:
    """If the bound of balance takes too long, the plan is printed with the reason instead."""

    def slow(*_: object) -> float:
        while True:
            check()

    monkeypatch.setattr(score_bound, "least_score", slow)
    monkeypatch.setattr(quality, "BOUND_SECONDS", 0.2)
    found = json_of("balance", "--n1=off", *options, "-", document=uneven(), status=status)
    conforms(found, "plan")
    assert found["bound"] is None
    assert found["gap"] is None
    assert found["proved"] is False
    assert found["bound_reason"] == reason


@pytest.mark.parametrize("seconds", ["0", "0.000001"])
def test_place_states_a_bound_if_the_time_limit_ends_the_plan(seconds: str) -> None:
    """If the time limit ends `place`, the plan still has a bound of the instances left out."""
    found = json_of("place", f"--time-limit={seconds}", "-", document=uneven(), status=3)
    conforms(found, "plan")
    assert found["measure"] == "left out"
    assert found["bound"] == 0


def test_bound_interrupted_keeps_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C while its bound is computed, `balance` prints the plan without a bound."""

    def interrupted(*_: object) -> float:
        raise Stopped(SIGNALLED)

    monkeypatch.setattr(score_bound, "least_score", interrupted)
    found = json_of("balance", "--n1=off", "-", document=uneven(), status=130)
    assert len(found["moves"]) == 4
    assert found["bound_reason"] == "the run was interrupted"


def test_compat_hail_states_no_bound() -> None:
    """With --compat hail, `balance` prints no bound, as hbal."""
    found = json_of("balance", "--compat=hail", "-", document=uneven())
    assert not [key for key in BOUND if key in found]
    assert "best possible" not in printed("balance", "--compat=hail", "-", document=uneven())


def test_a_result_is_proved_only_if_it_agrees_with_the_bound_to_a_billionth() -> None:
    """A result counts as proved if it differs from its bound by at most a billionth."""
    assert Quality(1.0, 1.0).proved
    assert Quality(1.0, 1.0 - 5e-10).proved
    assert not Quality(1.0, 1.0 - 1e-8).proved
    assert not Quality(1e-8, 0.0).proved
    assert not Quality(1.0, None, "no time").proved
