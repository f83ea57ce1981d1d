"""Options for reading documents: the members to use, and the order of objects."""

from __future__ import annotations

from _bisect import bisect_right
from _operator import attrgetter

from iallocator.compat import OURS
from iallocator.model.instance import NO_LOAD, UNIT_LOAD
from iallocator.model.tags import InstanceTags
from iallocator.options.settings import STATIC_KVM_MEMORY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.compat import Behaviour
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.options.settings import Settings
    from iallocator.wire.fields import Raw

__all__ = ["Reading"]


class Reading:
    """The options for reading a document.

    Attributes
    ----------
    behaviour:
        The differences between this program and hail: the members to use, and the decision of ties.
    static_kvm_memory:
        MiB that a node itself uses if the first hypervisor is kvm; 0: the reported amount.
    ignore_load:
        If true, instances have no dynamic utilisation.
    exclusion:
        Prefixes of tags that keep instances apart, in addition to those of the cluster.
    tag_prefix:
        The beginning of the tags of this program.
    reads_auto_balance, reads_cpu_speed:
        Whether the field ``auto_balance``, or the cpu speed of nodes, is used. hail ignores both
        fields. Other programs of htools use them, because they read other sources.
    """

    __slots__ = (
        "_meaning",
        "behaviour",
        "exclusion",
        "ignore_load",
        "reads_auto_balance",
        "reads_cpu_speed",
        "static_kvm_memory",
        "tag_prefix",
    )

    def __init__(
        self,
        behaviour: Behaviour = OURS,
        static_kvm_memory: int = STATIC_KVM_MEMORY,
        ignore_load: bool = False,
        exclusion: Sequence[str] = (),
        tag_prefix: str = "iallocator:",
    ) -> None:
        self.behaviour = behaviour
        self.static_kvm_memory = static_kvm_memory
        self.ignore_load = ignore_load
        self.exclusion = exclusion
        self.tag_prefix = tag_prefix
        self._meaning: InstanceTags | None = None
        self.reads_auto_balance = behaviour.reads_auto_balance
        self.reads_cpu_speed = behaviour.reads_cpu_speed

    @classmethod
    def of(cls, settings: Settings) -> Reading:
        """Return how documents are read according to `settings`."""
        return cls(
            settings.behaviour,
            settings.static_kvm_node_memory,
            settings.ignore_dynu,
            settings.exclusion_tags,
            settings.tag_prefix,
        )

    @property
    def load(self) -> tuple[float, float, float, float]:
        """Return the dynamic utilisation of an instance without measured values."""
        return NO_LOAD if self.ignore_load else UNIT_LOAD

    def ordered(self, raw: dict[str, Raw]) -> list[tuple[str, Raw]]:
        """Return (name, object) for the nodes or instances in `raw`; the first wins a tie."""
        if not self.behaviour.orders_by_name:
            return list(raw.items())[:: -1 if self.behaviour.reverses_order else 1]
        return sorted(raw.items())

    def groups(self, raw: dict[str, Raw]) -> list[tuple[str, Raw]]:
        """Return (uuid, object) for the node groups in `raw`.

        The groups are sorted by name and uuid, or in the order of `raw` if `behaviour` does not
        order by name.
        """
        if not self.behaviour.orders_by_name:
            return list(raw.items())
        return sorted(raw.items(), key=lambda item: (str(item[1].get("name")), item[0]))

    def place(self, instance: Instance, cluster: Cluster) -> None:
        """Set the position of a new instance in the order of the cluster, and read its tags."""
        if not self.behaviour.orders_by_name:
            instance.order = -1
        else:
            known = cluster.instances
            instance.order = bisect_right(known, instance.name, key=attrgetter("name")) - 0.5
        if self._meaning is None or self._meaning.cluster_tags is not cluster.tags:
            self._meaning = InstanceTags(cluster.tags, self.exclusion)
        self._meaning.interpret(instance)
