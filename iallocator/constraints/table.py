"""The table of the constraints on the placement of instances.

Each constraint is a class, and `CONSTRAINTS` has one object of each. `PlacementConstraint` is the
contract: what a class offers to requests, planners, N+1, the solver, transitions and messages. The
functions at the end of the module apply a method of the contract to all constraints of the table.
"""

from __future__ import annotations

from math import ceil, floor

from iallocator.constraints import relations_of
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
from iallocator.constraints.no_affinity import NoAffinity
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
from iallocator.model.tags import MIGRATION
from iallocator.tolerances import AMOUNT_TOLERANCE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from typing import Protocol

    from iallocator.constraints.locations import ScoreSettings
    from iallocator.model.cluster import Cluster, Group, Node
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView, Quantity
    from iallocator.model.state import State

    class AffinitySettings(ScoreSettings, Protocol):
        """The settings that determine how tags of this program are read."""

        tag_prefix: str


__all__ = [
    "AFFINITY",
    "CONSTRAINTS",
    "EXCLUSION_TAGS",
    "FAILURE_SAFETY",
    "INSTANCE_POLICY",
    "LOCATION_TAGS",
    "NETWORKS",
    "REASONS",
    "RESERVED_MEMORY",
    "STORAGE_POOLS",
    "AccessConstraint",
    "InstancePolicy",
    "MigrationTags",
    "Networks",
    "NodeLabels",
    "NodeLimit",
    "PlacementConstraint",
    "StoragePools",
    "TaggedAccess",
    "closed_nodes",
    "entry_rejection",
    "entry_rejections",
    "entry_words",
    "group_obstacle",
    "move_rejections",
    "move_words",
    "out_of_reach",
    "read_access",
]


def _some_must_remain(free: float, node: Node) -> float:
    return ceil(free) - 1


_MEMORY = Resource(FREE_MEMORY, (MEMORY,), _some_must_remain, later=(MEMORY_LATER,))
_SPACE = Resource(DISK_SPACE, (DISK,), _some_must_remain, later=(DISK_LATER,), local=True)
_SPACE_BESIDE_RESERVE = Resource(
    "MiB disk beside the disk reserve", (DISK,),
    lambda free, node: floor(free) - node.disk_reserve if node.kept_by else UNLIMITED,
    later=(DISK_LATER,), local=True,
)  # fmt: skip
_FREE_SPINDLES = Resource(
    "own spindles", (FREE_SPINDLES,),
    lambda free, node: free if node.exclusive_storage else UNLIMITED,
    later=(FREE_SPINDLES_LATER,), local=True,
)  # fmt: skip
_SPINDLES_IN_USE = Resource(
    "shared spindles", (SPINDLES,),
    lambda used, node: UNLIMITED if node.exclusive_storage else node.high_spindles - used,
    later=(SPINDLES_LATER,), rising=True, local=True,
)  # fmt: skip
_CPUS = Resource(
    "cpus", (CPUS,),
    lambda used, node: floor(node.vcpu_ratio * node.total_cpus - used + AMOUNT_TOLERANCE),
    later=(CPUS_LATER,), rising=True,
)  # fmt: skip


class AccessCheck(Check):
    """The check of one access constraint: whether the constraint allows the instance on the node.

    Only instances that are restricted to some nodes are checked (`Instance.restricted`).
    """

    __slots__ = ("_by",)

    def __init__(self, constraint: AccessConstraint) -> None:
        self._by = constraint.name
        lack = Lack(constraint.unit, "", lambda b, a, i: int(self._bars(b, a, i)))
        super().__init__(constraint.reason, self._bars, "", lack, About(access=True))

    def _bars(self, b: NodeView, a: NodeView, i: Instance) -> Quantity:
        return False if a.at is None else a.at.bars(i, self._by)

    def numbers(self, before: NodeView, after: NodeView, instance: Instance) -> str:
        """Return, in words, the property that the node lacks for `instance`."""
        return "" if after.at is None else after.at.why(instance, self._by)


