"""Test `balance-groups`, which moves instances from the most to the least loaded group."""

from __future__ import annotations

from pathlib import Path
from random import Random
from statistics import pstdev

import pytest

from tests.builders import Json, cluster, instance

from .scenarios import by_group, on_shared, plan_of


def crowd(*counts: int, per: int = 2, **members: str) -> Json:
    """Return a cluster with one group of `per` nodes for each number of instances in `counts`.

    The instances have equal sizes and are on shared storage.
    """
    names = [f"g{k}" for k in range(len(counts))]
    instances = {
        f"i{k}{number}": on_shared(f"node{1 + k * per + number % per}", memory=256)
        for k, count in enumerate(counts)
        for number in range(count)
    }
    return cluster(dict.fromkeys(names, per), instances=instances)


def score(plan: Json, moment: str) -> float:
    """Return the score of balance-groups "before" or "after" the plan, from its loads."""
    key = "load" if moment == "before" else "load_after"
    loads = [one[key] for one in plan["groups"] if one[key] is not None]
    return sum(
        float(pstdev(load[f"{kind}_load"] for load in loads))
        for kind in ("cpu", "memory", "disk", "net")
    )


def test_balance_groups_equalizes_loads() -> None:
    """`balance-groups` moves instances until all groups have equal loads.

    Each move lowers the score.
    """
    plan = plan_of("balance-groups", crowd(6, 3, 0))
    scores = [plan["objective"]["before"], *(move["objective_after"] for move in plan["moves"])]
    assert scores == sorted(set(scores), reverse=True)
    assert scores[-1] == plan["objective"]["after"] == pytest.approx(0, abs=1e-9)
    assert len(plan["moves"]) == 3
    groups = by_group(plan)
    assert [(one["out"], one["in"]) for one in groups.values()] == [(3, 0), (0, 0), (0, 3)]
    assert groups["g0"]["load"] == dict.fromkeys(
        ("cpu_load", "memory_load", "disk_load", "net_load"), 2
    )
    for moment in ("before", "after"):
        assert score(plan, moment) == pytest.approx(plan["objective"][moment], abs=1e-12)


def test_balance_groups_divides_by_capacity() -> None:
    """After `balance-groups`, a group with twice as many nodes has twice the load."""
    instances = {f"a{k}": on_shared("node1", memory=256) for k in range(2)}
    instances |= {f"b{k}": on_shared(f"node{2 + k % 2}", memory=256) for k in range(4)}
    document = cluster({"small": 1, "large": 2}, instances=instances)
    plan = plan_of("balance-groups", document)
    assert (plan["moves"], plan["objective"]["before"]) == ([], 0)


def test_balance_groups_reads_dynamic_utilisation(tmp_path: Path) -> None:
    """With `-U FILE`, `balance-groups` balances the loads of the file, not the instance counts."""
    loads = tmp_path / "loads"
    loads.write_text("i00 4 0 0 0\ni01 2 0 0 0\ni10 0 0 0 0\ni11 0 0 0 0\n")
    plan = plan_of("balance-groups", crowd(2, 2), "-U", str(loads))
    assert by_group(plan)["g0"]["load"]["cpu_load"] == 2
    assert plan["objective"]["after"] < plan["objective"]["before"] == pytest.approx(1)
    assert plan_of("balance-groups", crowd(2, 2))["moves"] == []
    ignored = plan_of("balance-groups", crowd(4, 0), "-U", str(loads), "--ignore-dynu")
    assert (ignored["moves"], ignored["reason"]) == ([], "no instance has any load")


def test_balance_groups_moves_only_instances_on_shared_storage() -> None:
    """`balance-groups` does not move instances with local disks, though they add to the load."""
    document = crowd(1, 0)
    document["instances"] |= {f"d{k}": instance("node1", "node2", memory=256) for k in range(4)}
    plan = plan_of("balance-groups", document)
    assert [move["instance"] for move in plan["moves"]] == ["i00"]


