"""Test batches that greedy placement cannot complete: exact search equals brute force."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from iallocator import engine
from iallocator.cli import answer
from iallocator.handlers.allocate import allocation_request
from iallocator.options.parser import parse
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.placement.several.joint import offer_exactly
from iallocator.requests import MultiAllocate
from tests import builders
from tests.builders import Json
from tests.command import respond
from tests.seeds import seeds

pytest.importorskip("highspy")


FREE = (2049, 3073, 4097, 5121)
SIZES = (1024, 2048, 3072)


def _batch(seed: int, template: str) -> Json:
    """Return a small, nearly full cluster with a batch."""
    rng = random.Random(seed)
    document = builders.cluster(nodes=rng.randint(2, 4), memory=8192)
    for node in document["nodes"].values():
        builders.leave(node, rng.choice(FREE))
    wanted = []
    for number in range(rng.randint(2, 5 if template == "rbd" else 3)):
        request: Json = builders.allocate(document, memory=rng.choice(SIZES))["request"]
        del request["type"]
        nodes = 2 if template == "drbd" else 1
        request |= {"name": f"new{number}", "disk_template": template, "required_nodes": nodes}
        wanted.append(request)
    return document | {"request": {"type": "multi-allocate", "instances": wanted}}


def _fits(raw: bytes, options: list[str]) -> bool:
    """Return whether some choice of nodes fits all instances of a batch, by brute force."""
    settings = Settings()
    parse(options, settings)
    cluster, request = engine.read(raw, settings)
    assert isinstance(request, MultiAllocate)
    context = Context(cluster, settings)
    allocations = [allocation_request(context, wanted) for wanted in request.wanted]
    count = range(len(cluster.nodes))

    def fit(position: int) -> bool:
        if position == len(allocations):
            return True
        allocation = allocations[position]
        assert allocation is not None
        pairs = [(p, s) for p in count for s in count if p != s]
        single = allocation.instance.required_nodes == 1
        for nodes in [(p,) for p in count] if single else pairs:
            if offer_exactly(context, allocation, nodes).placements:
                context.state.place(allocation.instance, nodes)
                fitting = fit(position + 1)
                context.state.remove(allocation.instance, nodes)
                if fitting:
                    return True
        return False

    return fit(0)


@pytest.mark.parametrize(
    ("template", "options"),
    [("rbd", ["--n1=off"]), ("rbd", []), ("drbd", []), ("drbd", ["--ignore-soft-errors"])],
)
def test_a_batch_is_placed_if_and_only_if_all_can_be(template: str, options: list[str]) -> None:
    """Exact search places a whole batch if that is possible, and else proves that it is not."""
    searched = 0
    for seed in seeds(25, 60):
        raw = json.dumps(_batch(seed, template)).encode()
        response = json.loads(answer(raw, options))
        failed = response["result"][1] if response["success"] else ["all"]
        assert (not failed) == _fits(raw, options), f"seed {seed}: {response['info']}"
        searched += "exact search" in response["info"]
    assert searched > 2


def test_the_batch_of_the_manual_is_placed_whole() -> None:
    """The batch in the manual is placed completely.

    A medium, a small and a large instance are placed on two nodes; in that order, the large one
    does not fit.
    """
    document = builders.cluster(nodes=2, memory=8192)
    document["nodes"]["node1"]["free_memory"] = 2049
    document["nodes"]["node2"]["free_memory"] = 4097
    wanted = []
    for name, memory in (("medium", 2048), ("small", 1024), ("large", 3072)):
        request: Json = builders.allocate(document, memory=memory)["request"]
        del request["type"]
        wanted.append(request | {"name": name, "disk_template": "rbd", "required_nodes": 1})
    asked = document | {"request": {"type": "multi-allocate", "instances": wanted}}
    options = ["--n1=off"]
    greedy = respond(asked, *options, "--exact-search=no")
    exact = respond(asked, *options)
    assert greedy["result"][1] == ["large"]
    assert exact["result"] == [
        [["medium", ["node1"]], ["small", ["node2"]], ["large", ["node2"]]],
        [],
    ]
    assert "placed together by exact search" in exact["info"]


def test_answer_without_time_reports_it_and_is_that_of_greedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If exact search has no time, the answer is the greedy one, and reports that."""
    monkeypatch.setattr("iallocator.engine.LEAST_SECONDS", 60)
    asked = _batch(0, "rbd")
    response = respond(asked, "--n1=off", "--time-limit=0")
    greedy = respond(asked, "--n1=off", "--exact-search=no")
    assert response["info"] == greedy["info"] + "; exact search found no answer within 0 s"
    assert response["result"] == greedy["result"]


def test_every_batch_that_fits_is_placed_where_greedy_fails_on_a_dozen_of_them() -> None:
    """Every batch that fits is placed completely, though greedy placement fails for a dozen.

    Hundreds of nearly full clusters are tried.
    """
    rescued = 0
    for seed in seeds(250, 900, 1000):
        document = _batch(seed, "rbd")
        sizes = [wanted["memory"] for wanted in document["request"]["instances"]]
        free = [node["free_memory"] for node in document["nodes"].values()]
        fits = any(
            all(
                sum(size for size, taken in zip(sizes, choice) if taken == k) < room
                for k, room in enumerate(free)
            )
            for choice in itertools.product(range(len(free)), repeat=len(sizes))
        )
        response = respond(document, "--n1=off")
        failed = response["result"][1] if response["success"] else ["all"]
        assert fits == (not failed), f"seed {seed}: {response['info']}"
        rescued += "placed together by exact search" in response["info"]
    assert rescued >= 12