class PlacementConstraint:
    """A constraint on the placement of instances: the contract of all classes of constraints.

    The attributes and methods of this class have the values for constraints that do not override
    them. Parts that only some paths need are in separate modules, which are loaded when they are
    needed.

    Attributes
    ----------
    reason, about:
        The failure reason of a rejected node, and its words. Each `Check` has its own reason.
    primary, secondary:
        The checks of a node that would get this role, in the order in which they are tested. A
        check is one formula for one node and for an array of nodes, with the amount that is
        missing. If the check has a `Resource`, the resource is also used in bounds, integer
        programs, transitions and proofs.
    rows:
        The class of `iallocator.constraints.rows` that adds the constraint to integer programs; ""
        if its `Resource` is enough, or if single placements that violate the constraint are not
        choices of the program.
    listing:
        The class of `iallocator.constraints.listing` that lists what the constraint requires, and
        which tag, option or member of the document requires it; "" if the constraint is not listed.
        ``InstanceListing`` lists what `listed` yields.
    """

    reason = about = ""
    primary: tuple[Check, ...] = ()
    secondary: tuple[Check, ...] = ()
    rows = ""
    listing = ""

    def listed(
        self, cluster: Cluster, instance: Instance, prefix: str
    ) -> Iterable[tuple[str, str, float]]:
        """Return (requirement, origin, penalty) for each requirement on the nodes of `instance`.

        The penalty is 0 for a hard constraint. The tags of the program begin with `prefix`.
        """
        return ()

    def closes(
        self, cluster: Cluster, group: Group, instance: Instance, named: bool = False
    ) -> str:
        """Return why `group` cannot host `instance`, regardless of other instances; "" if it can.

        The words follow the name of the group. `named`: the words include the name of the instance.
        """
        return ""

    def entry_rejection(self, group: Group, instance: Instance, exclusive: bool) -> str:
        """Return the failure reason, such as ``FailMem``, if `instance` must not enter `group`; or
        "".

        An instance enters a group if it is new, is created again, or comes from another group.
        `exclusive`: whether the nodes have exclusive storage.
        """
        return ""

    def entry_words(
        self, cluster: Cluster, instance: Instance, index: int, brief: bool = False
    ) -> str:
        """Return why `instance` must not enter the group of node `index`; "" if it may.

        The words include amounts, unless `brief`.
        """
        return ""

    def move_rejections(
        self, cluster: Cluster, source: int, targets: Iterable[int]
    ) -> dict[int, str]:
        """Return target -> reason, for those of `targets` that must not receive instances of
        `source`.

        The constraint applies to running instances that migrate. It does not apply to instances
        that are created again, or copied to another group.
        """
        return {}

    def move_words(self, cluster: Cluster, source: int, target: int) -> str:
        """Return why `target` rejects running instances of `source`; "" if it accepts them."""
        return ""


class ListedConstraint(PlacementConstraint):
    """A constraint that this table only lists; it is enforced where tags and options are read."""

    def __init__(self, listing: str) -> None:
        self.listing = listing


class NodeLimit(PlacementConstraint):
    """A limit of a node, for example of its memory, or of the ratio of virtual cpus."""

    def __init__(
        self, primary: tuple[Check, ...] = (), secondary: tuple[Check, ...] = (), about: str = ""
    ) -> None:
        self.primary = primary
        self.secondary = secondary
        self.about = about


class AccessConstraint(PlacementConstraint):
    """A constraint that allows an instance on some nodes only, regardless of other instances.

    It is enforced for both roles, in every request and plan, also after a failure. The order of the
    checks is the order of the classes in `CONSTRAINTS`.

    Attributes
    ----------
    name:
        The key of the constraint in `Cluster.restrictions`.
    unit:
        What a rejected node lacks, in the words for the nearest candidate.
    """

    name: str
    unit: str
    listing = "InstanceListing"

    def __init__(self) -> None:
        self.primary = self.secondary = (AccessCheck(self),)

    def closes(
        self, cluster: Cluster, group: Group, instance: Instance, named: bool = False
    ) -> str:
        lacking = out_of_reach(cluster, group.nodes, instance)  # by all access constraints
        owner = f" of instance {instance.name}" if named else ""
        return f"does not {lacking}{owner}" if lacking else ""


