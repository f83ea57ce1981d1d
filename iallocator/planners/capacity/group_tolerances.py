"""Global N+1 while a cluster is filled, where groups have different modes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.speculation import Speculation
    from iallocator.n1.tolerance import FailureTolerance

__all__ = ["GroupTolerances"]

ANY_NUMBER = 1 << 40
"""The headroom where N+1 is not checked."""


class GroupTolerances:
    """N+1 while `state` is filled, by the mode of the group that an instance is placed in.

    N+1 is checked for drbd instances only in the groups `pairs`.  The memory that their secondaries
    reserve counts in any case.  With `every`, N+1 is also checked for them in the other groups.
    Each placement must be reported to `placed`.
    """

    def __init__(
        self, state: State, of: Mapping[int, FailureTolerance], pairs: Collection[int]
    ) -> None:
        self._state = state
        self._of = of  # by index of the group; groups with one mode have one object
        self._pairs = pairs

    def checked(self, instance: Instance, group: int, every: bool = False) -> bool:
        """Return whether N+1 is checked for `instance` in `group`."""
        own = every or instance.required_nodes == 1 or group in self._pairs
        return own and self._of[group].rules.mode != "off"

    def accepts(self, instance: Instance, nodes: Nodes, every: bool) -> bool:
        """Return whether N+1 holds with `instance` on `nodes`, as far as it is checked."""
        group = self._group(nodes[0])
        return not self.checked(instance, group, every) or self._of[group].accepts(instance, nodes)

    def rejects(self, instance: Instance, node: int, every: bool) -> bool:
        """Return whether `node` certainly rejects `instance`, and every larger one."""
        group = self._group(node)
        if instance.required_nodes > 1 or not self.checked(instance, group, every):
            return False
        return self._of[group].certainly_rejects(instance, node)

    def rejects_pairs(self, instance: Instance, every: bool) -> bool:
        """Return whether every pair of nodes certainly rejects `instance`."""
        return instance.required_nodes > 1 and all(
            self.checked(instance, group, every)
            and tolerance.rejects_all(self._state.cluster.groups[group])
            for group, tolerance in self._of.items()
        )

    def compares_sizes(self, instance: Instance, nodes: Sequence[int], every: bool) -> bool:
        """Return whether `rejected_down` can decide anything for sizes of `instance`."""
        groups = {self._group(node) for node in nodes}
        modes = {self._of[group] for group in groups}
        if instance.required_nodes > 1 or len(modes) > 1:
            return False
        strict = all(one.rules.strict for one in modes)
        return strict and all(self.checked(instance, group, every) for group in groups)

    def rejected_down(self, instances: Sequence[Instance], nodes: Sequence[int]) -> int:
        """Return how many of `instances`, from the first, all of `nodes` certainly reject.

        One amount of the instances decreases from one to the next; see `compares_sizes`.
        """
        return self._of[self._group(nodes[0])].rejected_down(instances, nodes)

    def prepare(self, instances: Sequence[Instance], every: bool) -> None:
        """Simulate in one batch what `accepts` will need for `instances` of one template."""
        if instances[0].required_nodes > 1:
            return
        for group, tolerance in self._of.items():
            if self.checked(instances[0], group, every):
                tolerance.prepare(instances)

    def headroom(self, instance: Instance, groups: Sequence[int]) -> int:
        """Return how many more equal instances keep N+1, wherever in `groups` they are placed."""
        checked = [self._of[group] for group in groups if self.checked(instance, group)]
        counts = [one.headroom(instance, groups) for one in dict.fromkeys(checked)]
        return min(counts, default=ANY_NUMBER)

    def speculation(self, instance: Instance, group: int) -> Speculation | None:
        """Return what checks several equal instances in `group` at once; None if nothing can."""
        if instance.required_nodes > 1 or not self.checked(instance, group):
            return None
        return self._of[group].speculation(instance, group)

    def placed(self, arrivals: Sequence[tuple[Instance, Nodes]]) -> None:
        """Count instances that were placed on their nodes, equal except for names and orders."""
        for tolerance in dict.fromkeys(self._of.values()):
            tolerance.placed(arrivals)

    def _group(self, node: int) -> int:
        return self._state.cluster.nodes[node].group.index
