"""The interface of strategies: `RankQuery` is the input, and `NodeRanking` the result.

A strategy is a module of this package with a function

    order(query: RankQuery, nodes: Sequence[int]) -> NodeRanking

`nodes` are the indices of the nodes that pass all limits, in all groups of the request. ``order``
ranks these nodes. It can also reject nodes by a rule of the strategy. `iallocator.ranking.pairs`
derives placements from the ranks. For pairs of nodes, it takes the best primary with an acceptable
secondary. A second call of ``order`` selects the secondary.
"""

from __future__ import annotations

from importlib import import_module

from iallocator.ranking import STRATEGIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any, Protocol

    from iallocator.model.cluster import Cluster, Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State

    class RankSettings(Protocol):
        """The settings that strategies use; see `iallocator.options.settings`."""

        affinity_overhead: int
        initial_msav: float
        final_msav: float
        msav_steps: int
        seed: int | None
        stickiness: float
        tag_prefix: str

    class SoftConstraints(Protocol):
        """The soft constraints of instances, as far as strategies use them."""

        def costs(self, instance: Instance, nodes: Collection[int]) -> Mapping[int, float]:
            """Return node -> penalty of the soft constraints that `instance` violates on it."""

    class WorkingSet(Protocol):
        """The part of a request that strategies use; see `iallocator.placement.context.Context`."""

        cluster: Cluster
        state: State
        kept: dict[str, Any]
        remarks: list[str]
        coming: Sequence[Instance]
        scheduled: ScheduledInstance | None

        @property
        def affinity(self) -> SoftConstraints:
            """Return the affinity constraints between instances."""

        @property
        def settings(self) -> RankSettings:
            """Return the settings of the request."""

        def settings_of(self, group: Group) -> RankSettings:
            """Return the settings of a group; its tags can override settings of the request."""

    class Strategy(Protocol):
        """A module that ranks nodes."""

        def order(self, query: RankQuery, nodes: Sequence[int]) -> NodeRanking:
            """Rank `nodes`, best first."""


__all__ = [
    "STRATEGY_REJECTION",
    "NodeRanking",
    "RankQuery",
    "ScheduledInstance",
    "sequence_of",
    "strategy_module",
]

STRATEGY_REJECTION = "FailStrategy"
"""The failure reason for placements that a strategy rejects."""


class RankQuery:
    """An instance that needs a node.

    Attributes
    ----------
    strategy:
        The name of the strategy, a key of `iallocator.ranking.STRATEGIES`.
    context:
        Cluster, state and settings.  The state does not contain the instance, also if the instance
        is moved.  It contains the instances that were placed before.
    present:
        The current nodes of the instance, primary first; () for a new instance.
    role:
        ``primary`` or ``secondary``.  The only node of an instance is its primary.
    beside:
        If secondaries are ranked, the primary, which is not among the nodes to rank.  It is () if
        the primary is not known yet, and if primaries are ranked.
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
        """Return node -> penalty of the soft constraints that the instance violates on this node.

        Soft constraints concern only the node on which an instance runs. For secondaries, the
        result is empty.
        """
        return {} if self.role == "secondary" else self.context.affinity.costs(self.instance, nodes)

    def second(self, primary: int | None = None) -> RankQuery:
        """Return the query for the secondary; `primary` is the primary, or None if it is not known
        yet.
        """
        beside = () if primary is None else (primary,)
        return RankQuery(
            self.strategy, self.context, self.instance, self.present, "secondary", beside
        )


class ScheduledInstance:
    """One of several instances that a strategy places in its own order.

    Attributes
    ----------
    instance:
        The instance to place.
    after:
        The instance that `instance` must follow to its node, or None.
    node:
        The node of `after`; None if `after` is not placed.
    unit, position:
        The colocation set of the instance, and its position in the set; only the strategy uses
        them.
    """

    __slots__ = ("after", "instance", "node", "position", "unit")

    def __init__(self, unit: Any, position: int) -> None:
        self.unit = unit
        self.position = position
        self.instance: Instance = unit.members[position]
        self.after: Instance | None = unit.members[position - 1] if position else None
        self.node: int | None = None


class NodeRanking:
    """The nodes in the order of a strategy, and the nodes that it rejects.

    Attributes
    ----------
    ranked:
        Indices of the nodes that can be used, best first.
    rejected:
        Node -> the reason why the strategy rejects it, for the administrator.
    """

    __slots__ = ("ranked", "rejected")

    def __init__(self, ranked: list[int], rejected: Mapping[int, str] | None = None) -> None:
        self.ranked = ranked
        self.rejected: Mapping[int, str] = rejected or {}

    def criteria(self, index: int) -> list[tuple[str, str]]:
        """Return the criteria that ranked node `index`: (rule, value), in order of precedence.

        They are printed for the administrator, and have no other use.
        """
        return []

    def decided(self, first: int, second: int) -> str:
        """Return why node `first` comes before `second`: the first rule at which they differ."""
        for (rule, mine), (_, other) in zip(self.criteria(first), self.criteria(second)):
            if mine != other:
                return f"{rule}: {mine} against {other}"
        return "equal in everything; of equals the first by name is taken"

    def extra(self, index: int) -> dict[str, Any]:
        """Return more members for the entry of ``solutions`` if node `index` is chosen."""
        return {}


def sequence_of(
    name: str, context: WorkingSet, instances: Sequence[Instance], homes: Mapping[str, int]
) -> list[ScheduledInstance]:
    """Return the order in which the strategy `name` places `instances`.

    `homes`: name of a running instance -> the node on which it runs.
    """
    module: Any = strategy_module(name)
    return module.sequence(name, context, instances, homes)  # type: ignore[no-any-return]


def strategy_module(name: str) -> Strategy:
    """Return the module of the strategy `name`."""
    module: Any = import_module(f"iallocator.ranking.{STRATEGIES[name]}")
    return module  # type: ignore[no-any-return]