class StoragePools(AccessConstraint):
    """A node must have access to the storage pools of an instance, and free space in its own pools.

    `iallocator.model.storage.Storage` has the nodes with access.
    """

    name = "pools"
    reason = "FailDisk"
    about = "disk"
    unit = POOL_SPACE
    rows = "PoolRows"

    def listed(
        self, cluster: Cluster, instance: Instance, prefix: str
    ) -> Iterator[tuple[str, str, float]]:
        """Yield each storage pool of `instance`, with the tag or the members that name it."""
        storage = cluster.storage
        if storage is None or storage.nodes_for(instance) is None:
            return
        from iallocator.model.storage import pool_name, pools_of

        for pool in pools_of(instance):
            tag = f"{prefix}pool:{pool_name(pool).replace('/', ':')}"
            origin = "member storage_pool or disks, see storage pools"
            if tag in instance.tags:
                origin = f"tag {tag}"
            yield f"on nodes with access to {pool_name(pool)}", origin, 0.0


class TaggedAccess(AccessConstraint):
    """An access constraint that tags of instances and nodes express.

    Attributes
    ----------
    verbs:
        The verb that precedes `words`, in the infinitive and in the third person:
        ``("have", "has")``.
    """

    verbs: tuple[str, str]

    def required(self, instance: Instance, prefix: str) -> Hashable | None:
        """Return what the tags of `instance` require of its nodes; None: nothing."""
        raise NotImplementedError

    def accepts(self, node: Node, required: Hashable, prefix: str) -> bool:
        """Return whether `node` meets the requirement `required`."""
        raise NotImplementedError

    def words(self, required: Hashable) -> str:
        """Return the requirement `required` in words that follow one of `verbs`."""
        raise NotImplementedError

    def why(self, node: Node, required: Hashable) -> str:
        """Return why `node` does not meet the requirement `required`, with a verb at the start."""
        return f"does not {self.verbs[0]} {self.words(required)}"

    def origin(self, required: Hashable, prefix: str) -> str:
        """Return the tag of the instance that states the requirement `required`."""
        raise NotImplementedError

    def listed(
        self, cluster: Cluster, instance: Instance, prefix: str
    ) -> Iterator[tuple[str, str, float]]:
        """Yield each property that a node must have, with the tag that requires it."""
        required = self.required(instance, prefix)
        if required is not None:
            what = f"on nodes that {self.verbs[0]} {self.words(required)}"
            yield what, self.origin(required, prefix), 0.0


class NodeLabels(TaggedAccess):
    """An instance may be only on nodes that have, or that lack, each of its labels.

    A label is a plain tag of a node. The tags of an instance are ``iallocator:nodes:must:LABEL``
    and ``iallocator:nodes:never:LABEL``. There is one object of this class for each of the words
    ``must`` and ``never``, which is `word`.
    """

    reason = "FailNodes"
    about = "labels of nodes"
    unit = "places that its labels allow"

    def __init__(self, word: str) -> None:
        self._word = word
        self.name = f"nodes {word}"
        self.verbs = ("have", "has") if word == "must" else ("lack", "lacks")
        super().__init__()

    def required(self, instance: Instance, prefix: str) -> tuple[str, ...] | None:
        start = f"{prefix}nodes:{self._word}:"
        labels = [tag[len(start) :] for tag in instance.tags if tag.startswith(start)]
        return tuple(sorted(set(filter(None, labels)))) or None if labels else None

    def accepts(self, node: Node, required: Hashable, prefix: str) -> bool:
        labels = _labels(required)
        if self._word == "must":
            return all(label in node.tags for label in labels)
        return not any(label in node.tags for label in labels)

    def words(self, required: Hashable) -> str:
        labels = _labels(required)
        return f"label{'s' if len(labels) > 1 else ''} {' and '.join(labels)}"

    def why(self, node: Node, required: Hashable) -> str:
        if self._word == "must":
            return super().why(node, required)
        present = tuple(label for label in _labels(required) if label in node.tags)
        return f"has the excluded {self.words(present)}"

    def origin(self, required: Hashable, prefix: str) -> str:
        return "tag " + ", ".join(f"{prefix}nodes:{self._word}:{one}" for one in _labels(required))

    def listed(
        self, cluster: Cluster, instance: Instance, prefix: str
    ) -> Iterator[tuple[str, str, float]]:
        """Yield each label of `instance`, with its tag."""
        for label in self.required(instance, prefix) or ():
            what = f"on nodes that {self.verbs[0]} {self.words((label,))}"
            yield what, self.origin((label,), prefix), 0.0


