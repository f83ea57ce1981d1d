"""Test stickiness and scores of nodes under the default strategy against brute force."""

from __future__ import annotations

import json
from itertools import permutations, product
from random import Random

import pytest

from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import json_of, plan_of, respond, run
from tests.property.plain import Plain
from tests.seeds import seeds

from .brute.draw import score_tags
from .brute.rules import INFINITY, number

STICK, SCORE = "iallocator:stickiness:", "iallocator:score:"
GAIN = 1e-8


class Preferences:
    """The scores of nodes for each instance of a document, by definition.

    `setting` is the stickiness of instances without a tag; if it is None, stickiness is ignored.
    """

    def __init__(self, document: Json, setting: float | None) -> None:
        self._document = document
        self._setting = setting
        self._shared = {
            name: sum(number(tag[len(SCORE) :]) for tag in node["tags"] if tag.startswith(SCORE))
            for name, node in document["nodes"].items()
        }

    def own(self, raw: Json) -> dict[str, float]:
        """Return the scores that the tags of an instance give to nodes."""
        tags = [tag[len(SCORE) :] for tag in raw["tags"] if tag.startswith(SCORE)]
        return {tag.rpartition(":")[0]: number(tag.rpartition(":")[2]) for tag in tags}

    def stickiness(self, raw: Json) -> float:
        """Return the stickiness of an instance; 0 if stickiness is ignored."""
        if self._setting is None or not raw.get("nodes"):
            return 0.0
        tags = [tag[len(STICK) :] for tag in raw["tags"] if tag.startswith(STICK)]
        return number(tags[0]) if tags else self._setting

    def allowed(self, raw: Json) -> list[str]:
        """Return the nodes that may run the instance."""
        own, nodes = self.own(raw), list(self._document["nodes"])
        if self.stickiness(raw) >= INFINITY:
            return [raw["nodes"][0]]
        required = [name for name in nodes if own.get(name, 0) >= INFINITY]
        return required or [n for n in nodes if own.get(n, 0) > -INFINITY]

    def penalties(self, raw: Json) -> dict[str, float]:
        """Return the penalty of the instance on each node that may run it."""
        allowed, own, sticky = self.allowed(raw), self.own(raw), self.stickiness(raw)
        if self.stickiness(raw) >= INFINITY or any(own.get(n, 0) >= INFINITY for n in allowed):
            return dict.fromkeys(allowed, 0.0)
        home = raw["nodes"][0] if raw.get("nodes") else ""
        scores = {n: self._shared[n] + own.get(n, 0) + sticky * (n == home) for n in allowed}
        return {n: max(scores.values()) - score for n, score in scores.items()}


def scenario(rng: Random, template: str, most: int = 4) -> Json:
    """Return three nodes, and two to `most` instances with scores and stickiness."""
    names = ["node1", "node2", "node3"]
    residents = {}
    for k in range(rng.randint(2, most)):
        homes = rng.sample(names, 2 if template == "drbd" else 1)
        residents[f"i{k}"] = instance(
            *homes, memory=rng.choice((512, 1024, 2048)), vcpus=rng.randint(1, 3), disk=1024,
            disk_template=template, tags=score_tags(rng, names, homes[0]),
        )  # fmt: skip
    document = cluster(3, memory=16384, cpus=16, instances=residents)
    for node in document["nodes"].values():
        node["tags"] = [f"{SCORE}{rng.choice(('0.1', '-0.4'))}"] if rng.random() < 0.2 else []
    return document


def places(template: str, names: list[str]) -> list[tuple[str, ...]]:
    """Return all placements of an instance on the nodes `names`, primary node first."""
    return list(permutations(names, 2 if template == "drbd" else 1))


