"""The table of the constraints on the places of instances.

Each constraint is a class, and `CONSTRAINTS` has one object of each. A class offers what the paths
need, and nothing else:

- the checks of a node in a role, with the amount that the node lacks. A check is one formula for
  one node and for an array of nodes. `iallocator.limits.node` puts the checks of all constraints
  in order, and says which are enforced when;
- the nodes that are closed to an instance whatever runs there (`AccessConstraint`), that a group
  or a migration rejects (`Networks`, `InstancePolicy`, `MigrationTags`);
- the amounts that an instance takes, as a `Resource`. Rows of integer programs, the dimensions of
  transitions and proofs by sums follow from it;
- the words, with the numbers.
"""

from __future__ import annotations

from math import ceil, floor

from iallocator.constraints.checks import (
    DISK_SPACE,
    EXCLUSIVE_STORAGE,
    FREE_DISK,
    FREE_MEMORY,
    LOCAL_DISKS,
    OWN_SPINDLES,
    POOL_SPACE,
    SHARED_SPINDLES,
    SOFT,
    SPINDLES_OF_DISKS,
    UNLIMITED,
    VCPUS,
    About,
    Check,
    Lack,
    Resource,
    When,
)
from iallocator.model.columns import (
    CPUS,
    CPUS_LATER,
    DISK,
    DISK_LATER,
    FREE_SPINDLES,
    FREE_SPINDLES_LATER,
    MEMORY,
    MEMORY_LATER,
    SPINDLES,
    SPINDLES_LATER,
)
from iallocator.tolerances import AMOUNT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView, Quantity
    from iallocator.model.policy import Policy

__all__ = [
    "AFFINITY",
    "CONSTRAINTS",
    "INSTANCE_POLICY",
    "MIGRATION_TAGS",
    "NETWORKS",
    "REASONS",
    "RESERVED_MEMORY",
    "STORAGE_POOLS",
    "AccessConstraint",
    "InstancePolicy",
    "MigrationTags",
    "Networks",
    "NodeLimit",
    "PlacementConstraint",
    "StoragePools",
    "TaggedAccess",
    "closed_nodes",
    "out_of_reach",
    "read_access",
]


def _some_must_remain(free: float, node: Node) -> float:
    return ceil(free) - 1


_MEMORY = Resource(FREE_MEMORY, MEMORY, _some_must_remain, later=MEMORY_LATER)
_SPACE = Resource(DISK_SPACE, DISK, _some_must_remain, later=DISK_LATER, local=True)
_FREE_SPINDLES = Resource(
    "own spindles", FREE_SPINDLES,
    lambda free, node: free if node.exclusive_storage else UNLIMITED,
    later=FREE_SPINDLES_LATER, local=True,
)  # fmt: skip
_SPINDLES_IN_USE = Resource(
    "shared spindles", SPINDLES,
    lambda used, node: UNLIMITED if node.exclusive_storage else node.high_spindles - used,
    later=SPINDLES_LATER, rising=True, local=True,
)  # fmt: skip
_CPUS = Resource(
    "cpus", CPUS, lambda used, node: floor(node.vcpu_ratio * node.total_cpus - used + AMOUNT),
    later=CPUS_LATER, rising=True,
)  # fmt: skip


class AccessCheck(Check):
    """The check of one access constraint: the node is open to the instance.

    Only instances that are not allowed everywhere are checked (`Instance.restricted`).
    """

    __slots__ = ("_by",)

    def __init__(self, constraint: AccessConstraint) -> None:
        self._by = constraint.name
        lack = Lack(constraint.unit, "", lambda b, a, i: int(self._bars(b, a, i)))
        super().__init__(constraint.reason, self._bars, "", lack, About(access=True))

    def _bars(self, b: NodeView, a: NodeView, i: Instance) -> Quantity:
        return False if a.at is None else a.at.bars(i, self._by)

    def numbers(self, before: NodeView, after: NodeView, instance: Instance) -> str:
        """Return what the node does not have or do, in words."""
        return "" if after.at is None else after.at.why(instance, self._by)


class PlacementConstraint:
    """A constraint on the places of instances.

    Attributes
    ----------
    primary, secondary:
        The checks of a node that would get this role, in the order in which they are tested.
    of_node, of_cluster, of_instance, of_sets:
        The methods of `iallocator.constraints.listing.Listing` that list what the constraint
        requires on one node, everywhere, of one instance, and of sets of instances; "" for none.
    rows:
        The class of `iallocator.constraints.rows` that adds the constraint to integer programs;
        "" if its `Resource` does, or if single placements that violate it are not listed.
    """

    primary: tuple[Check, ...] = ()
    secondary: tuple[Check, ...] = ()
    of_node = of_cluster = of_instance = of_sets = ""
    rows = ""


