"""An instance: what it is, what it takes, where it is in the document."""

from __future__ import annotations

from iallocator.model.templates import TEMPLATES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from iallocator.model.keys import PlacementKey

    Pool = tuple[str, str]
    """A storage pool: its type and its name."""

__all__ = [
    "NO_LOAD", "RUNNING", "UNIT_LOAD", "Backend", "Disks", "Instance", "Status",
    "primary_vector", "secondary_vector",
]  # fmt: skip

UNIT_LOAD = (1.0, 1.0, 1.0, 1.0)
"""Dynamic utilisation (cpu, memory, disk, net) of an instance of which nothing is known."""

NO_LOAD = (0.0, 0.0, 0.0, 0.0)

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
        Whether it is failed over automatically, so that its secondary keeps memory free for it.
    spindle_use:
        How many spindles it counts for, by the policy.
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
        Their disk template.
    total:
        MiB that they take on each of its nodes.
    sizes:
        MiB of each disk, as a guest sees it.
    spindles:
        How many spindles they need of nodes with exclusive storage; None: not said.
    spindles_anywhere:
        Whether they take spindles on shared storage, too.
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
    """What an instance should be: its admin state, and whether it is forthcoming: not yet there.

    The admin state is ``up``, ``down`` or ``offline``.
    """

    __slots__ = ("admin_state", "forthcoming")

    def __init__(self, admin_state: str = "up", forthcoming: bool = False) -> None:
        self.admin_state = admin_state
        self.forthcoming = forthcoming


RUNNING = Status()


