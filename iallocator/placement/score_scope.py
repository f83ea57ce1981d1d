"""The nodes that a score runs over, with what is known of them as the state is."""

from __future__ import annotations

from iallocator.model.state import derived

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from iallocator.model.state import Kept, State
    from iallocator.n1.rules import Rules
    from iallocator.n1.tolerance import FailureTolerance
    from iallocator.scoring import Kernel, Kernels

    class Maker(Protocol):
        """Makes kernels and checks."""

        @property
        def state(self) -> State:
            """Who is where."""

        @property
        def kernels(self) -> Kernels:
            """What makes kernels."""

        def kernel(self, scope: Sequence[int]) -> Kernel:
            """Scores over `scope`, as the state is now."""

        def judge(self, scope: Sequence[int], rules: Rules) -> FailureTolerance:
            """N+1 by `rules` as the state is now."""


__all__ = ["ScoreScope", "Unscored"]


class ScoreScope:
    """The nodes that a score runs over; kernel and N+1 checks over them, for the state as it is."""

    __slots__ = ("_checks", "_kernel", "_maker", "nodes")

    def __init__(self, maker: Maker, nodes: Sequence[int]) -> None:
        self.nodes = nodes
        self._maker = maker
        self._kernel: Kept[None, Kernel] = {}
        self._checks: Kept[str, FailureTolerance] = {}

    @property
    def kernel(self) -> Kernel:
        """The kernel that scores the nodes."""
        maker = self._maker
        return derived(self._kernel, None, maker.state.version, lambda: maker.kernel(self.nodes))

    def n1_check(self, rules: Rules) -> FailureTolerance:
        """Return the N+1 check of the nodes by `rules`."""
        maker = self._maker
        version = maker.state.version
        return derived(self._checks, rules.mode, version, lambda: maker.judge(self.nodes, rules))


class Unscored(ScoreScope):
    """For who asks for limits only, and of a few nodes: scores are of no nodes."""

    __slots__ = ()

    @property
    def kernel(self) -> Kernel:
        """What knows the limits, as the state is now."""
        return self._maker.kernels.checker(self._maker.state)
