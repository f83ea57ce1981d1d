"""An instance: its properties, its resources, and its nodes in the document."""

from __future__ import annotations

from iallocator.model.templates import TEMPLATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from typing import Any

    from iallocator.model.keys import PlacementKey

    Pool = tuple[str, str]
    """A storage pool: (type, name)."""

__all__ = [
    "NO_LOAD", "RUNNING_STATUS", "UNIT_LOAD", "Backend", "Disks", "Instance", "Status",
    "primary_vector", "secondary_vector",
]  # fmt: skip

UNIT_LOAD = (1.0, 1.0, 1.0, 1.0)
"""The dynamic utilisation (cpu, memory, disk, network) of an instance without measured values."""

NO_LOAD = (0.0, 0.0, 0.0, 0.0)
"""The dynamic utilisation of every instance with ``--ignore-dynu``."""

RUNNING_WORDS = ("", "running", "ERROR_up")
"""The reported states of instances that run; "" if the source reports none."""

NOTHING_ASKED: Mapping[str, Any] = {}


class Backend:
    """Backend parameters of an instance.

    Attributes
    ----------
    memory:
        MiB.
    vcpus:
        Number of virtual cpus.
    auto_balance:
        True if the instance is failed over automatically; then its secondary keeps memory free for
        it.
    spindle_use:
        The number of spindles for which the instance counts in the policy of its group.
    """

    __slots__ = ("auto_balance", "memory", "spindle_use", "vcpus")

    def __init__(
        self, memory: int, vcpus: int = 1, auto_balance: bool = True, spindle_use: int = 1
    ) -> None:
        self.memory = memory
        self.vcpus = vcpus
        self.auto_balance = auto_balance
        self.spindle_use = spindle_use


class Disks:
    """Disks of an instance.

    Attributes
    ----------
    template:
        The disk template.
    total:
        MiB that the disks take on each of its nodes.
    sizes:
        MiB of each disk, as the guest sees it.
    spindles:
        Number of spindles that the disks need on nodes with exclusive storage; None if unknown.
    spindles_anywhere:
        True if the disks take spindles on shared storage, too.
    """

    __slots__ = ("sizes", "spindles", "spindles_anywhere", "template", "total")

    def __init__(
        self,
        template: str,
        total: int = 0,
        sizes: Sequence[int] = (),
        spindles: int | None = None,
        spindles_anywhere: bool = False,
    ) -> None:
        self.template = template
        self.total = total
        self.sizes = sizes
        self.spindles = spindles
        self.spindles_anywhere = spindles_anywhere


class Status:
    """Configured state of an instance: its admin state, and whether it is forthcoming.

    The admin state is ``up``, ``down`` or ``offline``. A forthcoming instance does not exist yet.
    `word`: the status in a text file, which can be more precise (``ERROR_down``); "" from other
    sources.
    """

    __slots__ = ("admin_state", "forthcoming", "word")

    def __init__(self, admin_state: str = "up", forthcoming: bool = False, word: str = "") -> None:
        self.admin_state = admin_state
        self.forthcoming = forthcoming
        self.word = word


RUNNING_STATUS = Status()


