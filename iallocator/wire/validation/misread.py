"""What is the matter with bytes that are no proper document; loaded only for those."""

from __future__ import annotations

from iallocator.errors import RequestError, tell
from iallocator.wire.c_json import loads
from iallocator.wire.fields import describe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["judge_doubles", "looks_like"]

DECIDING = frozenset({"nodes", "instances", "nodegroups", "request", "ipolicy", "cluster_tags"})
"""Members of a document that decide answers."""

FIELDS = 3
"""A line of htools' text format has at least so many."""


class _Members(list[tuple[str, "Any"]]):
    """The members of an object, two of one name included."""


def looks_like(raw: bytes) -> str:
    """What `raw`, which is no JSON, may be instead; "" if nobody knows."""
    first = raw.lstrip().partition(b"\n")[0]
    if first.count(b"|") >= FIELDS - 1 and not first.startswith((b"{", b"[")):
        return "expected JSON, got what looks like htools' text format: give that with -t FILE"
    return ""


def judge_doubles(text: str) -> None:
    """Complain of members of the JSON document `text` whose name another one has, too.

    What nodes, groups, instances and the request say, and any value in them, is told once; of
    other members of the document itself the last counts, with a warning.

    Raises
    ------
    RequestError
        At the first double that might decide an answer.
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
    tell(*(f"Warning: {name} stands there twice; the last one counts" for _, name in doubles))


def _doubles(value: Any, where: str) -> Iterator[tuple[str, str]]:
    """(path, name) of members whose name came before in the same object."""
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