class Instance:
    """One virtual machine, as the document describes it.

    Attributes
    ----------
    memory, disk:
        MiB; `disk` is ``disk_space_total``, what the disks take on each node.
    template, kind:
        Name of its disk template, and the properties of that; see `iallocator.model.templates`.
    local, shared:
        As in `kind`: whether its disks take space of its node, and whether each node that has
        access to its storage can run it.
    needs_secondary:
        Whether it has a copy of its disks on a secondary node.
    spindles:
        Sum of the disks' spindles, None if a disk does not say.
    spindles_anywhere:
        Whether nodes of exclusive storage count them even if the disks are not on the node.
    hides_spindles:
        Whether nodes of exclusive storage count them, wherever the disks are, and these do not
        say how many: a node that it comes to has none left, see `Holdings`.
    spindle_use:
        Spindles it counts for where storage is not exclusive.
    nodes:
        Indices of its nodes in the cluster, primary first; empty for a new one.
    exclusion, desired:
        Its exclusion tags and the locations that it wants its primary to have.
    placement_keys, asked_keys:
        Its keys, those that its tags hold apart; and those that the request adds to
        them for the place it gives it.
    pools:
        The storage pools that hold its disks; None: as its disk template says.
    draws:
        (pool, MiB) of the space that its disks take in pools of which nodes say what is
        free, apart from their free disk.
    restricted:
        Whether not every node may reach its pools, or have room there.
    asked:
        Of a new one the members of its request that placement does not look at, but
        creating it does: ``nics``, ``os``, ``hypervisor``; as they were sent.
    order:
        Position among the instances: where order counts, lower goes first.
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
        "restricted",
        "shared",
        "spindle_use",
        "spindles",
        "spindles_anywhere",
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
        status: Status = RUNNING,
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
        """One that differs in its name and its order only: a quarter of the work to make one."""
        twin = Instance.__new__(Instance)
        twin.name, twin.order = name, order
        twin.memory, twin.vcpus, twin.load = self.memory, self.vcpus, self.load
        twin.disk, twin.disk_sizes, twin.template = self.disk, self.disk_sizes, self.template
        twin.spindles, twin.spindle_use = self.spindles, self.spindle_use
        twin.spindles_anywhere = self.spindles_anywhere
        twin.hides_spindles = self.hides_spindles
        twin.nodes, twin.networks = self.nodes, self.networks
        twin.admin_state, twin.uses_memory = self.admin_state, self.uses_memory
        twin.forthcoming, twin.auto_balance = self.forthcoming, self.auto_balance
        twin.tags, twin.exclusion, twin.desired = self.tags, self.exclusion, self.desired
        twin.placement_keys, twin.asked_keys = self.placement_keys, self.asked_keys
        twin.asked, twin.restricted = self.asked, self.restricted
        twin.pools, twin.draws = self.pools, self.draws
        twin.kind, twin.needs_secondary = self.kind, self.needs_secondary
        twin.local, twin.shared = self.local, self.shared
        twin.as_primary, twin.as_secondary = self.as_primary, self.as_secondary
        return twin

    @property
    def admin_offline(self) -> bool:
        """Whether it is marked offline: it takes no cpus and reserves nothing."""
        return self.admin_state == "offline"

    @property
    def reserves(self) -> bool:
        """Whether its secondary keeps memory free for its failover."""
        return self.auto_balance and not self.forthcoming and self.admin_state != "offline"

    @property
    def takeover_memory(self) -> int:
        """MiB that a node must have free to become its secondary: what a failover would need.

        None for one that is marked offline, or that is not failed over automatically.
        """
        return self.memory if self.auto_balance and not self.admin_offline else 0

    def keep_in(
        self, pools: tuple[Pool, ...], draws: tuple[tuple[Pool, int], ...], external: bool
    ) -> None:
        """Say where its disks are, see `pools` and `draws`, and whether that is shared storage.

        Call it before the instance is placed anywhere.
        """
        self.pools = pools
        self.draws = draws
        if external:
            self.kind = self.kind.on_shared_storage()
            self.local, self.shared = False, True
        self.as_primary = primary_vector(self)
        self.as_secondary = secondary_vector(self)

    @property
    def shape(self) -> tuple[object, ...]:
        """What tells it from others as far as limits and scores go, tags and keys aside."""
        return (
            self.as_primary,
            self.as_secondary,
            self.template,
            self.pools,
            self.draws,
            tuple(self.disk_sizes),
            self.spindles,
            self.spindle_use,
            tuple(self.networks),
            self.reserves,
            self.takeover_memory,
        )

    @property
    def own_disk(self) -> int:
        """MiB that its disks take of a node's free disk, as the node reports that."""
        if not self.local:
            return 0
        return self.disk - sum(amount for _, amount in self.draws) if self.draws else self.disk

    @property
    def own_spindles(self) -> int:
        """How many spindles it takes of a node with exclusive storage."""
        return self.spindles or 0 if self.local or self.spindles_anywhere else 0

    @property
    def counts_disk(self) -> bool:
        """Whether a node's free disk matters to it."""
        return self.local and (not self.draws or self.own_disk > 0)

    @property
    def running(self) -> bool:
        """Whether it can be migrated live."""
        return self.uses_memory

    @property
    def external(self) -> bool:
        """Whether it has disks, on shared storage: any node that reaches them could run it."""
        return self.shared and self.kind.has_disks

    @property
    def required_nodes(self) -> int:
        """How many nodes it needs: 2 with a secondary, else 1."""
        return self.kind.nodes

    def as_template(self, template: str) -> Instance:
        """The same instance with its disks of another template, on no node yet."""
        twin = Instance(
            self.name,
            Backend(self.memory, self.vcpus, self.auto_balance, self.spindle_use),
            Disks(template, self.disk, self.disk_sizes, self.spindles, self.spindles_anywhere),
            status=Status(self.admin_state, self.forthcoming),
            tags=self.tags,
            networks=self.networks,
            load=self.load,
        )
        twin.exclusion, twin.desired, twin.order = self.exclusion, self.desired, self.order
        twin.placement_keys, twin.asked_keys = self.placement_keys, self.asked_keys
        if self.pools is not None:
            twin.keep_in(self.pools, self.draws, False)
            twin.restricted = self.restricted
        return twin


def primary_vector(i: Instance) -> tuple[float, ...]:
    """Amounts that instance `i` adds to its primary, in the order of `COLUMNS`."""
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
    """Amounts that instance `i` adds to its secondary, in the order of `COLUMNS`."""
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
