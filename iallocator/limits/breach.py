"""Where an instance lies outside the policy of a group, with the numbers.

Which test comes first is decided in `iallocator.model.policy`; what is said here is
the first bound that breaks, of each interval.
"""

from __future__ import annotations

from iallocator.limits.words import quantity
from iallocator.model.templates import TEMPLATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.model.instance import Instance
    from iallocator.model.policy import Interval, Policy, Spec

__all__ = ["policy_breach"]


def policy_breach(policy: Policy, instance: Instance, exclusive: bool) -> str:
    """What `policy` rejects about `instance`; "" if it admits it.

    With `exclusive` storage the spindles of the disks count, otherwise ``spindle_use``.
    """
    breaches = [_interval_breach(one, instance, exclusive) for one in policy.intervals]
    if "" in breaches:
        if instance.template in policy.templates:
            return ""
        return (
            f"the policy of the group allows no {instance.template} disks, "
            f"only {', '.join(sorted(policy.templates))}"
        )
    if len(breaches) == 1:
        return f"outside the policy of the group: {breaches[0]}"
    told = "; ".join(f"interval {n}: {text}" for n, text in enumerate(breaches, start=1))
    return f"outside every interval of the policy of the group ({told})"


def _interval_breach(interval: Interval, instance: Instance, exclusive: bool) -> str:
    """The first bound of `interval` that `instance` breaks, or ""."""
    bounds = (("at least", interval.low, 1), ("at most", interval.high, -1))
    for words, bound, sign in bounds:
        for actual, limit, unit in _measures(instance, bound, exclusive):
            if actual is None:
                return f"a disk does not say its spindles, {words} {limit} allowed"
            if sign * actual < sign * limit:
                return f"{quantity(actual, unit)}, {words} {limit} allowed"
    return ""


def _measures(
    instance: Instance, bound: Spec, exclusive: bool
) -> Iterator[tuple[int | None, int, str]]:
    """(actual, bound, unit) in the order in which bounds are tested."""
    disks = instance.disk_sizes if TEMPLATES[instance.template].has_disks else ()
    yield instance.memory, bound.memory, "MiB memory"
    for size in disks:
        yield size, bound.disk, "MiB in one disk"
    yield instance.vcpus, bound.cpus, "virtual cpus"
    spindles = instance.spindles if exclusive else instance.spindle_use
    yield spindles, bound.spindles, "spindles"
    if TEMPLATES[instance.template].has_disks:
        yield len(disks), bound.disks, "disks"