class NodeLimit(PlacementConstraint):
    """A limit of what a node holds: memory, for example, or the ratio of virtual cpus."""

    def __init__(self, primary: tuple[Check, ...] = (), secondary: tuple[Check, ...] = ()) -> None:
        self.primary = primary
        self.secondary = secondary


class AccessConstraint(PlacementConstraint):
    """A constraint that allows an instance on some nodes only, whatever runs on these nodes.

    It is enforced for both roles, in every request and plan, also after a failure. The order of
    the checks is the order of the classes in `CONSTRAINTS`.

    Attributes
    ----------
    name:
        Its key in `Cluster.restrictions`.
    reason, about:
        What a rejected node is counted as, and the words for it; one of
        `REASONS`, or a new one.
    unit:
        What a node lacks that it rejects, in the words of the closest node.
    """

    name: str
    reason: str
    about: str
    unit: str
    of_instance = "access"

    def __init__(self) -> None:
        self.primary = self.secondary = (AccessCheck(self),)

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
    unit = POOL_SPACE
    rows = "PoolRows"

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

    __slots__ = ("_allowed", "_constraint", "_nodes", "_prefix")

    def __init__(self, constraint: TaggedAccess, nodes: Sequence[Node], prefix: str) -> None:
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


class ListedConstraint(PlacementConstraint):
    """A constraint that is enforced where tags, requests or strategies are read, and listed."""

    def __init__(
        self, of_instance: str = "", of_node: str = "", of_cluster: str = "", of_sets: str = ""
    ) -> None:
        self.of_instance = of_instance
        self.of_node = of_node
        self.of_cluster = of_cluster
        self.of_sets = of_sets


class Networks(PlacementConstraint):
    """A group must be connected to the networks of an instance that enters the group."""

    of_instance = "networks"

    def missing(self, group: Group, instance: Instance) -> frozenset[str]:
        """Return the networks of `instance` that `group` is not connected to."""
        return frozenset(instance.networks) - group.networks


