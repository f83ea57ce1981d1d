"""Count what each node holds and has free while instances are placed and removed."""

from __future__ import annotations

from iallocator.model.columns import (
    COLUMNS,
    CONFLICTS,
    FREE_SPINDLES,
    FREE_SPINDLES_LATER,
    MEMORY,
    MISPLACED,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.model.storage import NodeAccess

    Row = tuple[float, ...]

__all__ = ["Holdings"]


class Holdings:
    """The instances and amounts of each node, and its free capacity.

    Attributes
    ----------
    columns:
        For each name in `COLUMNS`, a list with the amount of each node.
    reserved:
        For each node, the MiB kept free for the failover of the worst peer: the maximum over
        `peers`.
    peers:
        For each node, primary node -> MiB of its instances that reserve memory on this node.
    primaries, secondaries:
        For each node, name -> instance, for the instances that it has in this role.
    exclusion:
        For each node, exclusion tag -> the number of primaries with the tag.
    domains:
        (group, location, exclusion tag) -> number of primaries with the tag on online nodes of the
        location.
    access:
        Which nodes are open to which instances, and the free space of storage pools; None if every
        node is open to all instances.
    """

    __slots__ = (
        "access",
        "cluster",
        "columns",
        "domains",
        "exclusion",
        "peers",
        "primaries",
        "reserved",
        "secondaries",
    )

    def __init__(self, cluster: Cluster) -> None:
        count = len(cluster.nodes)
        self.cluster = cluster
        self.columns: list[list[float]] = [[0] * count for _ in COLUMNS]
        self.reserved: list[float] = [0] * count
        self.peers: list[dict[int, float]] = [{} for _ in range(count)]
        self.primaries: list[dict[str, Instance]] = [{} for _ in range(count)]
        self.secondaries: list[dict[str, Instance]] = [{} for _ in range(count)]
        self.exclusion: list[dict[str, int]] = [{} for _ in range(count)]
        self.domains: dict[tuple[int, str, str], int] = {}
        self.access: NodeAccess | None = None

    def copy_holdings(self, other: Holdings) -> None:
        """Replace all counts by copies of those of `other`; instances are shared."""
        self.cluster = other.cluster
        self.columns = [list(column) for column in other.columns]
        self.reserved = list(other.reserved)
        self.peers = [dict(one) for one in other.peers]
        self.primaries = [dict(one) for one in other.primaries]
        self.secondaries = [dict(one) for one in other.secondaries]
        self.exclusion = [dict(one) for one in other.exclusion]
        self.domains = dict(other.domains)
        self.access = None if other.access is None else other.access.copy()

    def _add(self, instance: Instance, nodes: tuple[int, ...]) -> None:
        """Add the amounts of `instance` to `nodes`, primary first."""
        self._add_primary(instance, nodes[0], nodes[1] if len(nodes) > 1 else None)
        if len(nodes) > 1:
            self._add_secondary(instance, nodes[1], nodes[0])

    def _drop(self, instance: Instance, nodes: tuple[int, ...]) -> None:
        """Subtract the amounts of a removed `instance` from `nodes`, primary first."""
        if len(nodes) > 1:
            primary, index = nodes[:2]
            self._apply(index, instance.as_secondary, -1)
            if self.access is not None:
                self.access.add(instance, index, -1)
            del self.secondaries[index][instance.name]
            if instance.reserves and instance.memory:
                peers = self.peers[index]
                left = peers.get(primary, 0) - instance.memory
                if left:
                    peers[primary] = left
                else:  # an instance without memory may have been the only one from that primary
                    peers.pop(primary, None)
                self.reserved[index] = max(peers.values(), default=0)
        index = nodes[0]
        secondary = nodes[1] if len(nodes) > 1 else None
        self._apply(index, instance.as_primary, -1)
        if self.access is not None:
            self.access.add(instance, index, -1)
        if instance.exclusion or instance.desired or self.cluster.nodes[index].locations:
            self._count_tags(instance, index, secondary, -1)
        del self.primaries[index][instance.name]

    def _add_primary(self, instance: Instance, index: int, secondary: int | None) -> None:
        """Add the amounts of a primary to node `index`; `secondary`: for location tags only."""
        self._apply(index, instance.as_primary, 1)
        if instance.hides_spindles:
            self._hide_spindles(index, instance)
        if self.access is not None:
            self.access.add(instance, index, 1)
        if instance.exclusion or instance.desired or self.cluster.nodes[index].locations:
            self._count_tags(instance, index, secondary, 1)
        self.primaries[index][instance.name] = instance

    def _add_alike(self, arrivals: Sequence[tuple[Instance, tuple[int, ...]]]) -> None:
        """Add the amounts of a primary to one node for each of several instances.

        All instances have one shape and no tags. `arrivals`: (instance, its node).
        """
        first, places = arrivals[0][0], [nodes[0] for _, nodes in arrivals]
        if first.hides_spindles or self.access is not None:
            for instance, nodes in arrivals:
                self._add_primary(instance, nodes[0], None)
            return
        for column, amount in zip(self.columns, first.as_primary):
            if amount:
                for index in places:
                    column[index] += amount
        for instance, nodes in arrivals:
            self.primaries[nodes[0]][instance.name] = instance

    def _add_secondary(self, instance: Instance, index: int, primary: int) -> None:
        """Add the amounts of a secondary to node `index`; the instance has its primary on
        `primary`.
        """
        self._apply(index, instance.as_secondary, 1)
        if instance.hides_spindles:
            self._hide_spindles(index, instance)
        if self.access is not None:
            self.access.add(instance, index, 1)
        self.secondaries[index][instance.name] = instance
        if instance.reserves and instance.memory:
            peers = self.peers[index]
            peers[primary] = total = peers.get(primary, 0) + instance.memory
            self.reserved[index] = max(self.reserved[index], total)

    def _apply(self, index: int, vector: Row, sign: int) -> None:
        for column, amount in zip(self.columns, vector):
            if amount:
                column[index] += sign * amount

    def _hide_spindles(self, index: int, instance: Instance) -> None:
        """Set the free spindles of a node with exclusive storage to one less than `instance` needs.

        This is hail's behaviour: when an instance arrives, the free spindles of the node are
        forgotten. Later instances subtract from this value, and removing an instance adds nothing.
        An instance that is on the node in the initial state is already part of the node's report.
        """
        if index in instance.nodes or not self.cluster.nodes[index].exclusive_storage:
            return
        self.columns[FREE_SPINDLES_LATER][index] = -1
        if not instance.forthcoming:
            self.columns[FREE_SPINDLES][index] = -1

    def _count_tags(self, instance: Instance, index: int, secondary: int | None, sign: int) -> None:
        """Update the tag counters of node `index` for `instance`.

        Call it before the instance is added (`sign` 1), or after it is removed (`sign` -1).
        """
        node = self.cluster.nodes[index]
        counts = self.exclusion[index]
        if sign > 0:
            amounts = self.tag_amounts(instance, index, secondary)
        for tag in instance.exclusion:
            counts[tag] = counts.get(tag, 0) + sign
            if node.online and not instance.forthcoming:
                for location in node.locations:
                    key = (node.group.index, location, tag)
                    self.domains[key] = self.domains.get(key, 0) + sign
        if sign < 0:
            amounts = self.tag_amounts(instance, index, secondary)
        for position, amount in zip((CONFLICTS, MISPLACED), amounts):
            self.columns[position][index] += sign * amount

    def tag_amounts(self, instance: Instance, index: int, secondary: int | None) -> tuple[int, int]:
        """Return the conflicts and the location points that a primary adds to node `index`.

        `instance` must not be counted on the node yet. A forthcoming instance has its exclusion
        tags, but no location yet. `secondary`: the node of its secondary, or None.
        """
        node = self.cluster.nodes[index]
        counts = self.exclusion[index]
        conflicts = sum(1 for tag in instance.exclusion if counts.get(tag, 0) > 0)
        if instance.forthcoming:
            return conflicts, 0
        misplaced = len(instance.desired - node.locations) if instance.desired else 0
        if secondary is not None and node.locations:
            misplaced += len(node.locations & self.cluster.nodes[secondary].locations)
        return conflicts, misplaced

    def domain_conflicts(self, group: int | None) -> int:
        """Return how many primaries share a location with another primary of equal exclusion tag.

        `group`: the index of the group in which they are counted; None: the whole cluster. The
        first primary of each location and tag does not count.
        """
        totals: dict[tuple[str, str], int] = {}
        for (where, location, tag), count in self.domains.items():
            if group is None or where == group:
                totals[location, tag] = totals.get((location, tag), 0) + count
        return sum(count - 1 for count in totals.values() if count > 1)

    def added_domain_conflicts(self, instance: Instance, index: int, group: int | None) -> int:
        """Return by how much `domain_conflicts` rises if `instance` is placed on node `index`."""
        if instance.forthcoming or not self.cluster.nodes[index].online:
            return 0
        groups = range(len(self.cluster.groups)) if group is None else (group,)
        return sum(
            1
            for tag in instance.exclusion
            for location in self.cluster.nodes[index].locations
            if any(self.domains.get((where, location, tag), 0) > 0 for where in groups)
        )

    def row(self, index: int) -> Row:
        """Return the columns of one node, in the order of `COLUMNS`."""
        return tuple([column[index] for column in self.columns])

    def fails_n1(self, index: int) -> bool:
        """Return whether the node has too little memory for the failover of its worst peer."""
        return self.columns[MEMORY][index] <= self.reserved[index]

    def instances_on(self, index: int) -> Iterator[Instance]:
        """Yield the primaries of the node, then its secondaries."""
        yield from self.primaries[index].values()
        yield from self.secondaries[index].values()