def objective(plain: Plain, preferences: Preferences) -> float:
    """Return the score of the present placement plus all penalties."""
    score = plain.score(plain.nodes)
    for one in plain.now.values():
        raw = plain.document["instances"][one.name]
        score += preferences.penalties(raw).get(one.nodes[0], 0.0)
    return score


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_balance_equals_brute_force(template: str) -> None:
    """`balance` ends when no move lowers the sum of score and penalties.

    Scores and bound are correct.
    """
    moved = stayed = optimal = 0
    for seed in seeds(25, 400):
        rng = Random(f"stickiness/{template}/{seed}")
        document = scenario(rng, template, 4 if template == "rbd" else 3)
        setting = rng.choice((0.0, 0.0, 0.05, 0.5))
        preferences = Preferences(document, setting)
        words = ("--n1=off", "--min-gain=0", f"--stickiness={setting:g}")
        plan = plan_of("balance", document, *words)
        raws = document["instances"]
        plain = Plain(document)
        assert plan["scores"]["before"] == pytest.approx(objective(plain, preferences)), seed
        for move in plan["moves"]:
            name, nodes = move["instance"], move["to"]
            if nodes[0] != move["from"][0]:
                assert preferences.stickiness(raws[name]) < INFINITY, (seed, move)
            plain.put(name, raws[name], nodes)
            assert move["score"] == pytest.approx(objective(plain, preferences)), (seed, move)
            moved += nodes[0] != raws[name]["nodes"][0]
        found = objective(plain, preferences)
        ends = {one.name: tuple(one.nodes) for one in plain.now.values()}
        choices = {
            name: [p for p in places(template, list(document["nodes"])) if p[0] in
                   preferences.allowed(raw) and not
                   any(preferences.own(raw).get(n, 0) <= -INFINITY for n in p)]
            for name, raw in raws.items()
        }  # fmt: skip
        if not all(ends[name] in some for name, some in choices.items()):
            continue  # a hard constraint is violated from the beginning and stays
        lowest = found
        for chosen in product(*choices.values()):
            for name, nodes in zip(choices, chosen):
                plain.put(name, raws[name], nodes)
            other = objective(plain, preferences)
            different = [n for n, nodes in zip(choices, chosen) if nodes != ends[n]]
            if template == "rbd" and len(different) == 1:  # each way of a drbd instance is a move
                assert other > found - GAIN - 1e-4, (seed, different, chosen, found, other)
            lowest = min(lowest, other)
        assert plan["bound"] is None or plan["bound"] <= lowest + GAIN, seed
        stayed += found < lowest + GAIN
        optimal += 1
    assert moved > 5
    assert stayed > 0.5 * optimal


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_allocations_equal_brute_force(template: str) -> None:
    """An allocation chooses the permitted node with the lowest sum of score and penalty."""
    placed = 0
    for seed in seeds(40, 500):
        rng = Random(f"allocations/{template}/{seed}")
        document = scenario(rng, template)
        names = list(document["nodes"])
        tags = score_tags(rng, names)
        request = allocate(document, memory=512, disk=1024, disk_template=template, tags=tags)
        preferences = Preferences(document, None)
        answer = respond(request, "--n1=off", "--stickiness=5")
        raw = request["request"]
        best: dict[tuple[str, ...], float] = {}
        for nodes in places(template, names):
            forbidden = any(preferences.own(raw).get(n, 0) <= -INFINITY for n in nodes)
            if nodes[0] in preferences.allowed(raw) and not forbidden:
                plain = Plain(document)
                plain.put("new", raw, nodes)
                score = plain.score(plain.nodes)
                best[nodes] = score + preferences.penalties(raw)[nodes[0]]
        placed += answer["success"]
        assert answer["success"] is bool(best), (seed, answer["info"])
        if best:
            chosen = tuple(answer["result"])
            assert best[chosen] == pytest.approx(min(best.values()), abs=1e-7), (seed, tags)
            assert answer["solutions"][0]["successes"] == len(best), seed
    assert placed > 20


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_evacuations_equal_brute_force(template: str) -> None:
    """An evacuation ignores stickiness, and chooses the new node by scores."""
    moved = 0
    for seed in seeds(40, 500):
        rng = Random(f"evacuations/{template}/{seed}")
        document = scenario(rng, template)
        name = rng.choice(list(document["instances"]))
        raw = document["instances"][name]
        mode = "secondary-only" if template == "drbd" else "primary-only"
        request = {"type": "node-evacuate", "instances": [name], "evac_mode": mode}
        answer = respond({**document, "request": request}, "--n1=off", "--stickiness=INFINITY")
        done, failed, _ = answer["result"]
        preferences = Preferences(document, None)
        own = preferences.own(raw)
        free = [n for n in document["nodes"] if n not in raw["nodes"]]
        if template == "drbd":
            allowed = [n for n in free if own.get(n, 0) > -INFINITY]
        else:
            allowed = [n for n in preferences.allowed(raw) if n in free]
        assert bool(done) is bool(allowed), (seed, answer["info"])
        assert bool(failed) is not bool(allowed)
        if template == "drbd" or not done:
            continue
        scores = {}
        for node in allowed:
            plain = Plain(document)
            plain.put(name, raw, [node])
            scores[node] = plain.score(plain.nodes) + preferences.penalties(raw)[node]
        assert scores[done[0][2][0]] == pytest.approx(min(scores.values()), abs=1e-7), seed
        moved += 1
    assert template == "drbd" or moved > 10


