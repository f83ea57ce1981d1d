"""Test that a rejection by the instance policy counts as FailPolicy, except with --compat hail."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders import Json, allocate, cluster, policy, rbd, spec
from tests.command import json_of, printed, respond


def limited(document: Json, **members: Any) -> Json:
    """Return `document` with a policy of at least 512 MiB of memory and no file disks."""
    low, high = spec(512, 1, 1024, 1, 1), spec(8192, 16, 1 << 20, 16, 16)
    found: Json = policy() | {"minmax": [{"min": low, "max": high}]}
    found["disk-templates"] = [one for one in found["disk-templates"] if one != "file"]
    for one in document["nodegroups"].values():
        one["ipolicy"] = found | members
    return document


def small(**members: Any) -> Json:
    """Return a request for 4 MiB, less than the policy permits."""
    return allocate(limited(cluster(3)), **{"memory": 4, "disk_template": "rbd", **members})


@pytest.mark.parametrize("members", [{}, {"memory": 1024, "disk_template": "file"},
                                     {"disk_template": "drbd"}], ids=str)  # fmt: skip
def test_allocation_that_the_policy_rejects_is_counted_as_fail_policy(
    members: dict[str, Any],
) -> None:
    """An allocation that the policy rejects counts as FailPolicy only."""
    request = small(**members)
    response = respond(request)
    assert not response["success"]
    (entry,) = response["solutions"]
    assert set(entry["failures"]) == {"FailPolicy"}
    assert "failure reasons: FailPolicy: " in response["info"]
    text = printed("explain", document=request)
    assert "FailPolicy (rejected by the instance policy of the group)" in text
    assert ": outside the policy of the group" in text or "allows no file disks" in text
    assert "FailMem" not in text


def test_batch_that_the_policy_rejects_is_counted_as_fail_policy() -> None:
    """In a batch, an instance that the policy rejects counts as FailPolicy."""
    request = small()
    one = request["request"]
    wanted = [{**one, "name": "a"}, {**one, "name": "b", "memory": 1024}]
    request["request"] = {"type": "multi-allocate", "instances": wanted}
    response = respond(request)
    assert response["result"] == [[["b", ["node1"]]], ["a"]]
    entry = next(one for one in response["solutions"] if one["instance"] == "a")
    assert set(entry["groups"][0]["failures"]) == {"FailPolicy"}


def test_change_of_group_that_the_policy_rejects_is_counted_as_fail_policy() -> None:
    """`change-group` counts a rejection by the policy of the target as FailPolicy."""
    document = limited(
        cluster({"east": 2, "west": 2}, instances={"a": rbd("node1",
                                                                 memory=128)})
    )  # fmt: skip
    asked = {"type": "change-group", "instances": ["a"], "target_groups": []}
    response = respond({**document, "request": asked})
    assert "FailPolicy: 2" in response["info"]
    assert "FailMem" not in response["info"]


def test_compat_hail_counts_the_resource_of_the_policy() -> None:
    """With --compat hail, a rejection by the policy counts under the resource."""
    response = respond(small(), "--compat=hail")
    assert set(response["solutions"][0]["failures"]) == {"FailMem"}


def test_capacity_that_the_policy_rejects_ends_with_fail_policy() -> None:
    """`capacity` for a size that the policy rejects ends with FailPolicy."""
    document = limited(cluster(3))
    found = json_of(
        "capacity", "--disk-template=rbd", "--standard-alloc=10g,128,1", document=document
    )
    assert found["standard"]["count"] == 0
    assert (found["standard"]["reason"].partition(" ")[0], set(found["standard"]["failures"])) == (
        "FailPolicy", {"FailPolicy"},
    )  # fmt: skip
    keys = printed(
        "capacity",
        "--disk-template=rbd",
        "--standard-alloc=10g,128,1",
        "--machine-readable",
        document=document,
    )
    assert "HTS_ALLOC_FAIL_REASON=FAILPOLICY" in keys
    keys = printed(
        "capacity",
        "--disk-template=rbd",
        "--standard-alloc=10g,128,1",
        "--machine-readable",
        "--compat=hail",
        document=document,
    )
    assert "HTS_ALLOC_FAIL_REASON=FAILMEM" in keys
    assert "FAILPOLICY" not in keys
