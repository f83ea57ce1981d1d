"""Which groups may take an instance: those that share its partition."""

from __future__ import annotations

from iallocator.model.storage import EXTERNAL, pool_name, pools_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance, Pool

__all__ = ["Peers"]


class Peers:
    """The partitions of a cluster, and who shares them.

    Only groups that have nodes count.
    """

    __slots__ = ("_cluster", "_of_pools", "partitions")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.partitions = cluster.partitions()
        self._of_pools: dict[tuple[Pool, ...], list[Group]] = {}

    def pools_of(self, group: Group) -> list[Pool]:
        """The pools that nodes of `group` reach, by name."""
        return [pool for pool, groups in self.partitions.items() if group in groups]

    def shared_by(self, group: Group, external: bool = False) -> list[Pool]:
        """The pools, or only the external ones, that `group` shares with another group."""
        return [
            pool
            for pool, groups in self.partitions.items()
            if group in groups and len(groups) > 1 and (not external or pool[0] == EXTERNAL)
        ]

    def alone(self, group: Group) -> str:
        """Why no instance of `group` has anywhere else to go; "" if it shares a pool."""
        if self.shared_by(group):
            return ""
        names = ", ".join(map(pool_name, self.pools_of(group)))
        reached = f"no other group reaches {names}" if names else "it reaches no storage pool"
        return f"alone in its partition: {reached}"

    def around(self, group: Group, external: bool = False) -> list[Group]:
        """The other groups that share a pool with `group`, in their order."""
        pools = self.shared_by(group, external)
        found = {other.index for pool in pools for other in self.partitions[pool]}
        return [g for g in self._cluster.groups if g.index in found and g is not group]

    def of(
        self, instance: Instance, source: Group, among: Collection[Group] | None = None
    ) -> list[Group]:
        """The groups but `source` with a node that reaches all pools of `instance`.

        Diskless instances may go to every group.
        """
        pools = pools_of(instance)
        found = self._of_pools.get(pools)
        if found is None:
            reach = self._cluster.reach(instance)
            found = [
                group
                for group in self._cluster.groups
                if group.nodes and (reach is None or not reach.isdisjoint(group.nodes))
            ]
            self._of_pools[pools] = found
        return [g for g in found if g is not source and (among is None or g in among)]

    def nowhere(self, instance: Instance, targets: Sequence[Group]) -> str:
        """Why an instance that has none of `targets` cannot leave its group."""
        pools = " and ".join(map(pool_name, pools_of(instance))) or "any storage"
        return "" if targets else f"no healthy group reaches {pools}"
