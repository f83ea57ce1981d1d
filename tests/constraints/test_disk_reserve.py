"""Test the disk reserve in placements, plans and capacity against brute force."""

from __future__ import annotations

from collections import Counter
from itertools import permutations, product
from math import ceil
from random import Random
from typing import Any

import pytest

from tests.builders import Json, allocate, cluster, instance
from tests.command import json_of, plan_of, printed, respond
from tests.seeds import seeds

TAG = "iallocator:disk-reserve:"

RESERVES = ("0", "10%", "25%", "33.3%", "1000", "2g", "100%")


def reserve_of(document: Json, node: str) -> int:
    """Return the disk reserve of a node in MiB, from the tags of node, group or cluster."""
    (group,) = document["nodegroups"].values()
    found = "0"
    for tags in (document["cluster_tags"], group["tags"], document["nodes"][node]["tags"]):
        for tag in tags:
            if tag.startswith(TAG):
                found = tag.removeprefix(TAG)
    if found.endswith("%"):
        total = int(document["nodes"][node]["total_disk"])
        return ceil(total * float(found[:-1]) / 100 - 1e-6)
    return int(found[:-1]) * 1024 if found.endswith("g") else int(found)


def stored(document: Json, node: str, where: dict[str, list[str]]) -> int:
    """Return the MiB of disk that instances use on a node, with each instance on `where`."""
    return sum(
        document["instances"][name]["disk_space_total"]
        for name, nodes in where.items()
        if node in nodes
    )


def scenario(rng: Random, template: str) -> Json:
    """Return three to five nodes of 3000 to 9000 MiB of disk, with reserves and instances."""
    count = rng.randint(3, 5)
    names = [f"node{k}" for k in range(1, count + 1)]
    left = {name: rng.choice((3000, 5000, 9000)) for name in names}
    sizes = dict(left)
    residents = {}
    for number in range(rng.randint(2, 3 * count)):
        nodes = rng.sample(names, 2 if template == "drbd" else 1)
        disk = rng.choice((400, 1000, 1700))
        if all(disk < left[node] for node in nodes):
            for node in nodes:
                left[node] -= disk
            residents[f"i{number}"] = instance(
                *nodes, memory=100, disk=disk, disk_template=template, disk_space_total=disk
            )
    document = cluster(count, memory=30000, cpus=64, instances=residents)
    for name, node in document["nodes"].items():
        node |= {"total_disk": sizes[name], "free_disk": left[name]}
        if rng.random() < 0.4:
            node["tags"] = [TAG + rng.choice(RESERVES)]
    for owner in (document, document["nodegroups"]["uuid-default"]):
        if rng.random() < 0.6:
            owner["cluster_tags" if owner is document else "tags"] = [TAG + rng.choice(RESERVES)]
    return document


def takes(document: Json, disk: int) -> list[str]:
    """Return the nodes that keep their disk reserve and 1 MiB when `disk` MiB are used."""
    return [
        name
        for name, node in document["nodes"].items()
        if node["free_disk"] - disk >= max(1, reserve_of(document, name))
    ]


@pytest.mark.parametrize("template", ["plain", "drbd"])
def test_allocations_with_a_disk_reserve_equal_brute_force(template: str) -> None:
    """An allocation can use exactly the nodes that keep their disk reserve with the instance."""
    outcomes: Counter[bool] = Counter()
    for seed in seeds(40, 800):
        rng = Random(f"disk-reserve/{template}/{seed}")
        document = scenario(rng, template)
        request = allocate(
            document, memory=100, disk=rng.choice((400, 2700)), disk_template=template
        )
        free = takes(document, request["request"]["disk_space_total"])
        expected = len(free) * (len(free) - 1 if template == "drbd" else 1)
        answer = respond(request, "--n1=off")
        outcomes[expected > 0] += 1
        assert answer["success"] is (expected > 0), (seed, answer)
        if expected:
            assert set(answer["result"]) <= set(free), (seed, answer)
            assert answer["solutions"][0]["successes"] == expected, (seed, answer)
    assert min(outcomes.values()) > 5, outcomes


