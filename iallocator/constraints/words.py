"""The words of constraints, with the numbers, and amounts as people write them.

The functions for limits have the node before and after the instance came, and the instance. They
return what the instance needs, and what the node has. `policy_breach` names the first bound of
each interval of a policy that an instance breaks.
"""

from __future__ import annotations

from iallocator.model.templates import TEMPLATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView, Quantity
    from iallocator.model.policy import Interval, Policy, Spec

__all__ = [
    "cpus", "cpus_later", "disk", "disk_reserve", "failover", "failover_later", "less_disk_later",
    "memory", "memory_later", "n1", "own_spindles", "own_spindles_later", "policy_breach",
    "quantity", "spindles", "spindles_later", "tags", "unknown_spindles",
]  # fmt: skip


LATER = " with forthcoming instances"


SINGULAR = {
    "virtual cpus": "virtual cpu", "cpus": "cpu", "spindles": "spindle",
    "own spindles": "own spindle", "shared spindles": "shared spindle", "disks": "disk",
    "places": "place",
}  # fmt: skip
"""Nouns with which units begin -> the same for one of them."""


def quantity(amount: float, unit: str) -> str:
    """Return an amount with its unit: ``3 virtual cpus``, ``1 virtual cpu``, ``0.5 virtual cpus``.

    `unit` begins with a noun of `SINGULAR`, or is the same for one.  What begins with ``the`` is
    not counted.
    """
    if unit.startswith("the "):
        return unit
    if amount == 1:
        for plural, singular in SINGULAR.items():
            if unit == plural or unit.startswith(f"{plural} "):
                unit = singular + unit[len(plural) :]
                break
    return f"{amount:.2f}".rstrip("0").rstrip(".") + f" {unit}"


def memory(b: NodeView, a: NodeView, i: Instance) -> str:
    return f"needs {i.memory} MiB memory, {b.memory:.12g} free, and some must remain"


def memory_later(b: NodeView, a: NodeView, i: Instance) -> str:
    return f"needs {i.memory} MiB memory, {b.memory_later:.12g} free{LATER}"


def disk(b: NodeView, a: NodeView, i: Instance) -> str:
    return f"needs {i.disk} MiB disk, {b.disk:.12g} free, and some must remain"


def less_disk_later(b: NodeView, a: NodeView, i: Instance) -> str:
    return f"needs {i.disk} MiB disk, {b.disk_later:.12g} free{LATER}"


def disk_reserve(b: NodeView, a: NodeView, i: Instance) -> str:
    return f"would leave {a.disk:.12g} MiB of disk, {a.disk_reserve:.12g} are to be kept free"


def unknown_spindles(b: NodeView, a: NodeView, i: Instance) -> str:
    return "has exclusive storage, and a disk of the instance does not say its spindles"


def own_spindles(b: NodeView, a: NodeView, i: Instance) -> str:
    return _lacks_own_spindles(i, b.free_spindles)


def own_spindles_later(b: NodeView, a: NodeView, i: Instance) -> str:
    return _lacks_own_spindles(i, b.free_spindles_later, LATER)


def _lacks_own_spindles(i: Instance, free: Quantity, when: str = "") -> str:
    noun = "spindle" if i.spindles == 1 else "spindles"
    return f"needs {i.spindles} {noun} of its own, {free:.12g} free{when}"


def spindles(b: NodeView, a: NodeView, i: Instance) -> str:
    return _too_many_spindles(a, a.spindles)


def spindles_later(b: NodeView, a: NodeView, i: Instance) -> str:
    return _too_many_spindles(a, a.spindles_later, LATER)


def _too_many_spindles(a: NodeView, used: Quantity, when: str = "") -> str:
    return f"spindles in use{when} would be {used:.12g}, the policy allows {a.high_spindles:.12g}"


def n1(b: NodeView, a: NodeView, i: Instance) -> str:
    return (
        f"{a.memory:.12g} MiB memory would remain free, "
        f"{a.reserved:.12g} are reserved for failovers"
    )


def cpus(b: NodeView, a: NodeView, i: Instance) -> str:
    return _over_ratio(a, a.cpus)


def cpus_later(b: NodeView, a: NodeView, i: Instance) -> str:
    return _over_ratio(a, a.cpus_later, LATER)


def _over_ratio(a: NodeView, used: Quantity, when: str = "") -> str:
    return (
        f"virtual cpus in use{when} would be {used:.12g}, {round(a.total_cpus)} cpus at ratio "
        f"{a.vcpu_ratio:.12g} allow {a.vcpu_ratio * a.total_cpus:.12g}"
    )


def tags(b: NodeView, a: NodeView, i: Instance) -> str:
    return f"holds a primary with one of its exclusion tags ({', '.join(i.exclusion)})"


def failover(b: NodeView, a: NodeView, i: Instance) -> str:
    return _no_takeover(i, b.memory)


def failover_later(b: NodeView, a: NodeView, i: Instance) -> str:
    return _no_takeover(i, b.memory_later, LATER)


def _no_takeover(i: Instance, free: Quantity, when: str = "") -> str:
    return f"could not take over its {i.takeover_memory} MiB memory, {free:.12g} free{when}"


def policy_breach(policy: Policy, instance: Instance, exclusive: bool) -> str:
    """Return why `policy` rejects `instance`; "" if it accepts the instance.

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
    reasons = "; ".join(f"interval {n}: {text}" for n, text in enumerate(breaches, start=1))
    return f"outside every interval of the policy of the group ({reasons})"


def _interval_breach(interval: Interval, instance: Instance, exclusive: bool) -> str:
    """Return the first bound of `interval` that `instance` violates, in words, or ""."""
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
    """Yield (actual, bound, unit) in the order in which bounds are tested."""
    disks = instance.disk_sizes if TEMPLATES[instance.template].has_disks else ()
    yield instance.memory, bound.memory, "MiB memory"
    for size in disks:
        yield size, bound.disk, "MiB in one disk"
    yield instance.vcpus, bound.cpus, "virtual cpus"
    spindles = instance.spindles if exclusive else instance.spindle_use
    yield spindles, bound.spindles, "spindles"
    if TEMPLATES[instance.template].has_disks:
        yield len(disks), bound.disks, "disks"
