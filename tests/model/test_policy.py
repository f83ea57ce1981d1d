"""Test instance policies: accepted sizes, and the reason for a rejection."""

from __future__ import annotations

from typing import Any

import pytest

from iallocator.model.policy import Policy

from .make import instance, policy, spec

LOW = spec(memory=500, cpus=2, disk=1000, disks=1, spindles=2)
HIGH = spec(memory=1500, cpus=4, disk=2000, disks=2, spindles=5)


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, None),
        ({"memory": 500}, None),
        ({"memory": 499}, "FailMem"),
        ({"memory": 1500}, None),
        ({"memory": 1501}, "FailMem"),
        ({"vcpus": 1}, "FailCPU"),
        ({"vcpus": 2}, None),
        ({"vcpus": 4}, None),
        ({"vcpus": 5}, "FailCPU"),
        ({"spindle_use": 1}, "FailSpindles"),
        ({"spindle_use": 2}, None),
        ({"spindle_use": 5}, None),
        ({"spindle_use": 6}, "FailSpindles"),
        ({"sizes": (1000,)}, None),
        ({"sizes": (999,)}, "FailDisk"),
        ({"sizes": (2000, 2000)}, None),
        ({"sizes": (2000, 2001)}, "FailDisk"),
        ({"sizes": ()}, "FailDiskCount"),
        ({"sizes": (1500,) * 3}, "FailDiskCount"),
    ],
)
def test_policy_includes_both_ends_of_its_interval(
    members: dict[str, Any], reason: str | None
) -> None:
    """A policy accepts its smallest and largest sizes, and rejects the next ones."""
    usual = {"vcpus": 3, "spindle_use": 3, "sizes": (1500,)}
    assert policy((LOW, HIGH)).rejects(instance(**{**usual, **members}), False) == reason


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({}, "FailMem"),
        ({"memory": 1000}, "FailDisk"),
        ({"memory": 1000, "sizes": (1500,) * 3}, "FailCPU"),
        ({"memory": 1000, "sizes": (1500,) * 3, "vcpus": 3}, "FailSpindles"),
        ({"memory": 1000, "sizes": (1500,) * 3, "vcpus": 3, "spindle_use": 3}, "FailDiskCount"),
    ],
)
def test_policy_with_several_violations_gives_the_first_reason(
    members: dict[str, Any], reason: str
) -> None:
    """A policy reports the first violation of memory, disks, cpus, spindles, disk count."""
    wrong = {"memory": 1501, "sizes": (9999,) * 3, "vcpus": 9, "spindle_use": 9}
    assert policy((LOW, HIGH)).rejects(instance(**{**wrong, **members}), False) == reason


def test_policy_below_the_minimum_is_reported_before_above_the_maximum() -> None:
    """A policy reports an amount below its minimum before one above its maximum."""
    odd = instance(memory=9999, vcpus=3, spindle_use=3, sizes=())
    assert policy((LOW, HIGH)).rejects(odd, False) == "FailDiskCount"


def test_policy_with_exclusive_storage_counts_the_spindles_of_the_disks() -> None:
    """With exclusive storage, a policy counts spindles of disks instead of spindle_use."""
    one = policy((LOW, HIGH))
    usual: dict[str, Any] = {"vcpus": 3, "sizes": (1500,)}
    assert one.rejects(instance(spindles=5, spindle_use=99, **usual), True) is None
    assert one.rejects(instance(spindles=6, spindle_use=3, **usual), True) == "FailSpindles"
    assert one.rejects(instance(spindles=None, spindle_use=3, **usual), True) == "FailSpindles"
    assert one.rejects(instance(spindles=None, spindle_use=3, **usual), False) is None


def test_policy_of_diskless_instances_checks_no_disk() -> None:
    """A policy ignores disks for an instance with the template diskless."""
    bare = instance("diskless", sizes=(), vcpus=3, spindle_use=3)
    assert policy((LOW, HIGH)).rejects(bare, False) is None


def test_policy_with_two_intervals_accepts_sizes_in_either() -> None:
    """A policy rejects a size between two intervals, with the first interval's reason."""
    two = policy((spec(), spec(memory=500, cpus=9, disk=9999, disks=9, spindles=9)),
                 (spec(memory=2000, cpus=4), spec(memory=4000, cpus=9, disk=9999, disks=9,
                                                  spindles=9)))  # fmt: skip
    assert two.rejects(instance(memory=500), False) is None
    assert two.rejects(instance(memory=2000, vcpus=4), False) is None
    assert two.rejects(instance(memory=1000), False) == "FailMem"
    assert two.rejects(instance(memory=2000, vcpus=3), False) == "FailMem"


def test_policy_that_forbids_the_template_rejects_with_fail_disk() -> None:
    """A policy reports a wrong size before a disk template that it forbids."""
    picky = policy((LOW, HIGH), templates=("plain", "rbd"))
    fits: dict[str, Any] = {"vcpus": 3, "spindle_use": 3, "sizes": (1500,)}
    assert picky.rejects(instance("drbd", **fits), False) == "FailDisk"
    assert picky.rejects(instance("plain", **fits), False) is None
    assert picky.rejects(instance("drbd", **{**fits, "vcpus": 9}), False) == "FailCPU"


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ({"memory": 127}, "FailMem"),
        ({"memory": 128}, None),
        ({"memory": 32768}, None),
        ({"memory": 32769}, "FailMem"),
        ({"vcpus": 8}, None),
        ({"vcpus": 9}, "FailCPU"),
        ({"sizes": (1023,)}, "FailDisk"),
        ({"sizes": (1024 * 1024,) * 16}, None),
        ({"sizes": (1024,) * 17}, "FailDiskCount"),
        ({"spindle_use": 12}, None),
        ({"spindle_use": 13}, "FailSpindles"),
    ],
)
def test_default_policy_has_the_documented_limits(
    members: dict[str, Any], reason: str | None
) -> None:
    """The default policy permits 128 MiB to 32 GiB, 1 to 8 cpus, and up to 16 disks."""
    assert Policy().rejects(instance(**members), False) == reason
