"""How documents are to be read: what of them counts, and who stands first."""

from __future__ import annotations

from iallocator.compat import OURS
from iallocator.model.instance import NO_LOAD, UNIT_LOAD
from iallocator.model.tags import InstanceTags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from iallocator.compat import Behaviour
    from iallocator.model.cluster import Cluster
    from iallocator.model.instance import Instance
    from iallocator.wire.fields import Raw

__all__ = ["Reading"]


class Reading:
    """How a document is to be read.

    Attributes
    ----------
    behaviour:
        What of it counts, and how ties are broken.
    static_kvm_memory:
        MiB that a node itself takes where the first hypervisor is kvm; 0: as reported.
    ignore_load:
        Whether instances count without dynamic utilisation.
    exclusion:
        Prefixes of tags that keep instances apart, beside those that the cluster names.
    reads_auto_balance, reads_cpu_speed:
        Whether that counts; hail looks at neither, though its kin do, which read elsewhere.
    """

    __slots__ = (
        "_meaning",
        "behaviour",
        "exclusion",
        "ignore_load",
        "reads_auto_balance",
        "reads_cpu_speed",
        "static_kvm_memory",
    )

    def __init__(
        self,
        behaviour: Behaviour = OURS,
        static_kvm_memory: int = 4096,
        ignore_load: bool = False,
        exclusion: Sequence[str] = (),
    ) -> None:
        self.behaviour = behaviour
        self.static_kvm_memory = static_kvm_memory
        self.ignore_load = ignore_load
        self.exclusion = exclusion
        self._meaning: InstanceTags | None = None
        self.reads_auto_balance = behaviour.reads_auto_balance
        self.reads_cpu_speed = behaviour.reads_cpu_speed

    @property
    def load(self) -> tuple[float, float, float, float]:
        """The dynamic utilisation of an instance of which nothing is known."""
        return NO_LOAD if self.ignore_load else UNIT_LOAD

    def ordered(self, raw: dict[str, Raw]) -> list[tuple[str, Raw]]:
        """The members of `raw`, those that win ties first."""
        if not self.behaviour.orders_by_name:
            return list(raw.items())[::-1]
        return sorted(raw.items())

    def groups(self, raw: dict[str, Raw]) -> list[tuple[str, Raw]]:
        """The groups in `raw`: as they stand there, or by name."""
        if not self.behaviour.orders_by_name:
            return list(raw.items())
        return sorted(raw.items(), key=lambda item: (str(item[1].get("name")), item[0]))

    def place(self, instance: Instance, cluster: Cluster) -> None:
        """Give a new instance its place in the order, and the meaning of its tags."""
        from bisect import bisect
        from operator import attrgetter

        if not self.behaviour.orders_by_name:
            instance.order = -1
        else:
            known = cluster.instances
            instance.order = bisect(known, instance.name, key=attrgetter("name")) - 0.5
        if self._meaning is None or self._meaning.cluster_tags is not cluster.tags:
            self._meaning = InstanceTags(cluster.tags, self.exclusion)
        self._meaning.interpret(instance)
