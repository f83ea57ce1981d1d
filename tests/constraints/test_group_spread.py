"""Test the spread of instances over node groups against brute force."""

from __future__ import annotations

import json
from itertools import product
from random import Random

import pytest

from tests.builders import Json, allocate, as_bytes, cluster, instance
from tests.command import json_of, plan_of, respond, run
from tests.constraints.scenarios import violated_hard
from tests.property.plain import Plain
from tests.seeds import seeds

MUST, SHOULD = "iallocator:separate:must:", "iallocator:separate:should:"

SHARED = {"disk_template": "ext", "storage_type": "external", "storage_pool": "nas"}


def some_tags(rng: Random) -> list[str]:
    """Return up to two tags: spread over groups, spread over nodes, or a soft spread."""
    tags = [f"{MUST}web:group", f"{MUST}db:group", f"{MUST}web", f"{SHOULD}web:group:0.5"]
    return rng.sample(tags, rng.choice((0, 1, 1, 2)))


def scenario(rng: Random, most: int = 4) -> Json:
    """Return two or three groups on one storage pool, with up to `most` tagged instances."""
    sizes = {name: rng.randint(1, 2) for name in ("a", "b", "c")[: rng.randint(2, 3)]}
    names = [f"node{k + 1}" for k in range(sum(sizes.values()))]
    residents = {
        f"old{k}": instance(rng.choice(names), memory=1024, tags=some_tags(rng), **SHARED)
        for k in range(rng.randint(1, most))
    }
    document = cluster(sizes, memory=16384, cpus=64, instances=residents)
    for node in document["nodes"].values():
        node["storage_pools"] = [{"type": "external", "name": "nas"}]
    return document


def homes_of(document: Json) -> dict[str, str]:
    """Return the primary node of each instance."""
    return {name: raw["nodes"][0] for name, raw in document["instances"].items()}


def penalty(document: Json, homes: dict[str, str], raw: Json, node: str) -> float:
    """Return the penalty of adding the instance described by `raw` on `node`."""
    group, total = document["nodes"][node]["group"], 0.0
    for tag in raw["tags"]:
        for name, home in homes.items():
            for other in document["instances"].get(name, {"tags": []})["tags"]:
                names = tag.split(":")[3:4] == other.split(":")[3:4]
                soft = ":should:" in tag or ":should:" in other
                if names and soft and ":group" in tag + other:
                    total += 0.5 * (document["nodes"][home]["group"] == group)
    return total


def test_allocations_equal_brute_force() -> None:
    """An allocation chooses the node with the lowest score and penalty of those permitted.

    Brute force computes which nodes violate no spread.
    """
    placed = rejected = 0
    for seed in seeds(80, 600):
        rng = Random(f"spread/{seed}")
        document, tags = scenario(rng), some_tags(rng)
        request = allocate(document, memory=512, tags=tags, **SHARED)
        answer = respond(request, "--n1=off")
        homes = homes_of(document)
        asked = {**document, "request": {"instances": [{"name": "new", "tags": tags}]}}
        before = violated_hard(asked, homes)
        free = [n for n in document["nodes"] if violated_hard(asked, homes | {"new": n}) <= before]
        assert answer["success"] is bool(free), (seed, answer["info"])
        placed, rejected = placed + bool(free), rejected + (not free)
        if not free:
            continue
        scores = {}
        for node in free:
            plain = Plain(document)
            plain.put("new", request["request"], [node])
            score = plain.score(plain.nodes)
            scores[node] = score + penalty(document, homes, request["request"], node)
        chosen = answer["result"][0]
        assert chosen in free, (seed, chosen)
        assert scores[chosen] == pytest.approx(min(scores.values()), abs=1e-7), (seed, scores)
    assert placed > 20
    assert rejected > 2


