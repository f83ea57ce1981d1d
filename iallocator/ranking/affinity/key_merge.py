"""The keys that are set for an instance, and which of them count."""

from __future__ import annotations

from iallocator.model.keys import LEVELS, in_force
from iallocator.tags.placement_keys import ResourceTags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from iallocator.model.instance import Instance
    from iallocator.model.keys import PlacementKey
    from iallocator.ranking.base import WorkingSet

__all__ = ["Compiled", "Compiler"]

Wanted = dict[str, tuple[float, float]]
"""Name -> value and weight."""


class Compiled:
    """The keys of an instance that count: per class and name that of the lowest level."""

    __slots__ = ("customer", "system")

    def __init__(self, system: Wanted, customer: Wanted) -> None:
        self.system = system
        self.customer = customer


class Compiler:
    """Compiles the keys of the instances of one cluster."""

    def __init__(self, context: WorkingSet) -> None:
        cluster, prefix = context.cluster, context.settings.tag_prefix
        tags = ResourceTags(prefix, LEVELS.index("cluster"), context.remarks)
        self._tags = ResourceTags(prefix, LEVELS.index("server"), context.remarks)
        self._above_tags = tags.of_cluster(cluster)
        self._above = tuple(cluster.placement_keys)

    def compiled(self, instance: Instance, asked: bool) -> Compiled:
        """The keys of `instance`, with those of the request if `asked`."""
        keys = self._keys(instance, asked)
        return Compiled(_chosen(keys, system=True), _chosen(keys, system=False))

    def customer(self, instance: Instance, asked: bool) -> Wanted:
        """Only its customer keys."""
        keys = self._keys(instance, asked)
        return _chosen(keys, system=False) if keys else {}

    def _keys(self, instance: Instance, asked: bool) -> list[PlacementKey]:
        """All its keys: where two have one level and name, the one that wins comes later."""
        keys = [*self._above_tags, *self._tags.of_instance(instance)]
        keys += self._above
        keys += instance.placement_keys
        if asked:
            keys += instance.asked_keys
        return keys


def _chosen(keys: Iterable[PlacementKey], system: bool) -> Wanted:
    """Value and weight of the keys of one class that count, by name."""
    return {name: (key.value, key.weight) for name, key in in_force(keys, system).items()}
