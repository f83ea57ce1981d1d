"""Test that a second run of squeeze frees no node and moves no instance."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from random import Random

import pytest

from benchmarks.clusters import Shape, allocate
from iallocator.planners.squeeze.feasibility import Attempt
from tests.builders import Json, cluster, instance
from tests.command import plan_of, run
from tests.seeds import seeds

from .hsqueeze import standby_cluster, text_cluster

SIZES = ((256,), (128, 256, 512), (256, 512, 1024, 1536))
STORAGES = (("rbd",), ("drbd",), ("rbd", "drbd"), ("rbd", "drbd", "plain"), ("ext", "sharedfile"))
TAGS = ("iallocator:separate:must:a", "iallocator:colocate:must:b", "service:x", "service:y")


def _options(rng: Random) -> list[str]:
    """Return random options of squeeze, with a target that is at least the minimum."""
    target = rng.choice((0.25, 0.5, 1, 2, 3))
    minimum = target * rng.choice((0, 0.5, 1, 1))
    return [
        *rng.choice(((), ("--drbd",), ("--all",))),
        *rng.choice(((), ("--n1=off",), ("--n1=strict",), ("--n1=no-new",))),
        *rng.choice(((), (), ("--exact-search=no",), ("--ignore-soft-errors",))),
        f"--target-resources={target}",
        f"--minimal-resources={minimum}",
    ]


def _groups(rng: Random) -> Json:
    """Return a random document of one to three groups with tags and standby nodes."""
    sizes = {f"g{k}": rng.randint(2, 4) for k in range(rng.choice((1, 2, 3)))}
    homes = [name for name, count in sizes.items() for _ in range(count)]
    amounts, templates = rng.choice(SIZES), rng.choice(STORAGES)
    fill, tagged = rng.choice((0.2, 0.3, 0.5, 0.7)), rng.random() < 0.3
    held: dict[str, Json] = {}
    for number, home in enumerate(homes, start=1):
        others = [k for k, name in enumerate(homes, start=1) if name == home and k != number]
        left = 4096 * min(0.95, fill * rng.uniform(0, 2))
        while (memory := rng.choice(amounts)) <= left:
            left -= memory
            template = rng.choice(templates)
            secondary = [f"node{rng.choice(others)}"] if template == "drbd" else []
            tags = [rng.choice(TAGS)] if tagged and rng.random() < 0.3 else []
            held[f"i{len(held)}"] = instance(
                f"node{number}", *secondary, memory=memory, disk_template=template, tags=tags
            )
    document = cluster(sizes, memory=4096, instances=held, tags=("htools:iextags:service",))
    for node in document["nodes"].values():
        node["tags"] = [rng.choice(("rack:a", "rack:b"))]
        if rng.random() < 0.1:
            node.update(offline=True, tags=["htools:standby:auto"])
    for holder in (document, *document["nodegroups"].values()):
        holder["ipolicy"]["std"]["memory-size"] = rng.choice((256, 512))
    return document


def _after(document: Json, plan: Json) -> Json:
    """Return `document` after executing `plan`."""
    after = deepcopy(document)
    nodes = after["nodes"]
    for move in plan["moves"]:
        one, old, new = after["instances"][move["instance"]], move["from"], move["to"]
        nodes[old[0]]["free_memory"] += one["memory"]
        nodes[new[0]]["free_memory"] -= one["memory"]
        for name in {*old} ^ {*new} if one["disk_template"] in ("drbd", "plain") else ():
            nodes[name]["free_disk"] += one["disk_space_total"] * (1 if name in old else -1)
        one["nodes"] = new
    for step in plan["transition"]["steps"]:
        if step["kind"] in ("offline", "online"):
            nodes[step["node"]]["offline"] = step["kind"] == "offline"
    for name, tags in plan["node_tag_changes"]["add_by_node"].items():
        nodes[name]["tags"] += tags
    for name, tags in plan["node_tag_changes"]["remove_by_node"].items():
        nodes[name]["tags"] = [tag for tag in nodes[name]["tags"] if tag not in tags]
    return after


def _idle(plan: Json) -> bool:
    return (plan["action"], plan["switched_nodes"], plan["moves"]) == ("none", [], [])


@pytest.mark.parametrize("seed", seeds(6, 150))
def test_squeeze_of_any_storage_leaves_nothing_to_a_second_run(seed: int) -> None:
    """After squeeze of a document with any storage, a second run has nothing to do.

    The documents have constraints, several groups, and standby nodes.
    """
    rng = Random(f"squeeze again/{seed}")
    document, options = _groups(rng), _options(rng)
    first = plan_of("squeeze", document, *options)
    second = plan_of("squeeze", _after(document, first), *options)
    assert _idle(second), (
        options,
        second["action"],
        second["switched_nodes"],
        len(second["moves"]),
    )


def _twice(text: str, folder: Path, *options: str) -> tuple[Json, Json]:
    """Return the plans of two runs on a text file."""
    path, after = folder / "cluster.data", folder / "after"
    path.write_text(text)
    plans = []
    for words in (("-t", str(path), "-S", str(after)), ("-t", f"{after}.squeezed")):
        done = run("squeeze", "--json", "--verify-plan", *options, *words)
        assert done.returncode == 0, done.stderr
        plans.append(json.loads(done.stdout))
    return plans[0], plans[1]


@pytest.mark.parametrize("seed", seeds(6, 150))
@pytest.mark.parametrize("make", [text_cluster, standby_cluster])
def test_squeeze_of_a_text_file_leaves_nothing_to_a_second_run(
    make: object, seed: int, tmp_path: Path
) -> None:
    """After squeeze of a text file, a second run has no moves."""
    assert callable(make)
    options = _options(Random(f"squeeze text again/{seed}"))
    _, second = _twice(make(seed), tmp_path, *options)
    assert _idle(second), (
        options,
        second["action"],
        second["switched_nodes"],
        len(second["moves"]),
    )


def test_squeeze_goes_on_where_instances_moved_to_a_node_that_is_freed(tmp_path: Path) -> None:
    """`squeeze` also frees a node that received instances from earlier moves of its plan."""
    reserve = ("--target-resources=3", "--minimal-resources=3")
    options = ("--n1=strict", "--exact-search=no", *reserve)
    first, second = _twice(text_cluster(5), tmp_path, *options)
    assert sorted(first["switched_nodes"]) == ["node07", "node08"]
    assert all({*move["to"]}.isdisjoint(first["switched_nodes"]) for move in first["moves"])
    assert _idle(second)


def test_squeeze_powers_nodes_on_and_others_down_in_one_plan(tmp_path: Path) -> None:
    """`squeeze` powers a large standby node on to free a smaller online node in one plan."""
    reserve = ("--target-resources=3", "--minimal-resources=1.5")
    first, second = _twice(standby_cluster(5), tmp_path, "--drbd", *reserve)
    assert (first["action"], first["switched_nodes"]) == ("both", ["node04", "node02"])
    assert first["power_on"] == ["node04"]
    kinds = {step["kind"]: step["node"] for step in first["transition"]["steps"] if "node" in step}
    assert (kinds["online"], kinds["offline"]) == ("node04", "node02")
    assert _idle(second)


def test_squeeze_that_cannot_reach_the_minimum_makes_only_useful_moves(tmp_path: Path) -> None:
    """If `squeeze` cannot reach the minimum, its plan has only moves that reduce the deficit."""
    options = ("--ignore-soft-errors", "--target-resources=2", "--minimal-resources=1")
    first, second = _twice(text_cluster(21), tmp_path, *options)
    assert "not sufficient" in first["groups"][0]["reason"]
    assert _idle(second)


def test_continued_moves_are_those_that_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With soft constraints, the plan for the freed nodes continues the attempt that freed them.

    It is the plan of an attempt that makes all moves again.
    """
    continued = 0
    follows = Attempt.follows
    for seed in seeds(6, 200):
        rng = Random(seed)
        shape = Shape(
            rng.randint(4, 8), rng.choice(("rbd", "drbd")), per_node=rng.randint(2, 5),
            fullness=rng.choice((0.2, 0.4, 0.6)), crowding=0.3, seed=seed,
        )  # fmt: skip
        whole = allocate(shape)
        for node in whole["nodes"].values():
            node["tags"] = ["htools:standby:auto", *(["ssd"] if rng.random() < 0.5 else [])]
        for raw in whole["instances"].values():
            if rng.random() < 0.4:
                raw["tags"] = ["iallocator:nodes:should:ssd:0.01"]
        found: list[bool] = []

        def counted(attempt: Attempt, way: object, found: list[bool] = found) -> bool:
            found.append(follows(attempt, way))  # type: ignore[arg-type]
            return found[-1]

        monkeypatch.setattr(Attempt, "follows", counted)
        plan = plan_of("squeeze", whole, "--drbd")
        monkeypatch.setattr(Attempt, "follows", lambda attempt, way: False)
        assert plan_of("squeeze", whole, "--drbd") == plan, seed
        continued += any(found)
    assert continued > 2
