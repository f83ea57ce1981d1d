"""Bytes to raw structures."""

from __future__ import annotations

from iallocator.errors import RequestError
from iallocator.wire.c_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["decode", "decode_any", "not_utf8"]

BOM = b"\xef\xbb\xbf"
"""What some editors put before a text; it says nothing."""

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
    if raw.startswith(BOM):
        raw = raw[len(BOM) :]
    if not raw or raw.isspace():
        raise RequestError("", "expected a JSON document, got nothing")
    return _large(raw) if len(raw) >= _LARGE else _small(raw)


def _small(raw: bytes) -> Any:
    try:
        document = raw.decode("utf-8")
        value = _parsed(document)
        if "\\ud" in document or "\\uD" in document:
            dumps(value).encode("utf-8")  # halves of surrogate pairs
    except UnicodeEncodeError:
        raise RequestError("", "invalid JSON: half of a surrogate pair in a string") from None
    except UnicodeError as error:
        raise RequestError("", not_utf8(error)) from None
    except RecursionError:
        raise RequestError("", "nested too deeply") from None
    except ValueError as error:
        from iallocator.wire.validation.misread import looks_like

        raise RequestError("", looks_like(raw) or f"invalid JSON: {error}") from None
    return value


def _parsed(document: str) -> Any:
    try:
        return loads(document, unique)
    except TwiceError:
        from iallocator.wire.validation.misread import judge_doubles

        judge_doubles(document)
        return loads(document)


def not_utf8(error: UnicodeError) -> str:
    """What is wrong with bytes that no text can be made of."""
    place = f" (byte {error.start + 1})" if isinstance(error, UnicodeDecodeError) else ""
    return f"not UTF-8{place}"


class TwiceError(Exception):
    """An object has two members of one name."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object with these members."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise TwiceError
    return found


def _large(raw: bytes) -> Any:
    import orjson

    try:
        value = orjson.loads(raw)
        # a member that the parser dropped, for there is another of its name, took its colon along
        if raw.count(b":") == orjson.dumps(value).count(b":"):
            return value
    except (TypeError, ValueError):
        pass
    return _small(raw)  # which says the same of documents of every size
