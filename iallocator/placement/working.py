"""What evaluators of all groups share, for the type checker: what a context offers them."""

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

    class Working(WorkingSet, Protocol):
        """What strategies see, and the makers of kernels and checks."""

        kernels: Kernels
        bonds: NoAffinity

        @property
        def settings(self) -> Settings:
            """The settings of the request."""

        def kernel(self, scope: Sequence[int]) -> Kernel:
            """Scores over `scope`, as the state is now."""

        def judge(self, scope: Sequence[int], rules: Rules) -> FailureTolerance:
            """N+1 by `rules` as the state is now; `scope` as for the allocation."""
