"""Instance policies: which sizes and disk templates a node group accepts."""

from __future__ import annotations

from iallocator.model.templates import TEMPLATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Sized(Protocol):
        """The sizes of an instance that a policy checks."""

        template: str
        memory: int
        vcpus: int
        spindles: int | None
        spindle_use: int

        @property
        def disk_sizes(self) -> Sequence[int]:
            """Return the MiB of each disk."""


__all__ = ["Interval", "Policy", "Spec"]


class Spec:
    """The lower or upper end of an interval of a policy, or its standard size.

    Memory and disk are in MiB; ``disk`` is the size of each disk, not their sum.
    """

    __slots__ = ("cpus", "disk", "disks", "memory", "nics", "spindles")

    def __init__(
        self, memory: int, cpus: int, disk: int, disks: int, nics: int, spindles: int
    ) -> None:
        self.memory = memory
        self.cpus = cpus
        self.disk = disk
        self.disks = disks
        self.nics = nics
        self.spindles = spindles


DEFAULT_MIN = Spec(128, 1, 1024, 1, 1, 1)
DEFAULT_MAX = Spec(32768, 8, 2**20, 16, 8, 12)
DEFAULT_STD = Spec(128, 1, 1024, 1, 1, 1)
"""The sizes in Ganeti of a group without a policy: `DEFAULT_MIN`, `DEFAULT_MAX`, the standard."""

DEFAULT_VCPU_RATIO = 4.0
"""Ganeti's default for the most virtual cpus per cpu of a node."""

DEFAULT_SPINDLE_RATIO = 32.0
"""Ganeti's default for the most spindle use of instances per spindle of a node."""


class Interval:
    """An interval of sizes that a policy accepts; both ends are included."""

    __slots__ = ("high", "low")

    def __init__(self, low: Spec, high: Spec) -> None:
        self.low = low
        self.high = high

    def rejects(self, instance: Sized, exclusive: bool) -> str | None:
        """Return the reason why `instance` is outside of the interval, or None.

        The minimum is tested first, then the maximum, each in the order memory, disk sizes, vcpus,
        spindles, number of disks. With `exclusive` storage, the spindles of the disks are compared,
        otherwise the instance's ``spindle_use``.
        """
        spindles = instance.spindles if exclusive else instance.spindle_use
        has_disks = TEMPLATES[instance.template].has_disks
        for bound, sign in ((self.low, 1), (self.high, -1)):
            if sign * instance.memory < sign * bound.memory:
                return "FailMem"
            if has_disks and any(sign * size < sign * bound.disk for size in instance.disk_sizes):
                return "FailDisk"
            if sign * instance.vcpus < sign * bound.cpus:
                return "FailCPU"
            if spindles is None or sign * spindles < sign * bound.spindles:
                return "FailSpindles"
            if has_disks and sign * len(instance.disk_sizes) < sign * bound.disks:
                return "FailDiskCount"
        return None


class Policy:
    """The instance policy (ipolicy) of a group.

    ``vcpu_ratio``: the most virtual cpus per cpu. ``spindle_ratio``: the most spindles of instances
    per spindle of a node.
    """

    __slots__ = ("intervals", "spindle_ratio", "standard", "templates", "vcpu_ratio")

    def __init__(
        self,
        intervals: Sequence[Interval] = (Interval(DEFAULT_MIN, DEFAULT_MAX),),
        standard: Spec = DEFAULT_STD,
        templates: Sequence[str] = tuple(TEMPLATES),
        vcpu_ratio: float = DEFAULT_VCPU_RATIO,
        spindle_ratio: float = DEFAULT_SPINDLE_RATIO,
    ) -> None:
        self.intervals = tuple(intervals)
        self.standard = standard
        self.templates = tuple(templates)
        self.vcpu_ratio = vcpu_ratio
        self.spindle_ratio = spindle_ratio

    def rejects(self, instance: Sized, exclusive: bool) -> str | None:
        """Return the reason why the policy rejects `instance`, or None.

        The size must be in at least one interval; the reason is that of the first interval. The
        template must be allowed.
        """
        first: str | None = None
        for interval in self.intervals:
            reason = interval.rejects(instance, exclusive)
            if reason is None:
                return None if instance.template in self.templates else "FailDisk"
            first = first or reason
        return first