def _labels(required: Hashable) -> tuple[str, ...]:
    """Return `required`, which `NodeLabels.required` has returned, as a tuple of labels."""
    assert isinstance(required, tuple)
    return required


class _Nodes:
    """The nodes that one access constraint allows for each instance; see `Cluster.restrictions`."""

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
        """Return why the constraint does not allow node `index` for `instance`."""
        return self._constraint.why(self._nodes[index], self._required(instance))

    def words(self, instance: Instance, third: bool, brief: bool = False) -> str:
        """Return, in words, what a node must do or have for `instance`, with a verb at the
        beginning.

        `third`: the verb is in the third person. `brief`: the words are as short as possible.
        """
        required = self._required(instance)
        return f"{self._constraint.verbs[third]} {self._constraint.words(required)}"

    def _required(self, instance: Instance) -> Hashable:
        """Return what the tags of `instance` require of its nodes."""
        return next(value for one, value in instance.requires if one is self._constraint)


class Networks(PlacementConstraint):
    """A group must be connected to the networks of an instance that enters the group."""

    listing = "InstanceListing"

    def listed(
        self, cluster: Cluster, instance: Instance, prefix: str
    ) -> Iterator[tuple[str, str, float]]:
        for network in instance.networks:
            yield f"in a group with network {network}", "member nics", 0.0

    def missing(self, group: Group, instance: Instance) -> frozenset[str]:
        """Return the networks of `instance` that `group` is not connected to."""
        return frozenset(instance.networks) - group.networks

    def closes(
        self, cluster: Cluster, group: Group, instance: Instance, named: bool = False
    ) -> str:
        missing = self.missing(group, instance)
        if not missing:
            return ""
        if named:
            return f"is not connected to a network required by instance {instance.name}"
        return f"is not connected to network {', '.join(sorted(missing))}"


class InstancePolicy(PlacementConstraint):
    """The policy of a group must accept an instance that enters the group."""

    def entry_rejection(self, group: Group, instance: Instance, exclusive: bool) -> str:
        return group.policy.rejects(instance, exclusive) or ""

    def entry_words(
        self, cluster: Cluster, instance: Instance, index: int, brief: bool = False
    ) -> str:
        """Return why the policy rejects `instance`; "" if it accepts the instance.

        On a node with exclusive storage, the policy limits the spindles of the disks, otherwise
        ``spindle_use``. The words include amounts, unless `brief`.
        """
        node = cluster.nodes[index]
        if not node.group.policy.rejects(instance, node.exclusive_storage):
            return ""
        if brief:
            return f"the policy of group {node.group.name} rejects an instance of this kind or size"
        from iallocator.constraints.words import policy_breach

        return policy_breach(node.group.policy, instance, node.exclusive_storage)


class MigrationTags(PlacementConstraint):
    """A node must accept the migration tags of the node from which an instance is migrated."""

    reason = "FailMig"
    listing = "InstanceListing"

    def listed(
        self, cluster: Cluster, instance: Instance, prefix: str
    ) -> Iterator[tuple[str, str, float]]:
        needed = cluster.nodes[instance.nodes[0]].migration if instance.nodes else ()
        for tag in sorted(needed):
            yield f"moves only to nodes that receive {tag}", f"cluster tag {MIGRATION}...", 0.0

    def missing(self, cluster: Cluster, source: int, target: int) -> frozenset[str]:
        """Return the migration tags of node `source` that node `target` does not accept."""
        return cluster.nodes[source].migration - cluster.nodes[target].receives

    def move_rejections(
        self, cluster: Cluster, source: int, targets: Iterable[int]
    ) -> dict[int, str]:
        if not cluster.nodes[source].migration:
            return {}
        return {target: self.reason for target in targets if self.missing(cluster, source, target)}

    def move_words(self, cluster: Cluster, source: int, target: int) -> str:
        missing = self.missing(cluster, source, target)
        if not missing:
            return ""
        name, tags = cluster.nodes[source].name, ", ".join(sorted(missing))
        return f"does not receive what {name} requires: {tags}"


