"""Read typed members of raw JSON objects.

Every reader takes the object and the key, and raises `RequestError` with the key as its path.
Callers prepend the path of the object with `RequestError.below`.
"""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.tolerances import LARGEST_NUMBER, LEAST_DIVISOR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    Raw = dict[str, Any]

__all__ = [
    "POOL_TAG",
    "absent", "boolean", "child", "describe", "factor", "integer",
    "is_factor", "members", "name_of", "names", "not_utf8", "number",
    "objects", "one_of", "strings", "text",
]  # fmt: skip

POOL_TAG = "iallocator:pool:"
"""The beginning of a tag that names a storage pool: ``iallocator:pool:TYPE:NAME``."""

NAMELESS = "expected a name for each member, got an empty string"

absent: Any = object()
"""The default that means that a field is required."""


LONGEST_TEXT = 40
"""The most characters of a value's text in an error message."""


def not_utf8(error: UnicodeError) -> str:
    """Return the error message for bytes that are not UTF-8."""
    place = f" (byte {error.start + 1})" if isinstance(error, UnicodeDecodeError) else ""
    return f"not UTF-8{place}"


def describe(value: Any) -> str:
    """Return `value` as text for error messages: short, and with the name of its JSON type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    if isinstance(value, str):
        shown = value if len(value) <= LONGEST_TEXT else value[: LONGEST_TEXT - 3] + "..."
        return '"' + shown.encode("unicode_escape").decode("ascii") + '"'
    return repr(value)


def _default(raw: Raw, key: str, default: Any, expected: str) -> Any:
    if key in raw:
        raise RequestError(key, f"expected {expected}, got {describe(raw[key])}")
    if default is absent:
        raise RequestError(key, f"expected {expected}, but it is missing")
    return default


def integer(raw: Raw, key: str, default: Any = absent) -> int:
    """Return the member `key` as a whole number, 0 to 2^53; floats without fraction are allowed."""
    value = raw.get(key)
    if type(value) is int and 0 <= value <= LARGEST_NUMBER:
        return value
    if type(value) is float and 0 <= value <= LARGEST_NUMBER and value == int(value):
        return int(value)
    if type(value) is int or type(value) is float:
        return int(_default(raw, key, default, f"an integer from 0 to {LARGEST_NUMBER}"))
    return _default(raw, key, default, "an integer")  # type: ignore[no-any-return]


def number(raw: Raw, key: str, default: Any = absent) -> float:
    """Return the member `key` as a number from 0 to 2^53."""
    value = raw.get(key)
    if (type(value) is int or type(value) is float) and 0 <= value <= LARGEST_NUMBER:
        return value
    return _default(raw, key, default, f"a number from 0 to {LARGEST_NUMBER}")  # type: ignore[no-any-return]


def factor(raw: Raw, key: str, default: Any = absent) -> float:
    """Return the member `key` as a divisor: 0 (unknown), or a number from 1e-6 to 2^53."""
    value = raw.get(key)
    if (type(value) is int or type(value) is float) and is_factor(value):
        return value
    expected = f"0, or a number from {LEAST_DIVISOR} to {LARGEST_NUMBER}"
    return _default(raw, key, default, expected)  # type: ignore[no-any-return]


def is_factor(value: float) -> bool:
    """Return whether the number `value` can divide amounts, or is 0 (unknown)."""
    return value == 0 or LEAST_DIVISOR <= value <= LARGEST_NUMBER


def boolean(raw: Raw, key: str, default: Any = absent) -> bool:
    """Return the member `key`, which must be true or false."""
    value = raw.get(key)
    if value is True or value is False:
        return value
    return _default(raw, key, default, "true or false")  # type: ignore[no-any-return]


def text(raw: Raw, key: str, default: Any = absent) -> str:
    """Return the member `key` as a string; null counts as absent if there is a default."""
    value = raw.get(key)
    if type(value) is str:
        return value
    if value is None and default is not absent:
        return default  # type: ignore[no-any-return]
    return _default(raw, key, default, "a string")  # type: ignore[no-any-return]


def name_of(raw: Raw, key: str) -> str:
    """Return the member `key`, which must be a string that is not empty."""
    name = text(raw, key)
    if not name:
        raise RequestError(key, "expected a name, got an empty string")
    return name


def one_of(raw: Raw, key: str, choices: Collection[str], default: Any = absent) -> str:
    """Return the member `key`, which must be one of the strings in `choices`."""
    value = raw.get(key)
    if type(value) is str and value in choices:
        return value
    expected = "one of " + ", ".join(f'"{choice}"' for choice in choices)
    return _default(raw, key, default, expected)  # type: ignore[no-any-return]


def strings(raw: Raw, key: str, default: Any = absent) -> list[str]:
    """Return the member `key` as a list of strings; null counts as absent if there is a default."""
    value = raw.get(key)
    if type(value) is list:
        for position, item in enumerate(value):
            if type(item) is not str:
                raise RequestError(f"{key}/{position}", f"expected a string, got {describe(item)}")
        return value
    if value is None and default is not absent:
        return default  # type: ignore[no-any-return]
    return _default(raw, key, default, "a list of strings")  # type: ignore[no-any-return]


def names(raw: Raw, key: str, default: Any = absent) -> list[str]:
    """Return the member `key` as a list of non-empty strings."""
    value = strings(raw, key, default)
    for position, item in enumerate(value):
        if not item:
            raise RequestError(f"{key}/{position}", "expected a name, got an empty string")
    return value


def objects(raw: Raw, key: str, default: Any = absent) -> list[Raw]:
    """Return the member `key` as a list of objects."""
    value = raw.get(key)
    if type(value) is list:
        for position, item in enumerate(value):
            if type(item) is not dict:
                raise RequestError(f"{key}/{position}", f"expected an object, got {describe(item)}")
        return value
    return _default(raw, key, default, "a list of objects")  # type: ignore[no-any-return]


def child(raw: Raw, key: str, default: Any = absent) -> Raw:
    """Return the member `key` as an object."""
    value = raw.get(key)
    if type(value) is dict:
        return value
    return _default(raw, key, default, "an object")  # type: ignore[no-any-return]


def members(raw: Raw, key: str, default: Any = absent) -> dict[str, Raw]:
    """Return the member `key` as an object with objects as members; no name may be empty."""
    value = child(raw, key, default)
    if "" in value:
        raise RequestError(key, NAMELESS)
    for name, item in value.items():
        if type(item) is not dict:
            raise RequestError(f"{key}/{name}", f"expected an object, got {describe(item)}")
    return value
