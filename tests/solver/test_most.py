"""Test batches that do not fit: as many instances as possible are placed."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Sequence

import pytest

from iallocator import engine
from iallocator.deadline import PER_SECOND, TRIALS
from iallocator.handlers.allocate import allocation_request
from iallocator.options.parser import parse
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from iallocator.placement.results import AllocationRequest
from iallocator.placement.several.joint import broken_rules
from iallocator.requests import MultiAllocate
from tests import builders
from tests.builders import Json
from tests.command import respond
from tests.seeds import seeds

from .moving import PROOF, new_instance

pytest.importorskip("highspy")

Counts = tuple[int, ...]

FREE = (2049, 3073, 4097, 5121)
SIZES = (1024, 2048, 3072, 4096)


def _batch(seed: int, template: str, priorities: Sequence[int] = (0,)) -> Json:
    """Return a small cluster with a batch that usually does not fit."""
    rng = random.Random(seed)
    document = builders.cluster(nodes=rng.randint(2, 3), memory=8192)
    for node in document["nodes"].values():
        builders.leave(node, rng.choice(FREE))
    wanted = []
    for number in range(rng.randint(3, 5) if template == "rbd" else 3):
        wanted.append(new_instance(document, f"new{number}", rng.choice(SIZES), template=template))
        wanted[-1]["tags"] = [f"iallocator:priority:{rng.choice(priorities)}"]
    return document | {"request": {"type": "multi-allocate", "instances": wanted}}


def _placed(response: Json) -> set[str]:
    return {name for name, _ in response["result"][0]} if response["success"] else set()


def _counts(document: Json, names: set[str]) -> Counts:
    """Return how many of `names` have each priority, the highest priority first."""
    priorities = {one["name"]: _priority(one) for one in document["request"]["instances"]}
    levels = sorted(set(priorities.values()), reverse=True)
    return tuple(sum(1 for name in names if priorities[name] == level) for level in levels)


def _priority(wanted: Json) -> int:
    found = [int(tag.rsplit(":", 1)[1]) for tag in wanted["tags"] if ":priority:" in tag]
    return found[0] if found else 0


def _best(document: Json, options: Sequence[str]) -> Counts:
    """Return how many instances of each priority the best choice places, by brute force."""
    settings = Settings()
    parse(options, settings)
    cluster, request = engine.read(json.dumps(document).encode(), settings)
    assert isinstance(request, MultiAllocate)
    context = Context(cluster, settings, coming=[one.instance for one in request.wanted])
    allocations = [
        allocation
        for wanted in request.wanted
        if (allocation := allocation_request(context, wanted))
    ]
    return max(
        _counts(document, set(nodes))
        for nodes in _choices(allocations, len(cluster.nodes))
        if not _lacking(context, set(nodes)) and broken_rules(context, allocations, nodes) is None
    )


def _choices(
    allocations: Sequence[AllocationRequest], count: int
) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield every choice of nodes for the allocations; each allocation may be left out."""
    single = allocations[0].instance.required_nodes == 1
    places: list[tuple[int, ...]] = [(node,) for node in range(count)]
    if not single:
        places = list(itertools.permutations(range(count), 2))
    for choice in itertools.product([(), *places], repeat=len(allocations)):
        yield {
            allocation.instance.name: nodes
            for allocation, nodes in zip(allocations, choice)
            if nodes
        }


def _lacking(context: Context, names: set[str]) -> bool:
    """Return whether an instance of `names` must start after a new one that is left out."""
    relations = context.affinity.relations
    coming = {instance.name for instance in context.coming}
    if relations is None:
        return False
    needed = {
        constraint.other
        for name in names
        for constraint in relations.of(name, "order")
        if constraint.must
    }
    for name in names:
        for member in relations.rule_members(name):
            if member.must and member.rule.kind == "together":
                needed |= {other.instance for other in member.rule.members if other.must}
    return not needed.isdisjoint(coming - names)


def _agrees(document: Json, options: Sequence[str], expected: Counts) -> str:
    """Assert that the answer places the largest number, which greedy placement does not exceed.

    Return its `info`.
    """
    response = respond(document, *options)
    greedy = respond(document, *options, "--exact-search=no")
    counts = _counts(document, _placed(response))
    assert counts == expected, response["info"]
    assert counts >= _counts(document, _placed(greedy))
    proof = PROOF.search(response["info"])
    if proof:
        total = len(document["request"]["instances"])
        assert (int(proof[1]), int(proof[2])) == (sum(expected), total)
    return str(response["info"])


@pytest.mark.parametrize(
    ("template", "options", "some"),
    [
        ("rbd", ["--n1=off"], 10),
        ("rbd", ["--n1=no-new"], 5),
        ("drbd", [], 3),
        ("drbd", ["--n1=strict"], 2),
    ],
)
def test_batch_that_does_not_fit_is_placed_as_far_as_possible(
    template: str, options: list[str], some: int
) -> None:
    """If a batch does not fit, the largest possible number of instances is placed."""
    improved = 0
    for seed in seeds(some, 3 * some):
        document = _batch(seed, template)
        info = _agrees(document, options, _best(document, options))
        improved += "placed together by exact search, which proved" in info
    assert improved or template == "drbd"


