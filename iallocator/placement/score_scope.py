"""The nodes that a score includes, with the kernel and the N+1 checks of the present state."""

from __future__ import annotations

from iallocator.model.state import derived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from iallocator.constraints.no_affinity import NoAffinity
    from iallocator.model.instance import Instance
    from iallocator.model.state import Kept
    from iallocator.n1 import Rules
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.options.settings import Settings
    from iallocator.ranking.base import WorkingSet
    from iallocator.scoring import Kernel, Kernels

    class SharedContext(WorkingSet, Protocol):
        """The settings, state and score kernels that the placement of one request uses."""

        kernels: Kernels
        affinity: NoAffinity
        leaving: Instance | None

        @property
        def settings(self) -> Settings:
            """Return the settings of the request."""

        def kernel(self, scope: Sequence[int]) -> Kernel:
            """Return a kernel that scores the nodes of `scope` on the present state."""

        def tolerance(self, scope: Sequence[int], rules: Rules) -> FailureTolerance:
            """Return new N+1 checks by `rules`; simulations compute scores over the nodes in
            `scope`.
            """


__all__ = ["ScoreScope", "Unscored"]


class ScoreScope:
    """The nodes that a score includes, with the kernel and the N+1 checks for them."""

    __slots__ = ("_context", "_kernel", "_tolerances", "nodes")

    def __init__(self, context: SharedContext, nodes: Sequence[int]) -> None:
        self.nodes = nodes
        self._context = context
        self._kernel: Kept[None, Kernel] = {}
        self._tolerances: dict[str, FailureTolerance] = {}

    @property
    def kernel(self) -> Kernel:
        """Return the kernel that scores the nodes."""
        context = self._context
        return derived(
            self._kernel, None, context.state.version, lambda: context.kernel(self.nodes)
        )

    def tolerance(self, rules: Rules) -> FailureTolerance:
        """Return the N+1 checks by `rules`; simulations compute scores over these nodes."""
        tolerance = self._tolerances.get(rules.mode)
        if tolerance is None:
            tolerance = self._tolerances[rules.mode] = self._context.tolerance(self.nodes, rules)
        leaving = self._context.leaving
        tolerance.replaced = None if leaving is None else (leaving, leaving.nodes)
        return tolerance


class Unscored(ScoreScope):
    """A scope without nodes, for checks of limits alone."""

    __slots__ = ()

    @property
    def kernel(self) -> Kernel:
        """Return a kernel that tests limits and scores nothing."""
        return self._context.kernels.checker(self._context.state)
