"""What evaluators of all groups share, for the type checker: what a context offers them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from iallocator.compat import Behaviour
    from iallocator.constraints.no_affinity import NoAffinity
    from iallocator.n1.check import N1Check
    from iallocator.n1.rules import Rules
    from iallocator.ranking.base import RankSettings, WorkingSet
    from iallocator.scoring import Kernel, Kernels

    class WorkingSettings(RankSettings, Protocol):
        """What strategies go by, and what evaluators do."""

        @property
        def behaviour(self) -> Behaviour:
            """What `--compat` changes."""

    class Working(WorkingSet, Protocol):
        """What strategies see, and the makers of kernels and checks."""

        kernels: Kernels
        bonds: NoAffinity

        @property
        def settings(self) -> WorkingSettings:
            """The settings of the request."""

        def kernel(self, scope: Sequence[int]) -> Kernel:
            """Scores over `scope`, as the state is now."""

        def judge(self, scope: Sequence[int], rules: Rules) -> N1Check:
            """N+1 by `rules` as the state is now; `scope` as for the allocation."""
