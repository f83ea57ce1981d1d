"""Test the parts of `dataclasses` and `copy` that load fast."""

from __future__ import annotations

import copy as original

import pytest

from iallocator.light import ValueObject, copy


class Size(ValueObject):
    """A size with a default."""

    memory: int
    disk: int = 7


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("one", "other")
    one: list[int]


class Mixed(Slotted):
    """An object with slots and a dictionary."""


def test_value_objects_are_made_by_position_or_name() -> None:
    """Values are given by position or by name; a value in the class is the default."""
    one, other = Size(1), Size(disk=2, memory=1)
    assert (one.memory, one.disk, other.memory, other.disk) == (1, 7, 1, 2)
    assert (other.replace(memory=3).memory, other.replace(memory=3).disk) == (3, 2)


def test_value_objects_reject_missing_unknown_and_repeated_values() -> None:
    """A value that is missing, unknown, given twice or one too many is an error."""
    for positional, named in (
        ((), {}),
        ((1,), {"cpus": 2}),
        ((1,), {"memory": 1}),
        ((1, 2, 3), {}),
    ):
        with pytest.raises(TypeError, match="Size"):
            Size(*positional, **named)


def test_copies_have_the_attributes_of_the_original() -> None:
    """A copy has the values in slots and in the dictionary, but a dictionary of its own."""
    mixed = Mixed()
    mixed.one, mixed.more = [1], 2  # type: ignore[attr-defined]
    for made in (copy(mixed), original.copy(mixed)):
        assert made.one is mixed.one
        assert made.__dict__ == {"more": 2}
        assert made.__dict__ is not mixed.__dict__
        assert not hasattr(made, "other")
    assert not hasattr(copy(Slotted()), "one")
