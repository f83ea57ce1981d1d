"""Test the strategy ``affinity`` against a second implementation, on random documents."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from random import Random

import pytest

from benchmarks.clusters import Shape, document
from iallocator.cli import answer
from iallocator.model.state import State
from iallocator.ranking.pacemaker.capacity_usage import CapacityUsage
from iallocator.ranking.pacemaker.rules import Choice, _wins
from iallocator.tags.pacemaker import PacemakerTags, lacking
from tests.builders import Json
from tests.model.make import model_of

from .affinity_documents import KINDS, keyed_document, keyed_options, possible, tightened
from .plain_affinity import Options, Scenario

SEEDS = 60
"""Documents for each request type and each half of the test."""


def ask(document: Json, options: Options, *more: str) -> Json:
    """Return the response without exact search, which ignores the ranks of keys."""
    words = ["--strategy=affinity", "--n1=off", "--exact-search=no", *options.words, *more]
    response: Json = json.loads(answer(json.dumps(document).encode(), words))
    return response


def expected_allocate(scenario: Scenario) -> Json:
    """Return the expected answer to ``allocate``."""
    raw = scenario.document["request"]
    return {"result": scenario.choose_group(raw, scenario.document["nodegroups"])}


def expected_batch(scenario: Scenario) -> Json:
    """Return the expected answer to ``multi-allocate``; keys of the request apply to all."""
    request = scenario.document["request"]
    asked = request.get("placement_keys", [])
    allocated, failed = [], []
    for raw in request["instances"]:
        nodes = scenario.choose_group(raw, scenario.document["nodegroups"], asked)
        if nodes:
            allocated.append([raw["name"], nodes])
            scenario.put(raw["name"], raw, nodes, asked)
        else:
            failed.append(raw["name"])
    return {"result": [allocated, failed] if allocated else []}


def expected_secondary(scenario: Scenario) -> Json:
    """Return the expected answer to ``allocate-secondary``."""
    request = scenario.document["request"]
    raw = scenario.instances[request["name"]]
    scenario.take(request["name"])
    targets = [
        n for n in scenario.members(group_of(scenario, raw["nodes"])) if n not in raw["nodes"]
    ]
    found = scenario.choose(raw, targets, request.get("placement_keys", []))
    return {"result": found[0] if found else []}


def expected_relocate(scenario: Scenario) -> Json:
    """Return the expected answer to ``relocate``."""
    request = scenario.document["request"]
    raw = scenario.instances[request["name"]]
    present = raw["nodes"]
    scenario.take(request["name"])
    targets = [n for n in scenario.members(group_of(scenario, present)) if n not in present]
    if len(present) == 2 and scenario.document["nodes"][present[0]]["offline"]:
        return {"result": []}  # there is nothing to copy its disks from
    one = {**raw, "disk_template": "rbd"}  # one new node, whatever the template
    return {"result": scenario.choose(one, targets, request.get("placement_keys", []))}


def expected_evacuate(scenario: Scenario) -> Json:
    """Return the expected answer to ``node-evacuate``."""
    request = scenario.document["request"]
    mode, asked = request["evac_mode"], request.get("placement_keys", [])
    left: set[str] = set()
    for name in request["instances"]:
        nodes = scenario.instances[name]["nodes"]
        left |= set(nodes[:1] if mode != "secondary-only" else [])
        left |= set(nodes[1:] if mode != "primary-only" else [])
    moved, failed = [], []
    for name in request["instances"]:
        raw = scenario.instances[name]
        uuid = group_of(scenario, raw["nodes"])
        targets = [n for n in scenario.members(uuid) if n not in left and n not in raw["nodes"]]
        nodes = _evacuated(scenario, name, mode, targets, asked)
        if nodes:
            started = nodes[0] != raw["nodes"][0]
            scenario.put(name, raw, nodes, asked if started else [])
            moved.append([name, scenario.document["nodegroups"][uuid]["name"], nodes])
        else:
            failed.append(name)
    return {"moved": moved, "failed": failed}


def _evacuated(
    scenario: Scenario, name: str, mode: str, targets: Sequence[str], asked: Sequence[Json]
) -> list[str]:
    raw, nodes = scenario.instances[name], scenario.where[name]
    away = Scenario(scenario.document, scenario.options)
    away.instances, away.where, away.asked = (
        scenario.instances,
        dict(scenario.where),
        scenario.asked,
    )
    away.take(name)
    single = {**raw, "disk_template": "rbd"}
    if len(nodes) == 1:
        return [] if mode == "secondary-only" else away.choose(single, targets, asked)
    if mode == "secondary-only":
        if scenario.document["nodes"][nodes[0]]["offline"]:
            return []  # there is nothing to copy its disks from
        found = away.choose(single, targets, asked)
        return [nodes[0], *found] if found else []
    if mode == "primary-only":
        return [nodes[1], nodes[0]] if scenario.online(nodes[1]) else []
    if not scenario.online(nodes[0]) and not scenario.online(nodes[1]):
        return []
    return away.choose(raw, targets, asked)


def expected_change(scenario: Scenario) -> Json:
    """Return the expected answer to ``change-group``."""
    request = scenario.document["request"]
    asked = request.get("placement_keys", [])
    present = {
        group_of(scenario, scenario.instances[name]["nodes"]) for name in request["instances"]
    }
    uuids = [uuid for uuid in scenario.document["nodegroups"] if uuid not in present]
    moved, failed = [], []
    for name in request["instances"]:
        raw, before = scenario.instances[name], scenario.where[name]
        scenario.take(name)
        nodes = scenario.choose_group(raw, uuids, asked)
        if len(before) == 2 and not any(map(scenario.online, before)):
            nodes = []  # no failover to begin with
        scenario.put(name, raw, nodes or before, asked if nodes else [])
        if nodes:
            uuid = scenario.document["nodes"][nodes[0]]["group"]
            moved.append([name, scenario.document["nodegroups"][uuid]["name"], nodes])
        else:
            failed.append(name)
    return {"moved": moved, "failed": failed}


def group_of(scenario: Scenario, nodes: Sequence[str]) -> str:
    """Return the uuid of the group of the first of `nodes`."""
    return str(scenario.document["nodes"][nodes[0]]["group"])


EXPECTED = {
    "allocate": expected_allocate,
    "multi-allocate": expected_batch,
    "allocate-secondary": expected_secondary,
    "relocate": expected_relocate,
    "node-evacuate": expected_evacuate,
    "change-group": expected_change,
}


def comparable(kind: str, response: Json) -> Json:
    """Return the part of a response that names the chosen nodes."""
    if kind in ("node-evacuate", "change-group"):
        moved, failed, _ = response["result"]
        return {"moved": moved, "failed": [name for name, _ in failed]}
    return {"result": response["result"]}


def mismatch(seed: int, kind: str) -> str:
    """Return the difference between both answers to a document; "" if there is none."""
    rng = Random(f"{kind} {seed}")
    document, options = keyed_document(rng, kind), keyed_options(rng)
    response = ask(document, options)
    mine = comparable(kind, response)
    plain = EXPECTED[kind](Scenario(document, options))
    wrong = unsticky(kind, document, response, Scenario(document, options))
    if mine != plain:
        wrong += f"seed {seed}: {mine} instead of {plain}"
    return wrong


def unsticky(kind: str, document: Json, response: Json, scenario: Scenario) -> str:
    """Return an error if a moved instance lacks the sticky keys of its new primary; else ""."""
    request = document["request"]
    for entry in response["solutions"]:
        nodes = entry.get("nodes")
        name = entry.get("instance", request.get("name"))
        before = document["instances"].get(name, {}).get("nodes")
        if before and nodes and before[0] == nodes[0]:
            continue  # it does not leave its primary
        if nodes and entry.get("sticky_keys") != scenario.sticky(nodes[0]):
            return f"sticky keys {entry.get('sticky_keys')} on {nodes}, {request['type']}; "
    return ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [0, SEEDS])
def test_affinity_on_random_documents_equals_a_plain_implementation(kind: str, start: int) -> None:
    """``affinity`` gives the nodes, failures and sticky keys of a second implementation."""
    wrong = [found for seed in range(start, start + SEEDS) if (found := mismatch(seed, kind))]
    assert not wrong, "\n".join(wrong)


def test_affinity_random_documents_cover_every_outcome() -> None:
    """The random documents of this module lead to answers of every kind."""
    outcomes = {kind: [0, 0, 0] for kind in KINDS}
    for kind in KINDS:
        for seed in range(SEEDS):
            rng = Random(f"{kind} {seed}")
            document, options = keyed_document(rng, kind), keyed_options(rng)
            plain = EXPECTED[kind](Scenario(document, options))
            text = json.dumps(plain)
            outcomes[kind][0] += "node" in text
            outcomes[kind][1] += plain.get("result") == [] or bool(plain.get("failed"))
            by_name = min(document["nodes"])
            outcomes[kind][2] += "node" in text and by_name not in text
    assert all(min(counts) >= 2 for counts in outcomes.values()), outcomes


def test_affinity_ranks_all_nodes_as_the_plain_implementation() -> None:
    """With --top, ``affinity`` ranks all nodes of a group as a second implementation does."""
    for seed in range(SEEDS):
        rng = Random(f"top {seed}")
        document, options = keyed_document(rng, "allocate"), keyed_options(rng)
        request = document["request"]
        request |= {"disk_template": "rbd", "required_nodes": 1}
        scenario = Scenario(document, options)
        for entry in ask(document, options, "--top=99")["solutions"]:
            ranked = scenario.ranked(request, scenario.members(entry["group_uuid"]), [])
            shown = [placement["nodes"][0] for placement in entry.get("placements", [])]
            assert shown == ranked, seed


def test_affinity_ranks_only_nodes_that_the_limits_accept() -> None:
    """On full nodes, ``affinity`` ranks only nodes that can host the instance."""
    narrowed = 0
    for seed in range(2 * SEEDS):
        rng = Random(f"tight {seed}")
        document = tightened(rng, keyed_document(rng, "allocate"))
        options = Options(rng.choice((0, 0, 400, 1024)))
        scenario = Scenario(
            document, options, lambda scenario, raw, node: possible(scenario.document, node)
        )
        expected = scenario.choose_group(document["request"], document["nodegroups"])
        assert ask(document, options)["result"] == expected, seed
        anywhere = Scenario(document, options)
        free = anywhere.choose_group(document["request"], document["nodegroups"])
        narrowed += expected != free
    assert narrowed > SEEDS / 10


def test_affinity_with_a_seed_draws_among_equals_only() -> None:
    """With --seed, ``affinity`` chooses at random among nodes of equal rank only."""
    different = 0
    for seed in range(SEEDS):
        rng = Random(f"tie {seed}")
        document, options = keyed_document(rng, "allocate"), keyed_options(rng)
        request = document["request"]
        request |= {"disk_template": "rbd", "required_nodes": 1}
        scenario = Scenario(document, options)
        uuids = document["nodegroups"]
        policies = {uuids[uuid]["alloc_policy"] for uuid in uuids if scenario.members(uuid)}
        nodes = [node for uuid in uuids for node in scenario.members(uuid)]
        equals = scenario.rank(request, nodes, [])
        if len(policies) > 1 or not equals:
            continue
        found = set()
        for draw in range(6):
            response = ask(document, options, f"--seed={draw}")
            assert response["result"] == ask(document, options, f"--seed={draw}")["result"]
            found |= set(response["result"])
        assert found <= set(equals[0]), seed
        different += len(found) > 1
    assert different > SEEDS / 10


# Nodes compared in arrays, renewed where they change, rank as they do one by one.


@pytest.mark.parametrize("tagged", [False, True])
def test_affinity_after_placements_equals_pairwise_comparison(tagged: bool) -> None:
    """After placements, ``affinity`` ranks nodes as pairwise comparisons do."""
    whole = document(Shape(20, "rbd", per_node=3, fullness=0.3))
    rng = random.Random(tagged)
    for entry in [*whole["nodes"].values(), *whole["instances"].values()]:
        names = rng.sample(("ram", "io", "gpu"), rng.randint(1, 3))
        entry["tags"] = [f"iallocator:utilization:{n}:{rng.randint(1, 4)}" for n in names] * tagged
    cluster = model_of(whole)
    facts = PacemakerTags(cluster, (), [], "iallocator:")
    usage = CapacityUsage(facts, State(cluster), range(20))
    for _ in range(40):
        usage.take(rng.randrange(20), facts.of(rng.choice(cluster.instances)).needs)
        choice = Choice("balanced", cluster, usage, facts.weights)
        choice.present = rng.choice((None, rng.randrange(20)))
        nodes = choice.by_tie(rng.sample(range(20), rng.choice((3, 15, 20))))
        assert usage.rank_table().wins(nodes, choice.present) == _wins(choice, nodes)
        needs = facts.of(rng.choice(cluster.instances)).needs
        assert usage.lacking(nodes, needs) == {i for i in nodes if lacking(usage.free[i], needs)}
