"""What a strategy is told and what it says: an order of nodes.

A strategy is a module of this package with a function

    order(query: RankQuery, nodes: Sequence[int]) -> NodeRanking

`nodes` are indices of nodes that every limit left as possible, over all groups that
are asked.  It ranks them; what is possible it does not decide, except that it may
reject nodes by a rule of its own.  `iallocator.ranking.pairs` makes placements
of it: for pairs the best primary that has an acceptable secondary, then the best
secondary by another call of ``order``.
"""

from __future__ import annotations

from iallocator.ranking import STRATEGIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any, Protocol

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    class RankSettings(Protocol):
        """The settings that strategies go by; see `iallocator.options.settings`."""

        affinity_overhead: int
        initial_msav: float
        final_msav: float
        msav_steps: int
        seed: int | None
        stickiness: int
        tag_prefix: str

    class Wishes(Protocol):
        """What is known of bonds between instances."""

        def costs(self, instance: Instance, nodes: Collection[int]) -> Mapping[int, float]:
            """What each of `nodes` costs by what `instance` should not do there."""

    class WorkingSet(Protocol):
        """What a strategy sees of a request; see `iallocator.placement.context.Context`."""

        cluster: Cluster
        state: State
        kept: dict[str, Any]
        remarks: list[str]
        coming: Sequence[Instance]
        turn: ScheduledInstance | None

        @property
        def bonds(self) -> Wishes:
            """The bonds between instances."""

        @property
        def settings(self) -> RankSettings:
            """The settings of the request."""

        def settings_of(self, group: Group) -> RankSettings:
            """Those of a group, whose tags may ask for others."""

    class Strategy(Protocol):
        """A module that ranks nodes."""

        def order(self, query: RankQuery, nodes: Sequence[int]) -> NodeRanking:
            """Rank `nodes`, best first."""


__all__ = [
    "REJECTED",
    "NodeRanking",
    "RankQuery",
    "ScheduledInstance",
    "sequence_of",
    "strategy_module",
]

REJECTED = "FailStrategy"
"""What placements are counted as that a strategy rejects."""


class RankQuery:
    """An instance that needs a node.

    Attributes
    ----------
    strategy:
        The name that was chosen, a key of `iallocator.ranking.STRATEGIES`.
    context:
        Cluster, state and settings.  The instance is off the state if it is being
        moved; those placed before it are on it.
    present:
        The nodes it runs on, primary first; () for a new one.
    role:
        ``primary`` (the only node counts as that) or ``secondary``.
    beside:
        For a secondary its primary, which is none of the nodes to rank; () where it is
        not known yet, and for primaries.
    """

    __slots__ = ("beside", "context", "instance", "present", "role", "strategy")

    def __init__(
        self,
        strategy: str,
        context: WorkingSet,
        instance: Instance,
        present: tuple[int, ...] = (),
        role: str = "primary",
        beside: tuple[int, ...] = (),
    ) -> None:
        self.strategy = strategy
        self.context = context
        self.instance = instance
        self.present = present
        self.role = role
        self.beside = beside

    def costs(self, nodes: Collection[int]) -> Mapping[int, float]:
        """What each of `nodes` costs by what the instance should not do there, if anything.

        All shoulds are about the node where an instance runs: no secondary costs anything.
        """
        return {} if self.role == "secondary" else self.context.bonds.costs(self.instance, nodes)

    def second(self, primary: int | None = None) -> RankQuery:
        """The same for the secondary, beside `primary` if that is known."""
        beside = () if primary is None else (primary,)
        return RankQuery(
            self.strategy, self.context, self.instance, self.present, "secondary", beside
        )


class ScheduledInstance:
    """Whose turn it is among several instances, where a strategy says in which order.

    Attributes
    ----------
    instance:
        The one that chooses now.
    after:
        The one that it has to follow to the same node, or None.
    node:
        Where that one is; None if it has no place.
    unit, position:
        For the strategy: the instances that choose together, and which one this is.
    """

    __slots__ = ("after", "instance", "node", "position", "unit")

    def __init__(self, unit: Any, position: int) -> None:
        self.unit = unit
        self.position = position
        self.instance: Instance = unit.members[position]
        self.after: Instance | None = unit.members[position - 1] if position else None
        self.node: int | None = None


class NodeRanking:
    """A rank of nodes.

    Attributes
    ----------
    ranked:
        Indices of the nodes that may be taken, best first.
    rejected:
        Node -> why this strategy will not have it, in words for the administrator.
    """

    __slots__ = ("ranked", "rejected")

    def __init__(self, ranked: list[int], rejected: Mapping[int, str] | None = None) -> None:
        self.ranked = ranked
        self.rejected: Mapping[int, str] = rejected or {}

    def criteria(self, index: int) -> list[tuple[str, str]]:
        """What node `index` was ranked by: (rule, value), in the order in which they count.

        For the administrator's eyes only.
        """
        return []

    def decided(self, first: int, second: int) -> str:
        """Why node `first` comes before `second`: the first rule at which they differ."""
        for (rule, mine), (_, other) in zip(self.criteria(first), self.criteria(second)):
            if mine != other:
                return f"{rule}: {mine} against {other}"
        return "equal in everything; of equals the first by name is taken"

    def extra(self, index: int) -> dict[str, Any]:
        """More members for the entry of ``solutions`` if node `index` is chosen."""
        return {}


def sequence_of(
    name: str, context: WorkingSet, instances: Sequence[Instance], homes: Mapping[str, int]
) -> list[ScheduledInstance]:
    """The order in which the strategy called `name` lets `instances` choose.

    `homes`: name → the node where it runs, for those that do.
    """
    module: Any = strategy_module(name)
    return module.sequence(name, context, instances, homes)  # type: ignore[no-any-return]


def strategy_module(name: str) -> Strategy:
    """The module of the strategy called `name`."""
    from importlib import import_module

    module: Any = import_module(f"iallocator.ranking.{STRATEGIES[name]}")
    return module  # type: ignore[no-any-return]
