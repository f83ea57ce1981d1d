"""What the evaluators of all groups share: the part of a context that they use, as a type."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from iallocator.constraints.no_affinity import NoAffinity
    from iallocator.n1.rules import Rules
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.options.settings import Settings
    from iallocator.ranking.base import WorkingSet
    from iallocator.scoring import Kernel, Kernels

    class SharedContext(WorkingSet, Protocol):
        """The context of one request; see `iallocator.placement.context.Context`."""

        kernels: Kernels
        bonds: NoAffinity

        @property
        def settings(self) -> Settings:
            """The settings of the request."""

        def kernel(self, scope: Sequence[int]) -> Kernel:
            """Return a kernel that scores the nodes of `scope` on the present state."""

        def tolerance(self, scope: Sequence[int], rules: Rules) -> FailureTolerance:
            """Return the N+1 check by `rules` on the present state; `scope` as for a request."""
