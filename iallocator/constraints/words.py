"""Describe violated limits in words, and amounts with their units.

Each limit has one function. The parameters are the node before and after the instance is placed,
the instance, and whether forthcoming instances count. The function returns, in words, what the
instance requires and what the node has. `policy_breach` names the first bound of each interval of a
policy that an instance violates.
"""

from __future__ import annotations

from iallocator.model.templates import TEMPLATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView
    from iallocator.model.policy import Interval, Policy, Spec

__all__ = [
    "cpus", "disk", "disk_reserve", "failover", "memory", "n1", "own_spindles", "policy_breach",
    "quantity", "spindles", "tags", "unknown_spindles",
]  # fmt: skip

ONE_MUST_REMAIN = ", and 1 MiB must remain"

SINGULAR = {
    "virtual cpus": "virtual cpu", "cpus": "cpu", "spindles": "spindle",
    "own spindles": "own spindle", "shared spindles": "shared spindle", "disks": "disk",
    "places": "place",
}  # fmt: skip
"""Noun in the plural, with which a unit begins -> the noun in the singular."""


def quantity(amount: float, unit: str) -> str:
    """Return an amount with its unit: ``3 virtual cpus``, ``1 virtual cpu``, ``0.5 virtual cpus``.

    `unit` begins with a noun of `SINGULAR`, or has no plural. A unit that begins with ``the`` is
    returned without the amount.
    """
    if unit.startswith("the "):
        return unit
    if amount == 1:
        for plural, singular in SINGULAR.items():
            if unit == plural or unit.startswith(f"{plural} "):
                unit = singular + unit[len(plural) :]
                break
    return f"{amount:.2f}".rstrip("0").rstrip(".") + f" {unit}"


def memory(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    rest = "" if later else ONE_MUST_REMAIN
    return f"needs {i.memory} MiB memory, {_free_memory(b, later)}{rest}"


def disk(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    free = b.disk_later if later else b.disk
    return f"needs {i.disk} MiB disk, {free:.12g} free{_when(later) or ONE_MUST_REMAIN}"


def disk_reserve(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    return f"would leave {a.disk:.12g} MiB of disk, {a.disk_reserve:.12g} are to be kept free"


def unknown_spindles(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    return "has exclusive storage, and a disk of the instance does not say its spindles"


def own_spindles(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    free = b.free_spindles_later if later else b.free_spindles
    noun = "spindle" if i.spindles == 1 else "spindles"
    return f"needs {i.spindles} {noun} of its own, {free:.12g} free{_when(later)}"


def spindles(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    used = a.spindles_later if later else a.spindles
    return (
        f"spindles in use{_when(later)} would be {used:.12g}, "
        f"the policy allows {a.high_spindles:.12g}"
    )


def n1(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    return (
        f"{a.memory:.12g} MiB memory would remain free{_lent(a)}, "
        f"{a.reserved:.12g} are reserved for failovers"
    )


def cpus(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    used = a.cpus_later if later else a.cpus
    return (
        f"virtual cpus in use{_when(later)} would be {used:.12g}, {round(a.total_cpus)} cpus at "
        f"ratio {a.vcpu_ratio:.12g} allow {a.vcpu_ratio * a.total_cpus:.12g}"
    )


def tags(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    return f"holds a primary with one of its exclusion tags ({', '.join(i.exclusion)})"


def failover(b: NodeView, a: NodeView, i: Instance, later: bool) -> str:
    return f"could not take over its {i.takeover_memory} MiB memory, {_free_memory(b, later)}"


def _free_memory(b: NodeView, later: bool) -> str:
    """Return, in words, the free memory of a node, including the part that its memory ratio adds.

    `later`: whether forthcoming instances count.
    """
    free = b.memory_later if later else b.memory
    return f"{free:.12g} free{_when(later)}{_lent(b)}"


def _lent(view: NodeView) -> str:
    """Return, in words, the MiB that the memory ratio adds to a node; "" if it adds none."""
    return f" ({view.lent_memory:.12g} of them by memory-ratio)" if view.lent_memory else ""


def _when(later: bool) -> str:
    return " with forthcoming instances" if later else ""


def policy_breach(policy: Policy, instance: Instance, exclusive: bool) -> str:
    """Return why `policy` rejects `instance`, in words; "" if it accepts the instance.

    With `exclusive` storage, the policy limits the spindles of the disks, otherwise
    ``spindle_use``.
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
    """Yield (size of the instance, bound of the policy, unit) for each check, in order."""
    disks = instance.disk_sizes if TEMPLATES[instance.template].has_disks else ()
    yield instance.memory, bound.memory, "MiB memory"
    for size in disks:
        yield size, bound.disk, "MiB in one disk"
    yield instance.vcpus, bound.cpus, "virtual cpus"
    spindles = instance.spindles if exclusive else instance.spindle_use
    yield spindles, bound.spindles, "spindles"
    if TEMPLATES[instance.template].has_disks:
        yield len(disks), bound.disks, "disks"