class InstancePolicy(PlacementConstraint):
    """The policy of a group must accept an instance that enters the group."""

    def rejected(
        self, cluster: Cluster, group: Group, instance: Instance, reason: str = ""
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

    def breach(self, policy: Policy, instance: Instance, exclusive: bool) -> str:
        """Return why `policy` rejects `instance`; "" if it accepts the instance.

        With `exclusive` storage the spindles of the disks count, otherwise ``spindle_use``.
        """
        from iallocator.constraints.words import policy_breach

        return policy_breach(policy, instance, exclusive)


class MigrationTags(PlacementConstraint):
    """A node must receive the migration tags of the node that an instance migrates from."""

    reason = "FailMig"
    of_instance = "migration_tags"

    def missing(self, cluster: Cluster, source: int, target: int) -> frozenset[str]:
        """Return the migration tags of node `source` that node `target` does not receive.

        A running instance may migrate from `source` to `target` only if there are none.
        """
        return cluster.nodes[source].migration - cluster.nodes[target].receives

    def rejected(self, cluster: Cluster, source: int, targets: Iterable[int]) -> dict[int, str]:
        """Return the nodes of `targets` that lack a migration tag of `source`, with the reason."""
        if not cluster.nodes[source].migration:
            return {}
        return {target: self.reason for target in targets if self.missing(cluster, source, target)}

    def words(self, cluster: Cluster, source: int, target: int) -> str:
        """Return why `target` rejects instances of `source`; "" if it does not."""
        missing = self.missing(cluster, source, target)
        if not missing:
            return ""
        name, tags = cluster.nodes[source].name, ", ".join(sorted(missing))
        return f"does not receive what {name} requires: {tags}"


STORAGE_POOLS = StoragePools()
NETWORKS = Networks()
INSTANCE_POLICY = InstancePolicy()
MIGRATION_TAGS = MigrationTags()

_WITH_RESERVE, _TO_TAKE_OVER = " (failover reserve included)", " (for a failover to it)"

_MEMORY_LIMIT = NodeLimit((
    Check("FailMem", lambda b, a, i: a.memory <= 0, "memory",
          Lack(FREE_MEMORY, "memory", lambda b, a, i: 1 - a.memory, resource=_MEMORY)),
    Check("FailMem", lambda b, a, i: a.memory_later <= 0, "memory",
          Lack(FREE_MEMORY, "memory", lambda b, a, i: 1 - a.memory_later), when=When(later=True)),
))  # fmt: skip


def _disk_limit() -> NodeLimit:
    """Return the limit of free disk; a secondary ignores no limit of the future."""
    now = (
        Check("FailDisk", lambda b, a, i: a.disk <= 0, "disk",
              Lack(DISK_SPACE, "disk", lambda b, a, i: 1 - a.disk, resource=_SPACE), FREE_DISK),
        Check("FailDisk", lambda b, a, i: a.disk < a.disk_reserve, "disk_reserve",
              Lack(DISK_SPACE, "disk", lambda b, a, i: a.disk_reserve - a.disk), FREE_DISK, SOFT),
    )  # fmt: skip

    def later(soft: bool) -> tuple[Check, ...]:
        return (
            Check("FailDisk", lambda b, a, i: a.disk_later <= 0, "disk",
                  Lack(DISK_SPACE, "disk", lambda b, a, i: 1 - a.disk_later),
                  FREE_DISK, When(soft=soft, later=True)),
            Check("FailDisk", lambda b, a, i: a.disk_later < a.disk_reserve, "disk_reserve",
                  Lack(DISK_SPACE, "disk", lambda b, a, i: a.disk_reserve - a.disk_later),
                  FREE_DISK, When(soft=True, later=True)),
        )  # fmt: skip

    return NodeLimit(now + later(soft=True), now + later(soft=False))


def _own_spindles_limit() -> NodeLimit:
    """Return the limit of the spindles of exclusive storage."""

    def unknown(soft: bool, later: bool) -> Check:
        return Check("FailSpindles", lambda b, a, i: b.exclusive * (i.spindles is None) > 0,
                     "unknown_spindles", Lack(SPINDLES_OF_DISKS, "", lambda b, a, i: 1),
                     EXCLUSIVE_STORAGE, When(soft=soft, later=later))  # fmt: skip

    now = (
        unknown(soft=False, later=False),
        Check("FailSpindles", lambda b, a, i: a.exclusive * (a.free_spindles < 0) > 0,
              "own_spindles",
              Lack(OWN_SPINDLES, "spindles", lambda b, a, i: -a.free_spindles,
                   resource=_FREE_SPINDLES),
              EXCLUSIVE_STORAGE),
    )  # fmt: skip

    def later(soft: bool) -> tuple[Check, ...]:
        return (
            unknown(soft=soft, later=True),
            Check("FailSpindles", lambda b, a, i: a.exclusive * (a.free_spindles_later < 0) > 0,
                  "own_spindles",
                  Lack(OWN_SPINDLES, "spindles", lambda b, a, i: -a.free_spindles_later),
                  EXCLUSIVE_STORAGE, When(soft=soft, later=True)),
        )  # fmt: skip

    return NodeLimit(now + later(soft=True), now + later(soft=False))


def _spindle_ratio(soft: bool) -> tuple[Check, ...]:
    return (
        Check("FailDisk", lambda b, a, i: a.spindles > a.high_spindles, "spindles",
              Lack(SHARED_SPINDLES, "spindle_use", lambda b, a, i: a.spindles - a.high_spindles,
                   resource=_SPINDLES_IN_USE),
              LOCAL_DISKS, When(soft=soft, forced=False)),
        Check("FailDisk", lambda b, a, i: a.spindles_later > a.high_spindles, "spindles",
              Lack(SHARED_SPINDLES, "spindle_use",
                   lambda b, a, i: a.spindles_later - a.high_spindles),
              LOCAL_DISKS, When(soft=soft, later=True)),
    )  # fmt: skip


_FAILOVER_LIMIT = NodeLimit(secondary=(
    Check("FailMem", lambda b, a, i: i.takeover_memory >= b.memory, "failover",
          Lack(FREE_MEMORY, "takeover_memory", lambda b, a, i: i.takeover_memory - b.memory + 1,
               _TO_TAKE_OVER),
          when=SOFT),
    Check("FailMem", lambda b, a, i: i.takeover_memory >= b.memory_later, "failover",
          Lack(FREE_MEMORY, "takeover_memory",
               lambda b, a, i: i.takeover_memory - b.memory_later + 1,
               _TO_TAKE_OVER),
          when=When(soft=True, later=True)),
))  # fmt: skip
"""A secondary must have the memory that the instance takes after a failover."""


class ReservedMemory(PlacementConstraint):
    """N+1 of a node: it keeps the memory free that the failure of a peer requires.

    A node that fails N+1 already may lack more, except where nothing may become worse.
    """

    rows = "ReserveRows"

    def __init__(self) -> None:
        lack = Lack(FREE_MEMORY, "memory", lambda b, a, i: a.reserved - a.memory + 1, _WITH_RESERVE)
        self.primary = self.secondary = (
            Check("FailMem", lambda b, a, i: a.fails_n1 > b.fails_n1, "n1", lack, when=SOFT),
            Check("FailMem",
                  lambda b, a, i: a.fails_n1 * (a.reserved - a.memory > b.reserved - b.memory) > 0,
                  "n1", lack, when=When(soft=True, no_worse=True)),
        )  # fmt: skip


RESERVED_MEMORY = ReservedMemory()

_CPU_RATIO = NodeLimit((
    Check("FailCPU", lambda b, a, i: a.cpus / a.total_cpus > a.vcpu_ratio, "cpus",
          Lack(VCPUS, "vcpus", lambda b, a, i: a.cpus - a.vcpu_ratio * a.total_cpus,
               resource=_CPUS),
          when=SOFT),
    Check("FailCPU", lambda b, a, i: a.cpus_later / a.total_cpus > a.vcpu_ratio, "cpus",
          Lack(VCPUS, "vcpus", lambda b, a, i: a.cpus_later - a.vcpu_ratio * a.total_cpus),
          when=When(soft=True, later=True)),
))  # fmt: skip


class ExclusionTags(PlacementConstraint):
    """Instances with an exclusion tag in common must have their primaries on different nodes."""

    of_sets = "exclusion_tags"
    rows = "ExclusionRows"
    primary = (
        Check("FailTags", lambda b, a, i: a.conflicts > b.conflicts, "tags",
              Lack("places free of its exclusion tags", "",
                   lambda b, a, i: a.conflicts - b.conflicts),
              when=SOFT),
    )  # fmt: skip


class Affinity(PlacementConstraint):
    """Instances must be together, apart, in order, or not on a node, as tags of this program say.

    The tests of one node and of many nodes, and the words, are those of
    `iallocator.constraints.relations.Relations`, which a cluster with such tags has. The rows are
    `iallocator.constraints.rows.AffinityRows`, which depend on the instances of a request.
    """

    reason = "FailTags"
    of_instance = "orders"
    of_sets = "affinity_rules"


AFFINITY = Affinity()

CONSTRAINTS: tuple[PlacementConstraint, ...] = (
    ListedConstraint(of_node="node_state"),
    ListedConstraint("size"),
    ListedConstraint("roles"),
    ListedConstraint("local_disks"),
    ListedConstraint("requested_nodes"),
    STORAGE_POOLS,
    ListedConstraint("pacemaker_instance", "pacemaker_node"),
    ListedConstraint("fencing"),
    NETWORKS,
    ListedConstraint("location_tags"),
    MIGRATION_TAGS,
    ListedConstraint("instance_keys", "node_keys", "cluster_keys"),
    INSTANCE_POLICY,
    _MEMORY_LIMIT,
    _disk_limit(),
    _own_spindles_limit(),
    NodeLimit(_spindle_ratio(soft=True), _spindle_ratio(soft=False)),
    _FAILOVER_LIMIT,
    RESERVED_MEMORY,
    _CPU_RATIO,
    ExclusionTags(),
    AFFINITY,
)
"""The table. Constraints are listed, and the checks of a node are tested, in this order."""

_TAGGED = tuple(one for one in CONSTRAINTS if isinstance(one, TaggedAccess))

REASONS = {
    "FailMem": "memory",
    "FailDisk": "disk",
    "FailCPU": "virtual cpus",
    "FailN1": "a failure could not be survived",
    "FailTags": "exclusion tags",
    "FailMig": "migration tags",
    "FailDiskCount": "number of disks",
    "FailSpindles": "spindles",
    "FailInternal": "an internal error",
    "FailPolicy": "rejected by the instance policy of the group",
}
REASONS |= {
    one.reason: one.about
    for one in CONSTRAINTS
    if isinstance(one, AccessConstraint) and one.reason not in REASONS
}
"""Reason that is counted -> what it is about, in the order in which counts are listed."""


def read_access(cluster: Cluster, instances: Iterable[Instance], prefix: str) -> None:
    """Set what tags of `instances` require of their nodes, by all `TaggedAccess` constraints.

    Call it for the instances of a cluster, and for new ones, after their storage pools are set,
    and before a state is made.
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


def closed_nodes(cluster: Cluster, nodes: Iterable[int], instance: Instance) -> dict[int, str]:
    """Return the nodes of `nodes` that an access constraint closes, with the first reason."""
    reasons = {one.name: one.reason for one in CONSTRAINTS if isinstance(one, AccessConstraint)}
    found: dict[int, str] = {}
    for name, restriction in cluster.restrictions.items():
        allowed = restriction.nodes_for(instance)
        if allowed is not None:
            for index in nodes:
                if index not in allowed:
                    found.setdefault(index, reasons[name])
    return found


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
