"""Which kinds of constraints are in force, by the strategies of the groups."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Protocol

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance

    class ListedSettings(Protocol):
        """The settings that are listed as constraints, or say how; see `Settings`."""

        affinity_overhead: int
        ignore_soft_errors: bool
        restrict_allocation_to: list[str] | None
        stickiness: int
        strategy: str
        tag_prefix: str

        @property
        def by_group(self) -> Mapping[int, ListedSettings]:
            """Group index → the settings of the groups whose tags ask for others."""


__all__ = ["InForce"]

PACEMAKER = "pacemaker-"
BLIND = "pacemaker-default"
"""The one of Pacemaker's strategies that does not look at capacities."""


class InForce:
    """What the groups of a cluster heed, by their `settings`."""

    def __init__(self, cluster: Cluster, settings: ListedSettings) -> None:
        self._cluster = cluster
        self._settings = settings

    def settings_of(self, instance: Instance) -> ListedSettings:
        """Those that judge an instance where it is; of a new one those of the request."""
        if not instance.nodes:
            return self._settings
        group = self._cluster.group_of(instance)
        return self._settings.by_group.get(group.index, self._settings)

    def _strategies(self, group: Group | None, instance: Instance | None) -> set[str]:
        groups = [group] if group is not None else self._cluster.groups
        if instance is not None and instance.nodes:
            groups = [self._cluster.group_of(instance)]
        own = self._settings.by_group
        return {own.get(one.index, self._settings).strategy for one in groups}

    def _any(
        self, heeds: Callable[[str], bool], group: Group | None, instance: Instance | None
    ) -> bool:
        return any(heeds(name) for name in self._strategies(group, instance))

    def scores(self, group: Group | None = None, instance: Instance | None = None) -> bool:
        """Whether Pacemaker's scores and stickiness count in `group`, or for `instance`."""
        return self._any(lambda name: name.startswith(PACEMAKER), group, instance)

    def capacities(self, group: Group | None = None, instance: Instance | None = None) -> bool:
        """Whether utilization attributes count there."""
        return self._any(lambda name: name.startswith(PACEMAKER) and name != BLIND, group, instance)

    def keys(self, group: Group | None = None, instance: Instance | None = None) -> bool:
        """Whether placement keys count there."""
        return self._any(lambda name: name == "affinity", group, instance)

    def score(self, group: Group | None = None, instance: Instance | None = None) -> bool:
        """Whether the score of the cluster counts there, with what it has of locations."""
        return self._any(lambda name: name == "score", group, instance)