def test_batch_with_a_disk_reserve_is_placed_if_possible() -> None:
    """A batch is placed if and only if some placement keeps the disk reserve of all nodes."""
    outcomes: Counter[bool] = Counter()
    for seed in seeds(25, 400):
        rng = Random(f"batch/{seed}")
        document = scenario(rng, "plain")
        one = allocate(document, memory=100, disk_template="plain")["request"]
        wanted: Json = {}
        for number in range(3):
            size = rng.choice((700, 1300, 1900, 2900))
            wanted[f"new{number}"] = one | {
                "name": f"new{number}", "disk_space_total": size,
                "disks": [{"size": size, "mode": "rw", "spindles": 1}],
            }  # fmt: skip
        left = {
            name: node["free_disk"] - max(1, reserve_of(document, name))
            for name, node in document["nodes"].items()
        }
        expected = False
        for homes in product(left, repeat=3):
            used: Counter[str] = Counter()
            for home, raw in zip(homes, wanted.values()):
                used[home] += raw["disk_space_total"]
            expected = expected or all(used[name] <= left[name] for name in used)
        document["request"] = {"type": "multi-allocate", "instances": list(wanted.values())}
        placed, *_ = respond(document, "--n1=off")["result"] or [[]]
        outcomes[expected] += 1
        assert (len(placed) == 3) is expected, (seed, placed)
    assert min(outcomes.values()) > 3, outcomes


@pytest.mark.parametrize("mode", ["primary-only", "secondary-only"])
def test_evacuations_keep_the_reserve_of_new_nodes(mode: str) -> None:
    """An evacuation creates a secondary only on a node that keeps its disk reserve."""
    moved = 0
    for seed in seeds(20, 300):
        document = scenario(Random(f"evacuate/{mode}/{seed}"), "drbd")
        role = 0 if mode == "primary-only" else 1
        there = [n for n, raw in document["instances"].items() if raw["nodes"][role] == "node1"]
        if not there:
            continue
        there = there[:1]
        document["request"] = {"type": "node-evacuate", "instances": there, "evac_mode": mode}
        done, failed, _ = respond(document, "--n1=off")["result"]
        before = document["instances"][there[0]]
        free = set(takes(document, before["disk_space_total"])) - set(before["nodes"])
        if mode == "primary-only":
            assert not failed, seed  # a failover needs no new disk
            continue
        assert bool(done) is bool(free), (seed, done, failed)
        for _, _, nodes in done:
            moved += 1
            assert set(nodes) - set(before["nodes"]) <= free, seed
    assert moved > 5 or mode == "primary-only"


@pytest.mark.parametrize("options", [(), ("--no-instance-moves",)])
def test_balancing_keeps_the_reserve_of_new_nodes(options: tuple[str, ...]) -> None:
    """After each move of balance, a node with a new disk has its disk reserve free."""
    copies = 0
    for seed in seeds(2, 250):
        document = scenario(Random(f"balance/{seed}"), "drbd")
        plan: Any = plan_of("balance", document, "--n1=off", *options)
        where = {name: list(raw["nodes"]) for name, raw in document["instances"].items()}
        for move in plan["moves"]:
            name, new = move["instance"], set(move["to"]) - set(where[move["instance"]])
            where[name] = list(move["to"])
            for node in new:
                copies += 1
                free = document["nodes"][node]["total_disk"] - stored(document, node, where)
                assert free >= max(1, reserve_of(document, node)), (seed, move)
    assert copies > 0 or options