@pytest.mark.parametrize("options", [["--n1=off"], pytest.param([], marks=pytest.mark.slow)])
def test_batch_with_priorities_never_leaves_out_a_higher_one_for_lower_ones(
    options: list[str],
) -> None:
    """A batch never leaves out an instance for instances of lower priority."""
    improved = 0
    for seed in seeds(12, 20, 103):
        document = _batch(seed, "rbd", priorities=(0, 5, 10))
        info = _agrees(document, options, _best(document, options))
        improved += "placed together by exact search, which proved" in info
    assert improved


def test_one_large_instance_of_high_priority_is_placed_before_three_small_ones() -> None:
    """One instance of high priority is placed before any number of lower ones."""
    document = builders.cluster(nodes=1, memory=8192)
    document["nodes"]["node1"]["free_memory"] = 4097
    small = [new_instance(document, f"small{n}", 1024) for n in range(3)]
    large = new_instance(document, "large", 4096, "iallocator:priority:1")
    batch = document | {"request": {"type": "multi-allocate", "instances": [*small, large]}}
    response = respond(batch, "--n1=off")
    assert _placed(response) == {"large"}
    assert "that, higher priority first, no more than 1 of 4 can be placed" in response["info"]


def test_batch_leaves_out_instances_that_depend_on_one_left_out() -> None:
    """A batch places no instance that depends on one that is left out."""
    improved = 0
    for seed in seeds(10, 30, 200):
        rng = random.Random(seed)
        document = _batch(seed, "rbd", priorities=(0, 1))
        names = [one["name"] for one in document["request"]["instances"]]
        for one in document["request"]["instances"]:
            constraint = rng.choice(
                ("colocate:must:a", "separate:must:b", f"order:after:{rng.choice(names)}", "none")
            )
            one["tags"].append(f"iallocator:{constraint}")
        info = _agrees(document, ["--n1=off"], _best(document, ["--n1=off"]))
        improved += "placed together by exact search" in info
    assert improved


def test_instance_that_must_start_after_a_failed_one_fails_with_the_chain_named() -> None:
    """If the first of a chain of orders fails, all others fail, and the answer names it."""
    document = builders.cluster(nodes=3, memory=8192)
    for name, free in (("node1", 2049), ("node2", 4097), ("node3", 1024)):
        document["nodes"][name]["free_memory"] = free
    wanted = [
        new_instance(document, "base", 8000),
        new_instance(document, "app", 500, "iallocator:order:after:base"),
        new_instance(document, "top", 500, "iallocator:order:after:app"),
        new_instance(document, "medium", 2048),
        new_instance(document, "small", 1024),
        new_instance(document, "large", 3072),
    ]
    batch = document | {"request": {"type": "multi-allocate", "instances": wanted}}
    response = respond(batch, "--n1=off")
    assert _placed(response) == {"medium", "small", "large"}
    reasons = {e["instance"]: e["reason"] for e in response["solutions"] if not e["nodes"]}
    assert "starts after base" in reasons["app"]
    assert "starts after app" in reasons["top"]
    assert "starts after base" in reasons["top"]


def test_batch_is_never_worse_than_greedy_with_few_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With any budget of operations, a batch is placed no worse than greedily."""
    limited = 0
    for seed in seeds(6, 20):
        document = _batch(seed, "rbd", priorities=(0, 5))
        greedy = respond(document, "--exact-search=no")
        for trials in (0, 1, 2, 5, 20):
            monkeypatch.setitem(PER_SECOND, TRIALS, trials / 5)
            response = respond(document)
            assert _counts(document, _placed(response)) >= _counts(document, _placed(greedy))
            limited += response["info"].endswith("within its budget of work")
    assert limited


@pytest.mark.parametrize(
    ("nodes", "count", "seed"),
    [(4, 12, 6), (4, 12, 8), pytest.param(6, 18, 2, marks=pytest.mark.slow)],
)
def test_answer_that_n1_rejects_in_part_keeps_the_better_part(
    nodes: int, count: int, seed: int
) -> None:
    """If N+1 rejects a part of an answer, the rest is compared with greedy placement."""
    rng = random.Random(seed)
    document = builders.cluster(nodes=nodes, memory=65536, cpus=64)
    sizes = [
        rng.choice((1, 2, 3, 4, 6, 8)) * 1024 + rng.choice((0, 512, 256)) for _ in range(count)
    ]
    for node in document["nodes"].values():
        node["free_memory"] = int(sum(sizes) / nodes * rng.uniform(0.8, 1.2))
    wanted = [new_instance(document, f"new{n}", memory) for n, memory in enumerate(sizes)]
    batch = document | {"request": {"type": "multi-allocate", "instances": wanted}}
    greedy = respond(batch, "--exact-search=no")
    response = respond(batch, "--time-limit=3600")
    assert len(_placed(response)) > len(_placed(greedy))
