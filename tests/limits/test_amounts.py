"""Each limit of a node by its numbers: where it is broken, and by how much."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from iallocator.limits.node import PRIMARY, SECONDARY, RoleLimits

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
    """A node, or an instance, with these numbers."""
    return cast("Any", SimpleNamespace(**numbers))


def amounts(role: RoleLimits) -> list[tuple[str, float]]:
    """Last word of the unit, and amount, of what each breach lacks; all hold where all is enough.

    Pools, which are asked of the state, are left out.
    """
    before, broken, held = view(BEFORE), view(BROKEN), view(HELD)
    large = view({"takeover_memory": 30, "spindles": None})
    small = view({"takeover_memory": 9, "spindles": 1})
    found = []
    for check in (one for one in role.checks if not one.pools):
        assert check.fails(before, broken, large), check.lacks.unit
        assert not check.fails(before, held, small), check.lacks.unit
        found.append((check.lacks.unit.split()[1], check.lacks.amount(before, broken, large)))
    return found


DISK = [("disk", 6), ("disk", 105), ("number", 1), ("of", 2), ("under", 8)]
LATER = [("disk", 8), ("disk", 107), ("number", 1), ("of", 3), ("under", 12)]
RESERVE = [("memory", 70), ("memory", 70)]


def test_what_a_primary_lacks_is_what_would_be_enough() -> None:
    """A MiB remains; disk above the reserve; cpus by the ratio; now, and with what is to come."""
    own = [("memory", 10), *DISK, *RESERVE, ("cpus", 38), ("free", 2), ("memory", 20)]
    assert amounts(PRIMARY) == [*own, *LATER, ("cpus", 58)]


def test_what_a_secondary_lacks_is_what_would_be_enough() -> None:
    """Memory to take the instance over, a MiB more than that."""
    assert amounts(SECONDARY) == [*DISK, ("memory", 11), *RESERVE, *LATER, ("memory", 21)]


def test_node_that_fails_n1_already_may_not_lack_more() -> None:
    """Of memory for its failovers: 30 MiB before, then 29, 30 or 31; none where it fails not."""
    (worse,) = (one for one in PRIMARY.checks if one.no_worse)
    for memory, expected in ((31, False), (30, False), (29, True)):
        for fails in (1, 0):
            after = view(HELD | {"memory": memory, "fails_n1": fails})
            assert bool(worse.fails(view(BEFORE), after, view({}))) is (expected and fails == 1)
