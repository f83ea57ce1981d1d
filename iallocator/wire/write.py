"""Replies and other documents as JSON that any terminal may show."""

from __future__ import annotations

from iallocator.wire.c_json import dumps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.reply import Reply

__all__ = ["encode", "on_one_line", "pretty"]


def encode(reply: Reply) -> bytes:
    """The response document: compact JSON, one line."""
    return _escaped(dumps(reply.document())).encode("utf-8") + b"\n"


def on_one_line(document: object) -> str:
    """`document` for people, on one line; errors as of `pretty`."""
    import json

    return _escaped(json.dumps(document, ensure_ascii=False, allow_nan=False))


def pretty(document: object) -> str:
    """`document` for people, too: one member a line.

    Raises
    ------
    ValueError
        If a number in it is none: JSON has no infinity.
    """
    import json

    text = json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False)
    if text.replace("\n", "").isprintable():
        return text
    return "\n".join(map(_escaped, text.split("\n")))


def _escaped(line: str) -> str:
    """A line of JSON with what does not print, which stands in its strings only, as codes."""
    if line.isprintable():
        return line
    return "".join(char if char.isprintable() else _code(char) for char in line)


def _code(char: str) -> str:
    r"""``\u202e``; of a character beyond the first 65536, that of both its halves."""
    halves = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{halves[k : k + 4]}" for k in range(0, len(halves), 4))