class Instance:
    """One virtual machine, as the document describes it.

    Attributes
    ----------
    memory, disk:
        MiB; `disk` is ``disk_space_total``, the space of the disks on each node.
    template, kind:
        The name of the disk template, and the template; see `iallocator.model.templates`.
    local, shared:
        Properties of the disk template: `local` is true if the disks take space of the node,
        `shared` if each node with access to the storage can run the instance.
    needs_secondary:
        True if the instance has a copy of its disks on a secondary node.
    spindles:
        The sum of the disks' spindles; None if it is unknown for a disk.
    spindles_anywhere:
        True if nodes with exclusive storage count the spindles even if the disks are not on the
        node.
    hides_spindles:
        True if nodes with exclusive storage count its spindles, but their number is unknown. A node
        that it is placed on then has no free spindles left, see `Holdings`.
    spindle_use:
        The spindles for which the instance counts where storage is not exclusive.
    nodes:
        The indices of the nodes in the document, primary first; empty for a new instance.
    exclusion, desired:
        The exclusion tags of the instance, and the desired locations of its primary.
    placement_keys, asked_keys:
        The keys of the instance; and the keys that the request adds while it is placed.
    pools:
        The storage pools that hold its disks; None if they follow from the disk template.
    draws:
        (pool, MiB) of the space that its disks take in pools with their own free space, which is
        not part of the free disk of nodes.
    requires:
        (constraint, value) for each property that the tags of the instance require of its nodes;
        see `iallocator.constraints.table`.
    restricted:
        True if some nodes may not host the instance, or might lack space in its storage pools.
    status_word:
        The status in the text file that it was read from; "" from other sources.
    asked:
        Members of the request for a new instance that do not affect placement but are needed to
        create it: ``nics``, ``os``, ``hypervisor``. The values are unchanged.
    order:
        Position among the instances: lower goes first.
    """

    __slots__ = (
        "admin_state",
        "as_primary",
        "as_secondary",
        "asked",
        "asked_keys",
        "auto_balance",
        "desired",
        "disk",
        "disk_sizes",
        "draws",
        "exclusion",
        "forthcoming",
        "hides_spindles",
        "kind",
        "load",
        "local",
        "memory",
        "name",
        "needs_secondary",
        "networks",
        "nodes",
        "order",
        "placement_keys",
        "pools",
        "requires",
        "restricted",
        "shared",
        "spindle_use",
        "spindles",
        "spindles_anywhere",
        "status_word",
        "tags",
        "template",
        "uses_memory",
        "vcpus",
    )

    def __init__(
        self,
        name: str,
        backend: Backend,
        disks: Disks,
        *,
        status: Status = RUNNING_STATUS,
        nodes: tuple[int, ...] = (),
        tags: Sequence[str] = (),
        networks: Sequence[str] = (),
        load: tuple[float, float, float, float] = UNIT_LOAD,
    ) -> None:
        self.name = name
        self.memory = backend.memory
        self.vcpus = backend.vcpus
        self.disk = disks.total
        self.disk_sizes = disks.sizes
        template = self.template = disks.template
        self.spindles = disks.spindles
        self.spindles_anywhere = disks.spindles_anywhere
        self.spindle_use = backend.spindle_use
        self.nodes = nodes
        admin_state = self.admin_state = status.admin_state
        self.status_word = status.word
        forthcoming = self.forthcoming = status.forthcoming
        self.auto_balance = backend.auto_balance
        self.tags = tags
        self.networks = networks
        self.load = load
        self.exclusion: tuple[str, ...] = ()
        self.desired: frozenset[str] = frozenset()
        self.order: float = 0
        self.placement_keys: Sequence[PlacementKey] = ()
        self.asked_keys: Sequence[PlacementKey] = ()
        self.asked: Mapping[str, Any] = NOTHING_ASKED
        self.pools: tuple[Pool, ...] | None = None
        self.draws: tuple[tuple[Pool, int], ...] = ()
        self.requires: tuple[tuple[object, Hashable], ...] = ()
        self.restricted = False
        kind = self.kind = TEMPLATES[template]
        self.local = kind.local
        self.shared = kind.shared
        self.needs_secondary = kind.nodes == 2
        self.hides_spindles = disks.spindles_anywhere and disks.spindles is None
        self.uses_memory = admin_state == "up" and not forthcoming
        self.as_primary = primary_vector(self)
        self.as_secondary = secondary_vector(self)

    def twin(self, name: str, order: float) -> Instance:
        """Return a copy with another name and order, in a quarter of the time of a new object."""
        twin = Instance.__new__(Instance)
        twin.name, twin.order = name, order
        twin.memory, twin.vcpus, twin.load = self.memory, self.vcpus, self.load
        twin.disk, twin.disk_sizes, twin.template = self.disk, self.disk_sizes, self.template
        twin.spindles, twin.spindle_use = self.spindles, self.spindle_use
        twin.spindles_anywhere = self.spindles_anywhere
        twin.hides_spindles = self.hides_spindles
        twin.nodes, twin.networks = self.nodes, self.networks
        twin.admin_state, twin.uses_memory = self.admin_state, self.uses_memory
        twin.status_word = self.status_word
        twin.forthcoming, twin.auto_balance = self.forthcoming, self.auto_balance
        twin.tags, twin.exclusion, twin.desired = self.tags, self.exclusion, self.desired
        twin.placement_keys, twin.asked_keys = self.placement_keys, self.asked_keys
        twin.asked, twin.restricted = self.asked, self.restricted
        twin.pools, twin.draws, twin.requires = self.pools, self.draws, self.requires
        twin.kind, twin.needs_secondary = self.kind, self.needs_secondary
        twin.local, twin.shared = self.local, self.shared
        twin.as_primary, twin.as_secondary = self.as_primary, self.as_secondary
        return twin

    @property
    def admin_offline(self) -> bool:
        """Return whether the instance is marked offline: it uses no cpus and reserves no memory."""
        return self.admin_state == "offline"

    @property
    def reserves(self) -> bool:
        """Return whether the secondary of the instance must keep memory free for a failover."""
        return self.auto_balance and not self.forthcoming and self.admin_state != "offline"

    @property
    def takeover_memory(self) -> int:
        """Return the free MiB that a node needs to become the secondary of the instance.

        The result is 0 for an instance that is marked offline, or not failed over automatically.
        """
        return self.memory if self.auto_balance and not self.admin_offline else 0

    def keep_in(
        self, pools: tuple[Pool, ...], draws: tuple[tuple[Pool, int], ...], external: bool
    ) -> None:
        """Set `pools` and `draws` of the disks, and whether they are on shared storage
        (`external`).

        Call it before the instance is placed anywhere.
        """
        changed = draws != self.draws or (external and self.local)
        self.pools = pools
        self.draws = draws
        if external:
            self.kind = self.kind.on_shared_storage()
            self.local, self.shared = False, True
        if changed:
            self.as_primary = primary_vector(self)
            self.as_secondary = secondary_vector(self)

    @property
    def shape(self) -> tuple[object, ...]:
        """Return the properties of the instance that affect limits and scores, without tags."""
        return (
            self.as_primary,
            self.as_secondary,
            self.template,
            self.pools,
            self.draws,
            self.requires,
            tuple(self.disk_sizes),
            self.spindles,
            self.spindle_use,
            tuple(self.networks),
            self.reserves,
            self.takeover_memory,
        )

    @property
    def own_disk(self) -> int:
        """Return the MiB that the disks take of the free disk that their node reports."""
        if not self.local:
            return 0
        return self.disk - sum(amount for _, amount in self.draws) if self.draws else self.disk

    @property
    def own_spindles(self) -> int:
        """Return how many spindles the instance uses on a node with exclusive storage."""
        return self.spindles or 0 if self.local or self.spindles_anywhere else 0

    @property
    def counts_disk(self) -> bool:
        """Return whether the instance can only be placed on a node with enough free disk."""
        return self.local and (not self.draws or self.own_disk > 0)

    @property
    def running(self) -> bool:
        """Return whether the instance runs now, and can be migrated live."""
        return self.uses_memory

    @property
    def reported_running(self) -> bool:
        """Return whether the instance should run, and is not reported as being down."""
        return self.admin_state == "up" and self.status_word in RUNNING_WORDS

    @property
    def external(self) -> bool:
        """Return whether the disks are on shared storage, for any node with access to it."""
        return self.shared and self.kind.has_disks

    @property
    def required_nodes(self) -> int:
        """Return how many nodes the instance requires: 2 with a secondary, else 1."""
        return self.kind.nodes

    def as_template(self, template: str) -> Instance:
        """Return a copy with disks of another template, and without nodes."""
        twin = Instance(
            self.name,
            Backend(self.memory, self.vcpus, self.auto_balance, self.spindle_use),
            Disks(template, self.disk, self.disk_sizes, self.spindles, self.spindles_anywhere),
            status=Status(self.admin_state, self.forthcoming, self.status_word),
            tags=self.tags,
            networks=self.networks,
            load=self.load,
        )
        twin.exclusion, twin.desired, twin.order = self.exclusion, self.desired, self.order
        twin.placement_keys, twin.asked_keys = self.placement_keys, self.asked_keys
        if self.pools is not None:
            twin.keep_in(self.pools, self.draws, False)
        twin.requires, twin.restricted = self.requires, self.restricted
        return twin


