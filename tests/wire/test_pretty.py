"""JSON for people is the same from both writers."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

from iallocator.wire.codec import pretty, pretty_finite

STRINGS = ("x 1e-5", "a\n1e5", "0.00001\\", "\x7f\x01", "\u202e", "")


def number(random: Random) -> Any:
    """Return a finite number, often a small or a large one."""
    kind = random.randrange(4)
    if kind == 0:
        return round(random.uniform(-1, 1) * 10 ** random.randint(-12, 3), 10)
    if kind == 1:
        return 10.0 ** random.randint(-20, 25)
    if kind == 2:
        return random.choice([0, -0.0, True, None, 10**17, 2**64, -3.5e-5, 0.0001, 0.00012345])
    (found,) = struct.unpack("d", random.randbytes(8))
    return found if abs(found) < float("inf") else 1.5


def test_finite_numbers_are_written_as_by_the_other_writer() -> None:
    """Numbers with exponents, strings that look like them, and escaped characters are equal."""
    random = Random(1)
    for _ in range(5000):
        values: tuple[Any, ...] = (
            number(random),
            [number(random)],
            random.choice(STRINGS),
            {"k": {}, "l": []},
        )
        document = {f"k{k}": random.choice(values) for k in range(6)}
        assert pretty_finite(document) == pretty(document)