PINNED = {
    "squeeze": ("--target-resources=1", "--minimal-resources=0.5"),
    "balance": ("--all-groups",),
    "balance-groups": (), "compress": (), "redistribute": (),
}  # fmt: skip


@pytest.mark.parametrize("planner", PINNED)
def test_infinite_stickiness_pins_instances_in_every_planner(planner: str) -> None:
    """No planner moves the primary of an instance with infinite stickiness."""
    moved = 0
    for seed in seeds(5, 100):
        rng = Random(f"pinned/{planner}/{seed}")
        residents = {}
        for k in range(rng.randint(3, 7)):
            tags = [f"{STICK}INFINITY"] if rng.random() < 0.4 else []
            residents[f"i{k}"] = instance(
                rng.choice(("node1", "node1", "node2", "node3", "node5")), memory=1024,
                disk_template="ext", storage_type="external", storage_pool="nas", tags=tags,
            )  # fmt: skip
        document = cluster({"east": 3, "west": 3}, memory=16384, cpus=32, instances=residents)
        for node in document["nodes"].values():
            node["storage_pools"] = [{"type": "external", "name": "nas"}]
        words = (planner, "--verify-plan", "--json", "--n1=off", *PINNED[planner])
        plan = json.loads(run(*words, stdin=as_bytes(document)).stdout)
        for move in plan["moves"]:
            assert not residents[move["instance"]]["tags"], (seed, move)
            moved += 1
    assert moved or planner == "redistribute"  # it repairs nothing in healthy groups


@pytest.mark.parametrize("option", ["--optimal", "--exact-search=yes"])
def test_batches_equal_brute_force(option: str) -> None:
    """With --optimal, a batch of two has the lowest sum of score and penalties."""
    for seed in seeds(8, 300):
        rng = Random(f"batches/{seed}")
        document = scenario(rng, "rbd", 3)
        names = list(document["nodes"])
        wanted = []
        for k in range(2):
            tags = score_tags(rng, names)
            one = allocate_rbd(document, memory=1024 * (k + 1), tags=tags)
            wanted.append({**one["request"], "name": f"new{k}"})
        request = {"type": "multi-allocate", "instances": wanted}
        answer = respond({**document, "request": request}, "--n1=off", option)
        preferences = Preferences(document, None)
        found = {}
        for nodes in product(*(preferences.allowed(raw) for raw in wanted)):
            plain = Plain(document)
            for raw, node in zip(wanted, nodes):
                plain.put(raw["name"], raw, [node])
            penalties = (preferences.penalties(raw)[n] for raw, n in zip(wanted, nodes))
            found[nodes] = plain.score(plain.nodes) + sum(penalties)
        placed = {name: nodes[0] for name, nodes in answer["result"][0]}
        assert (len(placed) == 2) is bool(found), (seed, answer["info"])
        if found:
            chosen = found[placed["new0"], placed["new1"]]
            if option == "--optimal":
                assert chosen == pytest.approx(min(found.values()), abs=1e-7), seed


