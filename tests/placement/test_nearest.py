"""Test that a rejection names the nearest candidate and its missing amount in one line."""

from __future__ import annotations

import json

import pytest

from iallocator.cli import answer
from iallocator.explain.explain import explain
from iallocator.options.settings import Settings
from tests.architecture.test_startup import SLOW, loaded
from tests.builders import Json, allocate, allocate_rbd, as_bytes, cluster, instance, rbd
from tests.command import respond
from tests.conformance.documents import document
from tests.explain.test_moves import relocate
from tests.seeds import seeds


def info(request: Json, *arguments: str) -> str:
    """Return the `info` of the answer to `request`."""
    return str(respond(request, *arguments)["info"])


def long_names(request: Json) -> Json:
    """Return `request` with long node names in one domain."""
    text = json.dumps(request)
    for number in range(1, 5):
        text = text.replace(f'"node{number}"', f'"node{number}.example.com"')
    found: Json = json.loads(text)
    return found


def test_nearest_miss_of_new_instance_has_short_name_and_amount() -> None:
    """For a new instance, `info` names the nearest node without domain, and the amount."""
    document = long_names(allocate(cluster(2, memory=2048), memory=3000, disk_template="plain"))
    assert info(document).endswith("FailMem: 2; closest: node1 lacks 953 MiB memory")


def test_nearest_miss_of_reserve_names_it() -> None:
    """If the nearest candidate lacks memory reserved for failovers, `info` names the reserve."""
    held = {"a": instance("node2", "node1", memory=3000)}
    request = allocate(
        cluster(2, memory=4096, instances=held, changes={"node2": {"offline": True}}),
        memory=2000,
        disk_template="plain",
    )
    reported = info(request, "--n1=off")
    assert reported.endswith("closest: node1 lacks 905 MiB memory (failover reserve included)")


def test_nearest_miss_of_several_groups_is_the_nearest_of_all() -> None:
    """Of several groups, `info` names the nearest candidate of all, and its group."""
    request = allocate(
        cluster({"west": 2, "east": 2}, memory=2048), memory=3000, disk_template="plain"
    )
    request["nodes"]["node4"] |= {"total_memory": 2900, "free_memory": 2900}
    assert "; closest in group east: node4 lacks 101 MiB memory" in info(request)


def test_nearest_miss_of_policy_names_the_rule() -> None:
    """If the policy rejects the instance, `info` names the policy, not an amount."""
    request = allocate(cluster(2), memory=2 * 10**6, disk_template="plain")
    assert "; outside the policy of the group: 2000000 MiB memory, at most" in info(request)


def test_nearest_miss_is_not_reported_with_compat_hail() -> None:
    """With --compat hail, `info` has no nearest candidate."""
    request = allocate(cluster(2, memory=2048), memory=3000, disk_template="plain")
    assert "closest" not in info(request, "--compat=hail")


def test_nearest_miss_of_relocation_is_reported() -> None:
    """For a relocation, `info` names the nearest new secondary."""
    held = {"a": instance("node1", "node2", memory=4096)}
    request = relocate(cluster(3, instances=held, changes={"node3": {"free_memory": 3120}}), "a")
    assert "; closest: node1/node3: node3 lacks 977 MiB memory (for a failover" in info(request)


def test_nearest_miss_of_no_worse_names_the_instance_that_cannot_be_restarted() -> None:
    """With no-worse, `info` names the instance that could not be restarted any more."""
    held = {
        "big": rbd("node1", memory=9000),
        "small": rbd("node1", memory=2000),
    }
    document = cluster(2, memory=16000, instances=held)
    document["nodes"]["node2"] |= {
        "total_memory": 8192,
        "free_memory": 7192,
        "reserved_memory": 1000,
    }
    request = allocate_rbd(document, memory=5500, restrict=["node2"])
    raw = as_bytes(request | {"cluster_tags": ["iallocator:n1:no-worse"]})
    assert "if node1 failed, small" in json.loads(answer(raw))["info"]
    (decision,) = explain(raw, Settings()).decisions
    (found,) = [one for group in decision.groups for one in group.n1_rejections]
    assert (found.instance, found.already) == ("small", False)


def test_nearest_miss_of_a_secondary_names_the_violated_rule() -> None:
    """If a constraint rejects each secondary, `info` names it, for example maintenance."""
    held = {"a": instance("node1", "node2")}
    closed = {"node3": {"tags": ["iallocator:maintenance"]}}
    request = relocate(cluster(3, instances=held, changes=closed), "a")
    assert "; node3 as secondary: FailTags: must be not on node3 (tag" in info(request)


@pytest.mark.parametrize("kind", ["allocate", "relocate", "node-evacuate", "change-group"])
def test_nearest_miss_generated_documents_agree_with_explain(kind: str) -> None:
    """The nearest node in `info` is among those that `explain` names."""
    reported = 0
    for seed in seeds(10, 60):
        raw = as_bytes(document(seed, kind))
        line = ""
        for decision in explain(raw, Settings()).decisions:
            parts = [decision, *([decision.choice] if decision.choice else [])]
            groups = [group for part in parts for group in part.groups]
            if decision.answer is None and any(group.closest for group in groups):
                line = line or json.loads(answer(raw))["info"]
                assert any(g.closest and g.closest in line for g in groups), (seed, line)
                reported += 1
    assert reported


@pytest.mark.parametrize("template", ["plain", "drbd", "rbd"])
def test_rejected_small_allocate_loads_nothing_slow(template: str) -> None:
    """The rejection of a small request loads no slow modules."""
    request = allocate(cluster(4, memory=2048), memory=3000, disk_template=template)
    assert not {module.split(".")[0] for module in loaded(as_bytes(request))} & set(SLOW)


def test_nearest_pair_has_the_lowest_missing_sum() -> None:
    """The nearest pair of nodes is the one with the lowest sum of missing amounts."""
    held = {"held": instance("node3", "node1", memory=3000)}
    changes = {"node1": {"free_memory": 5000}, "node2": {"free_disk": 4000}}
    made = cluster(3, instances=held, changes=changes)
    request = allocate(made, memory=4000, disk=10000, restrict=["node1", "node2"])
    assert "closest: node2/node1: node2 lacks 6129 MiB disk; " in info(request)
