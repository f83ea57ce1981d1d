"""Test labels of nodes in placements and N+1 against brute force."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random
from typing import Any

import pytest

from iallocator.model.columns import MEMORY
from iallocator.model.moves import Move
from tests.builders import Json, allocate, allocate_rbd, cluster, instance, rbd
from tests.command import json_of, plan_of, printed, respond
from tests.n1.test_no_worse import least_lost
from tests.n1.test_no_worse import scenario as partly_full
from tests.n1.tight import context_of
from tests.seeds import seeds
from tests.storage.test_redundancy import POOLS, Brute, tight

MUST, NEVER = "iallocator:nodes:must:", "iallocator:nodes:never:"


def allows(tags: list[str], labels: list[str]) -> bool:
    """Return whether an instance with `tags` may be on a node with `labels`, by definition."""
    required = [tag[len(MUST) :] for tag in tags if tag.startswith(MUST)]
    excluded = [tag[len(NEVER) :] for tag in tags if tag.startswith(NEVER)]
    return set(required) <= set(labels) and not set(excluded) & set(labels)


def labelled(rng: Random) -> Json:
    """Return a nearly full cluster in which instances have tags for node labels."""
    document = tight(rng)
    for node in document["nodes"].values():
        node["tags"] = [pool["name"] for pool in node.pop("storage_pools") if pool["name"] in POOLS]
    for raw in (*document["instances"].values(), document["request"]):
        tags = [MUST + raw.pop("storage_pool")] if rng.random() < 0.7 else []
        raw.pop("storage_pool", None)
        tags += [NEVER + rng.choice(POOLS)] if rng.random() < 0.4 else []
        tags += [MUST + rng.choice(POOLS)] if rng.random() < 0.2 else []
        raw["tags"] = list(dict.fromkeys(tags))
    return document


class ByLabels(Brute):
    """A simulation of failures from a document alone, in which labels limit the nodes."""

    def reaches(self, node: str, name: str) -> bool:
        """Return whether the tags of the instance `name` permit the node."""
        return allows(self.raw[name]["tags"], self.nodes[node]["tags"])


@pytest.mark.parametrize("mode", ["strict", "no-new"])
def test_n1_with_labels_equals_brute_force(mode: str) -> None:
    """N+1 accepts a placement if each instance can restart on a node with permitted labels."""
    reported: Counter[bool] = Counter()
    for seed in seeds(200, 1500):
        document = labelled(Random(f"labels/{seed}"))
        case = context_of(document, mode)
        tolerance = case.context.tolerance(case.context.all_nodes())
        strict = mode == "strict"
        before = ByLabels(document, strict)
        names = [node.name for node in case.cluster.nodes]
        watched = [name for name in names if strict or before.online[name]]
        watched = [name for name in watched if strict or before.tolerates(name)]
        within = case.cluster.reach(case.new)
        for index, name in enumerate(names):
            open_node = allows(document["request"]["tags"], document["nodes"][name]["tags"])
            assert open_node is (within is None or index in within), (seed, name)
            if not before.online[name] or not open_node:
                continue
            after = ByLabels(document, strict)
            after.put("new", document["request"], name)
            if case.state.columns[0][index] - case.new.memory > 0:
                expected = all(map(after.tolerates, watched))
                found = tolerance.allows(Move(case.new, (), (index,)))
                assert found is expected, (mode, seed, name)
                reported[expected] += 1
    assert min(reported[True], reported[False]) > 20, reported


def scenario(rng: Random, template: str) -> Json:
    """Return three to five nodes with labels, and instances that their tags permit there."""
    labels = {f"node{k}": rng.sample("abc", rng.randint(0, 3)) for k in range(1, rng.randint(4, 6))}
    residents = {}
    for number in range(rng.randint(2, 8)):
        tags = some_tags(rng)
        homes = [name for name, own in labels.items() if allows(tags, own)]
        roles = 2 if template == "drbd" else 1
        if len(homes) >= roles:
            residents[f"i{number}"] = instance(
                *rng.sample(homes, roles), memory=rng.choice((500, 1000)), disk=1000,
                disk_template=template, tags=tags,
            )  # fmt: skip
    document = cluster(len(labels), memory=16384, cpus=64, instances=residents)
    for name, own in labels.items():
        document["nodes"][name]["tags"] = own
    return document


def some_tags(rng: Random) -> list[str]:
    """Return up to two tags that require or forbid labels."""
    known = [word + label for word, label in product((MUST, NEVER), "abc")]
    return rng.sample(known, rng.choice((0, 1, 1, 2)))


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_allocations_with_labels_equal_brute_force(template: str) -> None:
    """An allocation can use exactly the nodes that the tags permit, in both roles."""
    for seed in seeds(60, 500):
        rng = Random(f"allocations/{template}/{seed}")
        document, tags = scenario(rng, template), some_tags(rng)
        own = {name: node["tags"] for name, node in document["nodes"].items()}
        free = [name for name, labels in own.items() if allows(tags, labels)]
        request = allocate(document, memory=500, disk=1000, disk_template=template, tags=tags)
        answer = respond(request, "--n1=off")
        expected = len(free) * (len(free) - 1 if template == "drbd" else 1)
        assert answer["success"] is (expected > 0), (seed, answer)
        if expected:
            assert set(answer["result"]) <= set(free), (seed, answer)
            assert answer["solutions"][0]["successes"] == expected, (seed, answer)
        assert respond(request, "--compat=hail")["success"], seed


@pytest.mark.parametrize(
    ("command", "template"),
    [("balance", "rbd"), ("balance", "drbd"), ("squeeze", "rbd"), ("evacuate", "rbd"),
     ("evacuate", "drbd")],
)  # fmt: skip
def test_moves_keep_instances_on_nodes_that_their_tags_allow(command: str, template: str) -> None:
    """Each move puts an instance on nodes that its tags permit.

    An evacuation fails only if there is no such node.
    """
    moved = 0
    for seed in seeds(12, 250):
        document = scenario(Random(f"{command}/{template}/{seed}"), template)
        own = {name: node["tags"] for name, node in document["nodes"].items()}
        moves: list[tuple[str, list[str]]] = []
        if command == "evacuate":
            there = [n for n, raw in document["instances"].items() if raw["nodes"][0] == "node1"]
            document["request"] = {
                "type": "node-evacuate", "instances": there, "evac_mode": "primary-only",
            }  # fmt: skip
            done, failed, _ = respond(document, "--n1=off")["result"]
            moves = [(name, nodes) for name, _, nodes in done]
            for name, _ in failed:
                tags = document["instances"][name]["tags"]
                others = document["instances"][name]["nodes"][1:] or list(own)[1:]
                assert not [n for n in others if allows(tags, own[n])], (seed, name)
        else:
            plan: Any = plan_of(command, document, "--n1=off")
            moves = [(one["instance"], one["to"]) for one in plan["moves"]]
        for name, nodes in moves:
            moved += 1
            for node in nodes:
                assert allows(document["instances"][name]["tags"], own[node]), (seed, name)
    assert moved > 5


def test_capacity_keeps_failures_tolerated_that_labels_allow() -> None:
    """`capacity` keeps tolerated failures tolerated by labels, and fills the cluster completely.

    One more instance would make a failure intolerable, or fits on no node.
    """
    ends: Counter[str] = Counter()
    for seed in seeds(25, 300):
        document = labelled(Random(f"capacity/{seed}"))
        size = max(1, document.pop("request")["memory"])
        found = json_of(
            "capacity", f"--standard-alloc=1,{size},1", "--disk-template=rbd", "--n1=no-new",
            document=document,
        )  # fmt: skip
        before, after = ByLabels(document, strict=False), ByLabels(document, strict=False)
        watched = [name for name in before.nodes if before.online[name] and before.tolerates(name)]
        raw = {"memory": size, "tags": []}
        for one in found["standard"]["instances"]:
            after.put(one["instance"], raw, one["nodes"][0])
        assert all(map(after.tolerates, watched)), seed
        for node in after.nodes:
            if after.online[node] and after.free[node] > size:
                more = ByLabels(document, strict=False)
                for one in found["standard"]["instances"]:
                    more.put(one["instance"], raw, one["nodes"][0])
                more.put("one-more", raw, node)
                assert not all(map(more.tolerates, watched)), (seed, node)
                ends["n1"] += 1
        ends["in all"] += len(found["standard"]["instances"])
    assert min(ends["n1"], ends["in all"]) > 10, ends


def lost_by_labels(document: Json, failing: str) -> tuple[int, int]:
    """Return the least number of instances, and MiB, that a failure loses with labels.

    An instance with a secondary restarts on it, others restart on any node that their tags permit.
    """
    names = [name for name in document["nodes"] if name != failing]
    used: Counter[str] = Counter()
    for raw in document["instances"].values():
        used[raw["nodes"][0]] += raw["memory"]
    free = [document["nodes"][name]["total_memory"] - used[name] - 1 for name in names]
    items = []
    for raw in document["instances"].values():
        if raw["nodes"][0] == failing:
            open_to = raw["nodes"][1:] or [
                name for name in names if allows(raw["tags"], document["nodes"][name]["tags"])
            ]
            items.append((raw["memory"], frozenset(map(names.index, open_to))))
    return least_lost(sorted(items, key=lambda item: -item[0]), free)


@pytest.mark.parametrize("mode", ["strict", "no-new"])
def test_n1_of_drbd_with_labels_equals_brute_force(mode: str) -> None:
    """N+1 of drbd instances with labels equals brute force: they restart on the secondary."""
    reported: Counter[bool] = Counter()
    for seed in seeds(30, 600):
        rng = Random(f"drbd/{seed}")
        document = partly_full(rng, "drbd")
        for node in document["nodes"].values():
            node["tags"] = rng.sample("ab", rng.choice((1, 2, 2)))
        for raw in document["instances"].values():
            shared = set.intersection(*(set(document["nodes"][n]["tags"]) for n in raw["nodes"]))
            raw["tags"] = [MUST + label for label in sorted(shared)[: rng.choice((0, 1))]]
        tags = document["request"]["tags"] = rng.choice(([], [f"{MUST}a"], [f"{NEVER}b"]))
        case = context_of(document, mode)
        check = case.context.tolerance(case.context.all_nodes())
        before = {name: lost_by_labels(document, name) for name in document["nodes"]}
        watched = [n for n in before if mode == "strict" or not any(before[n])]
        for nodes in ((0, 1), (1, 2), (2, 3), (3, 0)):
            homes = [f"node{k + 1}" for k in nodes]
            open_nodes = all(allows(tags, document["nodes"][n]["tags"]) for n in homes)
            within = case.cluster.reach(case.new)
            assert open_nodes is (within is None or within >= set(nodes)), (seed, nodes)
            if not open_nodes or case.state.columns[MEMORY][nodes[0]] <= case.new.memory:
                continue
            new = instance(*homes, memory=case.new.memory, disk_template="drbd", tags=tags)
            then = {**document, "instances": {**document["instances"], "new": new}}
            expected = not any(any(lost_by_labels(then, name)) for name in watched)
            assert check.allows(Move(case.new, (), nodes)) is expected, (mode, seed, nodes)
            reported[expected] += 1
    assert min(reported[True], reported[False]) > 2, reported


@pytest.mark.parametrize("template", ["rbd", "drbd", "mixed"])
def test_no_worse_with_labels_loses_no_more_than_a_plain_search(template: str) -> None:
    """With no-worse and labels, no accepted placement makes a failure lose more.

    If no failure lost instances before, every such placement is accepted.
    """
    reported: Counter[tuple[bool, bool]] = Counter()
    for seed in seeds(60, 600):
        rng = Random(f"no-worse/{template}/{seed}")
        document = partly_full(rng, template)
        for node in document["nodes"].values():
            node["tags"] = rng.sample("ab", rng.choice((1, 2, 2)))
        for raw in document["instances"].values():
            shared = set.intersection(*(set(document["nodes"][n]["tags"]) for n in raw["nodes"]))
            raw["tags"] = [MUST + label for label in sorted(shared)[: rng.choice((0, 1))]]
        document["request"]["tags"] = rng.choice(([], [f"{MUST}a"], [f"{NEVER}b"]))
        case = context_of(document, "no-worse")
        check = case.context.tolerance(case.context.all_nodes())
        before = {name: lost_by_labels(document, name) for name in document["nodes"]}
        whole = not any(any(lost) for lost in before.values())
        for primary in range(3):
            nodes = (primary, 3)[: case.new.required_nodes]
            homes = [f"node{k + 1}" for k in nodes]
            tags = document["request"]["tags"]
            lacks = case.state.columns[MEMORY][primary] <= case.new.memory
            if lacks or not all(allows(tags, document["nodes"][n]["tags"]) for n in homes):
                continue
            new = instance(
                *homes, memory=case.new.memory, disk_template=case.new.template, tags=tags
            )
            then = {**document, "instances": {**document["instances"], "new": new}}
            after = {name: lost_by_labels(then, name) for name in document["nodes"]}
            grown = any(a > b for n in after for a, b in zip(after[n], before[n]))
            accepted = check.allows(Move(case.new, (), nodes))
            reported[accepted, whole] += 1
            assert not (accepted and grown), (seed, nodes)
            assert accepted or grown or not whole, (seed, nodes)
    assert min(reported[True, True], reported[False, True]) > 2, reported


def test_each_label_is_listed_with_its_tag() -> None:
    """The list of constraints has one entry for each label in a tag."""
    tags = [f"{MUST}ssd", f"{MUST}gpu", f"{NEVER}old"]
    document = cluster(2, instances={"i1": rbd("node1", tags=tags)})
    document["nodes"]["node1"]["tags"] = ["ssd", "gpu"]
    document["nodes"]["node2"]["tags"] = ["old"]
    listed = json_of("constraints", "--json", document=document)
    assert [(one["what"], one["origin"], one["strength"]) for one in listed["constraints"]] == [
        ("on nodes that have label gpu", f"tag {MUST}gpu", "must"),
        ("on nodes that have label ssd", f"tag {MUST}ssd", "must"),
        ("on nodes that lack label old", f"tag {NEVER}old", "must"),
    ]
    answer = respond(allocate_rbd(document, memory=512, tags=tags), "--n1=off")
    assert answer["solutions"][0]["failures"] == {"FailNodes": 1}


SOFT = "iallocator:nodes:should:"


def penalty(tags: list[str], labels: list[str]) -> float:
    """Return the penalty of an instance with `tags` on a node with `labels`, by definition."""
    total = 0.0
    for tag in tags:
        if tag.startswith(SOFT):
            label, _, weight = tag[len(SOFT) :].partition(":")
            total += 0 if label in labels else float(weight or 1)
    return total


def soft_tags(rng: Random) -> list[str]:
    """Return up to two tags that prefer labels, with and without weights."""
    labels = rng.sample("abc", rng.choice((0, 1, 2)))
    return [SOFT + label + rng.choice(("", ":0.25", ":3")) for label in labels]


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_allocations_prefer_labels_as_brute_force(template: str) -> None:
    """An allocation chooses the node with the least sum of score and penalty of labels."""
    changed = 0
    for seed in seeds(40, 400):
        rng = Random(f"preferred/{template}/{seed}")
        document, tags = scenario(rng, template), soft_tags(rng)
        own = {name: node["tags"] for name, node in document["nodes"].items()}
        request = allocate(document, memory=500, disk=1000, disk_template=template)
        (solution,) = respond(request, "--n1=off", "--top=99")["solutions"]
        scores = {tuple(one["nodes"]): one["score"] for one in solution["placements"]}
        request["request"]["tags"] = tags
        chosen = tuple(respond(request, "--n1=off")["result"])
        sums = {nodes: score + penalty(tags, own[nodes[0]]) for nodes, score in scores.items()}
        assert sums[chosen] <= min(sums.values()) + 1e-6, (seed, chosen, sums)
        changed += chosen != min(scores, key=scores.__getitem__)
        assert respond(request, "--n1=off", "--compat=hail")["success"], seed
    assert changed > 3


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_balancing_lowers_the_sum_of_score_and_penalty_of_labels(template: str) -> None:
    """`balance` ends when no single move lowers the sum of score and penalties of labels."""
    moved = 0
    for seed in seeds(12, 200):
        rng = Random(f"balance preferred/{template}/{seed}")
        document = scenario(rng, template)
        for raw in document["instances"].values():
            raw["tags"] = [f"{SOFT}{rng.choice('abc')}:100"] if rng.random() < 0.6 else []
        own = {name: node["tags"] for name, node in document["nodes"].items()}
        plan: Any = plan_of("balance", document, "--n1=off")
        where = {name: raw["nodes"] for name, raw in document["instances"].items()}
        where |= {one["instance"]: one["to"] for one in plan["moves"]}
        for name, nodes in where.items():
            tags = document["instances"][name]["tags"]
            best = min(penalty(tags, labels) for labels in own.values())
            assert penalty(tags, own[nodes[0]]) == best, (seed, name)
            moved += nodes != document["instances"][name]["nodes"]
    assert moved > 5


def test_preferred_label_is_listed_explained_and_reported() -> None:
    """A preferred label is listed, explained and reported with its weight, 1 by default.

    The label may have colons.
    """
    tags = [f"{SOFT}ssd", f"{SOFT}rack:r1:2.5", f"{SOFT}gone"]
    document = cluster(2, instances={"i1": rbd("node2", tags=tags)})
    document["nodes"]["node1"]["tags"] = ["ssd", "rack:r1"]
    listed = json_of("constraints", "--json", document=document)
    assert [(one["what"], one["strength"], one["weight"]) for one in listed["constraints"]] == [
        ("on nodes that have label ssd", "should", 1),
        ("on nodes that have label rack:r1", "should", 2.5),
        ("on nodes that have label gone", "should", 1),
    ]
    (finding,) = listed["tag_findings"]
    assert finding["text"] == "names label gone: no node has it"
    request = allocate_rbd(document, memory=512, tags=tags[:2])
    request["request"]["restrict-to-nodes"] = ["node2"]
    text = " ".join(printed("explain", "--n1=off", document=request).split())
    assert "on nodes that have label rack:r1 (tag iallocator:nodes:should:rack:r1:2.5)" in text
    assert "penalty: 3.5" in text
