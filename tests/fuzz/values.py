"""Provide values that are difficult for programs, and tags of this program."""

from __future__ import annotations

from random import Random
from typing import Any

__all__ = ["LITERALS", "any_value", "literal", "odd_text", "our_tag"]

LITERALS = {
    "@huge@": "1e999", "@tiny@": "1e-300", "@large@": "1e308", "@nan@": "NaN", "@inf@": "-Infinity",
    "@digits@": "9" * 400, "@many-digits@": "9" * 5000,
}  # fmt: skip
"""Strings that stand for numbers which JSON libraries do not write."""

_TEXTS = (
    "", " ", "-n", "--help", "\x00", "a\nb", "\x1b[31mred", "<img onerror=alert(1)>", "é" * 9,
    "💥", "\u202e", "../../etc/passwd", "a" * 3000, "node1", "|", "a|b,c;d", "0", "None", "drbd",
    "rbd", "plain", "up", "down", "offline", "preferred", "unallocable", "uuid-default",
)  # fmt: skip

_NAMES = ("a", "b", "rack", "memory", "cpu", "ram", "node1", "node2", "i1", "inst1", "")

_AMOUNTS = (
    "0", "1", "-1", "7", "1000", "-1000000", "1000000", "INFINITY", "-INFINITY", "1e308", "nan",
    "9" * 400, "0" * 400 + "1", "1.5", "", "x", "1e-300", "inf",
)  # fmt: skip

_PATTERNS = (
    "strategy:affinity", "strategy:pacemaker-balanced", "strategy:{n}", "n1:strict", "n1:off",
    "ignore-soft-errors:yes", "colocate:must:{n}", "colocate:should:{n}", "separate:must:{n}",
    "separate:should:{n}", "colocate:must:{n}:{a}", "separate:must:{n}:{n}", "order:after:{n}",
    "order:should-after:{n}", "priority:{a}", "stickiness:{a}", "score:{a}", "score:{n}:{a}",
    "utilization:{n}:{a}", "key:{n}:{a}:{a}", "syskey:{n}:{a}:{a}", "stickykey:{n}:{a}:{a}",
    "ram-contention:{a}", "cpu-contention:{a}", "keep-running", "cannot-stop", "no-force-stop",
    "maintenance", "{n}:{a}", "{n}", "storage-pool:{n}", "pool:{n}",
)  # fmt: skip

_HTOOLS = (
    "htools:iextags:a", "a:1", "htools:nlocation:rack", "rack:1", "htools:desiredlocation:rack:1",
    "htools:migration:a", "htools:allowmigration:a::b", "htools:standby:auto",
    "htools:standby:priority:{a}",
)  # fmt: skip


def any_value(rng: Random) -> Any:
    """Return a random value of some type."""
    return rng.choice(
        (
            None, True, False, 0, 1, -1, 2.5, 2**53, 2**53 + 1, 2**64, 1e-9, 1e15, -0.0,
            rng.choice(list(LITERALS)), odd_text(rng), our_tag(rng), [], {}, [None], [[]], [{}],
            [our_tag(rng)], {"size": 1}, [{"size": 1024}], rng.randint(0, 10**6), [odd_text(rng)],
        )
    )  # fmt: skip


def odd_text(rng: Random) -> str:
    """Return a random string that can be used as a name."""
    return rng.choice(_TEXTS)


def our_tag(rng: Random) -> str:
    """Return a random tag of this program or of htools, correct or slightly wrong."""
    if rng.random() < 0.25:
        return rng.choice(_HTOOLS).format(a=rng.choice(_AMOUNTS))
    pattern = rng.choice(_PATTERNS)
    while "{n}" in pattern or "{a}" in pattern:
        pattern = pattern.replace("{n}", rng.choice(_NAMES), 1)
        pattern = pattern.replace("{a}", rng.choice(_AMOUNTS), 1)
    return "iallocator:" + pattern


def literal(text: str) -> str:
    """Return the JSON `text` with the strings of `LITERALS` replaced by their numbers."""
    for name, value in LITERALS.items():
        text = text.replace(f'"{name}"', value)
    return text
