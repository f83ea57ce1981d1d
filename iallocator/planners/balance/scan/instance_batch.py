"""Instances that differ in amounts only, as arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iallocator.model.columns import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iallocator.aliases import Floats, Truths
    from iallocator.model.instance import Instance

    Whole = NDArray[np.intp]
    Vector = Sequence[Floats | None]

__all__ = ["InstanceBatch"]


class InstanceBatch:
    """Instances of one kind, with everything in which they differ as arrays of shape (rows, 1).

    All agree in what decides which checks matter: template, forthcoming, unknown
    spindles, and whether they reserve memory on their secondaries.
    """

    __slots__ = (
        "_amounts", "as_primary", "as_secondary", "barred", "counts_disk", "drbd", "exclusion",
        "forthcoming", "hides_spindles", "instances", "less_primary", "less_secondary", "local",
        "memory", "reserves", "restricted", "spindles", "takeover_memory", "vcpus",
    )  # fmt: skip

    def __init__(self, instances: Sequence[Instance]) -> None:
        first = instances[0]
        self.instances = instances
        self.drbd = first.needs_secondary
        self.local = first.local
        self.counts_disk = first.counts_disk
        self.restricted = first.restricted
        self.barred: Truths | None = None
        self.forthcoming = first.forthcoming
        self.hides_spindles = first.hides_spindles
        self.reserves = first.reserves
        self.spindles = first.spindles
        self.exclusion = first.exclusion
        self.memory: Floats = np.array([[float(i.memory)] for i in instances])
        self.takeover_memory: Floats = np.array([[float(i.takeover_memory)] for i in instances])
        amounts = [i.as_primary + i.as_secondary for i in instances]
        self._set_amounts(np.array(amounts, dtype=np.float64).T.copy())

    @staticmethod
    def kind(i: Instance) -> tuple[bool, ...]:
        """What the instances of a batch have in common."""
        return (
            i.needs_secondary, i.local, i.forthcoming, i.reserves, i.spindles is None,
            i.counts_disk, i.restricted,
        )  # fmt: skip

    def take(self, rows: Whole) -> InstanceBatch:
        """The instances in `rows`."""
        part: InstanceBatch = object.__new__(InstanceBatch)
        for name in ("drbd", "local", "forthcoming", "reserves", "spindles", "exclusion",
                     "counts_disk", "hides_spindles", "restricted"):  # fmt: skip
            setattr(part, name, getattr(self, name))
        part.instances = [self.instances[row] for row in rows.tolist()]
        part.barred = None
        part.memory = self.memory[rows]
        part.takeover_memory = self.takeover_memory[rows]
        part._set_amounts(self._amounts[:, rows])
        return part

    def _set_amounts(self, amounts: Floats) -> None:
        """Take the amounts added in both roles, one after the other, columns × instances."""
        self._amounts = amounts
        less = -amounts
        counts: list[bool] = np.any(amounts, axis=1).tolist()
        half = len(COLUMNS)
        self.as_primary: Vector = _upright(amounts[:half], counts[:half])
        self.as_secondary: Vector = _upright(amounts[half:], counts[half:])
        self.less_primary: Vector = _upright(less[:half], counts[:half])
        self.less_secondary: Vector = _upright(less[half:], counts[half:])


def _upright(amounts: Floats, counts: Sequence[bool]) -> Vector:
    """Per column an array of shape (instances, 1), or None where that does not count."""
    return [row[:, None] if counted else None for row, counted in zip(amounts, counts)]
