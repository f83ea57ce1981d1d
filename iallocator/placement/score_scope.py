"""The nodes that a score runs over, with what is known of them as the state is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from iallocator.model.state import State
    from iallocator.n1.check import N1Check
    from iallocator.n1.rules import Rules
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

        def judge(self, scope: Sequence[int], rules: Rules) -> N1Check:
            """N+1 by `rules` as the state is now."""


__all__ = ["ScoreScope", "Unscored"]


class ScoreScope:
    """The nodes that a score runs over; kernel and N+1 checks over them, as the state is.

    Both are made when first needed, and made anew once the state has changed.
    """

    __slots__ = ("_checks", "_kernel", "_maker", "_version", "nodes")

    def __init__(self, maker: Maker, nodes: Sequence[int]) -> None:
        self.nodes = nodes
        self._maker = maker
        self._version = -1
        self._kernel: Kernel | None = None
        self._checks: dict[str, N1Check] = {}

    def _catch_up(self) -> None:
        """Forget what is about another state."""
        version = self._maker.state.version
        if version != self._version:
            self._version = version
            self._kernel = None
            self._checks = {}

    @property
    def kernel(self) -> Kernel:
        """Scores over the nodes."""
        self._catch_up()
        if self._kernel is None:
            self._kernel = self._maker.kernel(self.nodes)
        return self._kernel

    def n1_check(self, rules: Rules) -> N1Check:
        """N+1 by `rules`."""
        self._catch_up()
        check = self._checks.get(rules.mode)
        if check is None:
            check = self._checks[rules.mode] = self._maker.judge(self.nodes, rules)
        return check


class Unscored(ScoreScope):
    """For who asks for limits only, and of a few nodes: scores are of no nodes."""

    __slots__ = ()

    @property
    def kernel(self) -> Kernel:
        """What knows the limits, as the state is now."""
        return self._maker.kernels.checker(self._maker.state)
