"""Keys of a request that say how it is to be answered: the options of the same names."""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.ranking import ALIASES, STRATEGIES
from iallocator.wire.fields import LARGEST, boolean, describe, integer, number, one_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from iallocator.wire.fields import Raw

    Reader = Callable[[Raw, str], Any]

__all__ = ["READERS", "read_settings"]

YES_NO = ("yes", "no")


def _strategy(raw: Raw, key: str) -> str:
    name = one_of(raw, key, (*STRATEGIES, *ALIASES))
    return ALIASES.get(name, name)


def _signed(raw: Raw, key: str) -> float:
    """A number from -2^53 to 2^53."""
    value = raw[key]
    if (type(value) is int or type(value) is float) and abs(value) <= LARGEST:
        return value
    expected = f"a number from {-LARGEST} to {LARGEST}"
    raise RequestError(key, f"expected {expected}, got {describe(value)}")


def _whole(low: int, high: int = LARGEST) -> Reader:
    """A whole number from `low` to `high`; floats without fraction count as whole."""

    def read(raw: Raw, key: str) -> int:
        value = raw[key]
        if type(value) is int or type(value) is float:
            if low <= value <= high and value == int(value):
                return int(value)
            expected = f"an integer from {low} to {high}"
        else:
            expected = "an integer"
        raise RequestError(key, f"expected {expected}, got {describe(value)}")

    return read


READERS: dict[str, Reader] = {
    "strategy": _strategy,
    "stickiness": _whole(-LARGEST),
    "n1": lambda raw, key: one_of(raw, key, ("strict", "no-worse", "no-new", "off")),
    "ignore-soft-errors": boolean,
    "inter-group": lambda raw, key: one_of(raw, key, YES_NO),
    "exact-search": lambda raw, key: one_of(raw, key, YES_NO),
    "time-limit": number,
    "top": integer,
    "affinity-overhead": integer,
    "initial-msav": _signed,
    "final-msav": _signed,
    "msav-steps": _whole(1, 10_000),
    "seed": integer,
}
"""Key → reader; in the settings a dash is an underscore."""


def read_settings(raw: Raw) -> dict[str, Any]:
    """What the request asks for, by the names of the settings.

    Raises
    ------
    RequestError
        If a value is not of the kind that the key wants.
    """
    return {key.replace("-", "_"): read(raw, key) for key, read in READERS.items() if key in raw}
