"""Score candidates: the interface of kernels, and the choice between scalar and array kernels."""

from __future__ import annotations

from iallocator.limits.node import ALL_LIMITS
from iallocator.model.node_view import Capacities

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Protocol

    from iallocator.aliases import Floats
    from iallocator.constraints.checks import Check
    from iallocator.limits.node import LimitSet
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.scoring.array_candidates import Reservations
    from iallocator.scoring.arrays import ArrayKernel
    from iallocator.scoring.candidates import Candidates
    from iallocator.scoring.scalar import EarlierNodes, ScalarKernel

    class Kernel(Protocol):
        """The interface of the scalar and the array kernel, which score candidates and test their
        limits.
        """

        renewals: int

        def follow(self) -> None:
            """Update the nodes of the scope to the present state."""

        def score(self) -> float:
            """Return the cluster score of the state."""

        def singles(
            self,
            instance: Instance,
            nodes: Sequence[int],
            rejections: Mapping[int, str],
            limits: LimitSet = ALL_LIMITS,
        ) -> Candidates:
            """Return candidates with each node as the only node."""

        def pairs(
            self,
            instance: Instance,
            primaries: Sequence[int],
            secondaries: Sequence[int],
            rejections: Mapping[int, str],
            limits: LimitSet = ALL_LIMITS,
            secondary_limits: LimitSet | None = None,
        ) -> Candidates:
            """Return candidates with each ordered pair of different nodes."""

        def secondaries(
            self,
            instance: Instance,
            primary: int,
            nodes: Sequence[int],
            limits: LimitSet = ALL_LIMITS,
        ) -> Candidates:
            """Return candidates with each node as the secondary of an instance on `primary`."""

        def secondary_rejections(
            self, instance: Instance, primary: int, nodes: Sequence[int], limits: LimitSet
        ) -> dict[int, Check]:
            """Return node -> the check that it fails as the secondary of an instance on `primary`.

            Nodes that pass every check are left out.
            """


__all__ = ["Kernels", "arrays_pay"]

LOADING_MICROSECONDS = 42_000
"""The time to load the array library, in microseconds."""

MICROSECONDS_PER_NODE, PAIRS_PER_MICROSECOND = 25, 3
"""Microseconds that arrays save for each node; and the number of pairs of nodes for which arrays
save one more microsecond."""

PER_QUESTION = 1_500
"""The fixed time of arrays for each instance in each group, in microseconds."""


def arrays_pay(candidates: Iterable[tuple[int, int]], groups: int = 1) -> bool:
    """Return whether arrays are faster than scoring one candidate after the other.

    `candidates`: for each instance, the number of nodes and of pairs of nodes in all `groups`
    together. Every group is evaluated for every instance.
    """
    fixed = PER_QUESTION * groups
    saved = sum(
        MICROSECONDS_PER_NODE * nodes + pairs // PAIRS_PER_MICROSECOND - fixed
        for nodes, pairs in candidates
    )
    return saved > LOADING_MICROSECONDS


class Kernels:
    """Makes kernels for one request, in the form that is faster for its size.

    Parameters
    ----------
    candidates:
        For each instance of the request, the number of nodes and of pairs of nodes in all `groups`
        that will be scored; see `arrays_pay`.
    min_disk:
        The share of the disk of each node that must stay free, from 0 to 1.
    scope:
        The nodes that are used; None: all nodes.

    Attributes
    ----------
    arrays:
        Whether `make` returns array kernels.
    many:
        Whether N+1 uses arrays, too, because the request has many candidates.
    simulated:
        How many moves × nodes N+1 has simulated one by one.
    """

    def __init__(
        self,
        state: State,
        candidates: Iterable[tuple[int, int]],
        min_disk: float = 0.0,
        scope: Iterable[int] | None = None,
        groups: int = 1,
    ) -> None:
        self.min_disk = min_disk
        self.fixed = Capacities(state.cluster.nodes, min_disk, scope)
        self.arrays = arrays_pay(candidates, groups)
        self.many = False
        self.simulated = 0
        self._matrix: Floats | None = None
        self._reservations: tuple[State, Reservations] | None = None
        self._nodes: tuple[State, EarlierNodes] | None = None

    def checker(self, state: State) -> ScalarKernel:
        """Return a kernel that tests limits of single nodes in `state`, without a score."""
        return self._scalar(state, ())

    def matrix(self) -> Floats:
        """Return the capacities of all nodes as an array: capacities × nodes."""
        if self._matrix is None:
            from iallocator.scoring.arrays import capacity_matrix

            self._matrix = capacity_matrix(self.fixed.all())
        return self._matrix

    def make(self, state: State, scope: Sequence[int]) -> Kernel:
        """Return a kernel for `state`, with statistics over the nodes in `scope`."""
        if self.arrays:
            return self.make_array(state, scope)
        return self._scalar(state, scope)

    def make_array(self, state: State, scope: Sequence[int]) -> ArrayKernel:
        """Return an array kernel for `state`, even if a scalar kernel is faster."""
        from iallocator.scoring.array_candidates import Reservations
        from iallocator.scoring.arrays import ArrayKernel

        if self._reservations is None or self._reservations[0] is not state:
            self._reservations = state, Reservations()  # kept from one kernel to the next
        return ArrayKernel(state, scope, self.matrix(), self._reservations[1])

    def _scalar(self, state: State, scope: Sequence[int]) -> ScalarKernel:
        """Return a scalar kernel; what it computes about nodes is kept for the next one."""
        from iallocator.scoring.scalar import ScalarKernel

        if self._nodes is None or self._nodes[0] is not state:
            self._nodes = state, ({}, {})
        return ScalarKernel(state, scope, self.fixed, self._nodes[1])
