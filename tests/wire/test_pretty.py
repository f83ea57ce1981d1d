"""Test the writer of readable JSON against that of the standard library."""

from __future__ import annotations

import json
import struct
from random import Random
from typing import Any

import pytest

from iallocator.errors import RequestError
from iallocator.wire.codec import dumps, on_one_line, pretty

STRINGS = ("x 1e-5", "a\n1e5", "0.00001\\", "\x7f\x01", "\u202e", "")


def number(random: Random) -> Any:
    """Return a random finite number, often a small or a large one."""
    kind = random.randrange(4)
    if kind == 0:
        return round(random.uniform(-1, 1) * 10 ** random.randint(-12, 3), 10)
    if kind == 1:
        return 10.0 ** random.randint(-20, 25)
    if kind == 2:
        return random.choice([0, -0.0, True, None, 10**17, 2**64, -3.5e-5, 0.0001, 0.00012345])
    (found,) = struct.unpack("d", random.randbytes(8))
    return found if abs(found) < float("inf") else 1.5


def test_writers_any_finite_document_equal_json() -> None:
    """The writer of readable JSON gives the output of the json module."""
    random = Random(1)
    for _ in range(5000):
        values: tuple[Any, ...] = (
            number(random),
            [number(random)],
            random.choice(STRINGS),
            {"k": {}, "l": []},
        )
        document = {f"k{k}": random.choice(values) for k in range(6)}
        text = json.dumps(document, ensure_ascii=False, indent=2)
        for char, code in (("\x7f", "\\u007f"), ("\u202e", "\\u202e")):
            text = text.replace(char, code)
        assert pretty(document) == pretty(document, finite=True) == text
        line = json.dumps(document, ensure_ascii=False)
        assert dumps(document, ", ", ": ") == line
        assert json.loads(on_one_line(document)) == document


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_pretty_infinite_number_raises_with_its_path(value: float) -> None:
    """The writer of readable JSON rejects infinite numbers and NaN with their path."""
    with pytest.raises(RequestError, match="a/1: expected a number that a float can hold"):
        pretty({"a": [1, value]})
