"""Test the limits of a node: their boundaries, missing amounts, and the reported limit."""

from __future__ import annotations

import json
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import pytest

from iallocator.constraints.checks import (
    DISK_SPACE,
    FREE_MEMORY,
    OWN_SPINDLES,
    SHARED_SPINDLES,
    SPINDLES_OF_DISKS,
    VCPUS,
)
from iallocator.explain.explain import explain
from iallocator.limits.node import (
    ABANDONED,
    ALL_LIMITS,
    FORCED_LIMITS,
    HARD_LIMITS,
    NO_WORSE_LIMITS,
    PRIMARY,
    SECONDARY,
    RoleLimits,
    checks_for,
)
from iallocator.model.instance import Instance
from iallocator.options.settings import Settings
from tests.builders import Json, allocate, allocate_rbd, cluster, instance
from tests.command import respond


def failures(request: Json, *options: str) -> dict[str, int]:
    """Return the number of rejected candidates by reason, in the only group of `request`."""
    found: dict[str, int] = respond(request, "--n1=off", *options)["solutions"][0]["failures"]
    return found


def one_node(change: Json | None = None, **members: Any) -> Json:
    """Return a request for a plain instance of 1024 MiB memory and disk, and one node."""
    members = {"disk_template": "plain", **members}
    return allocate(cluster(nodes=1, changes={"node1": change or {}}), **members)


@pytest.mark.parametrize(
    ("change", "members", "expected"),
    [
        ({"free_memory": 1025}, {}, {}),
        ({"free_memory": 1024}, {}, {"FailMem": 1}),
        ({"free_disk": 1025}, {}, {}),
        ({"free_disk": 1024}, {}, {"FailDisk": 1}),
        ({"free_disk": 0}, {"disk_template": "file"}, {}),
        ({"free_disk": 0}, {"disk_template": "rbd"}, {}),
        ({}, {"vcpus": 32}, {}),
        ({}, {"vcpus": 33}, {"FailCPU": 1}),
        ({"reserved_cpus": 1}, {"vcpus": 32}, {"FailCPU": 1}),
        ({}, {"spindle_use": 32}, {}),
        ({}, {"spindle_use": 33}, {"FailDisk": 1}),
        ({}, {"spindle_use": 33, "disk_template": "rbd"}, {}),
    ],
)
def test_node_limit_at_its_edge_rejects_one_more(
    change: Json, members: dict[str, Any], expected: dict[str, int]
) -> None:
    """A node accepts the last amount within each limit, and rejects the next one."""
    assert failures(one_node(change, **members)) == expected


EXCLUSIVE = {"ndparams": {"exclusive_storage": True, "spindle_count": 1}, "total_spindles": 9}


@pytest.mark.parametrize(
    ("free", "disk", "expected"),
    [
        (3, {"size": 1024, "spindles": 3}, {}),
        (2, {"size": 1024, "spindles": 3}, {"FailSpindles": 1}),
        (9, {"size": 1024, "spindles": None}, {"FailPolicy": 1}),
        (9, {"size": 1024}, {"FailPolicy": 1}),
    ],
)
def test_node_with_exclusive_storage_needs_enough_spindles(
    free: int, disk: Json, expected: dict[str, int]
) -> None:
    """On exclusive storage, a node accepts disks for all free spindles.

    Disks with unknown spindles cannot be placed.
    """
    assert failures(one_node({**EXCLUSIVE, "free_spindles": free}, disks=[disk])) == expected


def test_node_with_several_violated_limits_reports_the_first() -> None:
    """If several limits are violated, the first of memory, disk, spindles and cpus counts."""
    nothing_free: Json = {"free_memory": 10, "free_disk": 10}
    members: Json = {"spindle_use": 40, "vcpus": 40}
    assert failures(one_node(nothing_free, **members)) == {"FailMem": 1}
    assert failures(one_node({"free_disk": 10}, **members)) == {"FailDisk": 1}
    assert failures(one_node({}, **members)) == {"FailDisk": 1}
    assert failures(one_node({}, vcpus=40)) == {"FailCPU": 1}


