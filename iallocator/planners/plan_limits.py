"""What a plan is held to, whoever made it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from iallocator.constraints.relations import Relations
    from iallocator.model.cluster import Group
    from iallocator.model.state import State
    from iallocator.options.settings import Settings

__all__ = ["PlanLimits"]


@dataclass(slots=True)
class PlanLimits:
    """What a plan is held to.

    Attributes
    ----------
    settings:
        Those that count, with the groups' own: N+1, soft limits.
    relations:
        What binds instances to each other; None if nothing does.
    between_groups:
        Whether instances may change their group.
    leaving, coming:
        Indices of nodes that are empty and off in the end, and that are powered on at first.
    hopeless:
        Indices of nodes whose failure is lost whatever the plan does; ``strict`` forgives it.
    left_out:
        Names of instances that do not run in the end, wherever they are: nothing is judged
        by them.
    returns:
        Whether everybody comes back in the end: soft limits hold nobody who goes to its mirror, or
        home again.
    min_disk:
        Share of every node's disk that stays free.
    """

    settings: Settings
    relations: Relations | None = None
    _: KW_ONLY
    between_groups: bool = False
    leaving: frozenset[int] = frozenset()
    coming: frozenset[int] = frozenset()
    hopeless: frozenset[int] = frozenset()
    left_out: Collection[str] = ()
    min_disk: float = 0.0
    returns: bool = False

    def of(self, group: Group) -> Settings:
        """The settings of a group."""
        return self.settings.by_group.get(group.index, self.settings)

    def forced(self, state: State, before: Sequence[int], target: int) -> bool:
        """Whether soft limits do not hold a move from the nodes `before` to the node `target`."""
        nodes = state.cluster.nodes
        if self.of(nodes[target].group).ignore_soft_errors:
            return True
        if not (self.settings.behaviour.frees_online_nodes or self.leaving.isdisjoint(before)):
            return True  # hsqueeze takes nodes that it frees for dead
        return any(not nodes[index].online for index in before)
