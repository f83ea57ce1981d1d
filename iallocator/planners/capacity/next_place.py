"""Where the next of many equal instances goes, by incremental scores.

Scores and N+1 are kept from one instance to the next.  If counting shows that N+1 holds for a
number of further instances, these are placed at once; otherwise several placements are simulated
speculatively.
"""

from __future__ import annotations

from iallocator.deadline import check
from iallocator.limits.node import ALL_LIMITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iallocator.aliases import Nodes
    from iallocator.limits.node import LimitSet
    from iallocator.model.cluster import Group
    from iallocator.model.instance import Instance
    from iallocator.model.state import State
    from iallocator.n1.speculation import Speculation
    from iallocator.planners.capacity.group_tolerances import GroupTolerances
    from iallocator.scoring import Kernels
    from iallocator.scoring.incremental import IncrementalScores

__all__ = ["NextPlace", "next_place_for"]

MOST_AHEAD = 64
"""The most placements that are simulated ahead."""

PATIENCE = 16
"""If N+1 is certain for none, counting is tried again after so many placements at most."""

FEW_AHEAD = 4
"""The fewest placements simulated ahead after a wrong guess: hardly slower than one."""

AROUND = 32
"""The number of nodes that are checked at once after a wrong guess."""


class NextPlace:
    """The next places of equal instances, if neither equal scores nor N+1 leave doubt.

    `newcomers` makes the instance that comes so many after the next one.
    """

    def __init__(
        self,
        state: State,
        scores: IncrementalScores,
        n1: GroupTolerances,
        groups: Sequence[int],
        newcomers: Callable[[int], Instance],
    ) -> None:
        self._state = state
        self._scores = scores
        self._n1 = n1
        self._groups = groups
        self._newcomers = newcomers
        self._certain = 0
        self._ahead = 1
        self._pause, self._patience = 0, 1  # times until counting is tried again

    def path(self, instance: Instance) -> Sequence[Nodes]:
        """Return the nodes of `instance` and more like it; [] if they are not known."""
        if self._certain <= 0:
            self._pause -= 1
            if self._pause <= 0:
                self._certain = self._n1.headroom(instance, self._groups)
                self._patience = 1 if self._certain else min(2 * self._patience, PATIENCE)
                self._pause = self._patience
        if self._certain > 0:
            return self._scores.path(self._certain)
        alone = len(self._groups) == 1
        speculation = self._n1.speculation(instance, self._groups[0]) if alone else None
        if speculation is not None:
            return self._simulated(speculation)
        best = self._scores.best()
        return [best] if best and self._n1.accepts(instance, best, False) else []

    def placed(self, path: Sequence[Nodes]) -> None:
        """Note that instances have been placed along `path`."""
        self._certain -= len(path)
        self._scores.placed_along(path)

    def _simulated(self, speculation: Speculation) -> Sequence[Nodes]:
        """Return places that a simulation of several placements confirms; [] if none is known.

        Each simulation either finds a place, or learns why a guess was wrong.
        """
        while True:
            check()
            guessed, exhausted = self._guess(speculation)
            known = speculation.confirmed() if guessed else 0
            if known is None or (not guessed and exhausted):
                return []
            if known == len(guessed):
                self._ahead = min(2 * self._ahead, MOST_AHEAD)
            else:
                self._ahead = max(FEW_AHEAD, known + 1)
                speculation.look_around(self._scores.nearest(AROUND))
            if known:
                return [(node,) for node in guessed[:known]]

    def _guess(self, speculation: Speculation) -> tuple[list[int], bool]:
        """Return guesses of the next places, and whether the place after them is undecided."""
        found: list[int] = []
        exhausted = False
        instance = self._newcomers(0)
        speculation.start()
        scores = self._scores.copy()
        with self._state.trial():
            for number in range(min(self._ahead, scores.left + 1)):
                if number:
                    self._state.place(instance, (found[-1],))
                    speculation.placed(instance, found[-1])
                    scores.placed((found[-1],))
                    instance = self._newcomers(number)
                best, rejected = scores.best_but(speculation.rejected())
                exhausted = best is None
                if best is None or not speculation.expect(instance, best, rejected):
                    break
                found.append(best)
        speculation.end()
        return found, exhausted


def next_place_for(
    instance: Instance,
    state: State,
    kernels: Kernels,
    n1: GroupTolerances,
    groups: Sequence[tuple[Group, Sequence[int]]],
    limits_of: Mapping[int, LimitSet],
    newcomers: Callable[[int], Instance],
) -> NextPlace | None:
    """Return the `NextPlace` for more like `instance`; None where soft limits are ignored.

    `groups` holds the nodes whose policy accepts it; for `newcomers` see `NextPlace`.
    """
    if any(limits_of[group.index] is not ALL_LIMITS for group, _ in groups):
        return None
    from iallocator.scoring.incremental import IncrementalSingles
    from iallocator.scoring.incremental_pairs import IncrementalPairs

    kind = IncrementalPairs if instance.required_nodes == 2 else IncrementalSingles
    scores = kind(
        state, kernels.fixed, kernels.matrix(), instance, [nodes for _, nodes in groups], ALL_LIMITS
    )
    return NextPlace(state, scores, n1, [group.index for group, _ in groups], newcomers)
