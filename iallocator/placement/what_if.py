"""Test single nodes, before and after an instance is placed on them, for every limit."""

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
        Node -> its amounts at that moment.
    peers:
        Node -> primary node -> MiB of memory that the node reserved for failovers from it.
    """

    __slots__ = ("peers", "views")

    def __init__(
        self, views: Mapping[int, NodeView], peers: Mapping[int, Mapping[int, float]]
    ) -> None:
        self.views = views
        self.peers = peers


class NodeHistory:
    """A cache of the amounts of nodes at each moment; an entry is shared until its node changes."""

    __slots__ = ("_kept", "_together")

    def __init__(self) -> None:
        self._kept: Kept[int, tuple[NodeView, dict[int, float]]] = {}
        self._together: Kept[tuple[int, ...], KnownNodes] = {}

    def known(self, state: State, kernels: Kernels, nodes: Collection[int]) -> KnownNodes:
        """Return `nodes` as they are in `state` now; all calls must be for one state object."""
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
    """Tests single nodes of the present `state` with `instance`, which is not placed.

    It finds every limit that a node violates, to report the amounts that the node lacks; a kernel
    only finds the first one. With `known`, nodes are tested as they were at an earlier moment. This
    is impossible for an instance with exclusion tags, and for a cluster with storage pools.

    Attributes
    ----------
    limits, secondary_limits:
        The limits of `limit_policy` that are enforced for primaries, and for secondaries.
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

        Of exclusion tags, only the number of conflicts is counted.
        """
        before = self._view(index)
        after = after_primary(before, self.instance)
        if self.instance.exclusion:
            after.conflicts += self._state.tag_amounts(self.instance, index, None)[0]
        return before, after

    def secondary(self, index: int, primary: int | None) -> tuple[NodeView, NodeView]:
        """Return the amounts of node `index` before and after it becomes the secondary of
        `primary`.

        `primary`: a node; None: any node of which `index` has no secondaries yet.
        """
        before = self._view(index)
        peers = 0 if primary is None else self._peers[index].get(primary, 0)
        return before, after_secondary(before, self.instance, peers, max)

    def rejection(self, check: Check, views: tuple[NodeView, NodeView]) -> Rejection:
        """Return the rejection by `check`, with the numbers of a node before and after."""
        return Rejection(check.reason, check.numbers(*views, self.instance))

    def primary_failures(self, index: int) -> list[Check]:
        """Return the limits that node `index` violates as the primary."""
        before, after = self.primary(index)
        return [check for check in self._primary if check.fails(before, after, self.instance)]

    def secondary_failures(self, index: int, primary: int | None) -> list[Check]:
        """Return the limits that node `index` violates as the secondary."""
        before, after = self.secondary(index, primary)
        return [check for check in self._secondary if check.fails(before, after, self.instance)]
