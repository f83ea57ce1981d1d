"""Test the memory ratio: how much memory of instances a node may have for each of its MiB."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import permutations
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from iallocator.engine import effective_settings, read
from iallocator.model.columns import MEMORY
from iallocator.model.moves import Move
from iallocator.options.settings import Settings
from iallocator.placement.context import Context
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import json_of, plan_of, printed, respond, run
from tests.n1.tight import Case
from tests.seeds import seeds
from tests.storage.test_redundancy import Brute, tight

TAG = "iallocator:memory-ratio:1.5"


def _full(free: int = 0, group_tags: tuple[str, ...] = (), tags: tuple[str, ...] = ()) -> Json:
    """Return a full node of 4096 MiB with four instances of 1000 MiB, and 96 MiB for itself.

    The node reports `free` MiB of free memory.
    """
    machines = {f"i{k}": rbd("node1", memory=1000, vcpus=1) for k in range(4)}
    document = cluster(1, memory=4096, cpus=64, instances=machines)
    document["nodes"]["node1"] |= {"free_memory": free, "reserved_memory": 96}
    document["nodegroups"]["uuid-default"]["tags"] = list(group_tags)
    document["cluster_tags"] = list(tags)
    document["enabled_hypervisors"] = ["xen-pvm"]
    return document


def _fits(document: Json, memory: int, *options: str) -> bool:
    request = allocate_rbd(document, memory=memory, vcpus=1)
    answer: Json = respond(request, "--n1=off", *options)
    return bool(answer["success"])


@pytest.mark.parametrize("free", [0, 500])
def test_ratio_multiplies_the_memory_for_instances(free: int) -> None:
    """The memory ratio multiplies the memory of a node for instances.

    1.5 × (4096 − 96) less 4 × 1000 is 2000 MiB, of which 1 MiB must remain free.
    """
    document = _full(free)
    assert _fits(document, 1999, "--memory-ratio=1.5")
    assert not _fits(document, 2000, "--memory-ratio=1.5")
    assert not _fits(document, 128)
    assert not _fits(document, 128, "--memory-ratio=1")


def test_ratio_does_not_apply_to_missing_memory() -> None:
    """The memory ratio does not multiply memory that is missing on a node.

    On a node with one instance less, 300 MiB are neither free nor accounted for.
    """
    document = _full(700)
    del document["instances"]["i3"]
    assert _fits(document, 2699, "--memory-ratio=1.5")
    assert not _fits(document, 2700, "--memory-ratio=1.5")


def test_tag_of_the_group_precedes_that_of_the_cluster_and_the_option_precedes_both() -> None:
    assert _fits(_full(tags=(TAG,)), 1999)
    assert _fits(_full(group_tags=(TAG,)), 1999)
    both = _full(tags=("iallocator:memory-ratio:3",), group_tags=(TAG,))
    assert not _fits(both, 2000)
    assert _fits(both, 2000, "--memory-ratio=2")


def test_an_over_committed_node_still_takes_what_the_ratio_leaves() -> None:
    """With a memory ratio, an overfull node accepts an instance if the ratio leaves memory.

    5 instances of 1000 MiB on 4000 MiB: the ratio 1.5 leaves 1000 MiB.
    """
    document = _full(5)
    document["instances"]["i4"] = document["instances"]["i3"] | {}
    assert _fits(document, 999, "--memory-ratio=1.5")
    assert not _fits(document, 1000, "--memory-ratio=1.5")


def test_compat_hail_ignores_the_ratio() -> None:
    assert not _fits(_full(tags=(TAG,)), 128, "--compat=hail")
    assert not _fits(_full(), 128, "--compat=hail", "--memory-ratio=1.5")


RATIOS = (1.1, 1.25, 1.5, 2.0)


def lent(document: Json, name: str, ratio: float) -> int:
    """Return the memory in MiB that `ratio` adds to a node, by definition."""
    node = document["nodes"][name]
    return int((Fraction(str(ratio)) - 1) * (node["total_memory"] - node["reserved_memory"]))


def held_on(document: Json, node: str) -> int:
    """Return the memory of the instances with the node as their primary."""
    return sum(i["memory"] for i in document["instances"].values() if i["nodes"][0] == node)


class OverCommitted(Brute):
    """A simulation of failures from a document alone, with a memory ratio."""

    def __init__(self, document: Json, strict: bool, ratio: float) -> None:
        super().__init__(document, strict)
        for name, node in document["nodes"].items():
            own = node["total_memory"] - node["reserved_memory"]
            self.free[name] = own + lent(document, name, ratio) - held_on(document, name)

    def reaches(self, node: str, name: str) -> bool:
        """Return True, as every node has access to every instance."""
        return True


def nearly_full(rng: Random, ratio: float) -> Json:
    """Return a request, and nodes with instances that exceed the memory without the ratio."""
    document = tight(rng)
    for node in document["nodes"].values():
        node.pop("storage_pools")
        node |= {"total_memory": ceil(node["total_memory"] / ratio), "reserved_memory": 1}
    for raw in document["instances"].values():
        raw.pop("storage_pool")
    for name, node in document["nodes"].items():
        own = node["total_memory"] - node["reserved_memory"]
        node["free_memory"] = max(0, own - held_on(document, name))
    document["request"].pop("storage_pool")
    document["nodegroups"]["uuid-default"]["tags"] = [f"iallocator:memory-ratio:{ratio}"]
    return document


@pytest.mark.parametrize("mode", ["strict", "no-new"])
def test_n1_with_a_memory_ratio_equals_brute_force(mode: str) -> None:
    """N+1 accepts a placement if the memory ratio leaves the memory for every restart."""
    reported: Counter[bool] = Counter()
    for seed in seeds(200, 1500):
        rng = Random(f"memory-ratio/{seed}")
        ratio = rng.choice(RATIOS)
        document = nearly_full(rng, ratio)
        settings = Settings()
        settings.n1 = mode
        found, request = read(as_bytes(document), settings)
        settings = effective_settings(found, {}, settings, [])
        case = Case(Context(found, settings), request.instance)  # type: ignore[union-attr]
        tolerance = case.context.tolerance(case.context.all_nodes())
        strict = mode == "strict"
        before = OverCommitted(document, strict, ratio)
        names = [node.name for node in found.nodes]
        watched = [name for name in names if strict or before.online[name]]
        watched = [name for name in watched if strict or before.tolerates(name)]
        for index, name in enumerate(names):
            assert case.state.columns[MEMORY][index] == before.free[name], (seed, name)
            after = OverCommitted(document, strict, ratio)
            after.put("new", document["request"], name)
            if before.online[name] and after.free[name] > 0:
                expected = all(map(after.tolerates, watched))
                allowed = tolerance.allows(Move(case.new, (), (index,)))
                assert allowed is expected, (mode, seed, name)
                reported[expected] += 1
    assert min(reported[True], reported[False]) > 20, reported


def overcommitted(rng: Random, template: str, ratio: float, fewest: int = 2, most: int = 5) -> Json:
    """Return two to four nodes of 4096 MiB with instances that use up to `ratio` times as much.

    Each node has `fewest` to `most` instances, or fewer if these do not fit.
    """
    count = rng.randint(2, 4)
    names = [f"node{k}" for k in range(1, count + 1)]
    left = {name: int(4096 * ratio) - 1 for name in names}
    residents = {}
    for number in range(rng.randint(fewest * count, most * count)):
        home, second = rng.sample(names, 2)
        home = rng.choice((home, "node1"))
        second = second if second != home else "node2"
        memory = rng.choice((600, 1100, 1700))
        if memory < left[home]:
            left[home] -= memory
            nodes = (home, second) if template == "drbd" else (home,)
            residents[f"i{number}"] = instance(
                *nodes, memory=memory, disk=100, disk_template=template
            )
    document = cluster(count, memory=4096, cpus=64, instances=residents)
    for name, node in document["nodes"].items():
        node["free_memory"] = max(0, 4096 - held_on(document, name))
    return document


@pytest.mark.parametrize("template", ["rbd", "drbd"])
def test_allocations_with_a_memory_ratio_equal_brute_force(template: str) -> None:
    """An allocation can use exactly the nodes on which the memory ratio leaves memory."""
    outcomes: Counter[bool] = Counter()
    for seed in seeds(60, 500):
        rng = Random(f"over-commit/{template}/{seed}")
        ratio = rng.choice(RATIOS)
        document, asked = overcommitted(rng, template, ratio), rng.choice((600, 1700, 2500))
        held: Counter[str] = Counter()
        reserved: dict[str, Counter[str]] = {name: Counter() for name in document["nodes"]}
        for raw in document["instances"].values():
            held[raw["nodes"][0]] += raw["memory"]
            for second in raw["nodes"][1:]:
                reserved[second][raw["nodes"][0]] += raw["memory"]
        free = {n: 4096 + lent(document, n, ratio) - held[n] for n in document["nodes"]}
        most = {n: max(reserved[n].values(), default=0) for n in free}

        def keeps(node: str, free_then: float, reserve: float) -> bool:
            """Return whether `node` keeps N+1 with the free and reserved MiB, or failed before."""
            return free_then > reserve or free[node] <= most[node]  # noqa: B023

        expected = [n for n in free if free[n] > asked and keeps(n, free[n] - asked, most[n])]
        pairs = [
            (n, other)
            for n, other in permutations(free, 2)
            if n in expected
            and free[other] > asked
            and keeps(other, free[other], max(most[other], reserved[other][n] + asked))
        ]
        number = len(pairs) if template == "drbd" else len(expected)
        request = allocate(document, memory=asked, disk=100, disk_template=template)
        answer = respond(request, "--n1=off", f"--memory-ratio={ratio}")
        outcomes[number > 0] += 1
        assert answer["success"] is (number > 0), (seed, answer)
        if number:
            assert answer["solutions"][0]["successes"] == number, (seed, answer)
    assert min(outcomes.values()) > 5, outcomes


@pytest.mark.parametrize(
    ("command", "template", "fewest", "most"),
    [("balance", "rbd", 5, 9), ("balance", "drbd", 2, 5), ("squeeze", "rbd", 1, 3)],
)
def test_plans_with_a_memory_ratio_keep_within_it(
    command: str, template: str, fewest: int, most: int
) -> None:
    """After each move of a plan, a node with a new instance is within the memory ratio."""
    beyond = 0
    for seed in seeds(12, 250):
        rng = Random(f"{command}/{template}/{seed}")
        ratio = rng.choice(RATIOS)
        document = overcommitted(rng, template, ratio, fewest, most)
        plan: Any = plan_of(command, document, "--n1=off", f"--memory-ratio={ratio}")
        where = {name: raw["nodes"][0] for name, raw in document["instances"].items()}
        for move in plan["moves"]:
            name, home = move["instance"], move["to"][0]
            if where[name] != home:
                where[name] = home
                held = sum(
                    document["instances"][one]["memory"] for one in where if where[one] == home
                )
                assert held < 4096 + lent(document, home, ratio), (seed, move)
                beyond += held >= 4096
    assert beyond > 0


def test_capacity_with_a_memory_ratio_equals_brute_force() -> None:
    """`capacity` places as many instances as the memory ratio permits on each node."""
    for seed in seeds(12, 200):
        rng = Random(f"capacity/{seed}")
        ratio = rng.choice(RATIOS)
        document, size = overcommitted(rng, "rbd", ratio), rng.choice((300, 700, 1000))
        expected = 0
        for name in document["nodes"]:
            left = 4096 + lent(document, name, ratio) - held_on(document, name)
            expected += max(0, (left - 1) // size)
        found = json_of(
            "capacity", f"--standard-alloc=1,{size},1", "--disk-template=rbd", "--n1=off",
            f"--memory-ratio={ratio}", document=document,
        )  # fmt: skip
        assert len(found["standard"]["instances"]) == expected, (seed, expected)


def test_ratio_is_listed_with_its_origin_and_explained_with_numbers() -> None:
    """`constraints` lists the memory ratio with its origin; `explain` has its amount."""
    document = _full(group_tags=(TAG,))
    (limit,) = json_of("constraints", "--json", document=document)["constraints"]
    assert (limit["what"], limit["origin"]) == (
        "at most 6000 MiB of memory for instances on node1",
        f"tag of group default: {TAG}",
    )
    request = allocate_rbd(document, memory=2000, vcpus=1)
    text = " ".join(printed("explain", "--n1=off", document=request).split())
    assert "needs 2000 MiB memory, 2000 free (2000 of them by memory-ratio)" in text


def test_saved_cluster_is_read_back_with_the_same_free_memory(tmp_path: Path) -> None:
    """A saved text file has the free memory without the amount that the ratio adds."""
    document = _full(300, group_tags=(TAG,))
    fields = "--print-nodes=umem"
    first = run("balance", f"--save-cluster={tmp_path}/saved", fields, stdin=as_bytes(document))
    assert b" 2000" in first.stderr
    second = run("balance", fields, "-t", f"{tmp_path}/saved.original")
    assert second.stderr == first.stderr
