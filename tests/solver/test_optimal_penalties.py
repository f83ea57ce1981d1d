"""Test that ``--optimal`` minimizes score, penalties and allocation policies together."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Mapping, Sequence

import pytest

from iallocator import engine
from iallocator.handlers.allocate import allocation_request
from iallocator.model.instance import Instance
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.placement.several.joint import broken_rules
from iallocator.requests import MultiAllocate
from tests import builders
from tests.builders import Json
from tests.command import respond

from .moving import new_instance

OPTIMAL = re.compile(
    r"optimal: score ([\d.]+)(?: \+ penalty ([\d.]+))?, proved lowest; "
    r"greedy ([\d.]+)(?: \+ penalty ([\d.]+))?, gap ([\d.]+)"
)
WEIGHT = re.compile(r"costs ([\d.]+)$")
LAST_RESORT = 1000.0


def _batch(seed: int) -> Json:
    """Return a cluster with tagged instances, and a batch with soft affinity."""
    rng = random.Random(seed)
    names = ("a:0.5", "b:0.05", "c:2")

    def tag() -> str:
        return f"iallocator:{rng.choice(('separate', 'colocate'))}:should:{rng.choice(names)}"

    instances = {
        f"old{n}": builders.rbd(f"node{1 + n}", memory=rng.choice((512, 2048)), tags=[tag()])
        for n in range(3)
    }
    document = builders.cluster(nodes={"default": 2, "other": 1}, memory=16384, instances=instances)
    if seed % 2:
        document["nodegroups"]["uuid-other"]["alloc_policy"] = "last_resort"
    document["nodes"]["node1"]["free_memory"] -= rng.choice((0, 9000, 12000))
    wanted = [
        new_instance(document, f"new{n}", rng.choice((1024, 3072, 5120)), tag()) for n in range(3)
    ]
    return document | {"request": {"type": "multi-allocate", "instances": wanted}}


def _broken(response: Json) -> float:
    """Return the sum of the penalties of violated constraints in the answer."""
    broken = [text for entry in response["solutions"] for text in entry.get("broken", ())]
    return sum(float(found[1]) for text in broken if (found := WEIGHT.search(text)))


def _cost(
    context: Context, instances: Sequence[Instance], nodes: Mapping[str, tuple[int, ...]]
) -> float:
    """Return the score with `nodes` placed, plus penalties and costs of last-resort groups."""
    relations = context.affinity.relations
    cost = sum(
        LAST_RESORT
        for (node,) in nodes.values()
        if context.cluster.nodes[node].group.alloc_policy == "last_resort"
    )
    for instance in instances:
        (node,) = nodes[instance.name]
        if relations is not None:
            rule_counts = relations.rule_counts(context.state.where)
            cost += relations.costs(instance.name, (node,), rule_counts).get(node, 0.0)
        context.state.place(instance, (node,))
    cost += context.kernel(context.all_nodes()).score()
    for instance in instances:
        context.state.remove(instance, nodes[instance.name])
    return cost


def _lowest(document: Json) -> float:
    """Return the lowest cost of all choices of nodes for the batch, by brute force."""
    settings = Settings()
    settings.n1 = "no-new"
    cluster, request = engine.read(builders.as_bytes(document), settings)
    assert isinstance(request, MultiAllocate)
    context = Context(cluster, settings, coming=[wanted.instance for wanted in request.wanted])
    allocations = [
        allocation
        for wanted in request.wanted
        if (allocation := allocation_request(context, wanted))
    ]
    names = [allocation.instance.name for allocation in allocations]
    places = [(index,) for index in context.all_nodes()]
    choices = (dict(zip(names, taken)) for taken in itertools.product(places, repeat=len(names)))
    return min(
        _cost(context, context.coming, nodes)
        for nodes in choices
        if broken_rules(context, allocations, nodes) is None
    )


def test_optimal_batch_ends_with_the_lowest_sum_of_score_and_penalties() -> None:
    """With --optimal, no other nodes for a batch cost less; violations have their penalties."""
    better = with_penalty = 0
    for seed in range(24):
        document = _batch(seed)
        response = respond(document, "--optimal", "--n1=no-new")
        found = OPTIMAL.search(response["info"])
        assert found, response["info"]
        score, penalty, greedy, greedy_penalty, gap = (
            float(number or 0) for number in found.groups()
        )
        assert score + penalty == pytest.approx(_lowest(document), abs=1e-6), f"seed {seed}"
        assert gap == pytest.approx(greedy + greedy_penalty - score - penalty, abs=1e-6)
        groups = [entry["group"] for entry in response["solutions"]]
        reluctance = LAST_RESORT * groups.count("other") if seed % 2 else 0
        assert _broken(response) + reluctance == pytest.approx(penalty, abs=1e-6)
        better += gap > 1e-6
        with_penalty += penalty > 0
    assert better
    assert with_penalty


def test_optimal_batch_uses_no_group_of_last_resort_where_the_preferred_has_room() -> None:
    """With --optimal, no last-resort group is used if a preferred group has capacity."""
    instances = {"old": builders.rbd("node1", memory=8192)}
    document = builders.cluster(nodes={"default": 1, "far": 1}, memory=16384, instances=instances)
    document["nodegroups"]["uuid-far"]["alloc_policy"] = "last_resort"
    wanted = [new_instance(document, name, 1024) for name in ("one", "two")]
    batch = document | {"request": {"type": "multi-allocate", "instances": wanted}}
    response = respond(batch, "--optimal", "--n1=off")
    assert response["result"][0] == [["one", ["node1"]], ["two", ["node1"]]]


def test_optimal_batch_lists_the_other_nodes_of_shared_storage() -> None:
    """An optimal answer on shared storage lists other nodes in `secondaries`."""
    for seed in range(24):
        document = _batch(seed)
        for one in document["request"]["instances"]:
            one["tags"] = []
        response = respond(document, "--optimal", "--n1=off")
        if not response["info"].endswith("gap 0.00000000"):
            break
    assert not response["info"].endswith("gap 0.00000000")
    homes = {name: node["group"] for name, node in document["nodes"].items()}
    for entry in response["solutions"]:
        (node,) = entry["nodes"]
        others = {name for name, home in homes.items() if home == homes[node]} - {node}
        assert set(entry["groups"][0]["secondaries"]) == others


@pytest.mark.parametrize("strategy", ["affinity", "pacemaker-balanced", "lost-allocations"])
def test_optimal_under_another_strategy_is_rejected_in_info(strategy: str) -> None:
    """With a strategy without scores, --optimal is ignored with a note in `info`."""
    document = _batch(3)
    plain = respond(document, f"--strategy={strategy}")
    response = respond(document, f"--strategy={strategy}", "--optimal")
    why = f"; no optimum: group default is ranked by {strategy}, not by the score"
    assert why in response["info"]
    assert response["info"].replace(why, "") == plain["info"]
    assert response["result"] == plain["result"]
    assert response["solutions"] == plain["solutions"]


def test_optimal_evacuation_under_another_strategy_is_rejected_in_info() -> None:
    """An evacuation by another strategy ignores --optimal with a note in `info`."""
    instances = {f"i{n}": builders.rbd("node1", memory=1024) for n in range(2)}
    document = builders.cluster(nodes=3, instances=instances)
    request = {"type": "node-evacuate", "evac_mode": "all", "instances": list(instances)}
    plain = respond(document | {"request": request}, "--strategy=pacemaker-minimal")
    response = respond(document | {"request": request}, "--strategy=pacemaker-minimal", "--optimal")
    why = "; no optimum: group default is ranked by pacemaker-minimal, not by the score"
    assert why in response["info"]
    assert response["info"].replace(why, "") == plain["info"]
    assert response["result"] == plain["result"]


def test_optimal_with_an_empty_batch_answers() -> None:
    """An empty batch with --optimal has a valid answer."""
    document = builders.cluster(nodes=2)
    batch = document | {"request": {"type": "multi-allocate", "instances": []}}
    response = respond(batch, "--optimal")
    assert response["success"]
    assert response["result"] == [[], []]


def test_optimal_batch_optimises_the_instances_that_fit() -> None:
    """--optimal places the instances that fit with the lowest cost, if one does not fit."""
    document = _batch(0)
    rest = respond(document, "--optimal", "--n1=off")
    document["request"]["instances"].append(new_instance(document, "huge", 60000))
    response = respond(document, "--optimal", "--n1=off")
    assert response["result"] == [rest["result"][0], ["huge"]]
    assert "optimal: score" in response["info"]


def _evacuation(seed: int) -> Json:
    """Return a cluster with soft constraints in which the first node must be evacuated."""
    rng = random.Random(seed)
    instances = {
        f"i{n}": builders.rbd(
            "node1", memory=rng.choice((512, 2048, 3072)),
            tags=[f"iallocator:{rng.choice(('separate', 'colocate'))}:should:a:0.3"],
        )
        for n in range(3)
    }  # fmt: skip
    document = builders.cluster(nodes=3, memory=16384, instances=instances)
    for name in ("node2", "node3"):
        document["nodes"][name]["free_memory"] -= rng.choice((0, 1024, 4096))
    request = {"type": "node-evacuate", "evac_mode": "all", "instances": list(instances)}
    return document | {"request": request}


def test_optimal_evacuation_counts_and_reports_violated_soft_constraints() -> None:
    """An evacuation with --optimal has the lowest cost, and reports its penalties."""
    with_penalty = 0
    for seed in range(12):
        document = _evacuation(seed)
        response = respond(document, "--optimal", "--n1=no-new")
        found = OPTIMAL.search(response["info"])
        assert found, response["info"]
        score, penalty = float(found[1]), float(found[2] or 0)
        assert _broken(response) == pytest.approx(penalty, abs=1e-6)
        assert score + penalty == pytest.approx(_lowest_of_moves(document), abs=1e-6)
        for entry in response["solutions"]:
            (node,) = entry["nodes"]
            assert entry["secondaries"] == [n for n in ("node2", "node3") if n != node]
        with_penalty += penalty > 0
    assert with_penalty


def _lowest_of_moves(document: Json) -> float:
    """Return the lowest cost of all ways to evacuate the first node."""
    settings = Settings()
    cluster, _ = engine.read(builders.as_bytes(document), settings)
    context = Context(cluster, settings)
    for instance in cluster.instances:
        context.state.remove(instance, instance.nodes)
    names = [instance.name for instance in cluster.instances]
    choices = itertools.product([(1,), (2,)], repeat=len(names))
    return min(_cost(context, cluster.instances, dict(zip(names, taken))) for taken in choices)
