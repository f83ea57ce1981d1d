"""Test that settings of a group apply to instances in that group, in any order of requests."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from random import Random
from typing import Any

import pytest

from tests.builders import Json, as_bytes, cluster, instance, rbd
from tests.command import json_of, respond, run
from tests.solver import moving

LENIENT = "iallocator:ignore-soft-errors:yes"
BUSY = {"memory": 512, "vcpus": 4, "disk_template": "rbd"}
"""The resources of an instance that uses all virtual cpus of a node with one cpu."""


def scenario(*, tagged: str, tag: str = LENIENT, groups: int = 2) -> Json:
    """Return groups g1, g2, ... of two nodes each; the group `tagged` has the tag.

    In group 1, instance drbd1 is on node1 and node2, where busy1 uses all cpus; and so on.
    """
    instances = {}
    for number in range(1, groups + 1):
        first, second = f"node{2 * number - 1}", f"node{2 * number}"
        instances[f"drbd{number}"] = instance(first, second, memory=512)
        instances[f"busy{number}"] = instance(second, **BUSY)
    names = {f"g{number}": 2 for number in range(1, groups + 1)}
    made = cluster(names, cpus=1, instances=instances)
    made["nodegroups"][f"uuid-{tagged}"]["tags"] = [tag]
    return made


def evacuation(made: Json, names: tuple[str, ...], mode: str = "primary-only") -> Json:
    """Return `made` with a request to evacuate the instances `names` in this order."""
    request = {"type": "node-evacuate", "instances": list(names), "evac_mode": mode}
    return {**made, "request": request}


def moved(document: Json, *options: str) -> dict[str, list[str]]:
    """Return the new nodes of each instance that the answer to `document` moves."""
    result = respond(document, "--exact-search=no", *options)["result"]
    return {name: nodes for name, _, nodes in result[0]}


@pytest.mark.parametrize("names", list(permutations(("drbd1", "drbd2"))))
@pytest.mark.parametrize("tagged", ["g1", "g2"])
def test_failover_ignores_soft_limits_only_in_the_group_with_the_setting(
    tagged: str, names: tuple[str, ...]
) -> None:
    """A failover violates soft limits only in the group with the tag to ignore them.

    The secondary has no free cpus, which is a soft limit.
    """
    found = moved(evacuation(scenario(tagged=tagged), names))
    assert set(found) == {tagged.replace("g", "drbd")}


@pytest.mark.parametrize("names", list(permutations(("a", "b"))))
@pytest.mark.parametrize("tagged", ["g1", "g2"])
def test_shared_move_ignores_soft_limits_only_in_the_group_with_the_setting(
    tagged: str, names: tuple[str, ...]
) -> None:
    """A move on shared storage ignores soft limits only in a group with the tag for that."""
    made = scenario(tagged=tagged)
    for name, home in (("a", "node1"), ("b", "node3")):
        made["instances"][name] = rbd(home, memory=512)
    assert set(moved(evacuation(made, names))) == {{"g1": "a", "g2": "b"}[tagged]}


@pytest.mark.parametrize("names", list(permutations(("one", "two"))))
@pytest.mark.parametrize("tagged", ["g2", "g3"])
def test_change_of_group_ignores_soft_limits_only_in_the_group_with_the_setting(
    tagged: str, names: tuple[str, ...]
) -> None:
    """`change-group` violates soft limits only in a target group with the tag to ignore them."""
    made = scenario(tagged=tagged, groups=3)
    for number in (2, 3):
        made["instances"][f"more{number}"] = instance(f"node{2 * number - 1}", **BUSY)
    for name in names:
        made["instances"][name] = rbd("node1", memory=256)
    request = {"type": "change-group", "instances": list(names), "target_groups": None}
    made["request"] = request | {"target_groups": ["uuid-g2", "uuid-g3"]}
    homes = {"g2": {"node3", "node4"}, "g3": {"node5", "node6"}}[tagged]
    found = moved(made)
    assert set(found) == set(names)
    assert {nodes[0] for nodes in found.values()} <= homes


def batch(made: Json, wanted: tuple[tuple[str, str], ...], **members: Any) -> Json:
    """Return `made` with a request for new instances, each in its named group."""
    alike = {**rbd("node1", **members), "required_nodes": 1}
    del alike["nodes"]
    instances = [{**alike, "name": name, "group_name": group} for name, group in wanted]
    return {**made, "request": {"type": "multi-allocate", "instances": instances}}


@pytest.mark.parametrize("wanted", list(permutations((("a", "g1"), ("b", "g2")))))
@pytest.mark.parametrize("tagged", ["g1", "g2"])
def test_batch_ignores_soft_limits_only_in_the_group_with_the_setting(
    tagged: str, wanted: tuple[tuple[str, str], ...]
) -> None:
    """A batch violates soft limits only in the group with the tag to ignore them.

    Each instance needs five cpus, more than any node provides.
    """
    for options in ((), ("--exact-search=no",)):
        result = respond(batch(scenario(tagged=tagged), wanted, vcpus=5, memory=256), *options)[
            "result"
        ]
        assert [name for name, _ in result[0]] == [{"g1": "a", "g2": "b"}[tagged]]


@pytest.mark.parametrize("wanted", list(permutations((("a", "g1"), ("b", "g2")))))
@pytest.mark.parametrize("tagged", ["g1", "g2"])
def test_batch_violates_n1_only_in_the_group_that_does_not_require_it(
    tagged: str, wanted: tuple[tuple[str, str], ...]
) -> None:
    """A batch violates N+1 only in the group that has it disabled.

    The other node of each group could not restart an instance of 7000 MiB.
    """
    made = cluster({"g1": 2, "g2": 2})
    for number in (1, 2):
        held = rbd(f"node{2 * number}", memory=4000)
        made["instances"][f"held{number}"] = held
        made["nodes"][f"node{2 * number}"]["free_memory"] -= 4000
    made["nodegroups"][f"uuid-{tagged}"]["tags"] = ["iallocator:n1:off"]
    result = respond(batch(made, wanted, memory=7000))["result"]
    assert [name for name, _ in result[0]] == [{"g1": "a", "g2": "b"}[tagged]]


@pytest.mark.parametrize("mode", ["strict", "no-new", "off"])
def test_evacuation_does_not_check_global_n1(mode: str) -> None:
    """An evacuated instance is placed even if a failure is not tolerated afterwards."""
    made = cluster(3, instances={"big": rbd("node1", memory=5000)})
    for name in ("node2", "node3"):
        made["instances"][f"on-{name}"] = rbd(name, memory=2000)
        made["nodes"][name]["free_memory"] -= 2000
    made["nodes"]["node1"]["drained"] = True
    assert set(moved(evacuation(made, ("big",)), f"--n1={mode}")) == {"big"}


def _group_tag(document: Json, value: str) -> Json:
    """Return `document` with the tag ``exact-search`` of every group set to `value`."""
    groups = {
        uuid: group | {"tags": [f"iallocator:exact-search:{value}"]}
        for uuid, group in document["nodegroups"].items()
    }
    return document | {"nodegroups": groups}


def _evacuations(seed: int) -> tuple[Json, tuple[str, ...]]:
    return moving.evacuation(seed, "rbd", "all"), ()


def _changes(seed: int) -> tuple[Json, tuple[str, ...]]:
    return moving.group_change(seed, "rbd", ""), ()


def _batches(seed: int) -> tuple[Json, tuple[str, ...]]:
    rng = Random(f"group settings/{seed}")
    document = cluster({"g1": 2, "g2": 2}, memory=4096)
    sizes = [rng.choice((1024, 1536, 2048)) for _ in range(6)]
    alike = rbd("node1")
    del alike["nodes"]
    wanted = [
        alike | {"name": f"i{k}", "memory": size, "required_nodes": 1, "group_name": None}
        for k, size in enumerate(sizes)
    ]
    request = {"type": "multi-allocate", "instances": wanted}
    return document | {"request": request}, ("--n1=off",)


@pytest.mark.parametrize("make", [_evacuations, _changes, _batches])
def test_exact_search_of_a_group_acts_as_the_option_does(
    make: Callable[[int], tuple[Json, tuple[str, ...]]],
) -> None:
    """The tag ``exact-search`` of groups has the effect of the option.

    The tag of a group precedes the tag of the cluster.
    """
    pytest.importorskip("highspy")
    decided = 0
    for seed in range(12):
        document, options = make(seed)
        whole = respond(document, *options)
        greedy = respond(document, "--exact-search=no", *options)
        decided += whole != greedy
        assert respond(_group_tag(document, "no"), *options) == greedy, seed
        off = document | {"cluster_tags": ["iallocator:exact-search:no"]}
        assert respond(_group_tag(off, "yes"), *options) == whole, seed
    assert decided


def _tight(seed: int, memory: int) -> Json:
    """Return two groups of nodes with `memory` MiB, nearly full of instances on shared storage."""
    rng = Random(f"group searches/{seed}")
    while True:
        instances = {
            f"i{k}": rbd(
                f"node{rng.randint(1, 5)}",
                memory=rng.choice((1000, 1500, 2000, 2500, 3000)),
            )
            for k in range(rng.randint(4, memory // 600))
        }
        document = cluster({"g1": 3, "g2": 2}, memory=memory, instances=instances)
        if all(node["free_memory"] >= 0 for node in document["nodes"].values()):
            return document


@pytest.mark.parametrize(
    ("command", "options", "memory", "start"),
    [
        ("squeeze", ("--n1=off", "--target-resources=1", "--minimal-resources=0"), 6144, 60),
        ("place", ("--n1=off", "--strategy=pacemaker-utilization"), 4100, 31),
    ],
)
def test_exact_search_of_a_group_acts_in_planners(
    command: str, options: tuple[str, ...], memory: int, start: int
) -> None:
    """The tag ``exact-search`` of every group has the effect of the option in planners."""
    pytest.importorskip("highspy")
    decided = 0
    for seed in range(start, start + 20):
        document = _tight(seed, memory)
        whole = json_of(command, *options, document=document)
        greedy = json_of(command, "--exact-search=no", *options, document=document)
        decided += whole["moves"] != greedy["moves"]
        assert json_of(command, *options, document=_group_tag(document, "no")) == greedy, seed
        off = document | {"cluster_tags": ["iallocator:exact-search:no"]}
        assert json_of(command, *options, document=_group_tag(off, "yes")) == whole, seed
    assert decided


def test_stickiness_of_a_group_counts_for_instances_that_run_there() -> None:
    """The tag ``stickiness`` of a group has the effect of the option in `place`."""
    held = {name: rbd("node1") for name in ("a", "b")}
    document = cluster(2, instances=held)
    options = ("--strategy=pacemaker-balanced", "--n1=off")
    assert json_of("place", *options, document=document)["moves"]
    assert not json_of("place", *options, "--stickiness=100", document=document)["moves"]
    document["nodegroups"]["uuid-default"]["tags"] = ["iallocator:stickiness:100"]
    assert not json_of("place", *options, document=document)["moves"]


def test_time_limit_of_a_group_does_not_count_and_is_warned_of() -> None:
    """The tag ``time-limit`` of one group is ignored with a warning."""
    document = cluster(2, instances={"a": rbd("node1")})
    document["nodegroups"]["uuid-default"]["tags"] = ["iallocator:time-limit:7"]
    done = run("balance", stdin=as_bytes(document))
    assert b"does not count: it is a setting of the whole run" in done.stderr


def test_planners_keep_instances_in_a_group_that_allows_no_moves_to_others() -> None:
    """With the tag ``inter-group`` of a group, planners move no instance out of it."""
    held = {f"i{k}": rbd(f"node{1 + k % 2}") for k in range(4)}
    document = cluster({"full": 2, "empty": 2}, instances=held)
    assert json_of("balance-groups", document=document)["moves"]
    document["nodegroups"]["uuid-full"]["tags"] = ["iallocator:inter-group:no"]
    plan = json_of("balance-groups", document=document)
    assert plan["moves"] == []


@pytest.mark.parametrize("command", ["check", "check --no-simulation", "report"])
def test_tags_that_change_the_mode_of_n1_count_as_the_option(command: str) -> None:
    """Tags for N+1 have the effect of the option in `check`; those of the cluster in `report`."""
    held = {"a": instance("node1", "node2", memory=3000)}
    held["b"] = instance("node2", "node1", memory=3000)
    document = cluster(2, memory=4096, instances=held)
    off = ["iallocator:n1:off"]
    lost = run(*command.split(), stdin=as_bytes(document)).stdout
    assert b"secondary node2 has not enough memory" in lost
    document["cluster_tags"] = off
    done = run(*command.split(), stdin=as_bytes(document)).stdout
    assert b"secondary node2 has not enough memory" not in done
    if command != "report":
        document["cluster_tags"] = []
        assert run(*command.split(), "--n1=off", stdin=as_bytes(document)).stdout == done
        document["nodegroups"]["uuid-default"]["tags"] = off
        assert b"secondary node2 has" not in run(*command.split(), stdin=as_bytes(document)).stdout


def _shared_by_two(seed: int) -> Json:
    """Return two groups on shared storage; in the first, a node failure is not tolerated."""
    rng = Random(f"group N+1/{seed}")
    sizes = {"g1": rng.randint(2, 3), "g2": rng.randint(3, 4)}
    held = {
        f"i{k}": rbd(f"node{rng.randint(1, sizes['g1'])}", memory=rng.choice((1024, 2048)))
        for k in range(rng.randint(3, 5))
    }  # fmt: skip
    last = sum(sizes.values())
    held = {"small": rbd(f"node{last}", memory=512)} | held
    while True:
        document = cluster(sizes, memory=6144, instances=held)
        if all(node["free_memory"] >= 0 for node in document["nodes"].values()):
            return document
        held.popitem()


@pytest.mark.parametrize("mode", ["strict", "no-new", "no-worse", "off"])
@pytest.mark.parametrize(
    ("command", "options"),
    [("redistribute", ("-O", "node1")), ("balance-groups", ()), ("compress", ())],
)
def test_n1_of_groups_acts_between_groups_as_the_option_does(
    command: str, options: tuple[str, ...], mode: str
) -> None:
    """The tag ``n1`` of groups permits equally many moves between groups as the option."""
    moves = 0
    for seed in range(200, 208):
        document = _shared_by_two(seed)
        expected = json_of(command, *options, f"--n1={mode}", document=document)["moves"]
        moves += len(expected)
        tag = {"tags": [f"iallocator:n1:{mode}"]}
        for tagged in (("uuid-g1", "uuid-g2"), ("uuid-g2",) if mode == "strict" else ()):
            groups = {
                uuid: group | (tag if uuid in tagged else {})
                for uuid, group in document["nodegroups"].items()
            }
            plan = json_of(command, *options, document=document | {"nodegroups": groups})
            assert not tagged or len(plan["moves"]) == len(expected), (seed, tagged)
    assert moves