@pytest.mark.parametrize("mode", ["strict", "no-new", "no-worse"])
@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_n1_does_not_depend_on_stickiness(template: str, mode: str) -> None:
    """N+1 accepts a placement with stickiness if and only if it accepts it without.

    An instance leaves a failed node, whatever its stickiness is.
    """
    outcomes = set()
    for seed in seeds(3, 300):
        rng = Random(f"n1/{template}/{seed}")
        names = [f"node{k}" for k in range(1, 5)]
        residents = {}
        for k in range(rng.randint(5, 8)):
            first = names[k % 4]
            second = rng.choice([name for name in names if name != first])
            homes = (first, second) if template == "drbd" else (first,)
            tags = [STICK + rng.choice(("INFINITY", "0.3"))] if rng.random() < 0.7 else []
            residents[f"i{k}"] = instance(
                *homes, memory=rng.choice((500, 900)), disk=100, disk_template=template, tags=tags
            )
        document = cluster(4, memory=rng.choice((2000, 2600)), cpus=64, instances=residents)
        request = allocate(document, memory=900, disk=100, disk_template=template)
        sticky = respond(request, f"--n1={mode}")
        for raw in residents.values():
            raw["tags"] = []
        assert {**respond(request, f"--n1={mode}"), "info": ""} == {**sticky, "info": ""}, seed
        outcomes.add(sticky["success"])
    assert outcomes


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_capacity_does_not_depend_on_stickiness(template: str) -> None:
    """`capacity` places equally many instances with and without stickiness."""
    placed = 0
    for seed in seeds(2, 200):
        document = scenario(Random(f"capacity/{template}/{seed}"), template)
        for raw in document["instances"].values():
            raw["tags"] = [tag for tag in raw["tags"] if tag.startswith(STICK)]
        words = ("capacity", "--standard-alloc=1g,4g,2", f"--disk-template={template}", "--n1=off")
        sticky = json_of(*words, document=document)["standard"]["instances"]
        for raw in document["instances"].values():
            raw["tags"] = []
        assert json_of(*words, document=document)["standard"]["instances"] == sticky, seed
        placed += len(sticky)
    assert placed > 5


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_squeeze_equals_brute_force(template: str) -> None:
    """`squeeze` moves no pinned primary, and frees only nodes that its moves leave empty."""
    emptied = pinned = 0
    for seed in seeds(4, 250):
        rng = Random(f"squeeze/{template}/{seed}")
        names = [f"node{k}" for k in range(1, 5)]
        residents = {}
        for k in range(rng.randint(2, 6)):
            homes = rng.sample(names, 2 if template == "drbd" else 1)
            tags = [f"{STICK}INFINITY"] if rng.random() < 0.4 else []
            residents[f"i{k}"] = instance(
                *homes, memory=1000, disk=100, disk_template=template, tags=tags
            )
        document = cluster(4, memory=4096, cpus=64, instances=residents)
        for node in document["nodes"].values():
            node["tags"] = ["htools:standby:auto"]
        words = ["--n1=off", "--target-resources=0.5", "--minimal-resources=0.1"]
        words += ["--drbd"] * (template == "drbd")
        plan = plan_of("squeeze", document, *words)
        where = {name: list(raw["nodes"]) for name, raw in residents.items()}
        for move in plan["moves"]:
            raw = residents[move["instance"]]
            kept = not raw["tags"] or move["to"][0] == raw["nodes"][0]
            assert kept, (seed, move)
            where[move["instance"]] = list(move["to"])
        gone = set(plan["switched_nodes"])
        used = {node for nodes in where.values() for node in nodes}
        assert not gone & used, seed
        for name, raw in residents.items():
            assert not raw["tags"] or where[name][0] == raw["nodes"][0], (seed, name)
            pinned += bool(raw["tags"])
        emptied += len(gone)
    assert min(emptied, pinned) > 2, (emptied, pinned)