@pytest.mark.parametrize(
    ("change", "members", "left"),
    [
        ({}, {"vcpus": 33}, {}),
        ({}, {"spindle_use": 33}, {}),
        ({"free_memory": 1024}, {}, {"FailMem": 1}),
        ({"free_disk": 1024}, {}, {"FailDisk": 1}),
    ],
)
def test_soft_limit_can_be_ignored_and_a_hard_one_cannot(
    change: Json, members: dict[str, Any], left: dict[str, int]
) -> None:
    """--ignore-soft-errors ignores ratios, but not memory and disk."""
    assert failures(one_node(change, **members)) != {}
    assert failures(one_node(change, **members), "--ignore-soft-errors") == left


def test_exclusion_tag_of_a_present_instance_rejects_the_node() -> None:
    """A node rejects a primary with the exclusion tag of another primary, not of a secondary."""
    resident = instance("node1", "node2", tags=["service:dns"])
    document = cluster(2, instances={"dns1": resident}, tags=("htools:iextags:service",))
    request = allocate(document, "dns2", disk_template="plain", tags=["service:dns"])
    assert respond(request)["result"] == ["node2"]
    assert failures(request) == {"FailTags": 1}
    assert failures(request, "--ignore-soft-errors") == {}


@pytest.mark.parametrize(("free", "expected"), [(4097, {}), (4096, {"FailMem": 2})])
def test_secondary_without_memory_for_a_failover_rejects(
    free: int, expected: dict[str, int]
) -> None:
    """A node rejects a secondary without the memory for a failover."""
    document = cluster(2, memory=16384, changes={"node2": {"free_memory": free}})
    assert failures(allocate(document, memory=4096)) == expected


def test_node_that_fails_n1_already_may_take_more() -> None:
    """A node that fails N+1 already accepts an instance that does not add to the lack."""
    residents = {"a": instance("node2", "node1", memory=3000)}
    for free, expected in ((4000, {"FailMem": 1}), (3000, {})):
        document = cluster(2, instances=residents, changes={"node1": {"free_memory": free}})
        request = allocate_rbd(document, restrict=["node1"])
        assert failures(request) == expected


def test_forthcoming_instance_keeps_its_memory() -> None:
    """The memory of a forthcoming instance is reserved before the instance exists."""
    residents = {"soon": instance("node1", memory=7500, forthcoming=True)}
    document = cluster(1, instances=residents, changes={"node1": {"free_memory": 8192}})
    assert failures(allocate_rbd(document)) == {"FailMem": 1}
    assert failures(allocate_rbd(document, memory=600)) == {}


@pytest.mark.parametrize(
    ("state", "free", "mode", "moves"),
    [
        ("offline", 1, "primary-only", True),
        ("offline", 0, "primary-only", False),
        ("down", 1, "primary-only", False),
        ("offline", 1, "secondary-only", True),
        ("offline", 0, "secondary-only", False),
        ("down", 1, "secondary-only", False),
    ],
)
def test_instance_marked_offline_needs_no_memory(
    state: str, free: int, mode: str, moves: bool
) -> None:
    """A secondary reserves no memory for an instance that is marked offline."""
    held = {"web": instance("node1", "node2", admin_state=state)}
    made = cluster(3, instances=held)
    for name in ("node3",) if mode == "secondary-only" else ("node1",):
        made["nodes"][name]["free_memory"] = free
    request = {"type": "node-evacuate", "instances": ["web"], "evac_mode": mode}
    for options in ((), ("--compat=hail",)):
        result = respond({**made, "request": request}, *options)["result"]
        assert [name for name, *_ in result[0]] == (["web"] if moves else [])


@pytest.mark.parametrize(("spindles", "words"), [(1, "1 spindle of"), (2, "2 spindles of")])
def test_missing_spindles_are_counted_in_the_message(spindles: int, words: str) -> None:
    """The message about missing spindles has their number."""
    request = one_node(
        {**EXCLUSIVE, "free_spindles": 0}, disks=[{"size": 1024, "spindles": spindles}]
    )
    found = explain(json.dumps(request).encode(), Settings()).document()
    assert f"needs {words} its own, 0 free" in json.dumps(found)


