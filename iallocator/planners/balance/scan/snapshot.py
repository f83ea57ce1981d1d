"""Changes to the arrays of a scan that are forgotten, which is cheaper than to undo them.

But for the arrays of all moves: of those a trial changes next to nothing, and they are large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iallocator.planners.balance.scan.changes import Changes

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Snapshot"]


class Snapshot:
    """A context at whose end all attributes of `parts` are as at its beginning.

    Arrays, and lists and dicts of them, are copied, but for those that `Changes` keep a journal
    of; everything else must not be changed but replaced.
    """

    def __init__(self, parts: Sequence[object]) -> None:
        self._parts = parts

    def __enter__(self) -> None:
        self._saved = [_attributes(part) for part in self._parts]
        for part in self._parts:
            if isinstance(part, Changes):
                part.journal = []

    def __exit__(self, *_: object) -> None:
        for part, attributes in zip(self._parts, self._saved):
            if isinstance(part, Changes):
                part.undo()
            vars(part).update(attributes)


def _attributes(part: object) -> dict[str, Any]:
    """What `part` has: of what there is a journal of, only which arrays there are."""
    journaled = part.JOURNALED if isinstance(part, Changes) else ()
    found = {name: _copy(v) for name, v in vars(part).items() if name not in journaled}
    for name in journaled:
        value = vars(part)[name]
        found[name] = dict(value) if isinstance(value, dict) else value
    return found


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return {key: _copy(one) for key, one in value.items()}
    return [_copy(one) for one in value] if isinstance(value, list) else value