def test_moves_between_groups_must_gain_the_stickiness() -> None:
    """An instance changes its group only if the gain in load exceeds its stickiness."""
    members = {"disk_template": "ext", "storage_type": "external", "storage_pool": "nas"}
    residents = {f"i{k}": instance("node1", memory=1024, **members) for k in range(4)}
    document = cluster({"east": 1, "west": 1}, memory=16384, cpus=32, instances=residents)
    for node in document["nodes"].values():
        node["storage_pools"] = [{"type": "external", "name": "nas"}]
    whole = plan_of("balance-groups", document, "--n1=off")
    last, gains = whole["objective"]["before"], []
    for move in whole["moves"]:
        gains.append(last - move["objective_after"])
        last = move["objective_after"]
    assert len(gains) == 2
    for factor, moves in ((0.99, 2), (1.01, 0)):
        words = ("--n1=off", f"--stickiness={min(gains) * factor}")
        assert len(plan_of("balance-groups", document, *words)["moves"]) == moves
    residents["i0"]["tags"] = [f"{STICK}INFINITY"]
    assert "i0" not in {move["instance"] for move in plan_of("balance-groups", document)["moves"]}


def test_instances_that_are_not_pinned_make_room() -> None:
    """`make-room` moves another instance if the one with the least traffic is pinned."""
    residents = {
        "a": rbd("node1", memory=2000),
        "b": rbd("node1", memory=3000),
        "c": rbd("node2", memory=4000),
    }
    document = allocate_rbd(cluster(2, instances=residents), memory=4500)
    moved = plan_of("make-room", document, "--n1=off")["moves"]
    assert [move["instance"] for move in moved] == ["a"]
    residents["a"]["tags"] = [f"{STICK}INFINITY"]
    moved = plan_of("make-room", document, "--n1=off")["moves"]
    assert [move["instance"] for move in moved] == ["b"]


@pytest.mark.parametrize("strategy", ["score", "pacemaker-balanced"])
def test_decimals_count_except_for_pacemaker(strategy: str) -> None:
    """A score with decimals is reported as invalid by Pacemaker's strategies only."""
    own = [f"{SCORE}node2:0.5", f"{SCORE}node9:1", f"{STICK}often"]
    document = cluster(2, instances={"a": rbd("node1", tags=own)})
    words = ("constraints", "--json", f"--strategy={strategy}")
    found = json_of(*words, document=document)["tag_findings"]
    reported = {one["tag"] for one in found}
    assert {f"{SCORE}node9:1", f"{STICK}often"} <= reported
    assert (f"{SCORE}node2:0.5" in reported) is (strategy != "score")


def test_pinned_instance_leaves_a_node_that_is_not_online() -> None:
    """A pinned instance leaves a node that is drained."""
    residents = {"a": rbd("node1", tags=[f"{STICK}INFINITY"])}
    document = cluster(3, instances=residents, changes={"node1": {"drained": True}})
    plan = plan_of("balance", document, "--n1=off")
    assert [move["instance"] for move in plan["moves"]] == ["a"]


def test_scores_and_stickiness_are_listed() -> None:
    """`show --rules` lists required nodes as hard, and other scores with their values."""
    tags = [f"{SCORE}node2:INFINITY", f"{SCORE}node1:0.5", f"{STICK}0.25"]
    document = cluster(2, instances={"a": rbd("node1", tags=tags)})
    listed = json_of("constraints", "--json", document=document)["constraints"]
    assert [(one["what"], one["strength"], one.get("weight")) for one in listed] == [
        ("on node2", "must", None),
        ("on node1, score 0.5", "should", 0.5),
        ("stays on node1, score 0.25", "should", 0.25),
    ]


@pytest.mark.parametrize(("offline", "strength"), [(False, "must"), (True, None)])
def test_infinite_stickiness_is_listed_as_hard_constraint(
    offline: bool, strength: str | None
) -> None:
    """Infinite stickiness pins an instance to an online node; `constraints` lists it so."""
    document = cluster(3)
    document["instances"]["i0"] = instance("node1", disk_template="rbd")
    document["instances"]["i0"]["tags"] = [f"{STICK}INFINITY"]
    document["nodes"]["node1"]["offline"] = offline
    listed = json_of("show", "--rules", document=document)["constraints"]
    found = [one for one in listed if one["origin"] == f"tag {STICK}INFINITY"]
    assert [one["strength"] for one in found] == ([strength] if strength else [])
    assert all(one["what"] == "stays on node1" and "weight" not in one for one in found)
