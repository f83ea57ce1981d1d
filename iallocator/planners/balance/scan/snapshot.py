"""Changes to the arrays of a scan that are forgotten, which is cheaper than to undo them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Snapshot"]


class Snapshot:
    """A context at whose end all attributes of `parts` are as at its beginning.

    Arrays, and lists and dicts of them, are copied; everything else must not be changed
    but replaced.
    """

    def __init__(self, parts: Sequence[object]) -> None:
        self._parts = parts

    def __enter__(self) -> None:
        self._saved = [
            {name: _copy(value) for name, value in vars(part).items()} for part in self._parts
        ]

    def __exit__(self, *_: object) -> None:
        for part, attributes in zip(self._parts, self._saved):
            vars(part).update(attributes)


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value
