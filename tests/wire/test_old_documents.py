"""Test that documents of older Ganeti versions get the answers for default values."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from iallocator.compat import behaviour_of
from iallocator.wire.document import read_cluster
from iallocator.wire.reading import Reading
from iallocator.wire.validation import problems
from tests.builders import Json, allocate, as_bytes, cluster, instance, policy
from tests.command import respond
from tests.model.make import model_of

LOW: Json = {
    "memory-size": 128, "cpu-count": 1, "disk-size": 1024, "disk-count": 1, "nic-count": 1,
    "spindle-use": 1,
}  # fmt: skip
HIGH: Json = {
    "memory-size": 32768, "cpu-count": 8, "disk-size": 1048576, "disk-count": 16, "nic-count": 8,
    "spindle-use": 12,
}  # fmt: skip
DEFAULTS: Json = policy(LOW, HIGH, **{"vcpu-ratio": 4, "spindle-ratio": 32}) | {
    "disk-templates": [
        "blockdev", "diskless", "drbd", "ext", "file", "gluster", "plain", "rbd", "sharedfile",
    ],
}  # fmt: skip
"""The documented policy of documents without one."""

INSTANCES = {
    "web": instance("node1", "node2", memory=2048),
    "mail": instance("node2", "node3", memory=512, admin_state="down"),
    "scratch": instance("node3", memory=256),
    "shared": instance("node1", disk_template="sharedfile", memory=300),
}

REQUESTS: dict[str, Json] = {
    "allocate": allocate({}, "new")["request"],
    "allocate-much-memory": allocate({}, "new", memory=32769)["request"],
    "allocate-little-disk": allocate({}, "new", disk=1023)["request"],
    "allocate-many-cpus": allocate({}, "new", vcpus=9)["request"],
    "allocate-many-spindles": allocate({}, "new", spindle_use=13)["request"],
    "allocate-cpu-ratio": allocate({}, "new", vcpus=8)["request"],
    "multi-allocate": {
        "type": "multi-allocate",
        "instances": [allocate({}, name)["request"] for name in ("new1", "new2")],
    },
    "allocate-secondary": {"type": "allocate-secondary", "name": "scratch"},
    "relocate": {
        "type": "relocate", "name": "web", "relocate_from": ["node2"], "required_nodes": 1,
    },
    "node-evacuate": {
        "type": "node-evacuate", "instances": ["web", "mail", "shared"],
        "evac_mode": "primary-only",
    },
    "change-group": {"type": "change-group", "instances": ["web"], "target_groups": []},
    "multi-evacuate": {"type": "multi-evacuate", "evac_nodes": ["node2", "node3"]},
}  # fmt: skip
every_request = pytest.mark.parametrize("name", REQUESTS)


def modern(name: str) -> Json:
    """Return the document with all members and the request `name` of `REQUESTS`."""
    document = cluster(4, memory=65536, cpus=4, instances=INSTANCES)
    document["nodegroups"]["uuid-default"]["ipolicy"] = DEFAULTS
    document["ipolicy"] = DEFAULTS
    return deepcopy({**document, "request": REQUESTS[name]})


def without_policy(document: Json) -> None:
    """Remove the policies, as in documents of Ganeti before 2.6."""
    del document["ipolicy"]
    for group in document["nodegroups"].values():
        del group["ipolicy"]


def with_group_policy_only(document: Json) -> None:
    """Keep only the policy of the groups in the document."""
    del document["ipolicy"]


def with_cluster_policy_only(document: Json) -> None:
    """Keep only the policy of the cluster, which groups without a policy use."""
    for group in document["nodegroups"].values():
        del group["ipolicy"]


def with_limits_in_policy(document: Json) -> None:
    """Write one interval instead of a list, as in Ganeti before 2.11."""
    for owner in (document, *document["nodegroups"].values()):
        own = owner["ipolicy"] = dict(owner["ipolicy"])
        (interval,) = own.pop("minmax")
        owner["ipolicy"] = {**own, **interval}


def with_should_run(document: Json) -> None:
    """Write should_run instead of admin_state, as in documents of Ganeti before 2.6."""
    for one in document["instances"].values():
        one["should_run"] = one.pop("admin_state") == "up"


def without_spindle_use(document: Json) -> None:
    """Remove the use of spindles, as in documents of Ganeti before 2.6."""
    described = [document["request"], *document["request"].get("instances", [])]
    for one in (*document["instances"].values(), *described):
        if isinstance(one, dict):
            one.pop("spindle_use", None)
            for disk in one.get("disks", []):
                disk.pop("spindles", None)


def without_node_parameters(document: Json) -> None:
    """Remove node parameters, as in documents of Ganeti before 2.5."""
    for node in document["nodes"].values():
        for key in ("ndparams", "total_spindles", "free_spindles", "vm_capable"):
            del node[key]


def without_groups(document: Json) -> None:
    """Remove the groups, as in documents of Ganeti before 2.4; all nodes are in one group."""
    del document["nodegroups"]
    for node in document["nodes"].values():
        del node["group"]


def as_in_the_beginning(document: Json) -> None:
    """Apply all changes for older Ganeti versions at once."""
    with_should_run(document)
    without_spindle_use(document)
    without_node_parameters(document)
    without_policy(document)
    without_groups(document)


AGES = (
    without_policy, with_group_policy_only, with_cluster_policy_only, with_limits_in_policy,
    with_should_run, without_spindle_use, without_node_parameters, without_groups,
    as_in_the_beginning,
)  # fmt: skip
every_age = pytest.mark.parametrize("age", AGES)


def response_to(document: Json) -> Json:
    """Return the response without the UUID of the group, which old documents lack."""
    response: Json = _without_uuid(respond(document))
    return response


def _without_uuid(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_uuid(item) for key, item in value.items() if key != "group_uuid"}
    return [_without_uuid(item) for item in value] if isinstance(value, list) else value


@every_age
@every_request
def test_old_document_has_the_answer_of_the_modern_one(name: str, age: Any) -> None:
    """A document of an older Ganeti has the answer of the document with default values."""
    old = modern(name)
    age(old)
    if name == "allocate-many-spindles" and age in (without_spindle_use, as_in_the_beginning):
        pytest.skip("the request itself is about spindles")
    assert response_to(old) == response_to(modern(name))


@every_age
@every_request
def test_old_document_validated_has_no_problem(name: str, age: Any) -> None:
    """The schema accepts a document of an older Ganeti, as the parser does."""
    old = modern(name)
    age(old)
    assert problems(as_bytes(old)) == []


@pytest.mark.parametrize(
    ("name", "excess"),
    [
        ("allocate-much-memory", "32769 MiB memory, at most 32768 allowed"),
        ("allocate-little-disk", "1023 MiB in one disk, at least 1024 allowed"),
        ("allocate-many-cpus", "9 virtual cpus, at most 8 allowed"),
        ("allocate-many-spindles", "13 spindles, at most 12 allowed"),
    ],
)
def test_document_without_policy_has_the_documented_limits(name: str, excess: str) -> None:
    """Without a policy, an instance above the default maximum is rejected everywhere."""
    old = modern(name)
    without_policy(old)
    info = response_to(old)["info"]
    assert "No valid allocation solutions, failure reasons: FailPolicy: 12;" in info
    assert f"outside the policy of the group: {excess}" in info


@pytest.mark.parametrize("name", ["allocate", "allocate-cpu-ratio"])
def test_document_without_policy_accepts_sizes_within_the_limits(name: str) -> None:
    """Without a policy, usual sizes and a cpu ratio of 4 are accepted."""
    old = modern(name)
    without_policy(old)
    assert response_to(old)["success"]


def test_document_without_any_state_regards_instances_as_running() -> None:
    """Without admin_state and should_run, an instance counts as running and migrates."""
    old = modern("node-evacuate")
    del old["instances"]["web"]["admin_state"]
    (job, *_) = response_to(old)["result"][2]
    assert [opcode["OP_ID"] for opcode in job] == ["OP_INSTANCE_MIGRATE"]


def test_stopped_instance_of_old_document_fails_over() -> None:
    """An instance with should_run false fails over instead of migrating."""
    old = modern("node-evacuate")
    with_should_run(old)
    jobs = response_to(old)["result"][2]
    assert [job[0]["OP_ID"] for job in jobs] == [
        "OP_INSTANCE_MIGRATE", "OP_INSTANCE_FAILOVER", "OP_INSTANCE_MIGRATE",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("health", "read"),
    [({"offline": True}, 0), ({"vm_capable": False}, 0), ({"drained": True}, 8192), ({}, 8192)],
)
def test_amounts_of_an_unreachable_node_are_ignored_by_hail(
    health: dict[str, Any], read: int
) -> None:
    """Amounts of an unreachable node are used, except with --compat hail."""
    document = cluster(1, changes={"node1": health | {"reserved_cpus": 2}})
    like_hail = read_cluster(document, Reading(behaviour_of("hail"))).nodes[0]
    ours = model_of(document).nodes[0]
    figures = [like_hail.total_memory, like_hail.reported_memory, like_hail.reserved_cpus]
    assert figures == [read, read, 2 if read else 0]
    assert [ours.total_memory, ours.reported_memory, ours.reserved_cpus] == [8192, 8192, 2]
