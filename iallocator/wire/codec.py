"""Read and write JSON.

Loading `json` (which loads `re`, `enum`, `functools` ...) takes longer than everything else that a
small request needs. `json` itself uses the accelerators in `_json`, so this module uses them
directly. If an interpreter has none, or a document is not plain JSON, `json` is used, which also
has better error messages. Output contains no control characters for terminals.

Bytes that are not JSON are reported with a guess at their format. Members that appear twice in an
object are reported; they are an error if they can affect answers.
"""

from __future__ import annotations

from math import inf

from iallocator.errors import RequestError, tell
from iallocator.wire.fields import describe, not_utf8

try:
    from _json import encode_basestring, make_encoder, make_scanner
except ImportError:
    ACCELERATED = False
else:
    ACCELERATED = True

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, NoReturn

    from iallocator.reply import Reply

__all__ = [
    "check_duplicates",
    "decode",
    "decode_any",
    "dumps",
    "encode",
    "infinite_number",
    "loads",
    "looks_like",
    "on_one_line",
    "pretty",
    "pretty_bytes",
]

BOM = b"\xef\xbb\xbf"
"""The byte order mark, which some editors put before a text; it is skipped."""

_LARGE_DOCUMENT = 3_000_000
"""Size of a document in bytes from which the faster parser saves more time than it costs."""