def primary_vector(i: Instance) -> tuple[float, ...]:
    """Return the amounts that instance `i` adds to its primary, in the order of `COLUMNS`."""
    disk = i.own_disk
    spindles = i.spindle_use if i.local else 0
    own_spindles = i.own_spindles
    cpus = 0 if i.admin_offline else i.vcpus
    now = 0 if i.forthcoming else 1
    cpu_load, memory_load, disk_load, net_load = i.load
    return (
        -i.memory if i.uses_memory else 0,
        -disk * now,
        -own_spindles * now,
        spindles * now,
        cpus * now,
        now,
        0,
        cpu_load * now,
        memory_load * now,
        disk_load * now,
        net_load * now,
        -i.memory,
        -disk,
        -own_spindles,
        spindles,
        cpus,
        0,
        0,
    )


def secondary_vector(i: Instance) -> tuple[float, ...]:
    """Return the amounts that instance `i` adds to its secondary, in the order of `COLUMNS`."""
    disk = i.own_disk
    spindles = i.spindle_use if i.local else 0
    own_spindles = i.own_spindles
    now = 0 if i.forthcoming else 1
    return (
        0,
        -disk * now,
        -own_spindles * now,
        spindles * now,
        0,
        0,
        now,
        0,
        0,
        i.load[2] * now,
        0,
        0,
        -disk,
        -own_spindles,
        spindles,
        0,
        0,
        0,
    )
