"""Settings of a group count for what comes to that group, whoever was asked for before."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from tests.builders import Json, cluster, instance
from tests.property.answers import answered

LENIENT = "iallocator:ignore-soft-errors:yes"
BUSY = {"memory": 512, "vcpus": 4, "disk_template": "rbd"}
"""All the cpus that a node with one cpu may give."""


def world(*, tagged: str, tag: str = LENIENT, groups: int = 2) -> Json:
    """Groups g1, g2, ... of two nodes each, the group called `tagged` with a tag.

    In group 1 (and so on) instance drbd1 is on node1 and node2, where busy1 takes all cpus.
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
    """`made` with a request to evacuate the instances called `names`, in this order."""
    request = {"type": "node-evacuate", "instances": list(names), "evac_mode": mode}
    return {**made, "request": request}


def moved(document: Json, *options: str) -> dict[str, list[str]]:
    """Name -> new nodes, of the instances that the answer moves."""
    result = answered(document, "--exact-search=no", *options)["result"]
    return {name: nodes for name, _, nodes in result[0]}


@pytest.mark.parametrize("names", list(permutations(("drbd1", "drbd2"))))
@pytest.mark.parametrize("tagged", ["g1", "g2"])
def test_failover_ignores_soft_limits_only_in_the_group_that_says_so(
    tagged: str, names: tuple[str, ...]
) -> None:
    """The secondary has no cpus left: soft, so the tagged group's instance moves, in any order."""
    found = moved(evacuation(world(tagged=tagged), names))
    assert set(found) == {tagged.replace("g", "drbd")}


@pytest.mark.parametrize("names", list(permutations(("a", "b"))))
@pytest.mark.parametrize("tagged", ["g1", "g2"])
def test_shared_move_ignores_soft_limits_only_in_the_group_that_says_so(
    tagged: str, names: tuple[str, ...]
) -> None:
    """The same for instances on shared storage: a is in g1, b in g2."""
    made = world(tagged=tagged)
    for name, home in (("a", "node1"), ("b", "node3")):
        made["instances"][name] = instance(home, memory=512, disk_template="rbd")
    assert set(moved(evacuation(made, names))) == {{"g1": "a", "g2": "b"}[tagged]}


@pytest.mark.parametrize("names", list(permutations(("one", "two"))))
@pytest.mark.parametrize("tagged", ["g2", "g3"])
def test_change_of_group_ignores_soft_limits_only_in_the_group_that_says_so(
    tagged: str, names: tuple[str, ...]
) -> None:
    """Both targets have no cpus left on any node: everybody goes to the tagged one."""
    made = world(tagged=tagged, groups=3)
    for number in (2, 3):
        made["instances"][f"more{number}"] = instance(f"node{2 * number - 1}", **BUSY)
    for name in names:
        made["instances"][name] = instance("node1", memory=256, disk_template="rbd")
    request = {"type": "change-group", "instances": list(names), "target_groups": None}
    made["request"] = request | {"target_groups": ["uuid-g2", "uuid-g3"]}
    homes = {"g2": {"node3", "node4"}, "g3": {"node5", "node6"}}[tagged]
    found = moved(made)
    assert set(found) == set(names)
    assert {nodes[0] for nodes in found.values()} <= homes


def batch(made: Json, wanted: tuple[tuple[str, str], ...], **members: Any) -> Json:
    """`made` with a request for new instances, each in its group."""
    alike = {**instance("node1", disk_template="rbd", **members), "required_nodes": 1}
    del alike["nodes"]
    instances = [{**alike, "name": name, "group_name": group} for name, group in wanted]
    return {**made, "request": {"type": "multi-allocate", "instances": instances}}


@pytest.mark.parametrize("wanted", list(permutations((("a", "g1"), ("b", "g2")))))
@pytest.mark.parametrize("tagged", ["g1", "g2"])
def test_batch_ignores_soft_limits_only_in_the_group_that_says_so(
    tagged: str, wanted: tuple[tuple[str, str], ...]
) -> None:
    """Five cpus are more than any node may give; one group does not mind."""
    for options in ((), ("--exact-search=no",)):
        result = answered(batch(world(tagged=tagged), wanted, vcpus=5, memory=256), *options)[
            "result"
        ]
        assert [name for name, _ in result[0]] == [{"g1": "a", "g2": "b"}[tagged]]


@pytest.mark.parametrize("wanted", list(permutations((("a", "g1"), ("b", "g2")))))
@pytest.mark.parametrize("tagged", ["g1", "g2"])
def test_batch_breaks_n1_only_in_the_group_that_does_not_ask_for_it(
    tagged: str, wanted: tuple[tuple[str, str], ...]
) -> None:
    """An instance of 7000 MiB could not be taken over by the other node of its group."""
    made = cluster({"g1": 2, "g2": 2})
    for number in (1, 2):
        held = instance(f"node{2 * number}", memory=4000, disk_template="rbd")
        made["instances"][f"held{number}"] = held
        made["nodes"][f"node{2 * number}"]["free_memory"] -= 4000
    made["nodegroups"][f"uuid-{tagged}"]["tags"] = ["iallocator:n1:off"]
    result = answered(batch(made, wanted, memory=7000))["result"]
    assert [name for name, _ in result[0]] == [{"g1": "a", "g2": "b"}[tagged]]


@pytest.mark.parametrize("mode", ["strict", "no-new", "off"])
def test_evacuation_is_not_held_to_global_n1(mode: str) -> None:
    """Whoever has to leave a node goes somewhere, even if then a failure is not survived."""
    made = cluster(3, instances={"big": instance("node1", memory=5000, disk_template="rbd")})
    for name in ("node2", "node3"):
        made["instances"][f"on-{name}"] = instance(name, memory=2000, disk_template="rbd")
        made["nodes"][name]["free_memory"] -= 2000
    made["nodes"]["node1"]["drained"] = True
    assert set(moved(evacuation(made, ("big",)), f"--n1={mode}")) == {"big"}
