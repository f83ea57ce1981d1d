"""Test ``--n1 no-worse`` against a simple search by memory and possible nodes."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations
from random import Random

import pytest

from iallocator.model.columns import MEMORY
from iallocator.model.moves import Move
from iallocator.model.state import State
from iallocator.n1 import plan_rules
from iallocator.n1.exact import FailureSlack
from iallocator.n1.tolerance import FailureTolerance
from iallocator.packing import Bins, Item, Packing
from tests.builders import Json, allocate, allocate_rbd, cluster, instance, rbd
from tests.command import respond
from tests.model.make import model_of

from .tight import Case, context_of, tight

SIZES = (200, 300, 500, 700, 1100)
EVERYWHERE = frozenset(range(4))


def fits(items: list[tuple[int, frozenset[int]]], room: list[int]) -> bool:
    """Return whether all items (MiB, nodes) fit into `room`, by brute force."""
    if not items:
        return True
    (size, nodes), *rest = items
    for node in nodes:
        if room[node] >= size:
            left = list(room)
            left[node] -= size
            if fits(rest, left):
                return True
    return False


def least_lost(items: list[tuple[int, frozenset[int]]], room: list[int]) -> tuple[int, int]:
    """Return the least number of items, and the least MiB, that do not fit into `room`."""
    fewest, least = len(items), sum(size for size, _ in items)
    for count in range(len(items) + 1):
        for out in combinations(range(len(items)), count):
            lost = sum(items[k][0] for k in out)
            if (count < fewest or lost < least) and fits(
                [one for k, one in enumerate(items) if k not in out], room
            ):
                fewest, least = min(fewest, count), min(least, lost)
    return fewest, least


def lost_if(document: Json, failing: str) -> tuple[int, int]:
    """Return the least loss if the node `failing` fails, computed from the document alone."""
    names = [n for n, raw in document["nodes"].items() if n != failing and not raw["drained"]]
    used = Counter[str]()
    for one in document["instances"].values():
        used[one["nodes"][0]] += one["memory"]
    room = [document["nodes"][n]["total_memory"] - used[n] - 1 for n in names]
    items = []
    for one in document["instances"].values():
        if one["nodes"][0] == failing:
            nodes = one["nodes"][1:] if one["disk_template"] == "drbd" else names
            items.append((one["memory"], frozenset(map(names.index, nodes))))
    return least_lost(sorted(items, key=lambda i: -i[0]), room)


def scenario(rng: Random, template: str) -> Json:
    """Return four nodes of 2000 MiB, filled by half or more.

    With `template` "mixed", instances have different templates.
    """
    names = [f"node{k}" for k in range(1, 5)]
    residents: dict[str, Json] = {}
    for name in names:
        left = rng.choice((900, 1300, 1700))
        while (size := rng.choice(SIZES)) < left and len(residents) < 14:
            left -= size
            kind = rng.choice(("rbd", "drbd")) if template == "mixed" else template
            nodes = [name]
            if kind == "drbd":
                nodes.append(rng.choice([n for n in names if n != name]))
            residents[f"i{len(residents)}"] = instance(*nodes, memory=size, disk_template=kind)
    made = cluster(4, memory=2000, disk=10**6, cpus=640, instances=residents)
    asked = rng.choice(("rbd", "drbd")) if template == "mixed" else template
    return allocate(made, memory=rng.choice(SIZES), disk_template=asked)


def placed(document: Json, nodes: tuple[int, ...]) -> Json:
    """Return the document with its requested instance placed on `nodes`."""
    new = document["request"]
    names = [f"node{n + 1}" for n in nodes]
    one = instance(*names, memory=new["memory"], disk_template=new["disk_template"])
    return {**document, "instances": {**document["instances"], "new": one}}


@pytest.mark.parametrize("template", ["rbd", "drbd", "mixed"])
def test_losses_are_those_of_a_plain_search(template: str) -> None:
    """With no-worse, the losses of failures are the least that a plain search finds."""
    lossy = 0
    for seed in range(40):
        document = scenario(Random(f"losses/{template}/{seed}"), template)
        cluster = model_of(document)
        group = cluster.groups[0]
        check = FailureTolerance(State(cluster), plan_rules("no-worse", None), group=group)
        for (node,), loss in check.losses(check.failing()).items():
            count, memory = lost_if(document, cluster.nodes[node].name)
            assert loss.instances_least <= count == loss.instances, (seed, node)
            assert loss.memory_least <= memory == loss.memory, (seed, node)
            lossy += loss.instances > 0
    assert lossy > {"rbd": 0, "mixed": 8, "drbd": 20}[template]


@pytest.mark.parametrize("template", ["rbd", "drbd", "mixed"])
def test_no_worse_lets_no_failure_lose_more_than_a_plain_search_finds(template: str) -> None:
    """With no-worse, no accepted placement makes a failure lose more instances or memory.

    If no failure lost instances before, every such placement is accepted.
    """
    reported: Counter[tuple[bool, bool]] = Counter()
    for seed in range(40):
        document = scenario(Random(f"no-worse/{template}/{seed}"), template)
        case = context_of(document, "no-worse")
        check = case.context.tolerance(case.context.all_nodes())
        before = {name: lost_if(document, name) for name in document["nodes"]}
        for primary in range(2):
            nodes = (primary, 3)[: case.new.required_nodes]
            if case.state.columns[0][primary] <= case.new.memory:
                continue
            after = {n: lost_if(placed(document, nodes), n) for n in document["nodes"]}
            grown = any(a > b for n in after for a, b in zip(after[n], before[n]))
            accepted = check.allows(Move(case.new, (), nodes))
            whole = not any(any(lost) for lost in before.values())
            reported[accepted, whole] += 1
            assert not (accepted and grown), (seed, nodes)
            assert accepted or grown or not whole, (seed, nodes)
    assert reported[True, True] > 3, reported
    assert reported[False, True] > 3, reported


@pytest.mark.parametrize("by_memory", [False, True])
def test_packing_of_few_items_equals_a_plain_search(by_memory: bool) -> None:
    """Packing of few items costs as little as a plain search, and overfills no bin."""
    costs: Counter[bool] = Counter()
    for seed in range(80):
        rng = Random(f"packing/{seed}")
        room = [rng.randrange(5, 30) for _ in range(4)]
        sizes = [
            (rng.randrange(1, 16), EVERYWHERE if rng.random() < 0.8 else frozenset({k % 4}))
            for k in range(rng.randrange(3, 8))
        ]
        items = [Item(size, 0, bins) for size, bins in sizes]
        found = Packing(items, Bins(room, [0] * 4), by_memory).solve()
        assert found.cost == found.least == least_lost(sizes, room)[by_memory], seed
        for (size, bins), place in zip(sizes, found.places):
            if place is not None:
                assert place in bins
                room[place] -= size
        assert min(room) >= 0
        costs[found.cost > 0] += 1
    assert min(costs.values()) > 10, costs


def test_packing_with_disk_leaves_out_items_that_fit_by_memory_alone() -> None:
    """Packing leaves out items that fit by memory but not by disk on one bin."""
    items = [Item(4, 10, frozenset({0, 1})), Item(4, 10, frozenset({0, 1}))]
    assert Packing(items, Bins([8, 8], [10, 9])).solve().cost == 1
    assert Packing(items, Bins([8, 8], [20, 9])).solve().cost == 0


def test_packing_with_a_ceiling_only_decides_if_it_is_kept() -> None:
    """Packing with a limit of cost decides whether the limit can be kept, and nothing else.

    Three items of more than half a bin are packed into two bins: one must be left out.
    """
    items = [Item(6, 0, frozenset({0, 1})) for _ in range(3)]
    found = Packing(items, Bins([10, 10], [0, 0]), most=0).solve()
    assert found.cost == float("inf")
    assert found.least == 1


def greedy_gets_stuck() -> Json:
    """Return a cluster where restarts by size fail for node1, with 600, 400 and 400 MiB."""
    residents = {
        "a": rbd("node1", memory=400),
        "b": rbd("node1", memory=400),
        "c": rbd("node1", memory=600),
        "on2": rbd("node2", memory=1199),
        "on3": rbd("node3", memory=1399),
    }
    made = cluster(3, memory=2000, disk=10**6, cpus=64, instances=residents)
    return allocate_rbd(made, memory=0)


def test_failure_tolerated_in_another_order_fails_only_the_simulation() -> None:
    """With no-worse, a failure is tolerated if any order of restarts succeeds.

    The simulation of no-new, which uses one order, does not tolerate the failure.
    """
    results = {}
    for mode in ("no-new", "no-worse"):
        case = context_of(greedy_gets_stuck(), mode)
        results[mode] = case.context.tolerance(case.context.all_nodes()).tolerated([(0,)])
    assert results == {"no-new": [], "no-worse": [(0,)]}


def test_sums_of_parts_equal_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no-worse, N+1 by sums accepts the placements that N+1 by exact search accepts."""

    def results(case: Case) -> list[bool]:
        check = case.context.tolerance(case.context.all_nodes())
        groups = {index: node.group for index, node in enumerate(case.cluster.nodes)}
        return [
            check.allows(Move(case.new, (), nodes))
            for nodes in permutations(case.context.all_nodes(), case.new.required_nodes)
            if case.state.columns[MEMORY][nodes[0]] > case.new.memory
            and len({groups[index] for index in nodes}) == 1
        ]

    reported = [results(tight(seed, "no-worse")) for seed in range(40)]
    monkeypatch.setattr(FailureSlack, "is_worse_with", lambda *_: None)
    assert reported == [results(tight(seed, "no-worse")) for seed in range(40)]
    assert min(Counter(one for some in reported for one in some).values()) > 25


@pytest.mark.parametrize(
    ("mode", "memory", "placed"),
    [("no-new", 14000, True), ("no-new", 16000, False), ("no-worse", 14000, False),
     ("no-worse", 16000, False), ("off", 14000, True), ("off", 16000, True)],
)  # fmt: skip
def test_more_memory_that_saves_an_instance_forbids_only_by_no_new(
    mode: str, memory: int, placed: bool
) -> None:
    """With no-new only, more memory on a node can make a request fail.

    In the example of docs/explanation/n1.md, 2000 MiB more on node2 allow a restart.
    """
    document = cluster(
        2,
        instances={
            "inst1": rbd("node1", memory=6000),
            "inst2": rbd("node2", memory=9000),
        },
        changes={
            "node1": {"total_memory": 6200, "free_memory": 200},
            "node2": {"total_memory": memory, "free_memory": memory - 9000},
        },
    )
    request = allocate_rbd(document, memory=4000)
    assert respond(request, f"--n1={mode}")["success"] is placed