def test_batches_equal_brute_force() -> None:
    """A batch is placed if and only if some placement satisfies every spread constraint."""
    outcomes = set()
    for seed in seeds(60, 500):
        rng = Random(f"batch/{seed}")
        document = scenario(rng, 2)
        wanted = []
        for k in range(rng.randint(2, 3)):
            one = allocate(document, memory=512, tags=some_tags(rng), **SHARED)["request"]
            wanted.append({**one, "name": f"new{k}"})
        request = {"type": "multi-allocate", "instances": wanted}
        answer = respond({**document, "request": request}, "--n1=off")
        asked, homes = {**document, "request": request}, homes_of(document)
        before = violated_hard(asked, homes)
        names = [raw["name"] for raw in wanted]
        possible = any(
            violated_hard(asked, homes | dict(zip(names, nodes))) <= before
            for nodes in product(document["nodes"], repeat=len(names))
        )
        placed = {name: nodes[0] for name, nodes in answer["result"][0]} if answer["result"] else {}
        assert violated_hard(asked, homes | placed) <= before, (seed, placed)
        assert (len(placed) == len(names)) is possible, (seed, answer["info"])
        outcomes.add(possible)
    assert outcomes == {True, False}


def test_changes_of_group_equal_brute_force() -> None:
    """An instance changes its group if and only if another group violates no spread."""
    outcomes = set()
    for seed in seeds(60, 500):
        rng = Random(f"change/{seed}")
        document = scenario(rng)
        name = rng.choice(list(document["instances"]))
        request = {"type": "change-group", "instances": [name], "target_groups": []}
        done, failed, _ = respond({**document, "request": request}, "--n1=off")["result"]
        homes = homes_of(document)
        before = violated_hard(document, {n: node for n, node in homes.items() if n != name})
        own = document["nodes"][homes[name]]["group"]
        others = [n for n, node in document["nodes"].items() if node["group"] != own]
        free = [n for n in others if violated_hard(document, homes | {name: n}) <= before]
        assert bool(done) is bool(free), (seed, failed)
        if free:
            assert done[0][2][0] in free, (seed, done)
        outcomes.add(bool(free))
    assert outcomes == {True, False}


@pytest.mark.parametrize("planner", ["balance-groups", "redistribute", "compress", "balance"])
def test_planners_violate_no_spread(planner: str) -> None:
    """No planner violates a spread that was satisfied; `redistribute` repairs violated ones."""
    moved = repaired = 0
    for seed in seeds(25, 250):
        rng = Random(f"plan/{seed}")
        document = scenario(rng, 5)
        words = [planner, "--verify-plan", "--json", "--n1=off"]
        words += ["--all-groups"] * (planner == "balance")
        plan = json.loads(run(*words, stdin=as_bytes(document)).stdout)
        homes = homes_of(document)
        held = first = violated_hard(document, homes)
        for move in plan["moves"]:
            homes[move["instance"]] = move["to"][0]
            now = violated_hard(document, homes)
            assert now <= held, (seed, move)
            held, moved = now, moved + 1
        if planner != "redistribute":
            continue
        broken = {one for one in first if one[3] == "group"}
        repaired += len(broken) > len({one for one in held if one[3] == "group"})
        if broken and not plan["moves"]:
            conflicting_groups = sorted(
                {document["nodes"][homes[one[1]]]["group"] for one in broken}
            )
            states = {row["group"]: row["state"] for row in plan["groups"]}
            for uuid in conflicting_groups:
                assert states[document["nodegroups"][uuid]["name"]] == "weakly unhealthy", seed
    assert moved > 3
    assert planner != "redistribute" or repaired > 2


def test_soft_spread_keeps_an_instance_from_a_group() -> None:
    """`balance-groups` moves an instance only if the gain exceeds the penalty of a soft spread."""
    tags = [f"{SHOULD}web:group:100"]
    residents = {f"i{k}": instance("node1", memory=1024, **SHARED) for k in range(4)}
    residents["i0"]["tags"] = tags
    residents["w"] = instance("node2", memory=64, tags=tags, **SHARED)
    document = cluster({"east": 1, "west": 1}, memory=16384, cpus=32, instances=residents)
    for node in document["nodes"].values():
        node["storage_pools"] = [{"type": "external", "name": "nas"}]
    moves = plan_of("balance-groups", document, "--n1=off")["moves"]
    assert moves
    assert "i0" not in {move["instance"] for move in moves}