@pytest.mark.parametrize(("free", "expected"), [(3001, {}), (3000, {"FailMem": 1})])
def test_secondary_of_a_forthcoming_instance_keeps_memory_for_it(
    free: int, expected: dict[str, int]
) -> None:
    """A secondary reserves memory for the failover of a forthcoming instance."""
    soon = instance("node1", "node2", memory=3000, forthcoming=True)
    document = cluster(3, instances={"soon": soon}, changes={"node3": {"free_memory": free}})
    request = {"type": "node-evacuate", "instances": ["soon"], "evac_mode": "secondary-only"}
    assert failures({**document, "request": request}) == expected


@pytest.mark.parametrize(("spindles", "words"), [(1, "1 spindle of"), (2, "2 spindles of")])
def test_spindles_for_a_forthcoming_instance_are_counted_in_the_message(
    spindles: int, words: str
) -> None:
    """The message about missing spindles includes those of forthcoming instances."""
    soon = instance("node1", "node2", forthcoming=True)
    soon["disks"] = [{"size": 1024, "spindles": spindles}]
    changes = {f"node{k}": {**EXCLUSIVE, "free_spindles": 9 if k < 3 else 0} for k in (1, 2, 3)}
    document = cluster(3, instances={"soon": soon}, changes=changes)
    request = {"type": "node-evacuate", "instances": ["soon"], "evac_mode": "secondary-only"}
    raw = json.dumps({**document, "request": request}).encode()
    found = explain(raw, Settings()).document()
    assert f"needs {words} its own, 0 free with forthcoming instances" in json.dumps(found)


def test_forthcoming_instance_with_unknown_spindles_is_rejected_everywhere() -> None:
    """A forthcoming instance with unknown spindles is rejected by every node."""
    soon = instance("node1", "node2", forthcoming=True)
    soon["disks"] = [{"size": 1024, "spindles": 1}, {"size": 1024}]
    changes = {f"node{k}": {**EXCLUSIVE, "free_spindles": 9} for k in (1, 2, 3)}
    document = cluster(3, instances={"soon": soon}, changes=changes)
    request = {"type": "node-evacuate", "instances": ["soon"], "evac_mode": "secondary-only"}
    assert failures({**document, "request": request}) == {"FailSpindles": 1}


def test_too_many_virtual_cpus_are_reported_with_the_number_that_the_ratio_allows() -> None:
    """The message about virtual cpus has the number that the ratio permits."""
    found = explain(json.dumps(one_node(vcpus=33)).encode(), Settings()).document()
    words = "virtual cpus in use would be 33, 8 cpus at ratio 4 allow 32"
    assert words in json.dumps(found)


@pytest.mark.parametrize("options", [(), ("--compat=hail",)])
def test_disks_on_shared_storage_need_no_spindles(options: tuple[str, ...]) -> None:
    """On exclusive storage, disks on shared storage need no spindles."""
    shared = one_node(
        {**EXCLUSIVE, "free_spindles": 0}, disk_template="rbd", disks=[{"size": 9, "spindles": 3}]
    )
    assert failures(shared, *options) == {}


@pytest.mark.parametrize(("free", "found"), [(2048, []), (2049, ["node1"])])
def test_free_disk_less_that_of_forthcoming_instances_must_be_above_zero(
    free: int, found: list[str]
) -> None:
    """A node must have more free disk than forthcoming and new instances need together."""
    coming = instance("node1", disk_template="plain", forthcoming=True)
    document = cluster(
        1, instances={"coming": coming}, changes={"node1": {"free_disk": free, "total_disk": 9000}}
    )
    assert respond(allocate(document, disk_template="plain"), "--n1=off")["result"] == found


NAMES = "local", "restricted", "counts_disk", "forthcoming"


