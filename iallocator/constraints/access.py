"""Constraints that allow an instance on some nodes only, whatever runs on these nodes.

Each is one class in the table `ACCESS`.  All users follow from the table: the limits of nodes
(`iallocator.limits.node`), `Cluster.reach` with the bounds, packings and simulations that ask it,
the scans of planners, transitions, the verifier, the list of constraints, and the explanations.
A constraint counts for both roles, in every request and plan, also after a failure.

The functions are about the other constraints that nodes and groups have for an instance: networks
and the policy, which count if it enters a group, and migration tags, which count if it migrates.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.instance import Instance

__all__ = [
    "ACCESS", "AccessConstraint", "StoragePools", "TaggedAccess", "lacks_network",
    "may_not_receive", "missing_migration_tags", "out_of_reach", "read_access",
    "rejected_by_policy",
]  # fmt: skip


class AccessConstraint:
    """A constraint that allows an instance on some nodes only.

    Attributes
    ----------
    name:
        Its key in `Cluster.restrictions`.
    reason, about:
        What a rejected node is counted as, and the words for it; one of
        `iallocator.limits.node.REASONS`, or a new one.
    unit:
        What a node lacks that it rejects, in the words of the closest node.
    """

    name: str
    reason: str
    about: str
    unit: str

    def listed(
        self, cluster: Cluster, instance: Instance, prefix: str
    ) -> Iterator[tuple[str, str]]:
        """Yield what the constraint requires of `instance`, and where that comes from.

        The tags of the program begin with `prefix`.
        """
        raise NotImplementedError


class StoragePools(AccessConstraint):
    """A node must have access to the storage pools of an instance, and free space in its own.

    `iallocator.model.storage.Storage` has the nodes.
    """

    name = "pools"
    reason = "FailDisk"
    about = "disk"
    unit = "places in its storage pool"

    def listed(
        self, cluster: Cluster, instance: Instance, prefix: str
    ) -> Iterator[tuple[str, str]]:
        """Yield the pools, with the tag or the members that name them."""
        storage = cluster.storage
        if storage is None or storage.nodes_for(instance) is None:
            return
        from iallocator.model.storage import pool_name, pools_of

        for pool in pools_of(instance):
            tag = f"{prefix}pool:{pool_name(pool).replace('/', ':')}"
            origin = "member storage_pool or disks, see storage pools"
            if tag in instance.tags:
                origin = f"tag {tag}"
            yield f"on nodes that reach {pool_name(pool)}", origin


class TaggedAccess(AccessConstraint):
    """An access constraint that tags of instances and nodes express.

    Attributes
    ----------
    verbs:
        The verb before `words`, after "not" and in the third person: ``("have", "has")``.
    """

    verbs: tuple[str, str]

    def required(self, instance: Instance, prefix: str) -> Hashable | None:
        """Return what `instance` requires of its nodes, by its tags; None for nothing."""
        raise NotImplementedError

    def accepts(self, node: Node, required: Hashable, prefix: str) -> bool:
        """Return whether `node` has what is `required`."""
        raise NotImplementedError

    def words(self, required: Hashable) -> str:
        """Return what is `required`, in words that follow `verbs`."""
        raise NotImplementedError

    def origin(self, required: Hashable, prefix: str) -> str:
        """Return which tag of the instance says what is `required`."""
        raise NotImplementedError

    def listed(
        self, cluster: Cluster, instance: Instance, prefix: str
    ) -> Iterator[tuple[str, str]]:
        """Yield what a node must have, with the tag that says so."""
        for constraint, required in instance.requires:
            if constraint is self:
                yield (
                    f"on nodes that {self.verbs[0]} {self.words(required)}",
                    self.origin(required, prefix),
                )


class _Nodes:
    """The nodes that one constraint allows for each instance; a `Restriction` of a cluster."""

    __slots__ = ("_allowed", "_constraint", "_nodes", "_prefix", "reason")

    def __init__(self, constraint: TaggedAccess, nodes: Sequence[Node], prefix: str) -> None:
        self.reason = constraint.reason
        self._constraint = constraint
        self._nodes = nodes
        self._prefix = prefix
        self._allowed: dict[Hashable, frozenset[int] | None] = {}

    def nodes_for(self, instance: Instance) -> frozenset[int] | None:
        """Return the nodes that the constraint allows for `instance`; None means all nodes."""
        for constraint, required in instance.requires:
            if constraint is self._constraint:
                if required not in self._allowed:
                    accepts, prefix = self._constraint.accepts, self._prefix
                    nodes = [n.index for n in self._nodes if accepts(n, required, prefix)]
                    some = len(nodes) < len(self._nodes)
                    self._allowed[required] = frozenset(nodes) if some else None
                return self._allowed[required]
        return None

    def why(self, index: int, instance: Instance) -> str:
        """Return why node `index` is not among the nodes for `instance`."""
        return f"does not {self.words(instance, third=False)}"

    def words(self, instance: Instance, third: bool, brief: bool = False) -> str:
        """Return what a node must do or have for `instance`: a verb, and the rest.

        `third`: the verb is in the third person.
        """
        required = next(value for one, value in instance.requires if one is self._constraint)
        return f"{self._constraint.verbs[third]} {self._constraint.words(required)}"


ACCESS: tuple[AccessConstraint, ...] = (StoragePools(),)
"""The table, in the order in which the constraints are tested, before all other limits."""

_TAGGED = tuple(one for one in ACCESS if isinstance(one, TaggedAccess))


def read_access(cluster: Cluster, instances: Iterable[Instance], prefix: str) -> None:
    """Set what tags of `instances` require of their nodes, see `ACCESS`; no state may exist yet.

    Call it for the instances of a cluster, and for new ones, after their storage pools are set.
    """
    if not _TAGGED:
        return
    for instance in instances:
        if not instance.tags:
            continue
        for constraint in _TAGGED:
            required = constraint.required(instance, prefix)
            if required is not None:
                instance.requires = (*instance.requires, (constraint, required))
                if constraint.name not in cluster.restrictions:
                    cluster.restrictions[constraint.name] = _Nodes(
                        constraint, cluster.nodes, prefix
                    )
        if instance.requires:
            cluster.restrict(instance)


def lacks_network(group: Group, instance: Instance) -> bool:
    """Return whether the group is not connected to a network of the instance."""
    return not group.networks.issuperset(instance.networks)


def out_of_reach(
    cluster: Cluster, nodes: Iterable[int], instance: Instance, third: bool = False
) -> str:
    """Return what no node of `nodes` does or has although `instance` requires it; else "".

    The words begin with a verb, in the third person if `third`: ``reach storage pool external/a``.
    """
    reach = cluster.reach(instance)
    if reach is None or not reach.isdisjoint(nodes):
        return ""
    return cluster.access_words(instance, third)


def rejected_by_policy(
    cluster: Cluster, group: Group, instance: Instance, reason: str = ""
) -> dict[int, str]:
    """Return node -> reason for the nodes of `group` that the policy rejects for `instance`.

    The reason is `reason`; if that is "", what the policy rejects: ``FailMem`` and the like.
    """
    rejections: dict[int, str] = {}
    reasons: dict[bool, str | None] = {}
    for index in group.nodes:
        exclusive = cluster.nodes[index].exclusive_storage
        if exclusive not in reasons:
            reasons[exclusive] = group.policy.rejects(instance, exclusive)
        found = reasons[exclusive]
        if found is not None:
            rejections[index] = reason or found
    return rejections


def missing_migration_tags(cluster: Cluster, source: int, target: int) -> frozenset[str]:
    """Return the migration tags of node `source` that node `target` does not accept.

    A running instance may migrate from `source` to `target` only if there are none.
    """
    return cluster.nodes[source].migration - cluster.nodes[target].receives


def may_not_receive(cluster: Cluster, source: int, targets: Iterable[int]) -> dict[int, str]:
    """Return the nodes of `targets` that lack a migration tag of `source`, each with its reason."""
    if not cluster.nodes[source].migration:
        return {}
    return {t: "FailMig" for t in targets if missing_migration_tags(cluster, source, t)}
