"""Why an instance may not be on a node: the reason that is counted, and the numbers.

`policy_breach` names the first bound of each interval of a policy that an instance breaks.
"""

from __future__ import annotations

from iallocator.constraints.access import (
    lacks_network,
    missing_migration_tags,
    out_of_reach,
    rejected_by_policy,
)
from iallocator.limits.words import quantity
from iallocator.model.templates import TEMPLATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.policy import Interval, Policy, Spec

__all__ = ["Rejection", "group_rejections", "migration_rejection", "policy_breach"]


class Rejection:
    """Why an instance may not be on a node, or in a group.

    Attributes
    ----------
    reason:
        What it is counted as, as in `iallocator.limits.node.REASONS`; ``FailGroup`` where
        the whole group is out.
    text:
        The numbers, or the rule, for people; it goes on from the name of the node or group.
        If it is a function, it is called when the text is read: most rejections are not.
    node:
        The index of the node that rejects; None for a whole group.
    step:
        The step of a move that fails, in words; "" if it is just the role.
    """

    __slots__ = ("_text", "node", "reason", "step")

    def __init__(
        self,
        reason: str,
        text: str | Callable[[], str],
        node: int | None = None,
        step: str = "",
    ) -> None:
        self.reason = reason
        self._text = text
        self.node = node
        self.step = step

    @property
    def text(self) -> str:
        """The numbers, or the rule."""
        if not isinstance(self._text, str):
            self._text = self._text()
        return self._text

    def __str__(self) -> str:
        return f"{self.reason}: {self.text}"

    @property
    def wording(self) -> str:
        """Reason and text in one, with the step."""
        return f"{self.reason} {self.step}: {self.text}" if self.step else str(self)


def group_rejections(
    cluster: Cluster, group: Group, instance: Instance, nodes: Iterable[int], by_policy: str
) -> dict[int, Rejection]:
    """Return those of `nodes` of `group` that reject `instance` regardless of free capacity.

    If the whole group rejects the instance, these are all nodes. `by_policy` is the reason that is
    counted where the policy rejects the instance; if it is "", the part of the policy is the
    reason.
    """
    if lacks_network(group, instance):
        missing = ", ".join(sorted(set(instance.networks) - group.networks))
        why = f"group {group.name} is not connected to network {missing}"
        return dict.fromkeys(nodes, Rejection("FailGroup", why))
    lacking = out_of_reach(cluster, group.nodes, instance)
    if lacking:
        return dict.fromkeys(
            nodes, Rejection("FailGroup", f"group {group.name} does not {lacking}")
        )
    rejected = rejected_by_policy(cluster, group, instance, by_policy)
    why = f"the policy of group {group.name} refuses an instance of this kind or size"
    return {i: Rejection(rejected[i], why, i) for i in nodes if i in rejected}


def migration_rejection(cluster: Cluster, source: int, target: int) -> Rejection | None:
    """Return the rejection if migration tags keep instances of `source` off `target`, or None."""
    missing = missing_migration_tags(cluster, source, target)
    if not missing:
        return None
    name, tags = cluster.nodes[source].name, ", ".join(sorted(missing))
    return Rejection("FailMig", f"does not receive what {name} requires: {tags}", target)


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