def test_checks_that_no_instance_can_fail_are_left_out() -> None:
    """The checks chosen for an instance leave out those that it cannot fail."""
    limits = ALL_LIMITS, HARD_LIMITS, FORCED_LIMITS, NO_WORSE_LIMITS
    cases = list(product((PRIMARY, SECONDARY, ABANDONED), limits, product((False, True), repeat=4)))
    for role, limit, asked in (*cases, *reversed(cases)):
        one = SimpleNamespace(**dict(zip(NAMES, asked)))
        expected = [
            check
            for check in role.checks
            if limit.holds(check)
            and one.local >= check.local
            and one.restricted >= check.access
            and one.counts_disk >= check.space
            and not (one.forthcoming and not check.later and not check.access)
        ]
        assert list(checks_for(role, cast(Instance, one), limit)) == expected


BEFORE = {
    "memory": 20, "memory_later": 10, "reserved": 50, "fails_n1": 0, "conflicts": 1,
    "exclusive": 1,
}  # fmt: skip

BROKEN = {
    "memory": -9, "memory_later": -19, "reserved": 60, "fails_n1": 1, "conflicts": 3,
    "disk": -5, "disk_later": -7, "disk_reserve": 100,
    "exclusive": 1, "free_spindles": -2, "free_spindles_later": -3,
    "spindles": 40, "spindles_later": 44, "high_spindles": 32,
    "cpus": 70, "cpus_later": 90, "total_cpus": 8, "vcpu_ratio": 4,
}  # fmt: skip

HELD = {
    "memory": 1, "memory_later": 1, "reserved": 60, "fails_n1": 0, "conflicts": 1,
    "disk": 100, "disk_later": 100, "disk_reserve": 100,
    "exclusive": 1, "free_spindles": 0, "free_spindles_later": 0,
    "spindles": 32, "spindles_later": 32, "high_spindles": 32,
    "cpus": 31, "cpus_later": 31, "total_cpus": 8, "vcpu_ratio": 4,
}  # fmt: skip


def view(numbers: dict[str, Any]) -> Any:
    """Return a view of a node or an instance that has the given numbers."""
    return cast("Any", SimpleNamespace(**numbers))


def amounts(role: RoleLimits) -> list[tuple[str, float]]:
    """Return unit and missing amount of each violated limit of `UNITS`."""
    before, broken, held = view(BEFORE), view(BROKEN), view(HELD)
    large = view({"takeover_memory": 30, "spindles": None})
    small = view({"takeover_memory": 9, "spindles": 1})
    found = []
    for check in (one for one in role.checks if one.lacks.unit in UNITS):
        assert check.fails(before, broken, large), check.lacks.unit
        assert not check.fails(before, held, small), check.lacks.unit
        found.append((check.lacks.unit.split()[1], check.lacks.amount(before, broken, large)))
    return found


UNITS = (
    FREE_MEMORY, DISK_SPACE, VCPUS, OWN_SPINDLES, SHARED_SPINDLES, SPINDLES_OF_DISKS,
    "places free of its exclusion tags",
)  # fmt: skip
"""Limits with a unit, except pools, which need a state."""

DISK = [("disk", 6), ("disk", 105), ("number", 1), ("of", 2), ("under", 8)]
LATER = [("disk", 8), ("disk", 107), ("number", 1), ("of", 3), ("under", 12)]
RESERVE = [("memory", 70), ("memory", 70)]


def test_missing_amount_of_a_primary_is_exact() -> None:
    """The missing amount of a primary is exact for memory, disk and cpus."""
    own = [("memory", 10), *DISK, *RESERVE, ("cpus", 38), ("free", 2), ("memory", 20)]
    assert amounts(PRIMARY) == [*own, *LATER, ("cpus", 58)]


def test_missing_amount_of_a_secondary_is_exact() -> None:
    """The missing amount of a secondary is exact for memory."""
    assert amounts(SECONDARY) == [*DISK, ("memory", 11), *RESERVE, *LATER, ("memory", 21)]


def test_node_that_fails_n1_already_may_not_lack_more() -> None:
    """A node that lacks memory for failovers rejects instances that increase the lack."""
    (worse,) = (one for one in PRIMARY.checks if one.no_worse)
    for memory, expected in ((31, False), (30, False), (29, True)):
        for fails in (1, 0):
            after = view(HELD | {"memory": memory, "fails_n1": fails})
            assert bool(worse.fails(view(BEFORE), after, view({}))) is (expected and fails == 1)
