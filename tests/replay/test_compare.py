"""Two JSON documents, place by place."""

from __future__ import annotations

import pytest

from iallocator.replay.outcome import differences


def told(stored: object, now: object) -> list[str]:
    """Return every difference as it is printed."""
    return [str(found) for found in differences(stored, now)]


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        ({"a": 1, "b": [True, None]}, {"b": [True, None], "a": 1}),
        (1.234567891, 1.234567893),
        (2, 2.0),
    ],
)
def test_differences_of_equal_documents_are_none(stored: object, now: object) -> None:
    """The order of members and what lies behind the eighth decimal do not count."""
    assert told(stored, now) == []


@pytest.mark.parametrize(
    ("stored", "now", "difference"),
    [
        (1.23456789, 1.23456788, "(the whole): 1.23456789 → 1.23456788"),
        (True, 1, "(the whole): true → 1"),
        (None, False, "(the whole): null → false"),
        ([1], {"0": 1}, '(the whole): [1] → {"0": 1}'),
        ({"a": [1, 2]}, {"a": [1]}, "a/1: 2 → (absent)"),
        ({"a": {}}, {"a": {"é": "ü"}}, 'a/é: (absent) → "ü"'),
    ],
)
def test_difference_of_values_is_told_with_its_place(
    stored: object, now: object, difference: str
) -> None:
    """Booleans are no numbers, and what is missing is not null."""
    assert told(stored, now) == [difference]


def test_difference_of_long_values_takes_two_lines() -> None:
    """Long values stand one below the other, so that the eye finds what differs."""
    assert told({"info": "a" * 60}, {"info": "b" * 60}) == [
        f'info: "{"a" * 60}"\n    → "{"b" * 60}"'
    ]
