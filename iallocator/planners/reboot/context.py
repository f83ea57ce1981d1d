"""The working set of reboots: a context whose nodes go away and come back."""

from __future__ import annotations

from iallocator.placement.context import Context
from iallocator.planners.power_state import Switched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from iallocator.deadline import Deadline
    from iallocator.model.cluster import Cluster
    from iallocator.options.settings import Settings

__all__ = ["Gone", "RebootContext"]

MOVES = 20
"""How many instances the choice between the two forms of the kernel counts with."""


class RebootContext(Context):
    """A context that can forget what it knows of nodes that are online."""

    __slots__ = ()

    def __init__(
        self, cluster: Cluster, settings: Settings, deadline: Deadline | None = None
    ) -> None:
        super().__init__(cluster, settings, [(len(cluster.nodes), 0)] * MOVES, deadline=deadline)

    def forget(self) -> None:
        """Other nodes are online than before: what was derived from that is made anew."""
        self._scopes.clear()
        self._evaluators.clear()
        self._rules.clear()
        self._n1_caches.clear()


class Gone:
    """A ``with`` block in which the nodes `gone` are offline, at whose end all is as before it."""

    __slots__ = ("_context", "_switched", "_trial")

    def __init__(self, context: RebootContext, gone: Collection[int]) -> None:
        self._context = context
        self._switched = Switched(context.cluster, off=gone)
        self._trial = context.state.trial()

    def __enter__(self) -> None:
        self._switched.__enter__()
        self._trial.__enter__()
        self._context.forget()

    def __exit__(self, *_: object) -> None:
        self._trial.__exit__(None, None, None)
        self._switched.__exit__()
        self._context.forget()
