"""What differs between two JSON documents, one line per place."""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

__all__ = ["Difference", "differences"]

DECIMALS = 8
"""Numbers that are equal to this many decimals are equal: scores are sums of roots."""

WIDE = 88
"""Characters from which on a difference takes two lines."""

ABSENT = object()


class Difference:
    """One place where two documents differ; both values as text.

    ``path`` leads there, keys and positions joined by ``/``; empty for the whole.
    """

    __slots__ = ("now", "path", "stored")

    def __init__(self, path: str, stored: str, now: str) -> None:
        self.path = path
        self.stored = stored
        self.now = now

    def __str__(self) -> str:
        head = f"{self.path or '(the whole)'}: "
        arrow = " → "
        if len(head) + len(self.stored) + len(self.now) > WIDE:
            arrow = "\n" + " " * (len(head) - 2) + "→ "
        return f"{head}{self.stored}{arrow}{self.now}"


def differences(stored: object, now: object, path: str = "") -> Iterator[Difference]:
    """Every place where `now` differs from `stored`, in the order of `stored`.

    Lists are compared position by position, numbers to `DECIMALS` decimals.
    """
    if isinstance(stored, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*stored, *now]):
            yield from differences(stored.get(key, ABSENT), now.get(key, ABSENT), _below(path, key))
    elif isinstance(stored, list) and isinstance(now, list):
        for position in range(max(len(stored), len(now))):
            yield from differences(
                _at(stored, position), _at(now, position), _below(path, position)
            )
    elif not _equal(stored, now):
        yield Difference(path, _text(stored), _text(now))


def _equal(stored: object, now: object) -> bool:
    if _is_number(stored) and _is_number(now):
        return round(stored, DECIMALS) == round(now, DECIMALS)
    return type(stored) is type(now) and stored == now


def _is_number(value: object) -> TypeGuard[int | float]:
    return type(value) is int or type(value) is float


def _at(values: list[object], position: int) -> object:
    return values[position] if position < len(values) else ABSENT


def _below(path: str, key: object) -> str:
    return f"{path}/{key}" if path else str(key)


def _text(value: object) -> str:
    return "(absent)" if value is ABSENT else json.dumps(value, ensure_ascii=False)
