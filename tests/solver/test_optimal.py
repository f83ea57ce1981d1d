"""Test ``--optimal`` against brute force."""

from __future__ import annotations

import itertools
import json
import random
import re

import pytest

from iallocator import engine
from iallocator.cli import answer
from iallocator.handlers.allocate import allocation_request
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.placement.several.joint import broken_rules
from iallocator.requests import MultiAllocate
from tests import builders
from tests.builders import Json
from tests.command import respond
from tests.seeds import seeds

TOLD = re.compile(r"optimal: score ([\d.]+), proved lowest; greedy ([\d.]+), gap ([\d.]+)")


def _batch(seed: int, template: str) -> Json:
    """Return a small cluster with instances, and a batch."""
    rng = random.Random(seed)
    count = rng.randint(3, 4)
    instances = {
        f"old{n}": builders.instance(
            f"node{1 + n % count}", memory=rng.choice((512, 1024, 2048)), disk_template="plain"
        )
        for n in range(rng.randint(1, 5))
    }
    document = builders.cluster(nodes=count, memory=16384, instances=instances)
    wanted = []
    for number in range(3 if template == "rbd" else 2):
        memory = rng.choice((1024, 3072, 5120))
        request: Json = builders.allocate(document, memory=memory)["request"]
        del request["type"]
        nodes = 2 if template == "drbd" else 1
        request |= {"name": f"new{number}", "disk_template": template, "required_nodes": nodes}
        wanted.append(request)
    return document | {"request": {"type": "multi-allocate", "instances": wanted}}


def _lowest(raw: bytes, n1: str = "no-new") -> float:
    """Return the lowest score of all choices of nodes for the batch, by brute force."""
    settings = Settings()
    settings.n1 = n1
    cluster, request = engine.read(raw, settings)
    assert isinstance(request, MultiAllocate)
    context = Context(cluster, settings)
    allocations = [
        allocation
        for wanted in request.wanted
        if (allocation := allocation_request(context, wanted))
    ]
    single = allocations[0].instance.required_nodes == 1
    count = range(len(cluster.nodes))
    options = [(p,) for p in count] if single else list(itertools.permutations(count, 2))
    best = float("inf")
    for choice in itertools.product(options, repeat=len(allocations)):
        nodes = {allocation.instance.name: taken for allocation, taken in zip(allocations, choice)}
        if broken_rules(context, allocations, nodes) is not None:
            continue
        for allocation in allocations:
            context.state.place(allocation.instance, nodes[allocation.instance.name])
        best = min(best, context.kernel(count).score())
        for allocation in allocations:
            context.state.remove(allocation.instance, nodes[allocation.instance.name])
    return best


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_optimal_finds_the_lowest_score_there_is(template: str) -> None:
    """--optimal finds the lowest score, and states the true difference to the greedy score."""
    better = 0
    for seed in seeds(6, 16):
        raw = json.dumps(_batch(seed, template)).encode()
        response = json.loads(answer(raw, ["--optimal"]))
        reported = TOLD.search(response["info"])
        assert reported, response["info"]
        score, greedy, gap = (float(number) for number in reported.groups())
        assert score == pytest.approx(_lowest(raw), abs=2e-8)
        assert gap == pytest.approx(greedy - score, abs=2e-8)
        final = response["solutions"][-1]["score"]
        assert final == pytest.approx(score, abs=2e-8)
        better += gap > 1e-6
    assert better > 0


def test_optimal_without_time_proves_nothing() -> None:
    """If --optimal has no time, the greedy answer remains without a proof."""
    asked = _batch(3, "rbd")
    response = respond(asked, "--optimal", "--time-limit=0")
    plain = respond(asked)
    assert "not proved" in response["info"]
    assert response["result"] == plain["result"]


def test_optimal_evacuation_ends_no_higher_than_greedy() -> None:
    """An evacuation with --optimal ends with no higher score than the greedy one."""
    better = 0
    for seed in seeds(5, 12):
        rng = random.Random(seed)
        instances = {
            f"i{n}": builders.rbd("node1", memory=rng.choice((512, 2048, 3072))) for n in range(4)
        }
        document = builders.cluster(nodes=4, memory=16384, instances=instances)
        for name in ("node2", "node3", "node4"):
            document["nodes"][name]["free_memory"] -= rng.choice((0, 1024, 4096))
        request = {"type": "node-evacuate", "evac_mode": "all", "instances": list(instances)}
        asked = document | {"request": request}
        response = respond(asked, "--optimal")
        reported = TOLD.search(response["info"])
        assert reported, response["info"]
        score, greedy, gap = (float(number) for number in reported.groups())
        assert score <= greedy
        assert len(response["result"][0]) == len(instances)
        final = response["solutions"][-1]["score"]
        assert final == pytest.approx(score, abs=2e-8)
        better += gap > 1e-6
    assert better > 0


def test_optimal_does_not_exchange_instances_of_different_networks() -> None:
    """--optimal does not interchange instances that differ only in their networks."""
    nics = [{"mac": "aa:00:00:11:22:33", "network": "blue"}]
    for seed in range(8):
        document = _batch(seed, "rbd")
        first, second = list(document["nodes"].values())[:2]
        document["nodegroups"]["uuid-blue"] = builders.group("blue", networks=["blue"])
        first["group"] = second["group"] = "uuid-blue"
        wanted = document["request"]["instances"]
        for one in wanted:
            one["memory"] = 2048
        wanted[seed % 3]["nics"] = nics
        raw = json.dumps(document).encode()
        response = json.loads(answer(raw, ["--optimal", "--n1=off"]))
        reported = TOLD.search(response["info"])
        assert reported, response["info"]
        assert float(reported[1]) == pytest.approx(_lowest(raw, "off"), abs=2e-8)
