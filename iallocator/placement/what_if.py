"""Test single nodes, before and after they get an instance, for every limit."""

from __future__ import annotations

from iallocator.limits.node import PRIMARY, SECONDARY, checks_for
from iallocator.limits.rejection import Rejection
from iallocator.model.node_view import after_primary, after_secondary
from iallocator.model.state import derived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from iallocator.constraints.checks import Check
    from iallocator.limits.node import RoleLimits
    from iallocator.model.instance import Instance
    from iallocator.model.node_view import NodeView
    from iallocator.model.state import Kept, State
    from iallocator.placement.limit_policy import LimitPolicy
    from iallocator.scoring import Kernels

__all__ = ["KnownNodes", "NodeHistory", "WhatIf"]


class KnownNodes:
    """Nodes as they were at one moment of a request, so that they can be tested later.

    Attributes
    ----------
    views:
        Node -> what it held.
    peers:
        Node -> the MiB of memory that it reserved, by the primary of which it holds secondaries.
    """

    __slots__ = ("peers", "views")

    def __init__(
        self, views: Mapping[int, NodeView], peers: Mapping[int, Mapping[int, float]]
    ) -> None:
        self.views = views
        self.peers = peers


class NodeHistory:
    """Looks up the content of nodes at each moment; it is kept until the node changes."""

    __slots__ = ("_kept", "_together")

    def __init__(self) -> None:
        self._kept: Kept[int, tuple[NodeView, dict[int, float]]] = {}
        self._together: Kept[tuple[int, ...], KnownNodes] = {}

    def known(self, state: State, kernels: Kernels, nodes: Collection[int]) -> KnownNodes:
        """Return `nodes` as they are in `state` now; all calls must be about this state."""
        queried = tuple(nodes)
        stamps = state.stamps

        def look_up() -> KnownNodes:
            view = kernels.checker(state).view
            views: dict[int, NodeView] = {}
            peers: dict[int, dict[int, float]] = {}
            for index in queried:

                def look(index: int = index) -> tuple[NodeView, dict[int, float]]:
                    return view(index), dict(state.peers[index])

                views[index], peers[index] = derived(self._kept, index, stamps[index], look)
            return KnownNodes(views, peers)

        return derived(self._together, queried, [stamps[index] for index in queried], look_up)


class WhatIf:
    """Single nodes of the present `state` with `instance`, which is not placed.

    It finds every limit that a node breaks, for the amounts that the node lacks; a kernel records
    the first one.  See `Evaluator.what_if`.
    With `known` the nodes are tested as they were then, which an instance with exclusion tags, and
    a cluster with storage pools, do not allow.

    Attributes
    ----------
    limits, secondary_limits:
        The limits that are enforced for primaries and for secondaries: those of `limit_policy`.
    """

    def __init__(
        self,
        state: State,
        kernels: Kernels,
        instance: Instance,
        limit_policy: LimitPolicy,
        on_primary: RoleLimits = PRIMARY,
        on_secondary: RoleLimits = SECONDARY,
        known: KnownNodes | None = None,
    ) -> None:
        self.instance = instance
        self.limits = limit_policy.primary
        self.secondary_limits = limit_policy.secondary
        self._state = state
        self._view = kernels.checker(state).view if known is None else known.views.__getitem__
        self._peers = (state if known is None else known).peers
        self._primary = checks_for(on_primary, instance, self.limits)
        self._secondary = checks_for(on_secondary, instance, self.secondary_limits)

    def primary(self, index: int) -> tuple[NodeView, NodeView]:
        """Return the amounts of node `index` before and after it becomes the primary node.

        Of the exclusion tags, only the number of conflicts is counted.
        """
        before = self._view(index)
        after = after_primary(before, self.instance)
        if self.instance.exclusion:
            after.conflicts += self._state.tag_amounts(self.instance, index, None)[0]
        return before, after

    def secondary(self, index: int, primary: int | None) -> tuple[NodeView, NodeView]:
        """Return the amounts of node `index` before and after it becomes the secondary node.

        A `primary` of None stands for a primary node without secondaries on node `index`.
        """
        before = self._view(index)
        peers = 0 if primary is None else self._peers[index].get(primary, 0)
        return before, after_secondary(before, self.instance, peers, max)

    def rejection(self, check: Check, views: tuple[NodeView, NodeView]) -> Rejection:
        """Return the rejection by `check`, with the numbers of a node before and after."""
        return Rejection(check.reason, check.numbers(*views, self.instance))

    def primary_failures(self, index: int) -> list[Check]:
        """Return the limits that node `index` breaks as the primary."""
        before, after = self.primary(index)
        return [check for check in self._primary if check.fails(before, after, self.instance)]

    def secondary_failures(self, index: int, primary: int | None) -> list[Check]:
        """Return the limits that node `index` breaks as the secondary."""
        before, after = self.secondary(index, primary)
        return [check for check in self._secondary if check.fails(before, after, self.instance)]
