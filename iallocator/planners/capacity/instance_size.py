"""The sizes of instances that are counted: standard, largest, and smaller ones in steps."""

from __future__ import annotations

from iallocator.model.instance import UNIT_LOAD, Backend, Disks, Instance
from iallocator.model.templates import TEMPLATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from iallocator.model.policy import Policy, Spec

    Load = tuple[float, float, float, float]

    Amounts = tuple[int, int, int, int]
    """Memory, disk, cpus, spindles."""

__all__ = ["STEPS", "Size", "largest_sizes", "standard_size"]

STEPS = {"FailMem": ("memory", 64), "FailDisk": ("disk", 256), "FailCPU": ("cpus", 1),
         "FailSpindles": ("spindles", 1)}  # fmt: skip
"""Reason -> what to take less of, and by how much: MiB, MiB, virtual cpus, spindles."""


class Size:
    """The size and kind of the instances of one filling.

    Attributes
    ----------
    memory, disk:
        MiB; an instance has one disk.  The disk of a diskless instance is 0, except for hspace.
    spindles:
        The spindles of its disk on exclusive storage.
    template:
        Its disk template.
    spindle_use:
        Its spindles on shared storage.
    """

    __slots__ = ("cpus", "disk", "load", "memory", "spindle_use", "spindles", "template")

    def __init__(
        self,
        memory: int,
        disk: int,
        cpus: int,
        spindles: int,
        template: str,
        spindle_use: int,
        load: Load = UNIT_LOAD,
    ) -> None:
        self.memory = memory
        self.disk = disk
        self.cpus = cpus
        self.spindles = spindles
        self.template = template
        self.spindle_use = spindle_use
        self.load = load

    @property
    def nodes(self) -> int:
        """The number of nodes of an instance."""
        return self.instance("").required_nodes

    def amounts(self) -> Amounts:
        """Return memory, disk, cpus, spindles."""
        return self.memory, self.disk, self.cpus, self.spindles

    def instance(self, name: str, spindles_anywhere: bool = False) -> Instance:
        """Return an instance of this size on no node."""
        sizes = [self.disk] if TEMPLATES[self.template].has_disks else []
        return Instance(
            name,
            Backend(self.memory, self.cpus, spindle_use=self.spindle_use),
            Disks(self.template, self.disk, sizes, self.spindles, spindles_anywhere),
            load=self.load,
        )

    def smaller(self, reason: str, steps: int = 1) -> Size | None:
        """Return a size with so many steps less of what failed for `reason`, or None."""
        if reason not in STEPS:
            return None
        what, step = STEPS[reason]
        amount = getattr(self, what) - steps * step
        return self._with(what, amount) if amount >= step else None

    def least(self, reason: str) -> Size | None:
        """Return the size with the least of what failed for `reason`; None if there is no less."""
        if reason not in STEPS:
            return None
        what, step = STEPS[reason]
        amount = step + getattr(self, what) % step
        return self._with(what, amount) if amount < getattr(self, what) else None

    def least_of_all(self) -> Size:
        """Return the size with the least of everything that steps can lead to."""
        size = self
        for reason in STEPS:
            size = size.least(reason) or size
        return size

    def _with(self, what: str, amount: int) -> Size:
        amounts = dict(zip(("memory", "disk", "cpus", "spindles"), self.amounts()))
        amounts[what] = amount
        return Size(**amounts, template=self.template, spindle_use=self.spindle_use, load=self.load)


def standard_size(policy: Policy, template: str, spindle_use: int, load: Load) -> Size:
    """Return the standard size of `policy`."""
    return _size(policy.standard, template, spindle_use, load)


def largest_sizes(policy: Policy, template: str, spindle_use: int, load: Load) -> list[Size]:
    """Return the upper end of each interval of `policy`."""
    return [_size(one.high, template, spindle_use, load) for one in policy.intervals]


def _size(spec: Spec, template: str, spindle_use: int, load: Load) -> Size:
    return Size(spec.memory, spec.disk, spec.cpus, spec.spindles, template, spindle_use, load)