def test_spread_over_groups_is_listed_and_ignores_tags_of_nodes() -> None:
    """A spread over groups has the failure domain `group`; node tags `group:...` do not count."""
    tags = [f"{MUST}web:group"]
    residents = {f"w{k}": instance(f"node{k}", tags=tags, **SHARED) for k in (1, 2)}
    document = cluster({"east": 1, "west": 1}, instances=residents)
    for node in document["nodes"].values():
        node["tags"] = ["group:one"]
        node["storage_pools"] = [{"type": "external", "name": "nas"}]
    listed = json_of("constraints", "--json", document=document)
    assert listed["tag_findings"] == []
    (found,) = listed["constraints"]
    assert (found["domain_prefix"], found["strength"], found["members"]) == (
        "group",
        "must",
        ["w1", "w2"],
    )
    done = run("check", "--json", "--no-simulation", "--n1=off", stdin=as_bytes(document))
    assert b"must be apart" not in done.stdout


def two_in_one_group() -> Json:
    """Return two instances in one group of three nodes that must be in different groups."""
    tags = [f"{MUST}web:group"]
    residents = {f"w{k}": instance(f"node{k}", tags=tags, **SHARED) for k in (1, 2)}
    document = cluster({"east": 3, "west": 2}, instances=residents)
    for node in document["nodes"].values():
        node["storage_pools"] = [{"type": "external", "name": "nas"}]
    return document


EVACUATE = {"type": "node-evacuate", "instances": ["w1"], "evac_mode": "all"}
RELOCATE = {"type": "relocate", "name": "w1", "relocate_from": ["node1"], "required_nodes": 1}


@pytest.mark.parametrize("request_type", [EVACUATE, RELOCATE], ids=lambda one: one["type"])
def test_violated_spread_does_not_prevent_a_move_within_the_group(request_type: Json) -> None:
    """An instance may move within its group although the group violates a spread already.

    The test evacuates or relocates an instance: every node of the group violates the spread.
    """
    document = two_in_one_group()
    answer = respond({**document, "request": request_type}, "--n1=off")
    assert answer["success"]
    assert answer["solutions"][0]["nodes"] == ["node3"]


def test_instances_of_a_violated_spread_leave_a_node_together() -> None:
    """Exact search may evacuate two instances within a group that violates their spread already."""
    document = two_in_one_group()
    for name in ("w1", "w2"):
        document["instances"][name] |= {"nodes": ["node1"], "memory": 5000}
    document["instances"]["w3"] = instance("node1", memory=3000, **SHARED)
    document["nodes"]["node1"] |= {"total_memory": 16384, "free_memory": 3384}
    document["nodes"]["node2"]["free_memory"] = 8192
    names = ["w3", "w1", "w2"]
    request = {"type": "node-evacuate", "instances": names, "evac_mode": "all"}
    done, failed, _ = respond({**document, "request": request}, "--n1=off")["result"]
    assert (len(done), failed) == (3, [])


@pytest.mark.parametrize(
    ("command", "first"),
    [
        (("rescue", "node1"), "w1"),
        (("reboot", "--group=east"), "w1"),
        (("maintain", "--only=node1"), "w1"),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_violated_spread_does_not_prevent(command: tuple[str, ...], first: str) -> None:
    """`rescue`, `reboot` and `maintain` move an instance within a group that violates a spread."""
    words = (*command, "--json", "--master-node=node5")
    done = run(*words, stdin=as_bytes(two_in_one_group()))
    assert done.returncode == 0, done.stderr.decode()
    moves = json.loads(done.stdout)["moves"]
    assert (moves[0]["instance"], moves[0]["to"]) == (first, ["node3"])


def test_new_instance_and_one_from_another_group_do_not_enter_a_violated_spread() -> None:
    """A group that violates a spread accepts no further instance of the spread.

    The further instance is new, or comes from another group.
    """
    document = two_in_one_group()
    tags = [f"{MUST}web:group"]
    document["instances"]["w3"] = instance("node4", tags=tags, **SHARED)
    request = {"type": "change-group", "instances": ["w3"], "target_groups": []}
    done, failed, _ = respond({**document, "request": request}, "--n1=off")["result"]
    assert (done, len(failed)) == ([], 1)
    new = allocate(document, memory=512, tags=tags, **SHARED)
    assert not respond(new, "--n1=off")["success"]