class LocationTags(PlacementConstraint):
    """The two roles of an instance should be in different locations, on nodes with its desired
    tags.

    The statistic ``location`` of the cluster score counts the violations.
    """

    listing = "LocationTagsListing"
    weight = 1
    """The amount that each violation adds to the score."""


STORAGE_POOLS = StoragePools()
NETWORKS = Networks()
INSTANCE_POLICY = InstancePolicy()
LOCATION_TAGS = LocationTags()

_WITH_RESERVE, _TO_TAKE_OVER = " (failover reserve included)", " (for a failover to it)"

_MEMORY_LIMIT = NodeLimit((
    Check("FailMem", lambda b, a, i: a.memory <= 0, "memory",
          Lack(FREE_MEMORY, "memory", lambda b, a, i: 1 - a.memory, resource=_MEMORY)),
    Check("FailMem", lambda b, a, i: a.memory_later <= 0, "memory",
          Lack(FREE_MEMORY, "memory", lambda b, a, i: 1 - a.memory_later),
          when=When(soft=True, later=True)),
))  # fmt: skip


def _disk_limit() -> NodeLimit:
    """Return the limit of free disk; for a secondary, the later disk is a hard limit, too."""
    now = (
        Check("FailDisk", lambda b, a, i: a.disk <= 0, "disk",
              Lack(DISK_SPACE, "disk", lambda b, a, i: 1 - a.disk, resource=_SPACE), FREE_DISK),
        Check("FailDisk", lambda b, a, i: a.disk < a.disk_reserve, "disk_reserve",
              Lack(DISK_SPACE, "disk", lambda b, a, i: a.disk_reserve - a.disk,
                   resource=_SPACE_BESIDE_RESERVE),
              FREE_DISK, SOFT),
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
    """N+1 of a node: it must keep the memory free that the failure of any one peer requires.

    A node that fails N+1 already may lack more memory after a move, except with ``no-worse``.
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

    listing = "ExclusionTagsListing"
    rows = "ExclusionRows"
    weight = 2
    """The amount that the statistic ``pri_tags`` adds to the score for each violation."""

    primary = (
        Check("FailTags", lambda b, a, i: a.conflicts > b.conflicts, "tags",
              Lack("places free of its exclusion tags", "",
                   lambda b, a, i: a.conflicts - b.conflicts),
              when=SOFT),
    )  # fmt: skip


class Affinity(PlacementConstraint):
    """Instances must be together, apart, in order, or not on a node, as tags of this program say.

    The results depend on the placement of other instances: `on` returns the object that checks
    them. The rows are `iallocator.constraints.rows.AffinityRows`, which depend on the instances of
    a request.
    """

    reason = "FailTags"
    listing = "AffinityListing"

    def on(
        self,
        state: State,
        new: Sequence[Instance],
        settings: AffinitySettings,
        fits: Callable[[Instance, int], bool],
        optional: bool = False,
    ) -> NoAffinity:
        """Return the affinity checks on `state`, by the tags of this program and `settings`.

        Parameters
        ----------
        state:
            The state with the present placement.
        new:
            The instances that a request creates.
        settings:
            The settings that determine how tags are read.
        fits:
            ``(instance, node)`` -> whether the limits of the node allow it to be the primary of the
            instance, which is not placed.
        optional:
            Whether moves are optional, so that the stickiness of instances has effect.
        """
        prefix = settings.tag_prefix
        relations = relations_of(state.cluster, new, prefix, settings, optional)
        if relations is None:
            return NoAffinity()
        from iallocator.constraints.affinity import LiveAffinity

        return LiveAffinity(self.reason, relations, state, new, fits)


class FailureSafety(PlacementConstraint):
    """Global N+1: the instances of a failed node, or of nodes that fail together, can restart.

    `iallocator.n1.tolerance.FailureTolerance` checks the constraint, because it depends on all
    instances.
    """

    reason = "FailN1"
    about = "a failure would not be tolerated"

    def words(
        self,
        cluster: Cluster,
        failure: Sequence[int],
        instance: Instance,
        why: str,
        shown: Callable[[str], str] = str,
    ) -> str:
        """Describe that `instance` could not be restarted if the nodes of `failure` failed, and
        why.

        `shown`: name of a node or instance -> the name that is written.
        """
        failing = " and ".join(map(shown, cluster.node_names(failure)))
        return (
            f"if {failing} failed, {shown(instance.name)} "
            f"({instance.memory} MiB memory) could not be restarted: {why}"
        )


EXCLUSION_TAGS = ExclusionTags()
AFFINITY = Affinity()
FAILURE_SAFETY = FailureSafety()

CONSTRAINTS: tuple[PlacementConstraint, ...] = (
    ListedConstraint("NodeStateListing"),
    ListedConstraint("SizeListing"),
    ListedConstraint("RolesListing"),
    ListedConstraint("LocalDisksListing"),
    ListedConstraint("RequestedNodesListing"),
    STORAGE_POOLS,
    NodeLabels("must"),
    NodeLabels("never"),
    ListedConstraint("PacemakerListing"),
    ListedConstraint("FencingListing"),
    NETWORKS,
    LOCATION_TAGS,
    MigrationTags(),
    ListedConstraint("PlacementKeysListing"),
    ListedConstraint("MemoryRatioListing"),
    ListedConstraint("DiskReserveListing"),
    INSTANCE_POLICY,
    _MEMORY_LIMIT,
    _disk_limit(),
    _own_spindles_limit(),
    NodeLimit(_spindle_ratio(soft=True), _spindle_ratio(soft=False)),
    _FAILOVER_LIMIT,
    RESERVED_MEMORY,
    _CPU_RATIO,
    EXCLUSION_TAGS,
    AFFINITY,
    FAILURE_SAFETY,
)
"""All constraints, in the order in which they are listed and the checks of a node are tested."""

_TAGGED = tuple(one for one in CONSTRAINTS if isinstance(one, TaggedAccess))


def _with_own(method: str) -> tuple[PlacementConstraint, ...]:
    """Return the constraints of the table that override `method` of `PlacementConstraint`."""
    default = getattr(PlacementConstraint, method)
    return tuple(one for one in CONSTRAINTS if getattr(type(one), method) is not default)


_CLOSING = (NETWORKS, *(one for one in _with_own("closes") if one is not NETWORKS))
_ON_ENTRY, _ON_MOVES = _with_own("entry_rejection"), _with_own("move_rejections")

REASONS = {
    "FailMem": "memory",
    "FailDisk": "disk",
    "FailCPU": "virtual cpus",
    FAILURE_SAFETY.reason: FAILURE_SAFETY.about,
    "FailTags": "exclusion tags",
    "FailMig": "migration tags",
    "FailDiskCount": "number of disks",
    "FailSpindles": "spindles",
    "FailInternal": "an internal error",
    "FailPolicy": "rejected by the instance policy of the group",
}
for _one in CONSTRAINTS:
    if _one.about:
        for _check in (*_one.primary, *_one.secondary):
            REASONS.setdefault(_check.reason, _one.about)
"""Reason that is counted -> what it is about, in the order in which counts are listed."""


def group_obstacle(cluster: Cluster, group: Group, instance: Instance, named: bool = False) -> str:
    """Return why `group` cannot host `instance`, regardless of other instances; "" if it can.

    The words begin with the name of the group. `named`: the words include the name of the instance.
    """
    for one in _CLOSING:
        words = one.closes(cluster, group, instance, named)
        if words:
            return f"group {group.name} {words}"
    return ""


def entry_rejection(group: Group, instance: Instance, exclusive: bool = False) -> str:
    """Return the first failure reason that forbids `instance` to enter `group`; "" if none.

    An instance enters a group if it is new, is created again, or comes from another group.
    `exclusive`: whether the nodes have exclusive storage.
    """
    reasons = (one.entry_rejection(group, instance, exclusive) for one in _ON_ENTRY)
    return next(filter(None, reasons), "")


def entry_rejections(
    cluster: Cluster, group: Group, instance: Instance, reason: str = ""
) -> dict[int, str]:
    """Return node -> failure reason, for the nodes of `group` that `instance` must not enter.

    `reason`: the reason for all of these nodes; "": the reason of the constraint that rejects the
    instance.
    """
    reasons: dict[bool, str] = {}
    rejections: dict[int, str] = {}
    for index in group.nodes:
        exclusive = cluster.nodes[index].exclusive_storage
        if exclusive not in reasons:
            reasons[exclusive] = entry_rejection(group, instance, exclusive)
        if reasons[exclusive]:
            rejections[index] = reason or reasons[exclusive]
    return rejections


def entry_words(cluster: Cluster, instance: Instance, index: int, brief: bool = False) -> str:
    """Return why `instance` must not enter the group of node `index`; "" if it may.

    The words include amounts, unless `brief`.
    """
    words = (one.entry_words(cluster, instance, index, brief) for one in _ON_ENTRY)
    return next(filter(None, words), "")


def move_rejections(cluster: Cluster, source: int, targets: Iterable[int]) -> dict[int, str]:
    """Return target -> reason, for those of `targets` that must not receive instances of `source`.

    Migration constraints apply to running instances, which are migrated.
    """
    rejections: dict[int, str] = {}
    for one in _ON_MOVES:
        rejections = one.move_rejections(cluster, source, targets) | rejections
    return rejections


def move_words(cluster: Cluster, source: int, target: int) -> str:
    """Return why `target` rejects running instances of `source`; "" if it does not."""
    return next(filter(None, (one.move_words(cluster, source, target) for one in _ON_MOVES)), "")


def read_access(cluster: Cluster, instances: Iterable[Instance], prefix: str) -> None:
    """Set, for each of `instances`, the nodes to which its tags restrict it.

    All `TaggedAccess` constraints are read. Call this function for the instances of a cluster, and
    for new instances, after their storage pools are set and before a state is made.
    """
    if not _TAGGED:
        return
    # Tags -> what they require; equal tags of many instances are read once
    by_tags: dict[tuple[str, ...], tuple[tuple[TaggedAccess, Hashable], ...]] = {}
    reaches: dict[Hashable, bool] = {}  # whether pools and requirements exclude a node
    for instance in instances:
        if not instance.tags:
            continue
        tags = tuple(instance.tags)
        requires = by_tags.get(tags)
        if requires is None:
            every = ((one, one.required(instance, prefix)) for one in _TAGGED)
            asked = tuple((one, required) for one, required in every if required is not None)
            requires = by_tags[tags] = _excluding(cluster, asked, prefix)
        if requires:
            instance.requires = (*instance.requires, *requires)
            key = instance.pools, instance.template, instance.requires
            if key not in reaches:
                reaches[key] = cluster.reach(instance) is not None
            instance.restricted = bool(instance.draws) or reaches[key]


def _excluding(
    cluster: Cluster, asked: tuple[tuple[TaggedAccess, Hashable], ...], prefix: str
) -> tuple[tuple[TaggedAccess, Hashable], ...]:
    """Return those requirements of `asked` that exclude a node, and add their restrictions.

    A restriction that excludes no node would only turn off faster methods of N+1.
    """
    chosen = []
    for constraint, required in asked:
        if not all(constraint.accepts(node, required, prefix) for node in cluster.nodes):
            chosen.append((constraint, required))
            if constraint.name not in cluster.restrictions:
                restriction = _Nodes(constraint, cluster.nodes, prefix)
                cluster.restrictions[constraint.name] = restriction
    return tuple(chosen)


def closed_nodes(cluster: Cluster, nodes: Iterable[int], instance: Instance) -> dict[int, str]:
    """Return node -> failure reason, for those of `nodes` that an access constraint forbids."""
    reasons = {one.name: one.reason for one in CONSTRAINTS if isinstance(one, AccessConstraint)}
    closed: dict[int, str] = {}
    for name, restriction in cluster.restrictions.items():
        allowed = restriction.nodes_for(instance)
        if allowed is not None:
            for index in nodes:
                if index not in allowed:
                    closed.setdefault(index, reasons[name])
    return closed


def out_of_reach(
    cluster: Cluster, nodes: Iterable[int], instance: Instance, third: bool = False
) -> str:
    """Return the requirement of `instance` that no node of `nodes` meets; "" if there is none.

    The words begin with a verb: ``have access to storage pool external/a``. `third`: the verb is in
    the third person.
    """
    reach = cluster.reach(instance)
    if reach is None or not reach.isdisjoint(nodes):
        return ""
    return cluster.access_words(instance, third)