def test_balance_groups_keeps_to_storage_pools() -> None:
    """`balance-groups` moves an instance only to a group with access to its storage pool."""
    document = crowd(6, 2, 0, 0)
    for name in document["instances"]:
        document["instances"][name] |= {
            "disk_template": "ext", "storage_type": "external", "storage_pool": "nas1",
        }  # fmt: skip
    pools = ("nas1",), ("nas1", "nas2"), ("nas2",), ()
    for k in range(8):
        document["nodes"][f"node{k + 1}"]["storage_pools"] = [
            {"type": "external", "name": pool} for pool in pools[k // 2]
        ]
    plan = plan_of("balance-groups", document)
    assert {node for move in plan["moves"] for node in move["to"]} <= {"node3", "node4"}
    assert len(plan["moves"]) == 2
    assert by_group(plan)["g3"]["load"] is None
    assert by_group(plan)["g3"]["reason"] == "shares no external storage with another group"


def test_balance_groups_stops_at_its_limit() -> None:
    """`balance-groups` ends at the limit of the number of moves, of the traffic, or of the gain."""
    for options, count, reason in (
        (["--max-length=1"], 1, "limit of 1 move reached (--max-length)"),
        (["--cost=0.6"], 2, "no move that helps is within --cost"),
        (["--min-gain=99"], 0, "no move gains as much as is asked for"),
    ):
        plan = plan_of("balance-groups", crowd(6, 0), *options)
        assert (len(plan["moves"]), plan["reason"]) == (count, reason)


def test_balance_groups_keeps_n1() -> None:
    """`balance-groups` moves no instance to a group that then lacks memory for a failover."""
    document = crowd(4, 0)
    document["instances"] |= {
        f"w{k}": on_shared(f"node{k}", memory=4050, vcpus=1, auto_balance=False) for k in (3, 4)
    }
    plan = plan_of("balance-groups", document)
    assert plan["moves"] == []
    assert "would break N+1" in by_group(plan)["g0"]["reason"]
    assert len(plan_of("balance-groups", document, "--n1=off")["moves"]) == 1


def test_balance_groups_needs_external_storage() -> None:
    """`balance-groups` makes no plan without shared storage: every move would copy disks."""
    document = cluster({"a": 2, "b": 2}, instances={"d": instance("node1", "node2")})
    plan = plan_of("balance-groups", document)
    assert plan["reason"] == "no two groups share external storage"


def test_instances_may_leave_a_group_that_must_tolerate_every_failure() -> None:
    """Instances can leave a group with strict N+1 although a failure in it is not tolerated."""
    document = crowd(4, 0)
    document["instances"] |= {"big": instance("node1", memory=7000)}
    document["nodes"]["node1"]["free_memory"] -= 7000
    for name in ("node1", "node2"):
        document["nodes"][name] |= {"total_memory": 9000}
    document["nodes"]["node2"]["free_memory"] = 6500
    document["nodegroups"]["uuid-g0"]["tags"] = ["iallocator:n1:strict"]
    assert plan_of("balance-groups", document)["moves"] != []


def test_colocation_group_moves_if_its_second_member_is_bound_to_another_group() -> None:
    """The order of members in a rule for a colocation group does not change the plan."""
    document = crowd(4, 0)
    for number, words in enumerate((["c:rack"], ["u"], ["c:rack", "u"], [])):
        one = document["instances"][f"i0{number}"]
        one["tags"] = [f"iallocator:colocate:must:{word}" for word in words]
        one["nodes"] = ["node1"]
    document["instances"]["i03"]["nodes"] = ["node2"]
    for name, node in document["nodes"].items():
        node["tags"] = ["rack:1"]
        here = [i for i in document["instances"].values() if i["nodes"] == [name]]
        node["free_memory"] = node["total_memory"] - 256 * len(here)
    plan = plan_of("balance-groups", document)
    assert {move["instance"] for move in plan["moves"]} == {"i01", "i02"}


def _score(loads: dict[str, tuple[float, ...]], homes: dict[str, int], groups: int) -> float:
    """Return the score of instances with `loads` in groups of equal capacity."""
    total = 0.0
    for kind in range(4):
        sums = [sum(loads[n][kind] for n in loads if homes[n] == g) for g in range(groups)]
        mean = sum(sums) / groups
        total += pstdev([one / mean for one in sums]) if mean else 0.0
    return total


def _level(loads: dict[str, tuple[float, ...]], homes: dict[str, int], group: int) -> float:
    """Return the load of a group: the sum of its shares of each kind of load."""
    shares = []
    for kind in range(4):
        whole = sum(one[kind] for one in loads.values())
        shares.append(sum(loads[n][kind] / whole for n in loads if homes[n] == group and whole))
    return sum(shares)


def test_balance_groups_ends_only_where_no_single_move_lowers_the_score(tmp_path: Path) -> None:
    """`balance-groups` ends only when no single move between any two groups lowers the score."""
    path, upward = tmp_path / "loads", 0
    for seed in range(300, 330):
        rng = Random(f"balance groups/{seed}")
        groups = rng.randint(2, 3)
        homes = {f"i{k}": rng.randrange(groups) for k in range(rng.randint(2, 6))}
        loads = {name: tuple(float(rng.choice((0, 0, 1, 4))) for _ in range(4)) for name in homes}
        path.write_text("".join(f"{n} {' '.join(map(str, one))}\n" for n, one in loads.items()))
        instances = {n: on_shared(f"node{home + 1}", memory=256) for n, home in homes.items()}
        document = cluster({f"g{k}": 1 for k in range(groups)}, instances=instances)
        plan = plan_of("balance-groups", document, "--n1=off", "-U", str(path))
        if not any(map(any, loads.values())):
            continue
        assert plan["objective"]["before"] == pytest.approx(_score(loads, homes, groups))
        for move in plan["moves"]:
            source, target = homes[move["instance"]], int(move["to"][0][4:]) - 1
            upward += _level(loads, homes, source) < _level(loads, homes, target)
            homes[move["instance"]] = target
        last = _score(loads, homes, groups)
        assert plan["objective"]["after"] == pytest.approx(last)
        for name in homes:
            for group in range(groups):
                assert _score(loads, homes | {name: group}, groups) > last - 1e-8, (seed, name)
    assert upward


def test_balance_groups_keeps_strict_n1_without_help_of_a_drained_node() -> None:
    """With strict N+1, no instance moves to a group of two nodes of which one is drained."""
    document = crowd(6, 0)
    document["nodes"]["node4"]["drained"] = True
    document["nodegroups"]["uuid-g1"]["tags"] = ["iallocator:n1:strict"]
    assert plan_of("balance-groups", document)["moves"] == []
    document["nodes"]["node4"]["drained"] = False
    assert len(plan_of("balance-groups", document)["moves"]) == 3
