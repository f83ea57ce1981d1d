"""Test `make-room` with affinity constraints and storage pools against brute force."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

import pytest

from iallocator.cli import answer
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import run
from tests.planners.make_room.brute import MEMORY, POOL, Scenario, all_fit, fewest
from tests.seeds import seeds

MOST = 3


def planned(document: Json, *words: str) -> Json:
    """Return the plan of make-room, after the verifier has accepted it."""
    done = run("make-room", "--json", "--verify-plan", *words, stdin=as_bytes(document))
    assert done.returncode in (0, 1), done.stderr.decode()
    plan: Json = json.loads(done.stdout)
    return plan


def homes_after(scenario: Scenario, plan: Json) -> tuple[str, ...]:
    """Return the primary node of each instance after the moves of `plan`."""
    homes = list(scenario.homes)
    for move in plan["moves"]:
        homes[int(move["instance"][1:])] = move["to"][0]
    return tuple(homes)


def assert_least(
    scenario: Scenario,
    request: Json,
    least: tuple[int, int] | None,
    *words: str,
) -> int | None:
    """Assert that make-room finds the `least` moves and MiB, and that the request fits then."""
    plan = planned({**scenario.document(), "request": request}, "--n1=off", *words)
    found = len(plan["moves"]), sum(move["copied_mib"] for move in plan["moves"])
    assert found == (least or (0, 0))
    then = {**scenario.document(homes_after(scenario, plan)), "request": request}
    answered = json.loads(answer(as_bytes(then), ["--n1=off"]))
    satisfied = answered["success"] and (request["type"] == "allocate" or not answered["result"][1])
    assert satisfied == (least is not None)
    return None if least is None else least[0]


def new(memory: int, tags: list[str]) -> Json:
    """Return a request for a new instance of `memory` MiB on shared storage, with `tags`."""
    described = rbd(memory=memory, tags=tags)
    del described["nodes"], described["admin_state"]
    return {**described, "type": "allocate", "name": "new", "required_nodes": 1}


def test_allocation_gets_the_fewest_moves_with_units_apart_and_pools() -> None:
    """`make-room` finds the fewest moves with colocation groups, separated instances and pools."""
    counts = set()
    for seed in range(24):
        rng = Random(f"allocate/{seed}")
        scenario = Scenario(rng)
        need, tags = rng.choice([2900, 4100]), [POOL] if rng.random() < 0.3 else []
        nodes = scenario.reaching if tags else scenario.names

        least = fewest(scenario, lambda homes: _holds(scenario, homes, need, nodes), MOST)  # noqa: B023
        counts.add(assert_least(scenario, new(need, tags), least))
    assert {None, 0, 1, 2} <= counts


def test_allocation_gets_the_fewest_moves_with_racks() -> None:
    """`make-room` moves two instances that must share a rack to another rack together."""
    crossed, counts = 0, set()
    for seed in (*range(12), 320):
        rng = Random(f"racks/{seed}")
        scenario = Scenario(rng, {"default": 4}, racked=True)
        need = rng.choice([2900, 3700, 5900])

        least = fewest(scenario, lambda homes: _holds(scenario, homes, need, scenario.names), 2)  # noqa: B023
        counts.add(assert_least(scenario, new(need, []), least, "--make-room=2"))
        crossed += seed == 320 and least == (2, 4000)  # 5400 if they could not leave together
    assert {None, 0, 1, 2} <= counts
    assert crossed


def _holds(scenario: Scenario, homes: tuple[str, ...], need: int, nodes: list[str]) -> bool:
    return any(scenario.free(homes)[node] > need for node in nodes)


def goal_of(
    scenario: Scenario, moving: list[int], nodes: list[str]
) -> Callable[[tuple[str, ...]], bool]:
    """Return a function that reports whether all of `moving` would fit on `nodes`."""

    def reached(homes: tuple[str, ...]) -> bool:
        reach = [
            [n for n in nodes if k not in scenario.pooled or n in scenario.reaching] for k in moving
        ]
        return all_fit(scenario.free(homes), [scenario.sizes[k] for k in moving], reach)

    return reached


def alone(scenario: Scenario) -> list[int]:
    """Return the positions of the instances without constraints that involve other instances."""
    single = [unit[0] for unit in scenario.units if len(unit) == 1]
    return [k for k in single if k not in scenario.apart]


def test_evacuation_gets_the_fewest_moves_of_other_instances() -> None:
    """`make-room` finds the fewest moves of other instances that let instances leave a node."""
    counts = set()
    for seed in range(16):
        scenario = Scenario(Random(f"evacuate/{seed}"))
        moving = [k for k in alone(scenario) if scenario.homes[k] == "node1"][:2]
        if not moving:
            continue
        least = fewest(
            scenario, goal_of(scenario, moving, ["node2", "node3"]), MOST, moving, ["node1"]
        )
        names = [f"i{k}" for k in moving]
        request = {"type": "node-evacuate", "instances": names, "evac_mode": "primary-only"}
        counts.add(assert_least(scenario, request, least))
    assert {None, 0, 2} <= counts


def test_change_of_group_gets_the_fewest_moves_of_other_instances() -> None:
    """`make-room` finds the fewest moves in a target group that let an instance enter it."""
    counts = set()
    for seed in range(16):
        scenario = Scenario(Random(f"change/{seed}"), {"east": 1, "west": 3})
        moving = [k for k in alone(scenario) if scenario.homes[k] == "node1"][:1]
        if not moving:
            continue
        least = fewest(scenario, goal_of(scenario, moving, ["node2", "node3", "node4"]), 2, moving)
        names = [f"i{k}" for k in moving]
        request = {"type": "change-group", "instances": names, "target_groups": ["uuid-west"]}
        counts.add(assert_least(scenario, request, least))
    assert {0, 1} <= counts


def test_unit_is_one_move_in_the_plan() -> None:
    """The two moves of a colocation group of two name the group, and count as one move."""
    scenario = Scenario(Random(0))
    scenario.sizes = [1000, 1000, 2400, 2400, 7000]
    scenario.homes = ("node1", "node1", "node2", "node2", "node3")
    scenario.units, scenario.apart, scenario.pooled = [(0, 1), (2,), (3,), (4,)], set(), set()
    plan = planned({**scenario.document(), "request": new(MEMORY - 500, [])}, "--n1=off")
    assert [(move["instance"], move["to"], move["unit"]) for move in plan["moves"]] == [
        ("i0", ["node2"], ["i0", "i1"]), ("i1", ["node2"], ["i0", "i1"]),
    ]  # fmt: skip


def mirrored(rng: Random) -> tuple[Json, Json]:
    """Return four nearly full nodes with drbd instances, some in groups, and a large request."""
    names = ["node1", "node2", "node3", "node4"]
    instances = {}
    for number in range(10):
        tags = ["iallocator:colocate:must:u"] if number in (0, 1) else []
        homes = ["node1", "node2"] if number in (0, 1) else rng.sample(names, 2)
        instances[f"i{number}"] = instance(*homes, memory=rng.choice([700, 1300, 2100]), tags=tags)
    document = cluster(4, memory=6500, instances=instances)
    return instances, allocate(document, memory=rng.choice([2600, 3400]))


@pytest.mark.parametrize("n1", ["off", "no-new", "no-worse", "strict"])
def test_request_fits_where_the_plan_ends_in_every_mode(n1: str) -> None:
    """With each N+1 mode, a request for a drbd instance fits after the plan of make-room."""
    made = 0
    for seed in seeds(2, 8, 4):
        instances, document = mirrored(Random(f"mirrored/{seed}"))
        if any(node["free_memory"] < 0 for node in document["nodes"].values()):
            continue
        plan = planned(document, f"--n1={n1}", "--make-room=2", "--time-limit=3600")
        if not plan["moves"]:
            continue
        made += 1
        for move in plan["moves"]:
            instances[move["instance"]]["nodes"] = move["to"]
        then = cluster(4, memory=6500, instances=instances) | {"request": document["request"]}
        assert json.loads(answer(as_bytes(then), [f"--n1={n1}"]))["success"]
    assert made or n1 == "strict"


def test_drbd_unit_moves_by_the_cheapest_routes_of_its_members() -> None:
    """Members of a drbd colocation group fail over, and only one gets a new secondary."""
    unit = {"tags": ["iallocator:colocate:must:u"]}
    instances = {
        "a": instance("node1", "node3", memory=1000, **unit),
        "b": instance("node1", "node3", memory=2000, **unit),
        "c": instance("node2", memory=3000), "d": instance("node3", memory=3000),
    }  # fmt: skip
    document = allocate_rbd(cluster(3, instances=instances), memory=6500)
    plan = planned(document, "--n1=off")
    assert [(move["instance"], move["move"], move["copied_mib"]) for move in plan["moves"]] == [
        ("a", "f", 1000), ("b", "f r:node2", 3152),
    ]  # fmt: skip


def test_separated_instances_do_not_share_a_node_temporarily() -> None:
    """`make-room` never has two separated instances on one node, not even for a while."""
    apart = {"tags": ["iallocator:separate:must:x"]}
    instances = {
        "a": instance("node2", "node3", disk=3000, disk_space_total=3128, **apart),
        "b": instance("node3", disk=100, **apart),
        "c": instance("node2", disk=5000), "d": instance("node1", disk=6100),
        "e": instance("node3", disk=6000),
    }  # fmt: skip
    document = allocate(cluster(3, disk=10000, instances=instances), disk=4000,
                        disk_template="plain")  # fmt: skip
    plan = planned(document, "--n1=off")
    first, second = plan["moves"]
    assert (first["to"], second["to"]) == (["node2", "node1"], ["node1", "node3"])


def test_instances_bound_by_a_rack_leave_it_together() -> None:
    """`make-room` moves two instances that must share a rack to another rack together.

    No other node of their rack has capacity for one of them.
    """
    rack = {"tags": ["iallocator:colocate:must:u:rack"], "disk_template": "rbd"}
    instances = {
        "a": instance("node1", memory=2000, **rack), "b": instance("node2", memory=2000, **rack),
        "c": instance("node2", memory=4500), "d": instance("node3", memory=4000),
        "e": instance("node4", memory=4000),
    }  # fmt: skip
    racks = {f"node{k}": {"tags": [f"rack:{(k + 1) // 2}"]} for k in (1, 2, 3, 4)}
    document = allocate_rbd(cluster(4, instances=instances, changes=racks), memory=7000)
    plan = planned(document, "--n1=off")
    assert [(move["instance"], move["unit"]) for move in plan["moves"]] == [
        ("a", ["a", "b"]), ("b", ["a", "b"]),
    ]  # fmt: skip
    assert {node for move in plan["moves"] for node in move["to"]} <= {"node3", "node4"}
    nothing = planned(document, "--n1=off", "--make-room=1")
    assert nothing["reason"] == "no plan with 1 move of other instances exists (proved)"


def test_unit_that_would_lose_a_tolerated_failure_waits_for_the_room() -> None:
    """`make-room` frees the failover capacity before a colocation group takes it.

    If node3 fails, only node2 can restart e. Instance d leaves node2 before a and b arrive.
    """
    pool = [POOL]
    unit = {"tags": [POOL, "iallocator:colocate:must:u"], "disk_template": "rbd"}
    instances = {
        "a": instance("node1", memory=1000, **unit), "b": instance("node1", memory=1000, **unit),
        "d": rbd("node2", memory=2500),
        "q": rbd("node2", memory=4000, tags=pool),
        "e": rbd("node3", memory=5000, tags=pool),
    }  # fmt: skip
    free = {"node1": 2900, "node2": 5900, "node3": 500, "node4": 3000}
    used = {"node1": 2000, "node2": 6500, "node3": 5000, "node4": 0}
    changes: dict[str, Json] = {
        name: {"free_memory": free[name], "total_memory": free[name] + used[name], "tags": pool}
        for name in free
    }
    changes["node4"]["tags"] = []
    document = cluster(4, instances=instances, changes=changes)
    document = allocate_rbd(document, memory=4000, restrict=["node1"])
    plan = planned(document, "--n1=no-new")
    assert [move["instance"] for move in plan["moves"]] == ["d", "a", "b"]


def test_unit_is_checked_by_failures_as_a_whole() -> None:
    """`make-room` checks N+1 after all members of a colocation group have moved, not between them.

    Between the moves of a and b, a failure of node1 loses more than after both.
    """
    unit, other = ({"tags": [f"iallocator:colocate:must:{name}"]} for name in "uv")
    instances = {
        "c": rbd("node1", memory=700),
        "d": rbd("node1", memory=900),
        "a": rbd("node2", memory=1700, **unit),
        "b": rbd("node2", memory=600, **unit),
        "e": rbd("node2", memory=2500, **other),
        "f": rbd("node2", memory=600, **other),
    }
    larger = {"node1": {"total_memory": 8000, "free_memory": 6400}}
    document = cluster(2, memory=6000, instances=instances, changes=larger)
    document["request"] = {
        "type": "relocate", "name": "d", "relocate_from": ["node1"],
        "required_nodes": 1, "disk_space_total": 0,
    }  # fmt: skip
    plan = planned(document, "--n1=no-worse", "--make-room=2")
    assert [move["instance"] for move in plan["moves"]] == ["a", "b"]
