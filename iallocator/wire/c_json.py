"""The C half of the standard `json` package, without the Python half.

Loading `json` (which loads `re`, `enum`, `functools` ...) takes longer than everything
that a small request needs; the accelerators in `_json` are what does the work in
either case.  Where an interpreter has none, or a document is not plain JSON, `json`
itself is used, which also has the better error messages.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Pairs = Callable[[list[tuple[str, Any]]], Any]

__all__ = ["dumps", "loads"]

BLANKS = " \t\n\r"


class _Rules:
    """What the scanner asks for: plain objects and numbers, nothing that JSON does not have."""

    strict = True
    object_hook = None
    parse_float = float
    parse_int = int

    def __init__(self, object_of: Pairs | None = None) -> None:
        self.object_pairs_hook = object_of

    def parse_constant(self, name: str) -> NoReturn:
        raise ValueError(f"{name} is not a JSON number")


def loads(text: str, object_of: Pairs | None = None) -> Any:
    """The value of a JSON document; `object_of` makes objects of their members.

    Raises
    ------
    ValueError
        If it is none.
    RecursionError
        If it is nested too deeply.
    """
    try:
        from _json import make_scanner

        rules: Any = _Rules(object_of)
        start = len(text) - len(text.lstrip(BLANKS))
        value, end = make_scanner(rules)(text, start)
        if not text[end:].strip(BLANKS):
            return value
    except (ImportError, StopIteration, ValueError):
        pass
    except SystemError:  # a syntax error, which needs the Python half to be described
        pass
    import json

    rules = _Rules(object_of)
    return json.loads(text, object_pairs_hook=object_of, parse_constant=rules.parse_constant)


def dumps(value: Any) -> str:
    """`value` as compact JSON: no blanks, characters as they are."""
    try:
        from _json import encode_basestring, make_encoder

        encode = make_encoder({}, _unknown, encode_basestring, None, ":", ",", False, False, False)
        return "".join(encode(value, 0))
    except ImportError:
        import json

        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _unknown(value: Any) -> NoReturn:
    raise TypeError(f"{type(value).__name__} is no JSON value")
