"""What failures that are played through begin with, and slots for equal instances, in arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iallocator.aliases import Floats

__all__ = ["Ground", "slots_for"]

ANY_NUMBER = float(1 << 40)


def slots_for(memory: Floats, disk: Floats, need: Floats) -> Floats:
    """How many equal instances fit; some memory, and disk where they need any, must remain.

    `need` has memory and disk in its last dimension; all others are those of `memory` and `disk`.
    """
    found = _slots(memory, need[..., 0])
    if not need[..., 1].any():
        return found
    return np.minimum(found, np.where(need[..., 1] > 0, _slots(disk, need[..., 1]), ANY_NUMBER))


def _slots(free: Floats, each: Floats) -> Floats:
    """How often `each` can be taken so that something is left; of nothing any number."""
    some = np.maximum(np.ceil(free / np.maximum(each, 1.0)) - 1.0, 0.0)
    return np.where(each > 0, some, np.where(free > 0, ANY_NUMBER, 0.0))


class Ground(NamedTuple):
    """What all rows begin with, over the nodes.

    Attributes
    ----------
    columns, values:
        Of the state; values of statistics are less their means.
    per_amount:
        Columns × statistics × nodes: what one more in a column adds to a statistic.
    counted:
        Statistics × nodes: 1 where a node counts, else 0.
    allowed:
        Which nodes take over.
    """

    columns: Floats
    values: Floats
    per_amount: Floats
    counted: Floats
    allowed: NDArray[np.bool_]