def decode(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in `raw`.

    Raises
    ------
    RequestError
        If `raw` is empty, not UTF-8, not JSON, nested too deeply, or not an object.
    """
    value = decode_any(raw)
    if not isinstance(value, dict):
        raise RequestError("", f"expected a JSON object, got {describe(value)}")
    return value


def decode_any(raw: bytes) -> Any:
    """Return the JSON value in `raw`; it may have any type.

    Raises
    ------
    RequestError
        If `raw` is empty, not UTF-8, not JSON, or nested too deeply.
    """
    if raw.startswith(BOM):
        raw = raw[len(BOM) :]
    if not raw or raw.isspace():
        raise RequestError("", "expected a JSON document, got nothing")
    if len(raw) >= _LARGE_DOCUMENT:
        import orjson

        try:
            value = orjson.loads(raw)
            # The counts of colons differ if the parser has dropped a member with a repeated name
            if raw.count(b":") == orjson.dumps(value).count(b":"):
                return value
        except (TypeError, ValueError):
            pass  # reported below, equally for documents of any size
    try:
        document = raw.decode("utf-8")
        try:
            value = loads(document, unique)
        except TwiceError:
            check_duplicates(document)
            value = loads(document)
        if "\\ud" in document or "\\uD" in document:
            dumps(value).encode("utf-8")  # halves of surrogate pairs
    except UnicodeEncodeError:
        raise RequestError("", "invalid JSON: half of a surrogate pair in a string") from None
    except UnicodeError as error:
        raise RequestError("", not_utf8(error)) from None
    except RecursionError:
        raise RequestError("", "nested too deeply") from None
    except ValueError as error:
        raise RequestError("", looks_like(raw) or f"invalid JSON: {error}") from None
    return value


class TwiceError(Exception):
    """Raised if a JSON object has two members with one name."""


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object with the members `pairs`.

    Raises
    ------
    TwiceError
        If two members have one name.
    """
    members = dict(pairs)
    if len(members) != len(pairs):
        raise TwiceError
    return members


if TYPE_CHECKING:
    Pairs = Callable[[list[tuple[str, Any]]], Any]


BLANKS = " \t\n\r"


class _Rules:
    """The options of the JSON scanner: plain objects and numbers, no extensions."""

    strict = True
    object_hook = None
    parse_float = float
    parse_int = int

    def __init__(self, object_of: Pairs | None = None) -> None:
        self.object_pairs_hook = object_of

    def parse_constant(self, name: str) -> NoReturn:
        raise ValueError(f"{name} is not a JSON number")


def loads(text: str, object_of: Pairs | None = None) -> Any:
    """Return the value of the JSON document `text`.

    `object_of` makes an object from its members; None: objects are plain dictionaries.

    Raises
    ------
    ValueError
        If `text` is not JSON.
    RecursionError
        If `text` is nested too deeply.
    """
    rules: Any = _Rules(object_of)
    if ACCELERATED:
        start = len(text) - len(text.lstrip(BLANKS))
        try:
            value, end = make_scanner(rules)(text, start)
            if not text[end:].strip(BLANKS):
                return value
        except (StopIteration, ValueError):
            pass
        except SystemError:  # a syntax error, which only the Python half can describe
            pass
    import json

    return json.loads(text, object_pairs_hook=object_of, parse_constant=rules.parse_constant)


def dumps(value: Any, comma: str = ",", colon: str = ":") -> str:
    """Return `value` as JSON on one line; characters are not escaped.

    `comma` and `colon` are written between members and after keys, by default without blanks.

    Raises
    ------
    ValueError
        If a number is infinite or NaN, which JSON does not have.
    """
    if not ACCELERATED:
        import json

        return json.dumps(value, separators=(comma, colon), ensure_ascii=False, allow_nan=False)

    def unknown(value: Any) -> NoReturn:
        raise TypeError(f"{type(value).__name__} is no JSON value")

    encode = make_encoder({}, unknown, encode_basestring, None, colon, comma, False, False, False)
    return "".join(encode(value, 0))


def encode(reply: Reply, extended: bool = True) -> bytes:
    """Return the response document as compact JSON on one line.

    `extended`: whether the document includes the members that hail does not print.
    """
    document = reply.document()
    if not extended:
        document = {key: document[key] for key in ("success", "info", "result")}
    return _escaped(dumps(document)).encode("utf-8") + b"\n"


def on_one_line(document: object) -> str:
    """Return `document` as readable JSON on one line.

    Raises
    ------
    ValueError
        If a number is infinite or NaN, which JSON does not have.
    """
    return _escaped(dumps(document, ", ", ": "))


def infinite_number(value: object, path: str = "") -> tuple[str, str]:
    """Return the path of the first infinite number (or NaN) in `value`, and the error message.

    Both are empty if all numbers are finite. JSON has no infinite numbers, but a number like 1e400
    is read as infinite.
    """
    if isinstance(value, float) and not -inf < value < inf:
        return path, "expected a number that a float can hold, got one that is too large"
    parts: Iterable[tuple[object, object]] = ()
    if isinstance(value, dict):
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    for key, part in parts:
        where, problem = infinite_number(part, f"{path}/{key}" if path else str(key))
        if problem:
            return where, problem
    return "", ""


def pretty(document: object, finite: bool = False) -> str:
    """Return `document` as JSON text with one member per line.

    `finite`: all numbers are known to be finite, and are not checked.
    """
    return pretty_bytes(document, finite).decode()


def pretty_bytes(document: object, finite: bool = False) -> bytes:
    """Return `document` as JSON with one member per line, as `json` writes it, in UTF-8.

    `finite`: all numbers are known to be finite, and are not checked.

    Raises
    ------
    RequestError
        If a number is infinite or NaN, which JSON does not have.
    """
    if not finite:
        where, problem = infinite_number(document)
        if problem:
            raise RequestError(where, problem)
    import re

    import orjson

    try:
        text = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    except TypeError:  # a large number, or half of a surrogate pair
        import json

        return _printable(json.dumps(document, ensure_ascii=False, indent=2)).encode()

    # Numbers near 0 and large ones as Python writes them: a string would end with a quote
    whole = memoryview(text)  # its slices are not copied
    parts: list[bytes | memoryview] = []
    end = 0
    forms = [  # two patterns with a fixed beginning are four times as fast as one for both
        *re.finditer(rb"e-?[0-9]+(?=,?\n)", text),
        *re.finditer(rb"0\.0000[0-9]+(?=,?\n)", text),
    ]
    for form in sorted(forms, key=re.Match.start):
        begin = form.start()
        while text[begin - 1 : begin] in b"-.0123456789":
            begin -= 1
        parts += whole[end:begin], repr(float(text[begin : form.end()])).encode()
        end = form.end()
    if parts:
        text = b"".join([*parts, whole[end:]])
    if text.isascii() and b"\x7f" not in text:
        return text
    return _printable(text.decode()).encode()


def _printable(text: str) -> str:
    """Return the JSON document `text` with codes for characters that do not print."""
    if text.replace("\n", "").isprintable():
        return text
    return "\n".join(map(_escaped, text.split("\n")))


def _escaped(line: str) -> str:
    r"""Return a line of JSON with codes (``\u202e``) for characters that do not print.

    Such characters can only be in strings. A character beyond the first 65536 becomes two codes.
    """
    if line.isprintable():
        return line
    parts = []
    for char in line:
        if char.isprintable():
            parts.append(char)
        else:
            halves = char.encode("utf-16-be", "surrogatepass").hex()
            parts += (f"\\u{halves[k : k + 4]}" for k in range(0, len(halves), 4))
    return "".join(parts)


DECIDING = frozenset({"nodes", "instances", "nodegroups", "request", "ipolicy", "cluster_tags"})
"""Members of a document in which a repeated member is an error, because it may affect answers."""

FEWEST_TEXT_FIELDS = 3
"""The fewest fields of a line that looks like htools' text format."""


class _Members(list[tuple[str, "Any"]]):
    """The members of a JSON object, including members with one name."""


def looks_like(raw: bytes) -> str:
    """Return a guess at the format of `raw`, which is not JSON; "" if it is unknown."""
    first = raw.lstrip().partition(b"\n")[0]
    if first.count(b"|") >= FEWEST_TEXT_FIELDS - 1 and not first.startswith((b"{", b"[")):
        return "expected JSON, got what looks like htools' text format: use -t FILE"
    return ""


def check_duplicates(text: str) -> None:
    """Report members of the JSON document `text` that repeat the name of another member.

    A repeated member is an error in nodes, groups, instances and the request, and in any value in
    them. Of other repeated members of the document itself, the last one is used, with a warning.

    Raises
    ------
    RequestError
        At the first repeated member that might affect an answer.
    """
    try:
        doubles = list(_doubles(loads(text, _Members), ""))
    except RecursionError:
        problem = "expected each member once; nested too deeply to say where"
        raise RequestError("", problem) from None
    for where, name in doubles:
        problem = f"expected each member once, got {describe(name)} again"
        if where or name in DECIDING:
            raise RequestError(where, problem)
    tell(*(f"Warning: {name} is there twice; the last one counts" for _, name in doubles))


def _doubles(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, name) of members that repeat a name in the same object."""
    if not isinstance(value, list):
        return
    items: list[tuple[str, Any]] = value
    if not isinstance(value, _Members):
        items = [(str(position), item) for position, item in enumerate(value)]
    seen: set[str] = set()
    for name, item in items:
        if name in seen:
            yield where, name
        seen.add(name)
        yield from _doubles(item, f"{where}/{name}" if where else name)
