"""Placement keys as constraints to be listed: which values instances want to be near to."""

from __future__ import annotations

from iallocator.model.constraints import (
    CAPACITY,
    EVERY,
    LOCATION,
    MUST,
    SHOULD,
    Constraint,
)
from iallocator.model.keys import LEVELS, in_force
from iallocator.tags.placement_keys import NodeTags, ResourceTags

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iallocator.constraints.in_force import ListedSettings
    from iallocator.model.cluster import Cluster, Node
    from iallocator.model.instance import Instance
    from iallocator.model.keys import PlacementKey

__all__ = ["ListedKeys"]


class ListedKeys:
    """The keys of the cluster, of nodes and of instances; complaints go to `problems`."""

    def __init__(self, cluster: Cluster, settings: ListedSettings, problems: list[str]) -> None:
        self._cluster = cluster
        self._settings = settings
        self._problems = problems
        prefix = settings.tag_prefix
        self._above = ResourceTags(prefix, LEVELS.index("cluster"), problems)
        self._own = ResourceTags(prefix, LEVELS.index("server"), problems)

    def of_cluster(self) -> Iterator[Constraint]:
        """What holds for every instance that does not say otherwise."""
        tags = self._above.of_cluster(self._cluster)
        yield from self._listed(EVERY, tags, "tag of the cluster", self._cluster.placement_keys)

    def of_node(self, node: Node) -> Iterator[Constraint]:
        """How much memory may be allocated on `node`, where a ratio says so."""
        ratio = NodeTags(self._settings.tag_prefix, node, self._problems).ram_contention
        if ratio is not None:
            amount = ratio * node.total_memory
            yield Constraint(
                CAPACITY, MUST, EVERY, f"at most {amount:.12g} MiB of memory on {node.name}",
                f"tag {self._settings.tag_prefix}ram-contention:{ratio:.12g} of {node.name}",
            )  # fmt: skip

    def of_instance(self, instance: Instance) -> Iterator[Constraint]:
        """What `instance` says itself, or its request for it."""
        overhead = self._settings.affinity_overhead
        if not instance.nodes and overhead:
            needed = instance.memory + overhead
            yield Constraint(
                CAPACITY, MUST, instance.name, f"needs more than {needed} MiB of free memory",
                "member memory, setting affinity-overhead",
            )  # fmt: skip
        keys = [*instance.placement_keys, *instance.asked_keys]
        tags = self._own.of_instance(instance)
        yield from self._listed(instance.name, tags, "tag of the instance", keys)

    def _listed(
        self, name: str, tags: Iterable[PlacementKey], origin: str, more: Iterable[PlacementKey]
    ) -> Iterator[Constraint]:
        """Those that count, one of each class and name; tags come before `more`."""
        tagged, others = list(tags), list(more)
        for system in (True, False):
            word = "system" if system else "customer"
            for key in in_force([*tagged, *others], system).values():
                where = origin if key in tagged else f"placement_keys, level {LEVELS[key.level]}"
                yield Constraint(
                    LOCATION, SHOULD, name, f"near {key.value:.12g} of {word} key {key.name}",
                    where, weight=key.weight,
                )  # fmt: skip
