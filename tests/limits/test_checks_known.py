"""Which checks matter is found once for instances that are alike."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import cast

from iallocator.limits.node import (
    ABANDONED,
    ALL_LIMITS,
    FORCED_LIMITS,
    HARD_LIMITS,
    NO_WORSE_LIMITS,
    PRIMARY,
    SECONDARY,
    checks_for,
)
from iallocator.model.instance import Instance

NAMES = "local", "restricted", "counts_disk", "forthcoming"


def test_checks_known_for_any_instance_are_those_that_matter() -> None:
    """Asked twice, in any order, each answer is what the conditions say one by one."""
    limits = ALL_LIMITS, HARD_LIMITS, FORCED_LIMITS, NO_WORSE_LIMITS
    cases = list(product((PRIMARY, SECONDARY, ABANDONED), limits, product((False, True), repeat=4)))
    for role, limit, asked in (*cases, *reversed(cases)):
        one = SimpleNamespace(**dict(zip(NAMES, asked)))
        expected = [
            check
            for check in role.checks
            if limit.holds(check)
            and one.local >= check.local
            and one.restricted >= check.pools
            and one.counts_disk >= check.space
            and not (one.forthcoming and not check.later and not check.pools)
        ]
        assert list(checks_for(role, cast(Instance, one), limit)) == expected
