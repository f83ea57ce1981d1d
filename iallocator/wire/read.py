"""Bytes to raw structures."""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.wire.c_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["decode", "decode_any"]

_LARGE = 3_000_000
"""Bytes from which on the faster parser is worth the time that loading it takes."""


def decode(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`.

    Raises
    ------
    RequestError
        If it is empty, no UTF-8, no JSON, nested too deeply, or not an object.
    """
    value = decode_any(raw)
    if not isinstance(value, dict):
        from iallocator.wire.fields import describe

        raise RequestError("", f"expected a JSON object, got {describe(value)}")
    return value


def decode_any(raw: bytes) -> Any:
    """The JSON value in `raw`, whatever it is; errors as `decode`."""
    if not raw or raw.isspace():
        raise RequestError("", "expected a JSON document, got nothing")
    return _large(raw) if len(raw) >= _LARGE else _small(raw)


def _small(raw: bytes) -> Any:
    try:
        document = raw.decode("utf-8")
        value = loads(document)
        if "\\ud" in document or "\\uD" in document:
            dumps(value).encode("utf-8")  # halves of surrogate pairs
    except UnicodeEncodeError:
        raise RequestError("", "invalid JSON: half of a surrogate pair in a string") from None
    except UnicodeError as error:
        raise RequestError("", f"invalid UTF-8: {error}") from None
    except RecursionError:
        raise RequestError("", "nested too deeply") from None
    except ValueError as error:
        raise RequestError("", f"invalid JSON: {error}") from None
    return value


def _large(raw: bytes) -> Any:
    import orjson

    try:
        return orjson.loads(raw)
    except ValueError:
        return _small(raw)  # which says the same of documents of every size