def test_answer_without_a_solver_reports_it_and_is_that_of_greedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the solver, a batch is placed greedily, and the answer reports that."""
    asked = _batch(0, "rbd")
    greedy = respond(asked, "--n1=off", "--exact-search=no")
    monkeypatch.setattr("iallocator.solver.highs.available", lambda: False)
    response = respond(asked, "--n1=off")
    assert response["info"] == (
        greedy["info"] + "; no exact search: its solver (highspy) is not installed"
    )
    assert response["result"] == greedy["result"]


def test_exact_search_keeps_to_groups_with_the_network() -> None:
    """Exact search uses no group without the network of the instances."""
    document = builders.cluster(nodes={"default": 2, "far": 1}, memory=16384)
    document["nodegroups"]["uuid-default"]["networks"] = ["blue"]
    document["nodes"]["node1"]["free_memory"] = 2049
    document["nodes"]["node2"]["free_memory"] = 4097
    nics = [{"mac": "aa:00:00:11:22:33", "network": "blue"}]
    wanted = []
    for name, memory in (("medium", 2048), ("small", 1024), ("large", 3072), ("more", 1024)):
        request: Json = builders.allocate(document, memory=memory)["request"]
        del request["type"]
        request |= {"name": name, "disk_template": "rbd", "required_nodes": 1, "nics": nics}
        wanted.append(request)
    batch = document | {"request": {"type": "multi-allocate", "instances": wanted}}
    response = respond(batch, "--n1=off")
    assert "exact search proved that no more than 3 of 4 can be placed" in response["info"]
    assert all(nodes != ["node3"] for _, nodes in response["result"][0])


def test_exact_search_counts_disks_against_the_pool_they_come_from() -> None:
    """Exact search distinguishes equal instances with disks in different volume groups."""
    document = builders.cluster(nodes=2, memory=16384)
    sizes = {"node1": {"fast": 3000, "slow": 1500}, "node2": {"fast": 1500, "slow": 3000}}
    for name, free in sizes.items():
        document["nodes"][name]["storage_pools"] = [
            {"type": "internal", "name": pool, "total": 5000, "free": amount}
            for pool, amount in free.items()
        ]
    wanted = []
    for name, pool, memory in (
        ("fast1", "fast", 2048), ("slow1", "slow", 2048),
        ("fast2", "fast", 2048), ("slow2", "slow", 2048),
    ):  # fmt: skip
        request: Json = builders.allocate(document, memory=memory)["request"]
        del request["type"]
        request |= {
            "name": name, "disk_template": "plain", "required_nodes": 1,
            "disks": [{"size": 1400, "mode": "rw", "vg": pool}], "disk_space_total": 1400,
        }  # fmt: skip
        wanted.append(request)
    # with this memory, greedy fills node1 with one of each first, and then nothing is left there
    document["nodes"]["node1"]["free_memory"] = 6200
    document["nodes"]["node2"]["free_memory"] = 2049
    batch = document | {"request": {"type": "multi-allocate", "instances": wanted}}
    for order in itertools.permutations(wanted):
        batch["request"]["instances"] = list(order)
        response = respond(batch, "--n1=off")
        assert response["result"][1] == [], response["info"]


def test_batch_is_placed_in_another_order_if_only_that_is_possible() -> None:
    """A node without the memory that it reserves takes a secondary before it takes a primary."""
    document = builders.cluster(nodes=4, memory=2600, disk=6000)
    homes = {"i0": (2, 1), "i1": (4, 3), "i2": (4, 1), "i3": (3, 2)}
    for name, (primary, secondary) in homes.items():
        memory = 900 if name == "i1" else 1500
        document["instances"][name] = builders.instance(
            f"node{primary}", f"node{secondary}", memory=memory, disk_template="drbd"
        )
    used = {"node1": 0, "node2": 1500, "node3": 1500, "node4": 2400}
    for name, free in {"node1": 2500, "node2": 1100, "node3": 1000, "node4": 700}.items():
        document["nodes"][name] |= {"total_memory": free + used[name], "free_memory": free}
        document["nodes"][name]["reserved_memory"] = 0
    document["nodes"]["node3"]["free_disk"] = 1850
    wanted = []
    for name, memory, disk in (("new0", 900, 900), ("new1", 900, 2300), ("new2", 500, 700)):
        request: Json = builders.allocate(document, memory=memory)["request"]
        del request["type"]
        request |= {"name": name, "disk_template": "drbd", "required_nodes": 2}
        request |= {"disks": [{"size": disk, "mode": "rw"}], "disk_space_total": disk + 128}
        wanted.append(request)
    answer = respond(
        document | {"request": {"type": "multi-allocate", "instances": wanted}}, "--n1=off"
    )
    placed, failed = answer["result"]
    assert not failed, answer["info"]
    assert [name for name, _ in placed] != ["new0", "new1", "new2"]
