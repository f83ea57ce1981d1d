"""Amounts and limits, as they are told and chosen."""

from __future__ import annotations

import pytest

from iallocator.limits import words
from iallocator.limits.node import ALL_LIMITS, PRIMARY, SECONDARY, checks_for
from iallocator.limits.words import quantity
from tests.model.make import instance


@pytest.mark.parametrize(
    ("amount", "said"),
    [(1, "1 virtual cpu"), (0, "0 virtual cpus"), (0.5, "0.5 virtual cpus"), (2, "2 virtual cpus")],
)
def test_quantity_of_one_is_singular(amount: float, said: str) -> None:
    """All others are plural, halves too."""
    assert quantity(amount, "virtual cpus") == said


def test_disk_space_is_not_asked_of_who_has_all_disks_in_pools() -> None:
    """A node's free disk says nothing of its pools; spindles are asked all the same."""
    pooled = instance("plain")
    pooled.draws = ((("lvm-vg", "vg"), 1024),)
    without, with_disk = (
        {check.words for check in checks_for(PRIMARY + SECONDARY, one, ALL_LIMITS)}
        for one in (pooled, instance("plain"))
    )
    assert with_disk - without == {"disk", "disk_reserve", "less_disk_later"}


def test_every_limit_has_its_words() -> None:
    """They are looked up by name, and only where somebody reads them."""
    assert {check.words for check in PRIMARY + SECONDARY} <= set(dir(words))
