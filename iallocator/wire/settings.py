"""Keys of a request that say how it is to be answered: the options of the same names."""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.ranking import ALIASES, STRATEGIES
from iallocator.wire.fields import boolean, describe, one_of

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


def _number(raw: Raw, key: str) -> float:
    """A number of any size: `iallocator.settings` compares it with the bounds of the option."""
    value = raw[key]
    if type(value) is int or type(value) is float:
        return value
    raise RequestError(key, f"expected a number, got {describe(value)}")


def _integer(raw: Raw, key: str) -> int:
    """A whole number of any size; floats without fraction count as whole."""
    value = raw[key]
    if type(value) is int or (type(value) is float and value.is_integer()):
        return int(value)
    raise RequestError(key, f"expected an integer, got {describe(value)}")


READERS: dict[str, Reader] = {
    "strategy": _strategy,
    "stickiness": _integer,
    "n1": lambda raw, key: one_of(raw, key, ("strict", "no-worse", "no-new", "off")),
    "ignore-soft-errors": boolean,
    "inter-group": lambda raw, key: one_of(raw, key, YES_NO),
    "exact-search": lambda raw, key: one_of(raw, key, YES_NO),
    "time-limit": _number,
    "top": _integer,
    "affinity-overhead": _integer,
    "initial-msav": _number,
    "final-msav": _number,
    "msav-steps": _integer,
    "seed": _integer,
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