@pytest.mark.parametrize("template", ["plain", "drbd"])
def test_capacity_with_a_disk_reserve_equals_brute_force(template: str) -> None:
    """`capacity` places the number of instances that fit on the disk outside of the reserves.

    For drbd, the number of pairs is an upper limit, which a search by score does not always reach.
    """
    for seed in seeds(2, 200):
        rng = Random(f"capacity/{template}/{seed}")
        document, size = scenario(rng, template), 1200
        slots = {
            name: max(0, (node["free_disk"] - max(1, reserve_of(document, name))) // size)
            for name, node in document["nodes"].items()
        }
        expected = sum(slots.values())
        found = json_of(
            "capacity", f"--standard-alloc={size},100,1", f"--disk-template={template}",
            "--n1=off", document=document,
        )  # fmt: skip
        placed = [one["nodes"] for one in found["standard"]["instances"]]
        used = Counter(node for nodes in placed for node in nodes)
        assert all(used[node] <= slots[node] for node in slots), (seed, used)
        if template == "drbd":
            pairs = min(expected // 2, expected - max(slots.values()))
            assert len(placed) <= pairs
            assert bool(placed) is bool(pairs), seed
        else:
            assert len(placed) == expected, (seed, slots)


@pytest.mark.parametrize("mode", ["strict", "no-new", "no-worse"])
def test_reserve_does_not_change_the_n1_of_drbd(mode: str) -> None:
    """The disk reserve does not change which placements of drbd instances are N+1 compliant."""
    outcomes: Counter[bool] = Counter()
    for seed in seeds(15, 300):
        rng = Random(f"n1/{seed}")
        names = [f"node{k}" for k in range(1, 5)]
        residents = {
            f"i{k}": instance(*nodes, memory=rng.choice((500, 900)), disk=100)
            for k, nodes in enumerate(rng.sample(list(permutations(names, 2)), 7))
        }
        document = cluster(4, memory=rng.choice((2800, 3400)), cpus=64, instances=residents)
        request = allocate(document, memory=900, disk=100, disk_template="drbd")
        plain = respond(request, f"--n1={mode}")
        reserved = respond(request, f"--n1={mode}", "--disk-reserve=90%")
        assert {**plain, "info": ""} == {**reserved, "info": ""}, seed
        outcomes[plain["success"]] += 1
    assert len(outcomes) == 2 or mode != "strict", outcomes


def test_option_precedes_tags_and_the_tag_of_a_node_precedes_others() -> None:
    """The option for the disk reserve overrides the tags of node, group and cluster, in order."""
    document = cluster(2, disk=1000)
    document["cluster_tags"] = [f"{TAG}100"]
    document["nodes"]["node2"]["tags"] = [f"{TAG}50%"]
    listed = json_of("constraints", "--json", document=document)["constraints"]
    assert [(one["what"], one["origin"]) for one in listed] == [
        ("100 MiB of disk stay free on node1", f"tag of the cluster: {TAG}100"),
        ("500 MiB of disk stay free on node2", f"tag of node node2: {TAG}50%"),
    ]
    document["nodegroups"]["uuid-default"]["tags"] = [f"{TAG}200"]
    listed = json_of("constraints", "--json", document=document)["constraints"]
    assert [one["what"].split()[0] for one in listed] == ["200", "500"]
    listed = json_of("constraints", "--json", "--disk-reserve=30%", document=document)
    assert [(one["what"].split()[0], one["origin"]) for one in listed["constraints"]] == [
        ("300", "option --disk-reserve"),
    ] * 2
    request = allocate(document, disk=600, disk_template="plain")
    request["request"]["disk-reserve"] = "401"
    assert not respond(request, "--n1=off")["success"]
    request["request"]["disk-reserve"] = "400"
    assert respond(request, "--n1=off")["success"]
    assert respond(request, "--n1=off", "--disk-reserve=0")["success"]


def test_share_of_a_tag_has_no_percent_sign() -> None:
    """A disk reserve in a tag may be a share like ``30percent``, as Ganeti permits no ``%``."""
    document = cluster(1, disk=1000)
    document["nodes"]["node1"]["tags"] = [f"{TAG}30percent"]
    for disk, accepted in (600, True), (701, False):
        request = allocate(document, disk=disk, disk_template="plain")
        assert respond(request, "--n1=off")["success"] is accepted


def test_tag_of_a_node_without_an_amount_is_reported() -> None:
    """A tag for the disk reserve without an amount is reported and has no effect."""
    document = cluster(1, disk=1000)
    document["nodes"]["node1"]["tags"] = [f"{TAG}lots"]
    request = allocate(document, disk=600, disk_template="plain")
    answer = respond(request, "--n1=off")
    assert answer["success"]
    assert f"{TAG}lots does not count: expected a share such as 10%" in answer["info"]


def test_reserve_is_ignored_with_soft_limits_and_by_hail() -> None:
    """The disk reserve is a soft limit, which hail does not have.

    `explain` and `check` report a node that has less free disk.
    """
    document = cluster(1, disk=1000)
    document["nodes"]["node1"]["tags"] = [f"{TAG}50%"]
    request = allocate(document, disk=600, disk_template="plain")
    answer = respond(request, "--n1=off")
    assert answer["solutions"][0]["failures"] == {"FailDisk": 1}
    assert respond(request, "--n1=off", "--ignore-soft-errors")["success"]
    assert respond(request, "--n1=off", "--compat=hail")["success"]
    text = " ".join(printed("explain", "--n1=off", document=request).split())
    assert "would leave 400 MiB of disk, 500 are to be kept free" in text
    document["nodes"]["node1"]["free_disk"] = 400
    text = printed("check", "--no-simulation", document=document, status=1)
    assert "400 MiB of disk free, 500 are to be kept free" in " ".join(text.split())
