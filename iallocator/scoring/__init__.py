"""How good a placement is: the statistics, and the kernel that evaluates candidates."""

from __future__ import annotations

from iallocator.limits.node import ALL_LIMITS
from iallocator.model.node_view import Capacities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Protocol

    from iallocator.aliases import Floats
    from iallocator.limits.node import LimitSet
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.array_candidates import Reservations
    from iallocator.scoring.arrays import ArrayKernel
    from iallocator.scoring.candidates import Candidates
    from iallocator.scoring.scalar import ScalarKernel

    class Kernel(Protocol):
        """What both forms of the kernel offer; see `iallocator.scoring.scalar`."""

        renewals: int

        def follow(self) -> None:
            """Take the nodes of the scope as they are now."""

        def score(self) -> float:
            """The score as things are."""

        def singles(
            self,
            instance: Instance,
            nodes: Sequence[int],
            rejections: Mapping[int, str],
            limits: LimitSet = ALL_LIMITS,
        ) -> Candidates:
            """Every node as the only node."""

        def pairs(
            self,
            instance: Instance,
            primaries: Sequence[int],
            secondaries: Sequence[int],
            rejections: Mapping[int, str],
            limits: LimitSet = ALL_LIMITS,
            secondary_limits: LimitSet | None = None,
        ) -> Candidates:
            """Every ordered pair of different nodes."""

        def secondaries(
            self,
            instance: Instance,
            primary: int,
            nodes: Sequence[int],
            limits: LimitSet = ALL_LIMITS,
        ) -> Candidates:
            """Every node as the secondary of an instance whose primary stays."""

        def mirror_rejections(
            self, instance: Instance, primary: int, nodes: Sequence[int], limits: LimitSet
        ) -> dict[int, str]:
            """Why some nodes cannot be the secondary of an instance on `primary`."""


__all__ = ["Kernels", "arrays_pay"]

LOADING = 42_000
"""Microseconds that loading the array library takes."""

PER_QUESTION = 1_500
"""Microseconds that arrays take for one instance in one group, however few candidates it has."""


def arrays_pay(candidates: Iterable[tuple[int, int]], groups: int = 1) -> bool:
    """Return whether arrays are faster than scoring one candidate after the other.

    `candidates`: per instance the numbers of its nodes and of its pairs of nodes, of all
    `groups` together. Each group is asked about each instance.
    """
    fixed = PER_QUESTION * groups
    saved = sum(25 * nodes + pairs // 3 - fixed for nodes, pairs in candidates)
    return saved > LOADING


class Kernels:
    """Makes kernels for one request, in the form that suits its size.

    `candidates`: per instance of the request, how many nodes and how many pairs of
    nodes of all `groups` will be scored; see `arrays_pay`.  `scope`: the nodes that are looked at,
    by default all; see `Capacities`.

    Attributes
    ----------
    arrays:
        Whether kernels are in the form of arrays.
    many:
        Whether so much is asked that the array library is loaded for failures, too.
    """

    def __init__(
        self,
        state: State,
        candidates: Iterable[tuple[int, int]],
        min_disk: float = 0.0,
        scope: Iterable[int] | None = None,
        groups: int = 1,
    ) -> None:
        self.fixed = Capacities(state.cluster.nodes, min_disk, scope)
        self.arrays = arrays_pay(candidates, groups)
        self.many = False
        self._matrix: Floats | None = None
        self._reservations: tuple[State, Reservations] | None = None

    def checker(self, state: State) -> ScalarKernel:
        """A kernel that only tests limits of single nodes, as `state` is now."""
        from iallocator.scoring.scalar import ScalarKernel

        return ScalarKernel(state, (), self.fixed)

    def matrix(self) -> Floats:
        """The capacities of every node as an array; see `capacity_matrix`."""
        if self._matrix is None:
            from iallocator.scoring.arrays import capacity_matrix

            self._matrix = capacity_matrix(self.fixed.all())
        return self._matrix

    def make(self, state: State, scope: Sequence[int]) -> Kernel:
        """A kernel for `state` as it is now, with statistics over `scope`."""
        if self.arrays:
            return self.make_array(state, scope)
        from iallocator.scoring.scalar import ScalarKernel

        return ScalarKernel(state, scope, self.fixed)

    def make_array(self, state: State, scope: Sequence[int]) -> ArrayKernel:
        """The same in the form of arrays, whatever suits."""
        from iallocator.scoring.arrays import ArrayKernel

        return ArrayKernel(state, scope, self.matrix(), self._reserved_of(state))

    def _reserved_of(self, state: State) -> Reservations:
        """What is known of the peers of nodes of `state`, from one kernel to the next."""
        from iallocator.scoring.array_candidates import Reservations

        if self._reservations is None or self._reservations[0] is not state:
            self._reservations = state, Reservations()
        return self._reservations[1]
